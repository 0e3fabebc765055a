"""Control groups with a memory or CPU limit, as a container has them; version 1 or 2."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_PERIOD_MICROSECONDS = 100_000


class ControlGroup:
    """One group, for a process that is started in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def command(self, *command: str) -> tuple[str, ...]:
        """Return a command line that runs another one in this group."""
        return ("sh", "-c", f'echo $$ >{self.folder}/cgroup.procs && exec "$@"', "sh", *command)

    def numbers(self, file: str) -> dict[str, int]:
        """Return a file of names and numbers, such as memory.stat."""
        lines = (self.folder / file).read_text(encoding="ascii").splitlines()
        return {name: int(number) for name, number in (line.split() for line in lines)}

    @property
    def anonymous_bytes(self) -> int:
        """How much memory its processes hold that no file backs; version 1 calls it rss."""
        stat = self.numbers("memory.stat")
        return stat["rss"] if "rss" in stat else stat["anon"]

    @property
    def kills(self) -> int:
        """How many of its processes the kernel has killed for want of memory."""
        events = self.folder / "memory.events"
        if events.exists():
            return self.numbers("memory.events")["oom_kill"]
        return self.numbers("memory.oom_control").get("oom_kill", 0)


@contextlib.contextmanager
def limited_memory(limit_bytes: int) -> Iterator[ControlGroup]:
    """Make a group whose processes hold so much memory together, pages of files included.

    Raises:
        OSError: if no group can be made here.
    """
    with _group("memory") as group:
        first = group.folder / "memory.limit_in_bytes"
        limit = first if first.exists() else group.folder / "memory.max"
        limit.write_text(str(limit_bytes), encoding="ascii")
        yield group


@contextlib.contextmanager
def limited_cpu(cores: float) -> Iterator[ControlGroup]:
    """Make a group whose processes get such a share of a core in each tenth of a second.

    Raises:
        OSError: if no group can be made here.
    """
    quota = int(cores * _PERIOD_MICROSECONDS)
    with _group("cpu") as group:
        first = group.folder / "cpu.cfs_quota_us"
        if first.exists():
            first.write_text(str(quota), encoding="ascii")
        else:
            text = f"{quota} {_PERIOD_MICROSECONDS}"
            (group.folder / "cpu.max").write_text(text, encoding="ascii")
        yield group


@contextlib.contextmanager
def _group(controller: str) -> Iterator[ControlGroup]:
    parent = _ROOT / controller
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=parent if parent.is_dir() else _ROOT))
    try:
        yield ControlGroup(folder)
    finally:
        os.rmdir(folder)
