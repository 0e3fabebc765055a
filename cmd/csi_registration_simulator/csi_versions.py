"""Which versions of CSI kubelet takes (`highestSupportedVersion` of its CSI volume plugin)."""

import re
from collections.abc import Sequence

Version = tuple[int, ...]

_GENERIC = re.compile(r"\s*v?(\d+(?:\.\d+)+)")


def show(version: Version) -> str:
    """Write a version with dots."""
    return ".".join(map(str, version))


def highest_supported(versions: Sequence[str]) -> Version:
    """Return the highest version that is not above 1.x.

    Raises:
        ValueError: There is none, or it is below 1.0; the message is kubelet's.
    """
    candidates = [each for each in map(_parse, versions) if each is not None and each[0] <= 1]
    if not candidates:
        listed = " ".join(versions)
        raise ValueError(
            f"could not find a highest supported version from versions ([{listed}]) "
            "reported by this driver: <nil>"
        )
    highest = max(candidates)
    if highest[0] != 1:
        raise ValueError(
            f"highest supported version reported by driver is {show(highest)}, must be v1.x"
        )
    return highest


def _parse(text: str) -> Version | None:
    match = _GENERIC.match(text)
    return tuple(map(int, match[1].split("."))) if match else None
