"""The kernel's table of mounts, as far as a few paths are concerned (proc(5), mountinfo).

What a mount says about kubelet is not here (`kubelet_root`).
"""

import os
import re
from collections.abc import Iterable
from typing import NamedTuple

MOUNTINFO_PATH = "/proc/self/mountinfo"

MAX_BYTES = 512 * 1024
"""How much of the table is read: about 2,000 mounts, in 5 ms. A sidecar has some thirty."""

_OCTAL = re.compile(rb"\\([0-3][0-7]{2})")
_DELETED = "//deleted"
_FIELDS_BEFORE_OPTIONS = 6


class Mount(NamedTuple):
    """One line of the table."""

    mount_id: int
    parent_id: int
    device: str
    """`major:minor` of the file system."""
    root: str
    """What of the file system is mounted, as a path from its top; without the mark of deletion."""
    point: str
    """Where it is mounted, as this process sees it."""
    file_system: str
    """Its type, such as `ext4`."""
    is_deleted: bool
    """Whether the folder or file that is mounted has been removed from its file system."""


class MountTable:
    """The mounts on the way to some paths."""

    def __init__(self, mounts: Iterable[Mount], *, is_whole: bool = True) -> None:
        self.mounts = tuple(mounts)
        self.is_whole = is_whole
        """False if the table was too large to read to its end: what it lacks proves nothing."""

    def holding(self, path: str) -> Mount | None:
        """Return the mount that a path lies on: the youngest, where several cover each other.

        The path must be one of those that the table was read for, without symbolic links. None if
        the table does not tell.
        """
        mount = self._root()
        # As the kernel walks: the mount that is met first hides what lies below its point.
        while mount is not None and (child := self._first_met(mount, path)) is not None:
            mount = child
        return mount

    def _root(self) -> Mount | None:
        tops = [mount for mount in self.mounts if mount.point == "/"]
        ids = {mount.mount_id for mount in tops}
        return next((mount for mount in tops if mount.parent_id not in ids), None)

    def _first_met(self, parent: Mount, path: str) -> Mount | None:
        children = [
            mount
            for mount in self.mounts
            if mount.parent_id == parent.mount_id
            and mount.mount_id != parent.mount_id
            and is_within(path, mount.point)
        ]
        return min(children, key=lambda mount: len(mount.point), default=None)


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is the folder itself or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def read_mount_table(paths: Iterable[str], source: str = MOUNTINFO_PATH) -> MountTable:
    """Read the mounts on the way to some paths, in a few milliseconds at most.

    Raises:
        OSError: if there is no such table to read.
    """
    with open(source, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    return parse_mount_table(data[:MAX_BYTES], paths, is_whole=len(data) <= MAX_BYTES)


def parse_mount_table(data: bytes, paths: Iterable[str], *, is_whole: bool = True) -> MountTable:
    """Return the mounts on the way to some paths; lines of another form are passed over."""
    points = {os.fsencode(point) for path in paths for point in _way_to(path)}
    lines = data.split(b"\n")
    if not is_whole:
        lines.pop()  # cut somewhere in its middle
    mounts = (_parsed(line, points) for line in lines)
    return MountTable((mount for mount in mounts if mount is not None), is_whole=is_whole)


def _way_to(path: str) -> list[str]:
    way = [path]
    while way[-1] not in ("/", ""):
        way.append(os.path.dirname(way[-1]))
    return way


def _parsed(line: bytes, points: set[bytes]) -> Mount | None:
    fields = line.split(b" ", _FIELDS_BEFORE_OPTIONS)
    if len(fields) <= _FIELDS_BEFORE_OPTIONS or _unescaped(fields[4]) not in points:
        return None
    # Spaces within fields are escaped, so this one stands between the two halves of the line.
    _, dash, after = line.partition(b" - ")
    if not dash or not (fields[0].isdigit() and fields[1].isdigit()):
        return None
    root = os.fsdecode(_unescaped(fields[3]))
    return Mount(
        mount_id=int(fields[0]),
        parent_id=int(fields[1]),
        device=os.fsdecode(fields[2]),
        root=root.removesuffix(_DELETED),
        point=os.fsdecode(_unescaped(fields[4])),
        file_system=os.fsdecode(after.split(b" ", 1)[0]),
        is_deleted=root.endswith(_DELETED),
    )


def _unescaped(field: bytes) -> bytes:
    if b"\\" not in field:
        return field
    return _OCTAL.sub(lambda octal: bytes([int(octal[1], 8)]), field)
