"""The unix socket of a simulated driver: it takes connections and passes their bytes on.

It stands between the clients and a gRPC server because such a server neither tells the
`:authority` of a call nor leaves its socket behind. What is answered is not here (`driver`).
"""

import asyncio
import contextlib
import socket
from pathlib import Path
from typing import Self

from csi_registration_simulator.http2_authority import AuthorityReader
from csi_registration_simulator.task_groups import RunningTasks

_CHUNK_BYTES = 65536
_BACKLOG = 1024
"""Enough for a storm of probes: gRPC takes a full one for a broken connection."""


class CSIListener:
    """A listening socket whose connections lead to a gRPC server, as an async context manager.

    Leaving it closes all connections, and leaves the file there, as a crash does.
    """

    def __init__(self, csi_address: str, server_name: str) -> None:
        """Prepare a listener.

        Args:
            csi_address: Where clients connect; a socket that is there is replaced.
            server_name: Where the gRPC server listens, in the abstract namespace.
        """
        self._csi_address = csi_address
        self._server_name = server_name
        self._speaking = asyncio.Event()
        self._speaking.set()
        self._readers: dict[str, AuthorityReader] = {}
        self._clients: set[socket.socket] = set()
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            OSError: The socket cannot be bound.
        """
        async with contextlib.AsyncExitStack() as stack:
            listening = stack.enter_context(socket.socket(socket.AF_UNIX))
            _listen(listening, self._csi_address)
            stack.callback(self._close_clients)
            tasks = await stack.enter_async_context(RunningTasks())
            loop = asyncio.get_running_loop()
            loop.add_reader(listening, self._accept, listening, tasks)
            stack.callback(loop.remove_reader, listening)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the socket and all connections."""
        await self._stack.aclose()

    def be_silent(self, *, is_silent: bool) -> None:
        """Hold back what is sent on old and new connections, both ways, or let go of it."""
        if is_silent:
            self._speaking.clear()
        else:
            self._speaking.set()

    def authority_of(self, peer: str) -> str:
        """Return the `:authority` that a client sends; the gRPC server knows it as that peer."""
        reader = self._readers.get(peer.removeprefix("unix-abstract:"))
        return reader.authority if reader else ""

    def _accept(self, listening: socket.socket, tasks: RunningTasks) -> None:
        client, _ = listening.accept()
        client.settimeout(0)
        self._clients.add(client)
        tasks.create_task(self._carry(client), name="CSI connection")

    def _close_clients(self) -> None:
        """Close what is left: a task that is cancelled before it began closes nothing."""
        for client in self._clients:
            client.close()
        self._clients.clear()

    async def _carry(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            server.settimeout(0)
            # The kernel chooses a name, by which the gRPC server can tell the clients apart.
            server.bind("")
            name = server.getsockname()[1:].decode()
            reader = self._readers[name] = AuthorityReader()
            try:
                await asyncio.get_running_loop().sock_connect(server, f"\0{self._server_name}")
                await self._pump_both_ways(client, server, reader)
            finally:
                del self._readers[name]
                self._clients.discard(client)

    async def _pump_both_ways(
        self, client: socket.socket, server: socket.socket, reader: AuthorityReader
    ) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pump(client, server, reader), name="CSI requests")
            tasks.create_task(self._pump(server, client, None), name="CSI responses")

    async def _pump(
        self, source: socket.socket, target: socket.socket, reader: AuthorityReader | None
    ) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionError):
            while data := await loop.sock_recv(source, _CHUNK_BYTES):
                await self._speaking.wait()
                if reader:
                    reader.feed(data)
                await loop.sock_sendall(target, data)
        # The other direction ends, too: its source is this target.
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


def remove_socket(csi_address: str) -> None:
    """Remove a socket that may be there. Nothing else is ever removed."""
    path = Path(csi_address)
    if path.is_socket():
        path.unlink(missing_ok=True)


def _listen(listening: socket.socket, csi_address: str) -> None:
    listening.settimeout(0)
    remove_socket(csi_address)
    listening.bind(csi_address)
    listening.listen(_BACKLOG)
