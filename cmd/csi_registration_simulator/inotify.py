"""The kernel's inotify, as far as watching folders for names needs it (see inotify(7)).

Which names matter, and what follows from one, is not here (`folder_watch`).
"""

import ctypes
import os
import struct
from dataclasses import dataclass
from typing import Final

MOVED_FROM: Final = 0x40
MOVED_TO: Final = 0x80
CREATE: Final = 0x100
DELETE: Final = 0x200
_ONLYDIR: Final = 0x01000000
_IGNORED: Final = 0x8000

_HEADER = struct.Struct("iIII")
"""struct inotify_event without its name: watch, mask, cookie, length of the name."""
_BUFFER_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a name in a watched folder."""

    mask: int
    path: str


class Inotify:
    """One inotify instance. Its file descriptor is readable when there are events."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._folders: dict[int, str] = {}
        self._fd = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify")

    def fileno(self) -> int:
        """Return the file descriptor, for a selector."""
        return self._fd

    def watch(self, folder: str) -> None:
        """Watch one folder, without its sub-folders; twice is as good as once.

        Raises:
            OSError: The folder cannot be watched.
        """
        mask = MOVED_FROM | MOVED_TO | CREATE | DELETE | _ONLYDIR
        added = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), mask)
        self._folders[self._checked(added, folder)] = folder

    def read(self) -> list[Event]:
        """Return the events that are there, oldest first, without waiting."""
        try:
            data = os.read(self._fd, _BUFFER_BYTES)
        except BlockingIOError:
            return []
        return list(self._parsed(data))

    def close(self) -> None:
        """Give up all watches."""
        os.close(self._fd)

    def _parsed(self, data: bytes) -> "list[Event]":
        events = []
        offset = 0
        while offset < len(data):
            watch, mask, _, length = _HEADER.unpack_from(data, offset)
            offset += _HEADER.size + length
            name = os.fsdecode(data[offset - length : offset].rstrip(b"\0"))
            if mask & _IGNORED:
                self._folders.pop(watch, None)
            elif folder := self._folders.get(watch):
                events.append(Event(mask, os.path.join(folder, name)))
        return events

    @staticmethod
    def _checked(result: int, path: str) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
        return result
