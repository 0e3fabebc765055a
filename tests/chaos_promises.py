"""What must hold in a chaos world at every moment, and the measuring of it.

The world that it is asked about is in `chaos_world`, what happens there in `chaos_events`.
"""

import contextlib
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

import grpc.aio

from pluginregistration.v1 import registration_pb2, registration_pb2_grpc
from registrar.unix_sockets import grpc_target


class Violation(Exception):  # noqa: N818 - the registrar's error, none of this program's
    """An invariant is broken; the text says which, where and when."""


@dataclass
class Promise:
    """Something that comes true within a limit for as long as it is owed.

    A disturbance starts the limit anew. Time that the machine took from the processes under test
    is added to it, because it is not theirs.
    """

    what: str
    limit_seconds: float
    since: float = 0.0
    """When it was last kept, or not owed, or disturbed."""
    _stolen_before: float = 0.0
    longest_seconds: float = 0.0
    """The longest time that the promise took to be kept."""

    def disturbed(self, stolen_seconds: float, extra_seconds: float = 0.0) -> None:
        """Start the limit anew, perhaps with more time for this once."""
        self.since = max(self.since, time.monotonic() + extra_seconds)
        self._stolen_before = stolen_seconds

    def see(self, *, is_owed: bool, is_kept: bool, stolen_seconds: float) -> bool:
        """Take a sample; return whether all is well for now.

        Raises:
            Violation: if the promise has been owed and broken for too long.
        """
        now = time.monotonic()
        waited = now - self.since
        if is_kept or not is_owed:
            if is_owed:
                self.longest_seconds = max(self.longest_seconds, waited)
            self.since, self._stolen_before = now, stolen_seconds
            return True
        stolen = stolen_seconds - self._stolen_before
        if waited > self.limit_seconds + stolen:
            raise Violation(
                f"{self.what}: not for {waited:.2f} s, and the limit is {self.limit_seconds} s "
                f"(of which the machine took {stolen:.2f} s)"
            )
        return False


@dataclass(frozen=True)
class FileMark:
    """Which file lies at a path: its inode and its kind."""

    inode: int
    kind: int

    @classmethod
    def of(cls, path: str) -> "FileMark | None":
        """Return the mark of what is at the path; None if nothing is."""
        with contextlib.suppress(OSError):
            found = os.lstat(path)
            return cls(found.st_ino, stat.S_IFMT(found.st_mode))
        return None


class ForeignFiles:
    """Files that the registrar has no business with, and that must stay as they are."""

    def __init__(self) -> None:
        self._marks: dict[str, FileMark] = {}

    def add(self, path: str) -> None:
        """Keep watch over what is at a path."""
        mark = FileMark.of(path)
        assert mark is not None, path
        self._marks[path] = mark

    def forget_below(self, prefix: str) -> None:
        """Forget all paths that begin so: somebody else is about to remove them."""
        self._marks = {path: m for path, m in self._marks.items() if not path.startswith(prefix)}

    def names_in(self, folder: str) -> set[str]:
        """Return the names of those in a folder."""
        return {os.path.basename(path) for path in self._marks if os.path.dirname(path) == folder}

    def check(self) -> None:
        """Return if all are there.

        Raises:
            Violation: if one is gone or is another file now.
        """
        for path, mark in self._marks.items():
            if (found := FileMark.of(path)) != mark:
                raise Violation(f"the foreign file {path} was touched: it was {mark}, is {found}")


async def is_answered(path: str, driver_name: str) -> bool:
    """Return whether GetInfo on a socket is answered for the driver, on a new connection."""
    if not os.path.exists(path):
        return False
    async with grpc.aio.insecure_channel(
        grpc_target(path), options=[("grpc.use_local_subchannel_pool", 1)]
    ) as channel:
        stub = registration_pb2_grpc.RegistrationStub(channel)
        try:
            answer = await stub.GetInfo(registration_pb2.InfoRequest(), timeout=1.0)
        except grpc.aio.AioRpcError:
            return False
    return answer.name == driver_name


def waited_for_cpu_seconds(pid: int) -> float:
    """Return how long a process was ready to run and was not let (proc(5), schedstat)."""
    with contextlib.suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()
        return int(fields[1]) / 1e9
    return 0.0


def threads_of(pid: int) -> dict[str, str]:
    """Return where in the kernel each thread of a process waits, by its name and number."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            name = (task / "comm").read_text(encoding="ascii").strip()
            found[f"{name} {task.name}"] = (task / "wchan").read_text(encoding="ascii")
    return found
