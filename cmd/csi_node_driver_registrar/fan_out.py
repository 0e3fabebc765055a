"""One event, told to several."""

from collections.abc import Callable
from typing import Generic, TypeVar

EventT = TypeVar("EventT")


class FanOut(Generic[EventT]):
    """Passes each event on to all who want to know, in the order in which they were added."""

    def __init__(self, *listeners: Callable[[EventT], None]) -> None:
        self._listeners = list(listeners)

    def add(self, listener: Callable[[EventT], None]) -> None:
        """Tell one more from now on."""
        self._listeners.append(listener)

    def notify(self, event: EventT) -> None:
        """Pass an event on."""
        for listener in self._listeners:
            listener(event)
