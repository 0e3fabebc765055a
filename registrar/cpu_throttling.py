"""How long the CPU limit has held this container back, from its control group's `cpu.stat`."""

import os
from collections.abc import Iterator
from typing import NamedTuple

_CGROUPS = "/sys/fs/cgroup"
_OWN_CGROUPS = "/proc/self/cgroup"
_MAX_BYTES = 8192
_THROTTLED_PERIODS = "nr_throttled"


class Throttling(NamedTuple):
    """What the CPU limit has cost since the control group was made."""

    seconds: float
    periods: int
    throttled_periods: int

    def __str__(self) -> str:
        return (
            f"its CPU limit has held this container back in {self.throttled_periods} of "
            f"{self.periods} periods, {self.seconds:.1f} s in all"
        )


def read_throttling(
    own_cgroups: str = _OWN_CGROUPS, cgroups_folder: str = _CGROUPS
) -> Throttling | None:
    """Return how this container was throttled; None if it was not, or nobody tells.

    Control groups of version 1 and 2 are understood, seen from the host or from the container.
    """
    for path in _stat_paths(_read(own_cgroups), cgroups_folder):
        if _THROTTLED_PERIODS in (text := _read(path)):
            return _parsed(text)
    return None


def _stat_paths(own_cgroups: str, folder: str) -> Iterator[str]:
    for line in own_cgroups.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        for place in dict.fromkeys((controllers, "cpu" if controllers else "")):
            for inner in dict.fromkeys((group.strip("/"), "")):
                yield os.path.normpath(os.path.join(folder, place, inner, "cpu.stat"))


def _parsed(text: str) -> Throttling | None:
    words = (line.split() for line in text.splitlines())
    values = {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdigit()}  # noqa: PLR2004 - a key and a value
    if not values.get(_THROTTLED_PERIODS):
        return None
    # Version 1 counts nanoseconds, version 2 microseconds.
    seconds = values.get("throttled_time", 0) / 1e9 + values.get("throttled_usec", 0) / 1e6
    return Throttling(seconds, values.get("nr_periods", 0), values[_THROTTLED_PERIODS])


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return ""
