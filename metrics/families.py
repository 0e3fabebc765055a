"""The metric families of this project: name, type, labels, help, and where the numbers come from.

A help text says what is measured, in which unit, and when it moves. The family that the Go sidecars
share is not here (`sidecar_histogram`), nor are process and interpreter (`process_metrics`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from metrics.driver_values import DriverValues
from registrar.observer import State

PREFIX = "csi_node_registrar_"

_Values = Iterable[tuple[dict[str, str], float]]
"""The labels that a driver's series have beside `driver_name`, each with its value."""


class DriverFamily(NamedTuple):
    """A family that has series for each driver; all carry the label `driver_name`."""

    name: str
    """Without the prefix, and for a counter without `_total`, as OpenMetrics names families."""
    type: str
    """`gauge` or `counter`."""
    help: str
    read: Callable[[DriverValues], _Values]

    def collect(self, drivers: Mapping[str, DriverValues]) -> Metric:
        """Return the family with the series of all drivers."""
        family = Metric(PREFIX + self.name, self.help, self.type)
        sample_name = family.name + ("_total" if self.type == "counter" else "")
        for driver_name, values in drivers.items():
            family.samples.extend(
                Sample(sample_name, {"driver_name": driver_name, **labels}, value)
                for labels, value in self.read(values)
            )
        return family


def _one(read: Callable[[DriverValues], float]) -> Callable[[DriverValues], _Values]:
    """Make a single series."""
    return lambda driver: (({}, read(driver)),)


def _each(
    label: str, read: Callable[[DriverValues], Mapping[str, float]]
) -> Callable[[DriverValues], _Values]:
    """Make one series for each value of a label."""
    return lambda driver: (({label: key}, value) for key, value in read(driver).items())


def _info(driver: DriverValues) -> _Values:
    labels = {
        "driver_version": driver.version,
        "registration_socket_path": driver.registration_socket_path,
    }
    return ((labels, 1),)


REGISTRATION_FAMILIES = (
    DriverFamily(
        "registered",
        "gauge",
        "Whether kubelet has accepted the driver and nothing has undone it since (1) or not (0). "
        "Falls when the socket is lost, announced again, taken by another instance, or refused.",
        _one(lambda driver: driver.state is State.REGISTERED),
    ),
    DriverFamily(
        "registration_state",
        "gauge",
        "Where the registration stands: exactly one state is 1. waiting: nothing is published; "
        "announced: kubelet has not judged yet; registered; rejected; standby: another live "
        "instance holds the socket.",
        _each("state", lambda driver: {state: state is driver.state for state in State}),
    ),
    DriverFamily(
        "registrations",
        "counter",
        "Verdicts that kubelet gave on the driver, by outcome: success or failure. A kubelet that "
        "restarts gives another one.",
        _each("outcome", lambda driver: driver.registrations),
    ),
    DriverFamily(
        "get_info_requests",
        "counter",
        "GetInfo calls by kubelet, the first step of each registration.",
        _one(lambda driver: driver.get_info_requests),
    ),
    DriverFamily(
        "last_get_info_timestamp_seconds",
        "gauge",
        "When kubelet last called GetInfo, in Unix seconds; 0 if never.",
        _one(lambda driver: driver.last_get_info_at),
    ),
    DriverFamily(
        "last_registration_timestamp_seconds",
        "gauge",
        "When kubelet last gave its verdict, by outcome, in Unix seconds; 0 if never.",
        _each("outcome", lambda driver: driver.last_registration_at),
    ),
    DriverFamily(
        "registration_duration_seconds",
        "gauge",
        "Seconds from the last announcement that kubelet accepted to its acceptance, refusals in "
        "between included; 0 before the first.",
        _one(lambda driver: driver.registration_seconds),
    ),
    DriverFamily(
        "announcements",
        "counter",
        "Times that the registration socket was shown to kubelet, by reason. All but start are "
        "repairs: missing, replaced, rejected, silence, driver_changed; or requested by SIGHUP.",
        _each("reason", lambda driver: driver.announcements),
    ),
    DriverFamily(
        "registration_socket_present",
        "gauge",
        "Whether a live registration socket for the driver, ours or a peer's, is at its path (1) "
        "or not (0); looked at every second.",
        _one(lambda driver: driver.has_registration_socket),
    ),
    DriverFamily(
        "driver_info",
        "gauge",
        "Always 1: the version that the driver gives, and the path of its registration socket, as "
        "the host sees it where that is known. A new version replaces the old series.",
        _info,
    ),
)
"""What became of the registration of each driver."""

CSI_FAMILIES = (
    DriverFamily(
        "csi_socket_present",
        "gauge",
        "Whether the driver's own socket is at its path (1) or not (0), even if nobody listens on "
        "it; looked at every second.",
        _one(lambda driver: driver.has_csi_socket),
    ),
    DriverFamily(
        "driver_up",
        "gauge",
        "Whether the driver answered GetPluginInfo usably when last looked at (1) or not (0). It "
        "is looked at each --monitor-interval, and at once when its socket or connection changes.",
        _one(lambda driver: driver.is_up),
    ),
    DriverFamily(
        "driver_restarts",
        "counter",
        "Times that the driver answered on another socket than before.",
        _one(lambda driver: driver.restarts),
    ),
    DriverFamily(
        "probe_success",
        "gauge",
        "Whether the driver's last Probe said ready (1) or not, or failed, or none was made yet "
        "(0).",
        _one(lambda driver: driver.is_ready),
    ),
    DriverFamily(
        "probes",
        "counter",
        "Probe calls to the driver, by result: ready, not_ready, error or timeout. Moved by health "
        "checks and by the look each --monitor-interval.",
        _each("result", lambda driver: driver.probes),
    ),
)
"""How each driver fares, whether it is registered by this process or not."""

DRIVER_FAMILIES = (*REGISTRATION_FAMILIES, *CSI_FAMILIES)


def call_durations(drivers: Mapping[str, DriverValues]) -> Metric:
    """Return the fine-grained histogram of all calls to all drivers."""
    family = Metric(
        f"{PREFIX}csi_call_duration_seconds",
        "Seconds that a call to the driver took, by full gRPC method, failed calls included. "
        "Finer than csi_sidecar_operations_seconds where a healthy driver answers.",
        "histogram",
    )
    for driver_name, values in drivers.items():
        for method, histogram in values.calls.items():
            labels = {"driver_name": driver_name, "method_name": method}
            family.samples.extend(histogram.samples(family.name, labels))
    return family


def http_requests(counts: Mapping[tuple[str, str], int]) -> Metric:
    """Return the answers given over HTTP, by handler and code."""
    family = Metric(
        f"{PREFIX}http_requests",
        "HTTP requests answered, by handler (healthz, livez, readyz, metrics, root, or other for "
        "every unknown path) and status code. Moves when the answer has been sent.",
        "counter",
    )
    family.samples.extend(
        Sample(f"{family.name}_total", {"code": code, "handler": handler}, count)
        for (handler, code), count in sorted(counts.items())
    )
    return family


class BuildInfo(NamedTuple):
    """Which build of this program runs."""

    version: str
    revision: str
    """The commit it was built from; empty if unknown."""
    python_version: str

    def collect(self) -> Iterator[Metric]:
        """Yield the family `build_info`."""
        family = Metric(
            f"{PREFIX}build_info",
            "Always 1: version and source revision of this program, and the Python it runs on.",
            "gauge",
        )
        labels = {
            "python_version": self.python_version,
            "revision": self.revision,
            "version": self.version,
        }
        family.samples.append(Sample(family.name, labels, 1))
        yield family
