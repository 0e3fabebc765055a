"""Lines with times on standard output."""

import sys
import time
from typing import TextIO

from csi_registration_simulator.narration import tell
from csi_registration_simulator.records import Record


class Printer:
    """Prints lines, each behind the seconds since the printer was made."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        """Print a line with the time of now."""
        self._print(time.monotonic(), text)

    def tell(self, record: Record) -> None:
        """Print a record with its own time."""
        self._print(record.at_seconds, tell(record))

    def _print(self, at_seconds: float, text: str) -> None:
        self._stream.write(f"{at_seconds - self._began:9.3f}  {text}\n")
        self._stream.flush()
