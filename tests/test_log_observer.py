"""The log lines about registrations: each transition once, routine never, repeats never (R64)."""

import io

import pytest

from csi_node_driver_registrar.klog import LogConfig, logging_to
from csi_node_driver_registrar.log_observer import LogObserver
from registrar.observer import (
    Announced,
    AnnouncementReason,
    CallFinished,
    CsiSocketSeen,
    DriverAnswered,
    DriverFailed,
    DriverForgotten,
    DriverIdentified,
    DriverRestarted,
    Event,
    GetInfoReceived,
    KubeletSilent,
    ProbeFinished,
    ProbeResult,
    RegistrationBlocked,
    RegistrationSocketSeen,
    State,
    StateChanged,
    VerdictReceived,
)

ADDRESS = "/csi/csi.sock"
NAME = "x.io"
PATH = "/registration/x.io-reg.sock"


def failed(problem: str) -> DriverFailed:
    return DriverFailed(csi_address=ADDRESS, driver_name=None, problem=problem)


def answered() -> DriverAnswered:
    return DriverAnswered(csi_address=ADDRESS, driver_name=NAME, vendor_version="1")


def probed(result: ProbeResult) -> ProbeFinished:
    return ProbeFinished(csi_address=ADDRESS, driver_name=NAME, result=result)


def changed(old: State, new: State) -> StateChanged:
    return StateChanged(
        csi_address=ADDRESS, driver_name=NAME, old=old, new=new, registration_socket_path=PATH
    )


def refused(error: str) -> VerdictReceived:
    return VerdictReceived(
        csi_address=ADDRESS,
        driver_name=NAME,
        is_accepted=False,
        error=error,
        seconds_since_announcement=1.0,
    )


def accepted() -> VerdictReceived:
    return VerdictReceived(
        csi_address=ADDRESS,
        driver_name=NAME,
        is_accepted=True,
        error="",
        seconds_since_announcement=1.0,
    )


def lines(*events: Event, verbosity: int = 0) -> list[str]:
    stream = io.StringIO()
    observer = LogObserver()
    with logging_to(LogConfig(verbosity=verbosity), stdout=stream, stderr=stream):
        for event in events:
            observer.notify(event)
    return stream.getvalue().splitlines()


def announced(reason: AnnouncementReason) -> Announced:
    return Announced(
        csi_address=ADDRESS, driver_name=NAME, reason=reason, registration_socket_path=PATH
    )


def test_a_driver_that_fails_in_the_same_way_is_one_line_and_its_return_another() -> None:
    found = lines(*[failed("no socket")] * 50, *[failed("refused")] * 50, *[answered()] * 50)
    assert [line[0] for line in found] == ["W", "W", "I"]
    assert 'problem="no socket"' in found[0]
    assert 'problem="refused"' in found[1]
    assert "answers again" in found[2]


def test_a_driver_that_is_not_ready_is_one_line_and_its_readiness_another() -> None:
    results = (ProbeResult.READY, ProbeResult.NOT_READY, ProbeResult.ERROR, ProbeResult.READY)
    found = lines(*[probed(result) for result in results for _ in range(20)])
    assert len(found) == 2
    assert 'probe="not_ready"' in found[0]
    assert '"CSI driver is ready"' in found[1]


def test_a_refusal_is_one_line_for_each_distinct_text_until_kubelet_accepts() -> None:
    found = lines(*[refused("a"), refused("b")] * 20, accepted(), refused("a"))
    assert [line.partition("err=")[2][:3] for line in found] == ['"a"', '"b"', '"a"']


def test_texts_that_are_always_new_do_not_fill_the_log() -> None:
    assert len(lines(*[refused(f"at {number}") for number in range(1000)])) == 100


@pytest.mark.parametrize(
    ("event", "severity", "words"),
    [
        (announced(AnnouncementReason.START), "I", '"Registration socket published"'),
        (announced(AnnouncementReason.MISSING), "W", 'again" driverName="x.io"'),
        (changed(State.ANNOUNCED, State.REGISTERED), "I", '"kubelet registered the driver"'),
        (changed(State.REGISTERED, State.STANDBY), "W", "Another live instance"),
        (changed(State.REGISTERED, State.WAITING), "W", 'was="registered"'),
        (refused(""), "E", 'err="kubelet gave no reason"'),
        (
            DriverIdentified(
                csi_address=ADDRESS,
                driver_name=NAME,
                vendor_version="v1",
                registration_socket_path=PATH,
            ),
            "I",
            'driverVersion="v1"',
        ),
        (DriverForgotten(csi_address=ADDRESS, driver_name=NAME), "W", 'oldDriverName="x.io"'),
        (
            DriverRestarted(csi_address=ADDRESS, driver_name=NAME, has_changed_answer=True),
            "I",
            "hasChangedAnswer=true",
        ),
        (
            RegistrationBlocked(csi_address=ADDRESS, driver_name=NAME, problem="a file"),
            "E",
            'err="a file"',
        ),
        (
            KubeletSilent(
                csi_address=ADDRESS,
                driver_name=NAME,
                silent_seconds=30.4,
                diagnosis="wrong root",
                retry_seconds=60,
            ),
            "W",
            'silentSeconds=30 nextAnnouncementSeconds=60 diagnosis="wrong root"',
        ),
    ],
)
def test_a_transition_is_one_line(event: Event, severity: str, words: str) -> None:
    (line,) = lines(event)
    assert line[0] == severity
    assert words in line


def test_routine_is_silent_by_default_and_told_when_asked_for() -> None:
    routine = (
        CallFinished(csi_address=ADDRESS, driver_name=NAME, method="/m", code="OK", seconds=0.1),
        CsiSocketSeen(csi_address=ADDRESS, driver_name=NAME, is_present=True),
        GetInfoReceived(csi_address=ADDRESS, driver_name=NAME),
        RegistrationSocketSeen(csi_address=ADDRESS, driver_name=NAME, is_present=True),
        changed(State.WAITING, State.ANNOUNCED),
        answered(),
        probed(ProbeResult.READY),
    )
    assert lines(*routine) == []
    assert len(lines(*routine, verbosity=4)) == 3
    assert len(lines(*routine, verbosity=5)) == 4
