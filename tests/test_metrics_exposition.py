"""What a scraper is given: the text, the format and encoding it asked for, and never an error."""

import asyncio
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from measuring import (
    CSI_ADDRESS,
    DRIVER_NAME,
    GET_PLUGIN_INFO,
    PROBE,
    MeasuringObserver,
    called,
    exposition,
    identified,
    notify_all,
    openmetrics_families,
    parsed,
    serving_metrics,
)
from prometheus_client import Counter, Gauge, Info, Summary
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

import metrics.exposition
from metrics.families import BuildInfo
from metrics.negotiation import accepts_gzip, openmetrics_version
from metrics.registry import TolerantRegistry, register_process_metrics
from metrics.text_formats import openmetrics_format, prometheus_format
from registrar.observer import (
    Announced,
    AnnouncementReason,
    CsiSocketSeen,
    DriverAnswered,
    DriverFailed,
    DriverForgotten,
    DriverRestarted,
    Event,
    GetInfoReceived,
    ProbeFinished,
    ProbeResult,
    RegistrationSocketSeen,
    State,
    StateChanged,
    VerdictReceived,
)

DATA = Path(__file__).with_name("data")
TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

PROMETHEUS_2_42 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)
PROMETHEUS_3_TEXT_FIRST = "text/plain;version=0.0.4;q=0.5,application/openmetrics-text;q=0.4"


@pytest.fixture
def measured() -> MeasuringObserver:
    """Give metrics that no event has reached yet."""
    return MeasuringObserver()


def eventful_day() -> Iterator[Event]:
    """Yield the life of two drivers: accepted, refused, restarted, hung; and a third, renamed."""
    csi = {"csi_address": CSI_ADDRESS, "driver_name": DRIVER_NAME}
    path = f"/registration/{DRIVER_NAME}-reg.sock"

    def state(old: State, new: State) -> StateChanged:
        return StateChanged(**csi, old=old, new=new, registration_socket_path=path)

    def announced(reason: AnnouncementReason) -> Announced:
        return Announced(**csi, reason=reason, registration_socket_path=path)

    yield from identified()
    yield announced(AnnouncementReason.START)
    yield state(State.WAITING, State.ANNOUNCED)
    yield RegistrationSocketSeen(**csi, is_present=True)
    yield GetInfoReceived(**csi)
    yield VerdictReceived(**csi, is_accepted=False, error="no", seconds_since_announcement=0.5)
    yield state(State.ANNOUNCED, State.REJECTED)
    yield announced(AnnouncementReason.REJECTED)
    yield state(State.REJECTED, State.ANNOUNCED)
    yield GetInfoReceived(**csi)
    yield VerdictReceived(**csi, is_accepted=True, error="", seconds_since_announcement=0.25)
    yield state(State.ANNOUNCED, State.REGISTERED)
    yield DriverRestarted(**csi, has_changed_answer=True)
    yield called(GET_PLUGIN_INFO, seconds=0.0025)
    yield DriverAnswered(**csi, vendor_version="1.0.1")
    yield called(PROBE, "DeadlineExceeded", 1.0005)
    yield ProbeFinished(**csi, result=ProbeResult.TIMEOUT)

    yield from identified("y.csi.example.com", "/y/csi.sock")
    yield CsiSocketSeen(
        csi_address="/y/csi.sock", driver_name="y.csi.example.com", is_present=False
    )
    yield DriverFailed(csi_address="/y/csi.sock", driver_name="y.csi.example.com", problem="gone")

    yield from identified("old.csi.example.com", "/z/csi.sock")
    yield DriverForgotten(csi_address="/z/csi.sock", driver_name="old.csi.example.com")


def after_an_eventful_day(measured: MeasuringObserver) -> TolerantRegistry:
    """Return the registry, without what is different in each process."""
    build = BuildInfo(version="0.1.0", revision="2c26b46b68ff", python_version="3.11.7")
    measured.registry.register(build)
    notify_all(measured, eventful_day())
    for handler, code in (("healthz", 200), ("healthz", 500), ("metrics", 200), ("other", 404)):
        measured.metrics.count_http_request(handler, code)
    return measured.registry


