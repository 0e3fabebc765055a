"""`csi_sidecar_operations_seconds`, which all Go sidecars share, as they expose it.

Names, help, buckets and label values are those of csi-lib-utils (`metrics/metrics.go`) on top of
Kubernetes' component-base, so that a dashboard made for those sidecars shows this one too.
"""

from prometheus_client.metrics_core import Metric

from metrics.go_numbers import go_float
from metrics.histogram import Buckets, Histogram

NAME = "csi_sidecar_operations_seconds"

_HELP = "[ALPHA] Container Storage Interface operation duration with gRPC error code status total"

BUCKETS = Buckets(
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0, write=go_float
)
"""Written as Go does it (`le="1"`) in OpenMetrics too, which would rather have `1.0`: Go's sidecars
speak the older format alone, and one bucket must not be two series of a cluster."""

MAX_PAIRS = 6
"""Pairs of code and method kept for one driver. Each is 16 series, so a driver that answers with
every code there is would make over five hundred; a driver in trouble knows two bad codes."""


class SidecarHistogram:
    """How long each driver's calls took, by method and by the code that they ended with.

    As in Go nothing is exposed for a pair before its first call. Beyond `MAX_PAIRS` the pair that
    has not been seen for longest goes; it begins at 0 if it comes back.
    """

    def __init__(self) -> None:
        self._drivers: dict[str, dict[tuple[str, str], Histogram]] = {}

    def observe(self, driver_name: str, *, method: str, code: str, seconds: float) -> None:
        """Count one call. `method` is the full gRPC path, `code` the status as Go spells it."""
        pairs = self._drivers.setdefault(driver_name, {})
        # Put back at the end, so that the first pair is always the one not seen for longest.
        histogram = pairs.pop((code, method), None) or Histogram(BUCKETS)
        pairs[code, method] = histogram
        histogram.observe(seconds)
        if len(pairs) > MAX_PAIRS:
            del pairs[next(iter(pairs))]

    def forget(self, driver_name: str) -> None:
        """Drop all series of a driver."""
        self._drivers.pop(driver_name, None)

    def family(self) -> Metric:
        """Return the family, sorted by label values as client_golang does."""
        family = Metric(NAME, _HELP, "histogram")
        for driver_name, pairs in sorted(self._drivers.items()):
            for code, method in sorted(pairs):
                labels = {
                    "driver_name": driver_name,
                    "grpc_status_code": code,
                    "method_name": method,
                }
                family.samples.extend(pairs[code, method].samples(NAME, labels))
        return family
