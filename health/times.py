"""Times and durations as the page writes them."""

import time

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def utc(unix_seconds: float) -> str:
    """Return a time by the node's clock, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(unix_seconds))


def ago(seconds: float) -> str:
    """Return how long ago something happened."""
    return f"{duration(seconds)} ago" if seconds >= 1 else "just now"


def duration(seconds: float) -> str:
    """Return a duration in no more than two units, such as `2 h 5 min`."""
    rest = max(0, int(seconds))
    parts: list[str] = []
    for size, unit in _UNITS:
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"
