"""An observer that keeps the events of a registrar, for a test to wait for and compare."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from registrar.observer import Event

EventT = TypeVar("EventT", bound=Event)


class RecordingObserver:
    """Keeps all events, oldest first."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._grown = asyncio.Event()

    def notify(self, event: Event) -> None:
        """Keep an event and wake whoever waits."""
        self.events.append(event)
        self._grown.set()
        self._grown = asyncio.Event()

    def of(self, kind: type[EventT]) -> list[EventT]:
        """Return all events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    async def wait_for(
        self,
        kind: type[EventT],
        where: Callable[[EventT], bool] = lambda _: True,
        *,
        after: int = 0,
        timeout_seconds: float = 10,
    ) -> EventT:
        """Return the first event of a kind that fits, from a position in `events` on.

        Raises:
            TimeoutError: if none comes in time.
        """
        async with asyncio.timeout(timeout_seconds):
            while True:
                for event in self.events[after:]:
                    if isinstance(event, kind) and where(event):
                        return event
                await self._grown.wait()
