"""One histogram: counts observations by bucket, and gives its samples in the Go client's order.

What is observed, and under which name, is not here (`families`, `sidecar_histogram`).
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate

from prometheus_client.samples import Sample


class Buckets:
    """The bounds of a histogram's buckets, and how the label `le` writes them."""

    __slots__ = ("bounds", "labels")

    def __init__(self, *bounds: float, write: Callable[[float], str]) -> None:
        self.bounds = bounds
        """In seconds, upwards; the last one, which has all, is left out."""
        self.labels = tuple(map(write, (*bounds, math.inf)))


class Histogram:
    """Durations in seconds, by bucket.

    prometheus_client's own has locks for threads, a `_created` series, and `_count` before `_sum`.
    """

    __slots__ = ("_buckets", "_counts", "_sum_seconds")

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._counts = [0] * len(buckets.labels)
        self._sum_seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Count a duration in the first bucket whose bound is not below it."""
        self._counts[bisect_left(self._buckets.bounds, seconds)] += 1
        self._sum_seconds += seconds

    def samples(self, name: str, labels: dict[str, str]) -> Iterator[Sample]:
        """Yield the buckets upwards with `le` as the last label, then the sum, then the count."""
        counts = tuple(accumulate(self._counts))
        for le, count in zip(self._buckets.labels, counts, strict=True):
            yield Sample(f"{name}_bucket", {**labels, "le": le}, count)
        yield Sample(f"{name}_sum", labels, self._sum_seconds)
        yield Sample(f"{name}_count", labels, counts[-1])
