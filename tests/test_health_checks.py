"""What checks come to: bounded, shared by all who ask, and told in words for the operator."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from health.checks import Check, CheckName, Outcome
from health.errors import Unhealthy
from health.observer import CheckChanged, Event
from health.overall import Endpoint, Health, examining

pytestmark = pytest.mark.timeout(20)

HOSTPATH = "hostpath.csi.k8s.io"
PROBED = Endpoint(name="healthz", checks=(CheckName.CSI_PROBE,))


class RecordingObserver:
    """Keeps every event."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def notify(self, event: Event) -> None:
        """See `health.observer.Observer`."""
        self.events.append(event)


class Question:
    """A check's callable: answers what it is told to, when it is told to."""

    def __init__(self, finding: BaseException | None = None) -> None:
        self.finding = finding
        self.calls = 0
        self.cancellations = 0
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self) -> None:
        """Be asked."""
        self.calls += 1
        self.asked.set()
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.cancellations += 1
            raise
        if self.finding is not None:
            raise self.finding


class StubbornQuestion(Question):
    """Heeds no cancellation, until it may answer."""

    async def __call__(self) -> None:
        """Be asked."""
        while True:
            try:
                return await super().__call__()
            except asyncio.CancelledError:
                self.calls -= 1


def check(
    ask: Callable[[], Awaitable[None]],
    name: CheckName = CheckName.CSI_PROBE,
    driver: str = HOSTPATH,
) -> Check:
    """Make a check of a driver."""
    return Check(name=name, driver=lambda: driver, ask=ask)


@asynccontextmanager
async def probed(
    *questions: Callable[[], Awaitable[None]],
    timeout_seconds: float = 10.0,
    observer: RecordingObserver | None = None,
) -> AsyncIterator[Health]:
    """Serve the question as the check `csi-probe`; of several, each belongs to its own driver."""
    drivers = [HOSTPATH, "ebs.csi.aws.com"]
    checks = [check(ask, driver=name) for ask, name in zip(questions, drivers, strict=False)]
    async with examining(
        checks,
        [PROBED],
        timeout_seconds=timeout_seconds,
        observer=observer or RecordingObserver(),
    ) as health:
        yield health


async def outcome(health: Health) -> Outcome:
    """Ask the first driver's check."""
    return (await health.report(PROBED)).outcomes[0]


async def outcomes_of(asks: Sequence[asyncio.Task[Outcome]]) -> set[Outcome]:
    """Wait for all who ask, and fold equal outcomes."""
    return set(await asyncio.gather(*asks))


def asking(health: Health, count: int) -> list[asyncio.Task[Outcome]]:
    """Ask many times at once."""
    return [asyncio.create_task(outcome(health), name=f"asker {n}") for n in range(count)]


HEALTHY = Outcome(check="csi-probe", driver=HOSTPATH)


def failing(reason: str) -> Outcome:
    """Make the outcome of the check when it fails."""
    return Outcome(check="csi-probe", driver=HOSTPATH, reason=reason)


async def test_a_check_that_returns_is_healthy() -> None:
    """Nothing raised means that all is well."""
    async with probed(Question()) as health:
        assert await outcome(health) == HEALTHY


async def test_the_reason_is_what_the_check_says() -> None:
    """`Unhealthy` carries the words for the operator."""
    async with probed(Question(Unhealthy("/csi/csi.sock: no such file"))) as health:
        assert await outcome(health) == failing("/csi/csi.sock: no such file")


async def test_any_other_exception_is_unhealthy_and_named() -> None:
    """A check that breaks down is not a healthy driver."""
    async with probed(Question(KeyError("name"))) as health:
        assert await outcome(health) == failing("KeyError: 'name'")


async def test_a_reason_is_one_line_of_bounded_length() -> None:
    """A text of kubelet or of a driver can neither forge a verdict nor fill the answer."""
    text = "broken\n[+]csi-driver ok\r\n" + "x" * 5_000
    async with probed(Question(Unhealthy(text))) as health:
        reason = (await outcome(health)).reason
    assert reason is not None
    assert reason.startswith("broken [+]csi-driver ok xxx")
    assert len(reason) == 1024