@pytest.mark.parametrize(
    ("accept", "golden"),
    [("", "metrics-exposition.txt"), (PROMETHEUS_2_42, "metrics-exposition-openmetrics.txt")],
)
async def test_the_whole_exposition_of_an_eventful_day(
    measured: MeasuringObserver, accept: str, golden: str
) -> None:
    async with (
        serving_metrics(after_an_eventful_day(measured)) as url,
        aiohttp.ClientSession() as session,
        session.get(url, headers={"Accept": accept}) as answer,
    ):
        assert await answer.text() == (DATA / golden).read_text()


def test_both_formats_parse_as_what_was_collected() -> None:
    """prometheus_client's parsers; those of Prometheus itself have tests of their own."""
    measured = MeasuringObserver()
    collected = {family.name: family for family in after_an_eventful_day(measured).collect()}
    openmetrics = openmetrics_families((DATA / "metrics-exposition-openmetrics.txt").read_text())
    assert {family.name: family for family in openmetrics} == collected
    text = (DATA / "metrics-exposition.txt").read_text()
    families = list(text_string_to_metric_families(text))
    assert {family.name: family.documentation for family in families} == {
        name: family.documentation for name, family in collected.items()
    }
    assert {family.name: values(family) for family in families} == {
        name: values(family) for name, family in collected.items()
    }


def values(family: Metric) -> list[tuple[str, dict[str, object], float]]:
    """Return the samples of a family, bounds of buckets as numbers."""
    return [
        (
            sample.name,
            {k: float(v) if k == "le" else v for k, v in sample.labels.items()},
            sample.value,
        )
        for sample in family.samples
    ]


async def test_what_cannot_stand_in_a_line_as_it_is_comes_back_as_it_was(
    measured: MeasuringObserver,
) -> None:
    version = 'a "quoted" back\\nothing new\nand a line, \u00e9'
    notify_all(measured, identified())
    measured.notify(
        DriverAnswered(csi_address=CSI_ADDRESS, driver_name=DRIVER_NAME, vendor_version=version)
    )
    odd = Metric("odd", 'a "help" back\\nothing new\nand a line', "gauge")
    odd.add_sample("odd", {}, 1.0)

    class Odd:
        def collect(self) -> list[Metric]:
            return [odd]

    measured.registry.register(Odd())
    async with serving_metrics(measured.registry) as url, aiohttp.ClientSession() as session:
        async with session.get(url, headers={"Accept": PROMETHEUS_2_42}) as answer:
            openmetrics = {f.name: f for f in openmetrics_families(await answer.text())}
        async with session.get(url) as answer:
            text = {f.name: f for f in text_string_to_metric_families(await answer.text())}
    for families in (openmetrics, text):
        info = families["csi_node_registrar_driver_info"]
        assert info.samples[0].labels["driver_version"] == version
        assert families["odd"].documentation == odd.documentation


ACCEPTS = [
    (None, TEXT),
    ("", TEXT),
    ("*/*", TEXT),
    ("text/plain", TEXT),
    ("text/html,application/xhtml+xml,*/*;q=0.8", TEXT),
    ("image/png", TEXT),
    ("application/*", TEXT),
    (PROMETHEUS_2_42, OPENMETRICS),
    (PROMETHEUS_3, OPENMETRICS),
    (PROMETHEUS_3_TEXT_FIRST, TEXT),
    ("application/openmetrics-text", OPENMETRICS),
    ("Application/OpenMetrics-Text ; Version=1.0.0", OPENMETRICS),
    ('application/openmetrics-text; version="1.0.0"; charset=utf-8', OPENMETRICS),
    ("application/openmetrics-text;version=0.0.1", OPENMETRICS.replace("1.0.0", "0.0.1")),
    ("application/openmetrics-text;version=2.0.0", TEXT),
    ("application/openmetrics-text;version=2.0.0,application/openmetrics-text;q=0.9", OPENMETRICS),
    ("application/openmetrics-text;q=0", TEXT),
    ("application/openmetrics-text;q=0.5,text/plain;q=0.5", OPENMETRICS),
    ("text/plain;q=0.5,application/openmetrics-text;q=0.5", TEXT),
    ("text/plain;q=0.4,application/openmetrics-text;q=0.5", OPENMETRICS),
    ("application/openmetrics-text;q=0.4,*/*;q=0.5", TEXT),
    ("application/openmetrics-text,*/*", OPENMETRICS),
    ("text/plain;q=0,application/openmetrics-text;q=0.001", OPENMETRICS),
    ("application/openmetrics-text;q=high", TEXT),
    ("application/openmetrics-text;q=nan", TEXT),
    ("application/openmetrics-text;q=2", TEXT),
    ("application/openmetrics-text;q=1.001", TEXT),
    ("application/openmetrics-text;q=1.000", OPENMETRICS),
    ("application/openmetrics-text;q=0.0005", TEXT),
    ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily", TEXT),
    (",;q=,;;=,", TEXT),
]


