"""Listening on an address that may be taken: reported once, tried until it is free (R09).

What is listened with, HTTP or gRPC, is handed in.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from health.addresses import Address
from health.observer import ListeningFailed, ListeningStarted, Observer

_FIRST_RETRY_SECONDS = 0.5
_MAX_RETRY_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class Bound:
    """An address that is listened on."""

    url: str
    close: Callable[[], Awaitable[None]]
    """Stops listening and gives up the address."""
    port: int | None = None
    """None for a unix socket."""


class Listener:
    """An address, and whether it is listened on yet."""

    def __init__(
        self, address: Address, bind: Callable[[], Awaitable[Bound]], observer: Observer
    ) -> None:
        self._address = address
        self._bind = bind
        self._observer = observer
        self._bound: Bound | None = None
        self._is_up = asyncio.Event()
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

    async def attempt(self) -> bool:
        """Try to listen once. Failure is reported, unless the last one had the same cause."""
        try:
            self._bound = await self._bind()
        except OSError as error:
            self._report(error)
            return False
        self._is_up.set()
        self._observer.notify(ListeningStarted(address=self._address.text, url=self.url))
        return True

    async def keep_trying(self) -> None:
        """Try again, at growing intervals, until it works."""
        delay_seconds = _FIRST_RETRY_SECONDS
        await asyncio.sleep(delay_seconds)
        while not await self.attempt():
            delay_seconds = min(2 * delay_seconds, _MAX_RETRY_SECONDS)
            await asyncio.sleep(delay_seconds)

    async def close(self) -> None:
        """Stop listening, if it is up."""
        if self._bound is not None:
            await self._bound.close()

    def _report(self, error: OSError) -> None:
        cause = error.errno or str(error)
        if cause != self._reported:
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
    listener = Listener(address, bind, observer)
    agent = None
    if not await listener.attempt():
        agent = tasks.create_task(listener.keep_trying(), name=f"listen on {address.text}")
    try:
        yield listener
    finally:
        await _ended(agent)
        await listener.close()


async def _ended(agent: "asyncio.Task[None] | None") -> None:
    if agent is not None and not agent.done():
        agent.cancel()
        await asyncio.wait({agent})
