"""Listening on an address that may be taken: reported once, tried until it is free (R09).

What is listened with, HTTP or gRPC, is handed in.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import NamedTuple

from health.addresses import Address
from health.observer import ListeningFailed, ListeningStarted, Observer

_FIRST_RETRY_SECONDS = 0.5
_MAX_RETRY_SECONDS = 4.0


class Bound(NamedTuple):
    """An address that is listened on."""

    url: str
    close: Callable[[], Awaitable[None]]
    """Stops listening and gives up the address."""
    port: int | None = None
    """None for a unix socket."""
    is_held: Callable[[], bool] = lambda: True
    """Whether clients still find us there; a unix socket's path can be taken away."""


class Listener:
    """An address, and whether it is listened on yet."""

    def __init__(
        self,
        address: Address,
        bind: Callable[[], Awaitable[Bound]],
        *,
        tasks: asyncio.TaskGroup,
        observer: Observer,
    ) -> None:
        self._address = address
        self._bind = bind
        self._tasks = tasks
        self._observer = observer
        self._bound: Bound | None = None
        self._is_up = asyncio.Event()
        self._agent: asyncio.Task[None] | None = None
        self._reported: int | str | None = None

    @property
    def is_up(self) -> bool:
        """Whether the address is listened on."""
        return self._is_up.is_set()

    @property
    def url(self) -> str:
        """Where clients find the server, with the port that was really taken; empty until up."""
        return self._bound.url if self._bound else ""

    @property
    def port(self) -> int | None:
        """The TCP port that was really taken; None until it is up, and for a unix socket."""
        return self._bound.port if self._bound else None

    async def up(self) -> None:
        """Wait until the address is listened on."""
        await self._is_up.wait()

    async def open(self) -> None:
        """Try to listen; if that fails, leave it to an agent to go on trying."""
        if not await self._attempt():
            self._start(self._keep_trying(_FIRST_RETRY_SECONDS))

    def renew(self) -> None:
        """Listen anew if our unix socket is no longer at its path; else do nothing."""
        if self._bound is not None and not self._bound.is_held():
            self._start(self._listen_anew(self._bound))
            self._bound = None

    async def close(self) -> None:
        """Stop trying, or stop listening."""
        if self._agent is not None and not self._agent.done():
            self._agent.cancel()
            await asyncio.wait({self._agent})
        if self._bound is not None:
            await self._bound.close()

    def _start(self, agent: Coroutine[None, None, None]) -> None:
        self._agent = self._tasks.create_task(agent, name=f"listen on {self._address.text}")

    async def _listen_anew(self, lost: Bound) -> None:
        self._is_up.clear()
        await lost.close()
        await self._keep_trying(0.0)

    async def _keep_trying(self, delay_seconds: float) -> None:
        await asyncio.sleep(delay_seconds)
        while not await self._attempt():
            delay_seconds = min(max(2 * delay_seconds, _FIRST_RETRY_SECONDS), _MAX_RETRY_SECONDS)
            await asyncio.sleep(delay_seconds)

    async def _attempt(self) -> bool:
        try:
            self._bound = await self._bind()
        except OSError as error:
            self._report(error)
            return False
        self._reported = None
        self._is_up.set()
        self._observer.notify(ListeningStarted(address=self._address.text, url=self.url))
        return True

    def _report(self, error: OSError) -> None:
        """Tell of a failure, unless the last one had the same cause."""
        cause = error.errno or str(error)
        if cause == self._reported:
            return
        self._reported = cause
        event = ListeningFailed(
            address=self._address.text,
            errno=None if isinstance(error, socket.gaierror) else error.errno,
            problem=f"cannot listen on {self._address.text}: {error.strerror or error};"
            " trying again until it works",
        )
        self._observer.notify(event)


@asynccontextmanager
async def listening(
    address: Address,
    bind: Callable[[], Awaitable[Bound]],
    *,
    tasks: asyncio.TaskGroup,
    observer: Observer,
) -> AsyncIterator[Listener]:
    """Listen while the block runs, from the start or as soon as the address is free.

    Args:
        address: What to call the address in events.
        bind: Takes the address; raises OSError if it cannot be had.
        tasks: Owns the agent that goes on trying.
        observer: Is told of the first failure of each kind, and of success.
    """
    listener = Listener(address, bind, tasks=tasks, observer=observer)
    try:
        await listener.open()
        yield listener
    finally:
        await listener.close()
