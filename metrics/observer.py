"""Which event moves which numbers, and the collector that shows them.

The series of a driver exist from the event that tells its name to the one that takes it back.
"""

import time
from collections.abc import Callable, Iterator

from prometheus_client.metrics_core import Metric

from metrics.driver_values import DriverValues, Outcome
from metrics.families import DRIVER_FAMILIES, BuildInfo, call_durations, http_requests
from metrics.sidecar_histogram import SidecarHistogram
from registrar.observer import (
    Announced,
    CallFinished,
    CsiSocketSeen,
    DriverAnswered,
    DriverFailed,
    DriverForgotten,
    DriverIdentified,
    DriverRestarted,
    Event,
    GetInfoReceived,
    ProbeFinished,
    ProbeResult,
    RegistrationSocketSeen,
    StateChanged,
    VerdictReceived,
)

HTTP_HANDLERS = frozenset({"healthz", "livez", "readyz", "metrics", "root", "other"})
HTTP_CODES = frozenset({200, 400, 404, 405, 500})
"""Those that the server gives; whatever else a library thinks of is `other`."""

_MAX_VERSION_CHARACTERS = 128
"""CSI specification, size limits: what a driver may put into a string field."""
