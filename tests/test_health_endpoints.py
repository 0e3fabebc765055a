"""The HTTP paths, asked by a real client: status, text, and what the observer is told."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import pytest

from health.addresses import parse_address
from health.checks import Check, CheckName
from health.endpoints import health_routes
from health.errors import Unhealthy
from health.http_server import Route, serving_http
from health.observer import Event, Handler, RequestAnswered
from health.overall import LIVENESSPROBE_ENDPOINTS, REGISTRAR_ENDPOINTS, Endpoint, Health, examining
from health.web import Request, Response

pytestmark = pytest.mark.timeout(20)

HOSTPATH, EBS = "hostpath.csi.k8s.io", "ebs.csi.aws.com"
NO_VERDICT = "kubelet has not asked for the driver since it was announced 30 s ago"


@dataclass
class Answer:
    """What a client sees of a response."""

    status: int
    text: str
    content_type: str
    headers: dict[str, str]


@dataclass
class Sidecar:
    """A health server whose checks fail for the reasons set here."""

    reasons: dict[tuple[str, str], str] = field(default_factory=dict)
    """By check and driver; what is not in here passes."""
    events: list[Event] = field(default_factory=list)
    health: Health | None = None
    client: aiohttp.ClientSession | None = None

    def notify(self, event: Event) -> None:
        """See `health.observer.Observer`."""
        self.events.append(event)

    def check(self, name: CheckName, driver: str) -> Check:
        """Make a check that looks its reason up."""

        async def ask() -> None:
            if reason := self.reasons.get((name, driver)):
                raise Unhealthy(reason)

        return Check(name=name, driver=lambda: driver, ask=ask)

    async def get(self, path: str, *, method: str = "GET", agent: str = "test") -> Answer:
        """Ask for a path."""
        assert self.client is not None
        async with self.client.request(method, path, headers={"User-Agent": agent}) as response:
            text = await response.text()
            return Answer(response.status, text, response.content_type, dict(response.headers))

    @property
    def requests(self) -> list[tuple[str, int]]:
        """What was answered, by handler and code."""
        return [(e.handler, e.code) for e in self.events if isinstance(e, RequestAnswered)]


@asynccontextmanager
async def sidecar(
    *drivers: str,
    endpoints: Sequence[Endpoint] = REGISTRAR_ENDPOINTS,
    names: Sequence[CheckName] = tuple(CheckName),
    routes: Sequence[Route] = (),
) -> AsyncIterator[Sidecar]:
    """Serve all checks of the drivers over HTTP."""
    served = Sidecar()
    checks = [served.check(name, driver) for driver in drivers or (HOSTPATH,) for name in names]
    async with (
        asyncio.TaskGroup() as tasks,
        examining(checks, endpoints, timeout_seconds=1.0, observer=served) as health,
        serving_http(
            parse_address("127.0.0.1:0"),
            [*health_routes(health), *routes],
            tasks=tasks,
            observer=served,
        ) as listener,
        aiohttp.ClientSession(listener.url) as client,
    ):
        served.health, served.client = health, client
        yield served


async def test_all_is_ok() -> None:
    """The shortest answer there is, as both Go programs and kube-apiserver give it."""
    async with sidecar() as served:
        for path in ("/healthz", "/livez", "/readyz", "/healthz/csi-probe", "/livez/csi-driver"):
            answer = await served.get(path)
            assert (answer.status, answer.text, answer.content_type) == (200, "ok", "text/plain")


# Each row: the check that fails, and the status of /healthz, /livez and /readyz then.
SITUATIONS = [
    ("registration-socket", 500, 200, 500),
    ("csi-driver", 500, 200, 500),
    ("csi-probe", 200, 200, 500),
    ("kubelet-registration", 200, 200, 500),
]


@pytest.mark.parametrize(("check", "healthz", "livez", "readyz"), SITUATIONS)
async def test_each_endpoint_is_red_for_its_own_checks_only(
    check: str, healthz: int, livez: int, readyz: int
) -> None:
    """R06, R60: kubelet restarts for `/healthz`, waits for `/readyz`, and `/livez` stays green."""
    async with sidecar() as served:
        served.reasons[check, HOSTPATH] = "gone"
        paths = ("/healthz", "/livez", "/readyz", f"/livez/{check}")
        statuses = [(await served.get(path)).status for path in paths]
    assert statuses == [healthz, livez, readyz, 500]


async def test_a_failing_answer_gives_the_reason_of_each_check_that_fails() -> None:
    """Plain text that a probe's event or a person with curl can do with."""
    async with sidecar() as served:
        served.reasons["csi-probe", HOSTPATH] = "the driver is not ready"
        served.reasons["kubelet-registration", HOSTPATH] = NO_VERDICT
        answer = await served.get("/readyz")
    assert answer == Answer(
        500,
        f"csi-probe: the driver is not ready\nkubelet-registration: {NO_VERDICT}\n",
        "text/plain",
        answer.headers,
    )
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_verbose_tells_every_check_as_kube_apiserver_does() -> None:
    """A line a check, then the verdict."""
    async with sidecar() as served:
        good = await served.get("/healthz?verbose")
        served.reasons["csi-driver", HOSTPATH] = "/csi/csi.sock: connection refused"
        bad = await served.get("/healthz?verbose=1")
        live = await served.get("/livez?verbose")
        single = await served.get("/readyz/csi-driver?verbose")
    assert good.text == "[+]registration-socket ok\n[+]csi-driver ok\nhealthz check passed\n"
    assert bad.text == (
        "[+]registration-socket ok\n"
        "[-]csi-driver failed: /csi/csi.sock: connection refused\n"
        "healthz check failed\n"
    )
    assert live.text == "livez check passed\n"
    assert single.text == (
        "[-]csi-driver failed: /csi/csi.sock: connection refused\ncsi-driver check failed\n"
    )
    assert [good.status, bad.status, live.status, single.status] == [200, 500, 200, 500]


