"""Growing pauses between attempts."""

import random


def jittered_backoff(attempt: int, *, first_seconds: float, limit_seconds: float) -> float:
    """Return how many seconds to wait after the given number of failures in a row (from 1).

    The pause doubles from `first_seconds` up to `limit_seconds`. A fifth of it is left to chance,
    so that a node's sidecars do not try in step; it never falls below `first_seconds` nor rises
    above `limit_seconds`.
    """
    # Beyond 2**32 every pause is at its limit, and a float would overflow some day.
    doubled = first_seconds * 2.0 ** min(attempt - 1, 32)
    chance = random.uniform(0.8, 1.2)  # noqa: S311 - spreads load, hides nothing
    return min(max(doubled * chance, first_seconds), limit_seconds)