async def test_a_finding_without_words_is_still_a_finding() -> None:
    """An empty reason is not taken for health."""
    async with probed(Question(Unhealthy())) as health:
        assert await outcome(health) == failing("no reason given")


async def test_fifty_who_ask_at_once_make_one_call() -> None:
    """R08: a slow driver is not buried under probes."""
    question = Question(Unhealthy("not ready"))
    question.may_answer.clear()
    async with probed(question) as health:
        asks = asking(health, 50)
        await question.asked.wait()
        question.may_answer.set()
        assert await outcomes_of(asks) == {failing("not ready")}
    assert question.calls == 1


async def test_one_who_stops_waiting_leaves_the_call_to_the_others() -> None:
    """A client that times out must not turn another one's answer red."""
    question = Question()
    question.may_answer.clear()
    async with probed(question) as health:
        first, second = asking(health, 2)
        await question.asked.wait()
        first.cancel()
        await asyncio.wait({first})
        question.may_answer.set()
        assert await second == HEALTHY
    assert first.cancelled()
    assert (question.calls, question.cancellations) == (1, 0)


async def test_whoever_asks_after_the_call_has_ended_starts_a_new_one() -> None:
    """Nothing is kept: an answer is never older than the question."""
    question = Question()
    async with probed(question) as health:
        assert await outcome(health) == HEALTHY
        question.finding = Unhealthy("gone")
        assert await outcome(health) == failing("gone")
    assert question.calls == 2


async def test_a_call_that_never_returns_is_answered_for_and_cancelled_at_its_deadline() -> None:
    """R20, R62: a driver that accepts and never speaks costs the probe timeout and no more."""
    question = Question()
    question.may_answer.clear()
    async with probed(question, timeout_seconds=0.05) as health:
        assert await outcome(health) == failing("no answer within 0.05 s")
        question.may_answer.set()
        assert await outcome(health) == HEALTHY
    assert (question.calls, question.cancellations) == (2, 1)


async def test_whoever_joins_late_waits_no_longer_than_the_first() -> None:
    """The deadline is the call's, so no one waits for more than the probe timeout."""
    question = Question()
    question.may_answer.clear()
    async with probed(question, timeout_seconds=0.2) as health:
        (first,) = asking(health, 1)
        await question.asked.wait()
        await asyncio.wait({first}, timeout=0.1)
        second = asyncio.create_task(outcome(health), name="late asker")
        await first
        done, _ = await asyncio.wait({second}, timeout=0.1)
    assert done == {second}
    assert question.calls == 1


async def test_a_call_that_heeds_no_cancellation_is_answered_for_and_never_doubled() -> None:
    """Whatever hangs: an answer comes in time, and hanging calls do not pile up."""
    question = StubbornQuestion()
    question.may_answer.clear()
    async with probed(question, timeout_seconds=0.05) as health:
        assert await outcome(health) == failing("no answer within 0.05 s")
        assert await outcome(health) == failing("no answer within 0.05 s")
        assert question.calls == 1
        question.may_answer.set()
        await asyncio.sleep(0)
        assert await outcome(health) == HEALTHY


async def test_a_call_that_heeds_no_cancellation_does_not_keep_the_process_from_stopping() -> None:
    """It is left behind after a moment."""
    question = StubbornQuestion()
    question.may_answer.clear()
    async with probed(question) as health:
        (ask,) = asking(health, 1)
        await question.asked.wait()
    assert not ask.done()
    question.may_answer.set()
    assert await ask == HEALTHY


async def test_a_check_that_times_out_by_itself_is_not_taken_for_overdue() -> None:
    """The words say whose time it was."""
    async with probed(Question(TimeoutError("dial"))) as health:
        assert await outcome(health) == failing("TimeoutError: dial")


async def test_a_check_that_is_cancelled_from_within_does_not_cancel_who_asks() -> None:
    """A callable that awaits something cancelled is unhealthy, not a cancelled request."""
    async with probed(Question(asyncio.CancelledError())) as health:
        assert await outcome(health) == failing("the check was cancelled")


async def test_what_is_under_way_at_the_end_is_cancelled_and_seen_off() -> None:
    """No call outlives the block."""
    question = Question()
    question.may_answer.clear()
    async with probed(question) as health:
        (ask,) = asking(health, 1)
        await question.asked.wait()
    assert question.cancellations == 1
    assert await ask == failing("the check was cancelled")