@pytest.mark.parametrize(("accept", "content_type"), ACCEPTS)
async def test_the_format_is_the_one_asked_for(
    measured: MeasuringObserver, accept: str | None, content_type: str
) -> None:
    headers = {} if accept is None else {"Accept": accept}
    async with (
        serving_metrics(measured.registry) as url,
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers) as answer,
    ):
        assert answer.status == 200
        assert answer.headers["Content-Type"] == content_type
        assert answer.headers["Vary"] == "Accept, Accept-Encoding"
        assert (await answer.text()).endswith("# EOF\n") == (content_type != TEXT)


def test_a_header_may_come_in_several_lines() -> None:
    """As a proxy may split it: HTTP makes of them one list."""
    assert openmetrics_version("text/html,application/openmetrics-text") == "1.0.0"


ENCODINGS = [
    ("", False),
    ("gzip", True),
    ("GZIP", True),
    ("x-gzip", True),
    ("deflate, gzip;q=1.0, *;q=0.5", True),
    ("br, deflate", False),
    ("*", True),
    ("*;q=0", False),
    ("gzip;q=0", False),
    ("gzip;q=0, *", False),
    ("gzip;q=0.001", True),
    ("identity", False),
    ("gzip;q=x", False),
]


@pytest.mark.parametrize(("accept_encoding", "is_compressed"), ENCODINGS)
async def test_the_answer_is_compressed_for_whom_that_suits(
    measured: MeasuringObserver, accept_encoding: str, *, is_compressed: bool
) -> None:
    notify_all(measured, identified())
    async with (
        serving_metrics(measured.registry) as url,
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.get(url, headers={"Accept-Encoding": accept_encoding}) as answer,
    ):
        body = await answer.read()
        assert answer.headers.get("Content-Encoding") == ("gzip" if is_compressed else None)
        assert int(answer.headers["Content-Length"]) == len(body)
        text = zlib.decompress(body, 31) if is_compressed else body
        assert parsed(text.decode()) == measured.series()
        assert accepts_gzip(accept_encoding) == is_compressed


@pytest.mark.parametrize("accept", ["", PROMETHEUS_2_42])
@pytest.mark.parametrize("accept_encoding", ["identity", "gzip"])
async def test_head_has_the_headers_of_get_and_no_body(
    measured: MeasuringObserver, accept: str, accept_encoding: str
) -> None:
    notify_all(measured, identified())
    headers = {"Accept": accept, "Accept-Encoding": accept_encoding}
    async with (
        serving_metrics(measured.registry) as url,
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.get(url, headers=headers) as got,
        session.head(url, headers=headers) as headed,
    ):
        assert await headed.read() == b""
        same = [name for name in got.headers if name != "Date"]
        assert {name: headed.headers[name] for name in same} == {
            name: got.headers[name] for name in same
        }


class Failing:
    """A collector that gives one family and then fails, or works if told so."""

    def __init__(self) -> None:
        self.error: Exception | None = RuntimeError("no /proc here")

    def collect(self) -> Iterator[Metric]:
        """Yield one family, then fail."""
        yield Metric("half_of_it", "Half of what was to come.", "gauge")
        if self.error is not None:
            raise self.error


async def test_a_collector_that_fails_takes_no_other_with_it(measured: MeasuringObserver) -> None:
    failing = Failing()
    registry = TolerantRegistry()
    registry.register(failing)
    registry.register(measured.metrics)
    notify_all(measured, identified())
    async with (
        serving_metrics(registry) as url,
        aiohttp.ClientSession() as session,
        session.get(url) as answer,
    ):
        assert answer.status == 200
        text = await answer.text()
        assert parsed(text) == measured.series()
        assert "half_of_it" not in text


def test_a_failing_collector_is_told_of_once_until_it_changes() -> None:
    told: list[str] = []
    registry = TolerantRegistry(told.append)
    failing = Failing()
    registry.register(failing)
    for error in (
        failing.error,
        failing.error,
        OSError(5, "x"),
        OSError(5, "x"),
        None,
        OSError(5, "x"),
    ):
        failing.error = error
        list(registry.collect())
    other = "Failing failed: OSError(5, 'x')"
    assert told == ["Failing failed: RuntimeError('no /proc here')", other, other]


