"""A registrar's metrics in a test: as series to compare, and served over HTTP to be scraped."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web
from observing import RecordingObserver
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import Collector, CollectorRegistry

from metrics.exposition import metrics_handler
from metrics.observer import MetricsObserver
from metrics.registry import TolerantRegistry
from metrics.text_formats import prometheus_format
from registrar.observer import (
    CallFinished,
    CsiSocketSeen,
    DriverAnswered,
    DriverIdentified,
    Event,
    ProbeFinished,
    ProbeResult,
)

NOW = 1_700_000_000.0
"""What the clock of a `MeasuringObserver` says."""

CSI_ADDRESS = "/csi/csi.sock"
DRIVER_NAME = "x.csi.example.com"
GET_PLUGIN_INFO = "/csi.v1.Identity/GetPluginInfo"
PROBE = "/csi.v1.Identity/Probe"

Series = dict[str, str]
"""By name and labels, as exposed; the value as exposed."""


class MeasuringObserver(RecordingObserver):
    """Keeps the events and makes metrics of them."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = TolerantRegistry()
        self.metrics = MetricsObserver(self.registry, clock=lambda: NOW)

    def notify(self, event: Event) -> None:
        """Make numbers of an event, then wake whoever waits for it."""
        self.metrics.notify(event)
        super().notify(event)

    def series(self) -> Series:
        """Return all series as they stand."""
        return series(self.registry)


def exposition(collector: Collector) -> str:
    """Return the text of the older format, families as they come."""
    return "".join(map(prometheus_format().write, collector.collect()))


def series(collector: Collector) -> Series:
    """Return the series of a registry."""
    return parsed(exposition(collector))


def parsed(text: str) -> Series:
    """Return the series of an exposition without timestamps and exemplars."""
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    assert len({name for name, _, _ in lines}) == len(lines), "a series is there twice"
    return {name: value for name, _, value in lines}


def openmetrics_families(text: str) -> list[Metric]:
    """Parse an exposition of OpenMetrics; the parser is prometheus_client's own.

    Raises:
        ValueError: if it is not valid.
    """
    return list(text_string_to_metric_families(text))  # type: ignore[no-untyped-call]


def moved(before: Series, after: Series) -> dict[str, tuple[str | None, str | None]]:
    """Return what differs, by short name: without our prefix and the label of the driver.

    Of a histogram only the count is compared.
    """
    differing = {
        name: (before.get(name), after.get(name))
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name) and not _is_detail(name)
    }
    return {short_name(name): change for name, change in differing.items()}


def short_name(name: str) -> str:
    """Return a series' name as tests write it."""
    label = f'driver_name="{DRIVER_NAME}"'
    short = name.removeprefix("csi_node_registrar_").replace(f"{label},", "")
    return short.replace(f"{{{label}}}", "")


def _is_detail(name: str) -> bool:
    return "_bucket{" in name or "_seconds_sum{" in name


def identified(name: str = DRIVER_NAME, csi_address: str = CSI_ADDRESS) -> list[Event]:
    """Return the events by which a driver becomes known and is found in good health."""
    return [
        CsiSocketSeen(csi_address=csi_address, driver_name=None, is_present=True),
        CallFinished(
            csi_address=csi_address,
            driver_name=None,
            method=GET_PLUGIN_INFO,
            code="OK",
            seconds=0.002,
        ),
        DriverIdentified(
            csi_address=csi_address,
            driver_name=name,
            vendor_version="1.0.0",
            registration_socket_path=f"/registration/{name}-reg.sock",
        ),
        DriverAnswered(csi_address=csi_address, driver_name=name, vendor_version="1.0.0"),
        called(PROBE, name=name, csi_address=csi_address),
        ProbeFinished(csi_address=csi_address, driver_name=name, result=ProbeResult.READY),
    ]


def called(
    method: str,
    code: str = "OK",
    seconds: float = 0.001,
    *,
    name: str = DRIVER_NAME,
    csi_address: str = CSI_ADDRESS,
) -> CallFinished:
    """Return the event of a call to a known driver."""
    return CallFinished(
        csi_address=csi_address, driver_name=name, method=method, code=code, seconds=seconds
    )


def notify_all(observer: MeasuringObserver, events: Iterable[Event]) -> None:
    """Let an observer know of many events."""
    for event in events:
        observer.notify(event)


@asynccontextmanager
async def serving_metrics(registry: CollectorRegistry) -> AsyncIterator[str]:
    """Serve a registry under `/metrics` on a free port of the loopback, and give the URL."""
    application = web.Application()
    application.router.add_get("/metrics", metrics_handler(registry))
    runner = web.AppRunner(application, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        yield f"http://{host}:{port}/metrics"
    finally:
        await runner.cleanup()


def labels_of(name: str) -> Mapping[str, str]:
    """Return the labels of a series by name, for values without quotes or commas."""
    inner = name.partition("{")[2].rstrip("}")
    pairs = (pair.split("=", 1) for pair in inner.split(",") if pair)
    return {key: value.strip('"') for key, value in pairs}