async def test_excluded_checks_are_not_asked() -> None:
    """Any number of them; they are named in the verbose answer."""
    async with sidecar() as served:
        served.reasons["csi-probe", HOSTPATH] = "not ready"
        served.reasons["kubelet-registration", HOSTPATH] = NO_VERDICT
        query = "exclude=csi-probe&exclude=kubelet-registration"
        short = await served.get(f"/readyz?{query}")
        verbose = await served.get(f"/readyz?verbose&{query}")
        one = await served.get("/readyz?exclude=csi-probe")
    assert (short.status, short.text) == (200, "ok")
    assert verbose.text == (
        "[+]registration-socket ok\n"
        "[+]csi-driver ok\n"
        "[+]csi-probe excluded: ok\n"
        "[+]kubelet-registration excluded: ok\n"
        "readyz check passed\n"
    )
    assert (one.status, one.text) == (500, f"kubelet-registration: {NO_VERDICT}\n")


async def test_excluding_what_is_not_there_is_said_and_does_not_fail() -> None:
    """As kube-apiserver does; what the client wrote cannot forge a line."""
    async with sidecar() as served:
        short = await served.get("/healthz?exclude=etcd")
        verbose = await served.get("/healthz?verbose&exclude=etcd&exclude=a%0A[-]b&exclude=etcd")
    assert (short.status, short.text) == (200, "ok")
    assert verbose.text.splitlines()[2:] == [
        'warn: some health checks cannot be excluded: no matches for "etcd", "a\\n[-]b"',
        "healthz check passed",
    ]


async def test_several_drivers_are_healthy_together_and_named() -> None:
    """R69: one process, several drivers; the answer says which one is down."""
    async with sidecar(HOSTPATH, EBS) as served:
        served.reasons["csi-driver", EBS] = "no answer within 1 s"
        short = await served.get("/healthz")
        verbose = await served.get("/healthz?verbose")
        one = await served.get("/healthz/csi-driver")
    assert (short.status, short.text) == (500, f"csi-driver of {EBS}: no answer within 1 s\n")
    assert one.text == short.text
    assert verbose.text == (
        f"[+]registration-socket ok ({HOSTPATH})\n"
        f"[+]csi-driver ok ({HOSTPATH})\n"
        f"[+]registration-socket ok ({EBS})\n"
        f"[-]csi-driver failed: {EBS}: no answer within 1 s\n"
        "healthz check failed\n"
    )


async def test_one_of_several_drivers_can_be_asked_about() -> None:
    """Each driver container's own livenessProbe, untouched by the neighbour."""
    async with sidecar(HOSTPATH, EBS) as served:
        served.reasons["csi-probe", EBS] = "not ready"
        answers = [
            await served.get(f"/{path}?driver={driver}")
            for path in ("healthz/csi-probe", "readyz")
            for driver in (HOSTPATH, EBS)
        ]
        unknown = await served.get("/healthz/csi-probe?driver=nobody")
    assert [one.status for one in answers] == [200, 500, 200, 500]
    assert unknown.status == 500
    assert unknown.text == (
        f"driver: 'nobody' is not served here, or not yet; there are: {HOSTPATH}, {EBS}\n"
    )