def test_a_registry_that_was_told_nothing_about_failures_keeps_quiet() -> None:
    registry = TolerantRegistry()
    registry.register(Failing())
    assert list(registry.collect()) == []


def test_a_collector_that_is_unregistered_is_not_asked_any_more() -> None:
    registry = TolerantRegistry()
    gauge = Gauge("once", "Once.", registry=registry)
    registry.unregister(gauge)
    assert list(registry.collect()) == []
    with pytest.raises(KeyError):
        registry.unregister(gauge)
    assert len(list(Gauge("once", "Once more.", registry=registry).collect())) == 1


def test_a_name_that_is_taken_is_refused() -> None:
    registry = TolerantRegistry()
    Gauge("once", "Once.", registry=registry)
    with pytest.raises(ValueError, match="Duplicated"):
        Gauge("once", "Twice.", registry=registry)
    assert len(list(registry.collect())) == 1


def test_what_a_caller_registers_beside_is_shown_without_created_series() -> None:
    registry = CollectorRegistry()
    Counter("some_calls", "Calls.", registry=registry).inc(3)
    Summary("some_seconds", "Seconds.", ["kind"], registry=registry).labels("a").observe(2)
    Info("some", "About it.", registry=registry).info({"version": "1"})
    assert exposition(registry) == (
        "# HELP some_calls_total Calls.\n"
        "# TYPE some_calls_total counter\n"
        "some_calls_total 3\n"
        "# HELP some_seconds Seconds.\n"
        "# TYPE some_seconds summary\n"
        'some_seconds_count{kind="a"} 1\n'
        'some_seconds_sum{kind="a"} 2\n'
        "# HELP some_info About it.\n"
        "# TYPE some_info gauge\n"
        'some_info{version="1"} 1\n'
    )


async def test_others_have_their_turn_while_many_drivers_are_written(
    measured: MeasuringObserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what happens meanwhile does not tear the exposition: it is of one moment."""
    monkeypatch.setattr(metrics.exposition, "_SLICE_SECONDS", -1.0)
    for number in range(10):
        notify_all(measured, identified(f"x{number}.csi.example.com", f"/{number}/csi.sock"))
    before = measured.series()
    turns = 0

    async def rename_again_and_again() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            notify_all(measured, identified(f"renamed-{turns}.csi.example.com", "/0/csi.sock"))
            turns += 1

    renaming = asyncio.create_task(rename_again_and_again(), name="renaming")
    text = await metrics.exposition._exposition(measured.registry, prometheus_format())
    renaming.cancel()
    assert turns >= len({line for line in text.splitlines() if line.startswith("# TYPE")}) - 1
    assert parsed(text) == before


async def test_scrapes_at_the_same_time_get_the_same(measured: MeasuringObserver) -> None:
    notify_all(measured, identified())
    async with serving_metrics(measured.registry) as url, aiohttp.ClientSession() as session:

        async def scrape() -> str:
            async with session.get(url) as answer:
                return await answer.text()

        texts = await asyncio.gather(*(scrape() for _ in range(50)))
    assert len(set(texts)) == 1


LIGHT = """
import importlib.util, sys, types
package = types.ModuleType("prometheus_client")
package.__path__ = importlib.util.find_spec("prometheus_client").submodule_search_locations
sys.modules["prometheus_client"] = package
import metrics.exposition, metrics.observer, metrics.registry
print(*sorted(name for name in sys.modules if name.startswith(("prometheus_client.", "http.s"))))
"""


async def test_little_of_prometheus_client_is_needed() -> None:
    """Its exposition module alone costs 3 MB, for the http.server that nobody wants."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LIGHT, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    needed = "metrics_core platform_collector process_collector registry samples validation"
    allowed = {f"prometheus_client.{name}" for name in needed.split()}
    assert set(output.decode().split()) <= allowed


def test_everything_together_is_valid_openmetrics(measured: MeasuringObserver) -> None:
    registry = after_an_eventful_day(measured)
    register_process_metrics(registry)
    text_format = openmetrics_format("1.0.0")
    text = "".join(map(text_format.write, registry.collect())) + text_format.end
    names = {family.name for family in openmetrics_families(text)}
    assert {"process_cpu_seconds", "python_info", "csi_node_registrar_registrations"} < names
