"""One driver name's presence in the registration folder: a gRPC server and its socket file."""

from collections.abc import Callable

import grpc.aio

from registrar.grpc_library import to_its_end
from registrar.registration_socket import Holder, RegistrationSocket
from registrar.unix_sockets import grpc_target

AddServices = Callable[[grpc.aio.Server], None]
"""Adds the services that the registration socket offers to a server that is not yet started."""

# Long enough for an answer in flight, short enough to be gone within a second of SIGTERM.
_GRACE_SECONDS = 0.3

_SERVER_OPTIONS = (
    # A client may ping as it likes, also between calls: kubelet's gRPC version sets the pace (R55).
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 0),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    # Room for any error text that kubelet may quote; it is cut before it is kept.
    ("grpc.max_receive_message_length", 8 * 1024 * 1024),
    ("grpc.max_metadata_size", 16 * 1024),
    ("grpc.so_reuseport", 0),
)

# kubelet makes one call at a time; the rest leaves room for curious people.
_MAX_CONCURRENT_CALLS = 64


class Publication:
    """The server that kubelet calls, at its registration path.

    Idle connections are never closed: kubelet may ask NodeGetInfo for two minutes between GetInfo
    and its verdict, on one connection (R22).
    """

    def __init__(self, path: str, add_services: AddServices) -> None:
        self.socket = RegistrationSocket(path)
        self._add_services = add_services
        self._server: grpc.aio.Server | None = None

    async def publish(self, on_published: Callable[[], None]) -> None:
        """Listen on a new socket and give it the registration path, whoever had it before.

        `on_published` is called before anything else can happen on the event loop: kubelet's first
        call may come within a millisecond.

        Raises:
            PublicationError: if the folder does not take it; what was published before stays.
        """
        self.socket.check_replaceable()
        hidden_path = self.socket.hidden_path()
        server = await self._listen(hidden_path)
        try:
            self.socket.publish(hidden_path)
        except BaseException:
            await to_its_end(server.stop(None))  # this removes the hidden file, too
            raise
        replaced, self._server = self._server, server
        on_published()
        await _stop(replaced)

    def announce_again(self) -> None:
        """Make kubelet register the driver once more, on the same listener.

        Raises:
            PublicationError: if the folder does not let us.
        """
        self.socket.announce_again()

    def look(self) -> Holder:
        """Return who is behind the path now.

        Raises:
            PublicationError: if that cannot be told or mended from here.
        """
        return self.socket.look()

    async def stand_by(self) -> None:
        """Leave the path to the peer that took it."""
        self.socket.disown()
        server, self._server = self._server, None
        await _stop(server)

    async def withdraw(self) -> None:
        """Remove the file if it is ours and stop listening; answers in flight are finished."""
        self.socket.remove()
        self.socket.sweep()
        await self.stand_by()

    async def _listen(self, hidden_path: str) -> grpc.aio.Server:
        server = grpc.aio.server(
            options=_SERVER_OPTIONS, maximum_concurrent_rpcs=_MAX_CONCURRENT_CALLS
        )
        self._add_services(server)
        try:
            server.add_insecure_port(grpc_target(hidden_path))
        except RuntimeError as error:
            raise self.socket.explain_bind_failure(hidden_path) from error
        try:
            await to_its_end(server.start())
        except BaseException:
            await to_its_end(server.stop(None))
            raise
        return server


async def _stop(server: grpc.aio.Server | None) -> None:
    if server is not None:
        await to_its_end(server.stop(_GRACE_SECONDS), patience_seconds=2 * _GRACE_SECONDS)
