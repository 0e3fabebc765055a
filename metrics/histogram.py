"""One histogram: counts observations by bucket, and gives its samples in the Go client's order.

What is observed, and under which name, is not here (`families`, `sidecar_histogram`).
"""

import math
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.samples import Sample

from metrics.go_numbers import openmetrics_float


class Histogram:
    """Durations in seconds, by bucket.

    prometheus_client's own has locks for threads, a `_created` series, and `_count` before `_sum`.
    """

    __slots__ = ("_bounds", "_counts", "_sum_seconds")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum_seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Count a duration in the first bucket whose bound is not below it."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum_seconds += seconds

    def samples(self, name: str, labels: dict[str, str]) -> Iterator[Sample]:
        """Yield the buckets upwards with `le` as the last label, then the sum, then the count."""
        total = 0
        for bound, total in zip((*self._bounds, math.inf), accumulate(self._counts), strict=True):
            yield Sample(f"{name}_bucket", {**labels, "le": openmetrics_float(bound)}, total)
        yield Sample(f"{name}_sum", labels, self._sum_seconds)
        yield Sample(f"{name}_count", labels, total)