async def test_readiness_turns_red_first_when_the_process_stops() -> None:
    """The others stay as they are: kubelet must not restart what is leaving by itself."""
    async with sidecar() as served:
        assert served.health is not None
        served.health.stopping()
        answers = [await served.get(path) for path in ("/readyz", "/healthz", "/livez")]
        verbose = await served.get("/readyz?verbose")
    assert [one.status for one in answers] == [500, 200, 200]
    assert answers[0].text == "shutdown: the process is stopping\n"
    assert verbose.text.splitlines()[-2:] == [
        "[-]shutdown failed: the process is stopping",
        "readyz check failed",
    ]


async def test_the_livenessprobe_role_is_about_the_probe_alone() -> None:
    """R58: no registration there, so its checks do not exist."""
    async with sidecar(endpoints=LIVENESSPROBE_ENDPOINTS, names=[CheckName.CSI_PROBE]) as served:
        good = await served.get("/healthz")
        served.reasons["csi-probe", HOSTPATH] = "not ready"
        bad = await served.get("/healthz")
        absent = await served.get("/healthz/kubelet-registration")
    assert (good.status, bad.status, bad.text) == (200, 500, "csi-probe: not ready\n")
    assert (absent.status, absent.text) == (404, "no such check; there are: csi-probe\n")


async def test_head_answers_as_get_does_but_for_the_body() -> None:
    """Load balancers and some monitors send it."""
    async with sidecar() as served:
        served.reasons["csi-probe", HOSTPATH] = "not ready"
        good = await served.get("/healthz", method="HEAD")
        bad = await served.get("/readyz", method="HEAD")
    assert (good.status, good.text, good.headers["Content-Length"]) == (200, "", "2")
    assert (bad.status, bad.text) == (500, "")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/healthz/", 404),
        ("GET", "/healthz/etcd", 404),
        ("GET", "/healthz/csi-probe/more", 404),
        ("GET", "/Healthz", 404),
        ("GET", "/debug/pprof/", 404),
        ("POST", "/healthz", 405),
        ("DELETE", "/readyz/csi-probe", 405),
        ("PUT", "/livez", 405),
    ],
)
async def test_unknown_paths_and_methods_are_refused(method: str, path: str, status: int) -> None:
    """R19, R48: nothing is there that was not asked for."""
    async with sidecar() as served:
        assert (await served.get(path, method=method)).status == status


async def metrics(_request: Request) -> Response:
    """Stand in for the exposition."""
    return Response(text="up 1\n")


async def broken(_request: Request) -> Response:
    """Fail as no handler should."""
    raise RuntimeError("a bug")


async def test_the_caller_adds_pages_of_its_own() -> None:
    """R69: metrics on the same port."""
    async with sidecar(routes=[Route("/metrics", metrics, Handler.METRICS)]) as served:
        assert (await served.get("/metrics")).text == "up 1\n"


async def test_every_request_is_told_with_a_handler_of_a_closed_set() -> None:
    """A stranger's paths make no new series."""
    routes = [
        Route("/metrics", metrics, Handler.METRICS),
        Route("/", metrics, Handler.ROOT),
    ]
    async with sidecar(routes=routes) as served:
        served.reasons["csi-probe", HOSTPATH] = "not ready"
        paths = ("/", "/metrics", "/healthz", "/livez/csi-driver", "/readyz", "/a/b?c", "/metricsx")
        for path in paths:
            await served.get(path)
        await served.get("/healthz", method="POST")
        assert served.requests == [
            ("root", 200),
            ("metrics", 200),
            ("healthz", 200),
            ("livez", 200),
            ("readyz", 500),
            ("other", 404),
            ("other", 404),
            ("healthz", 405),
        ]


async def test_the_observer_is_told_who_probes() -> None:
    """`kube-probe` means that kubelet lives, even if it never calls the registration socket."""
    async with sidecar() as served:
        await served.get("/healthz", agent="kube-probe/1.34")
        told = RequestAnswered(handler=Handler.HEALTHZ, code=200, user_agent="kube-probe/1.34")
        assert served.events[-1:] == [told]


async def test_a_thousand_healthy_probes_leave_no_trace(caplog: pytest.LogCaptureFixture) -> None:
    """R64: no log line, no event but the requests themselves."""
    caplog.set_level(logging.DEBUG)
    async with sidecar() as served:
        caplog.clear()
        served.events.clear()
        for _ in range(1_000):
            assert (await served.get("/readyz")).status == 200
        assert served.requests == [("readyz", 200)] * 1_000
        assert len(served.events) == 1_000
        assert not caplog.records


async def test_a_page_that_breaks_is_our_own_fault_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Unlike what strangers send, a bug of ours leaves a trace, and the server lives on."""
    async with sidecar(routes=[Route("/metrics", broken, Handler.METRICS)]) as served:
        assert (await served.get("/metrics")).status == 500
        assert (await served.get("/healthz")).status == 200
        assert served.requests == [("metrics", 500), ("healthz", 200)]
    assert "a bug" in caplog.text
