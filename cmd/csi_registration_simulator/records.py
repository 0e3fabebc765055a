"""Lists of what happened to a simulated part, which a test reads, waits on and compares.

What can happen is not here: see `kubelet_records` and `driver`.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TypeVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Something that happened, once."""

    at_seconds: float = field(default_factory=time.monotonic, compare=False)
    """On the clock of `time.monotonic`, so that the records of several parts can be put in order.
    It does not count when two records are compared."""


RecordT = TypeVar("RecordT", bound=Record)


class Recorder:
    """A part that keeps records, oldest first."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.listeners: list[Callable[[Record], None]] = []
        """Called with each new record, at once."""
        self._grown = asyncio.Event()

    def record(self, record: Record) -> None:
        """Append a record and wake whoever waits."""
        self.records.append(record)
        for listener in self.listeners:
            listener(record)
        self._grown.set()
        self._grown = asyncio.Event()

    def of(self, kind: type[RecordT]) -> list[RecordT]:
        """Return all records of one kind."""
        return [record for record in self.records if isinstance(record, kind)]

    def mark(self) -> int:
        """Return a position that `wait_for_record` can start at: only later records count."""
        return len(self.records)

    async def wait_for(
        self, predicate: Callable[[], bool], timeout_seconds: float | None = 10
    ) -> None:
        """Wait until the predicate holds; it is asked now and after each new record.

        A limit of None waits without end.

        Raises:
            TimeoutError: It did not hold in time; the message lists the records.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                while not predicate():
                    await self._grown.wait()
        except TimeoutError as error:
            raise TimeoutError(self._explain(timeout_seconds or 0)) from error

    async def wait_for_record(
        self,
        kind: type[RecordT],
        where: Callable[[RecordT], bool] = lambda _: True,
        *,
        after: int = 0,
        timeout_seconds: float | None = 10,
    ) -> RecordT:
        """Return the first record of a kind that fits, waiting until there is one.

        Args:
            kind: The class of the record.
            where: What else must be true of it.
            after: A position from `mark`; earlier records do not count.
            timeout_seconds: How long to wait at most; None for no end.

        Raises:
            TimeoutError: No such record came in time; the message lists those that did.
        """
        found: list[RecordT] = []

        def has_come() -> bool:
            later = self.records[after:]
            found.extend(each for each in later if isinstance(each, kind) and where(each))
            return bool(found)

        await self.wait_for(has_come, timeout_seconds)
        return found[0]

    def _explain(self, timeout_seconds: float) -> str:
        lines = "".join(f"\n  {describe(record)}" for record in self.records) or " none"
        return f"nothing of the kind within {timeout_seconds:g} s; the records are:{lines}"


def describe(record: Record) -> str:
    """Put one record into one line, for a person."""
    shown = (f"{each.name}={getattr(record, each.name)!r}" for each in fields(record)[1:])
    return f"{record.at_seconds:.3f} {type(record).__name__}({', '.join(shown)})"