async def test_the_checks_of_one_request_run_at_the_same_time() -> None:
    """Two hanging drivers cost one timeout, not two: each waits here until the other is asked."""
    both = asyncio.Barrier(2)

    async def meet() -> None:
        await both.wait()

    async with probed(meet, meet) as health:
        report = await health.report(PROBED)
    assert [one.driver for one in report.outcomes] == [HOSTPATH, "ebs.csi.aws.com"]
    assert report.is_healthy


async def test_one_request_makes_one_call_a_check_however_long_the_others_take() -> None:
    """An outcome that was there early is not asked for again while a slower one is waited for."""
    slow, fast = Question(), Question()
    slow.may_answer.clear()
    async with probed(slow, fast) as health:
        (ask,) = asking(health, 1)
        await slow.asked.wait()
        await fast.asked.wait()
        slow.may_answer.set()
        await ask
    assert (slow.calls, fast.calls) == (1, 1)


async def test_only_a_change_is_told_to_the_observer() -> None:
    """R64: neither the probes that pass nor the repeats of a failure are news."""
    observer, question = RecordingObserver(), Question()
    async with probed(question, observer=observer) as health:
        for finding in (None, None, Unhealthy("a"), Unhealthy("b"), None, None):
            question.finding = finding
            await outcome(health)
    told = {"check": "csi-probe", "driver": HOSTPATH}
    assert observer.events == [
        CheckChanged(**told, reason="a"),
        CheckChanged(**told, reason=None),
    ]


async def test_a_hanging_check_is_told_to_the_observer_once() -> None:
    """Also where the call heeds nothing and so never reports itself."""
    observer, question = RecordingObserver(), StubbornQuestion()
    question.may_answer.clear()
    async with probed(question, timeout_seconds=0.02, observer=observer) as health:
        for _ in range(3):
            await outcome(health)
        question.may_answer.set()
    reason = "no answer within 0.02 s"
    assert observer.events[0] == CheckChanged(check="csi-probe", driver=HOSTPATH, reason=reason)
    assert [event for event in observer.events if event == observer.events[0]] == [
        observer.events[0]
    ]


async def test_a_report_can_be_narrowed_down_to_one_driver() -> None:
    """One of two drivers is down: its neighbour's own probe stays green."""
    async with probed(Question(), Question(Unhealthy("down"))) as health:
        everyone = await health.report(PROBED)
        one = await health.report(PROBED, driver=HOSTPATH)
        other = await health.check_report(CheckName.CSI_PROBE, driver="ebs.csi.aws.com")
    assert not everyone.is_healthy
    assert one.outcomes == (HEALTHY,)
    assert other.outcomes == (Outcome(check="csi-probe", driver="ebs.csi.aws.com", reason="down"),)


async def test_an_unknown_driver_is_unhealthy_and_the_known_ones_are_named() -> None:
    """A mistyped name, or a driver that has not told its name yet, is not green."""
    async with probed(Question()) as health:
        report = await health.report(PROBED, driver="typo\n")
    assert report.outcomes == (
        Outcome(
            check="driver",
            driver="",
            reason=f"'typo\\n' is not served here, or not yet; there are: {HOSTPATH}",
        ),
    )


async def test_a_driver_goes_by_the_name_it_has_now() -> None:
    """Until the driver has told its name it is called by its `--csi-address`."""
    name = "/csi/csi.sock"
    one = Check(name=CheckName.CSI_PROBE, driver=lambda: name, ask=Question())
    async with examining(
        [one], [PROBED], timeout_seconds=1.0, observer=RecordingObserver()
    ) as health:
        assert (await outcome(health)).driver == "/csi/csi.sock"
        name = HOSTPATH
        assert (await outcome(health)).driver == HOSTPATH


async def test_an_endpoint_of_a_check_that_nobody_has_is_refused() -> None:
    """It could never fail."""
    wrong = Endpoint(name="healthz", checks=(CheckName.CSI_DRIVER,))
    with pytest.raises(ValueError, match="no check is called csi-driver"):
        async with examining(
            [check(Question())], [wrong], timeout_seconds=1.0, observer=RecordingObserver()
        ):
            pass
