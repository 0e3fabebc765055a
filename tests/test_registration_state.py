"""The state of one registration, and which announcement is due when."""

import pytest

from registrar.observer import AnnouncementReason, State
from registrar.registration import Registration
from registrar.registration_socket import Holder

SILENCE = 30.0


def new_registration() -> Registration:
    return Registration(now=0.0, silence_timeout_seconds=SILENCE)


def announced_registration() -> Registration:
    registration = new_registration()
    registration.announced(0.0)
    return registration


def refuse(registration: Registration, now: float, error: str = "no such node") -> None:
    registration.verdict_received(now, is_accepted=False, error=error)


def accept(registration: Registration, now: float) -> None:
    registration.verdict_received(now, is_accepted=True, error="")


@pytest.mark.parametrize("holder", list(Holder))
def test_a_new_registration_is_announced_whoever_holds_the_path(holder: Holder) -> None:
    registration = new_registration()
    assert registration.state is State.WAITING
    assert registration.due_announcement(holder, 0.0) is AnnouncementReason.START


def test_kubelets_yes_registers_and_nothing_more_is_due() -> None:
    registration = announced_registration()
    registration.get_info_received(0.5)
    accept(registration, 0.6)
    assert registration.state is State.REGISTERED
    assert registration.state_since == 0.6
    assert registration.due_announcement(Holder.OURS, 10_000.0) is None


def test_a_second_yes_in_a_row_leaves_the_state_since_the_first() -> None:
    registration = announced_registration()
    accept(registration, 0.6)
    accept(registration, 9.0)
    assert registration.state_since == 0.6


def test_kubelets_no_is_kept_and_tried_again_after_a_growing_pause() -> None:
    """R03: kubelet up to about 1.34 never tries again by itself."""
    registration = announced_registration()
    now, pauses = 0.0, []
    for _ in range(9):
        refuse(registration, now)
        assert registration.state is State.REJECTED
        assert registration.kubelet_error == "no such node"
        begun = now
        while registration.due_announcement(Holder.OURS, now) is None:
            now += 0.1
        assert registration.due_announcement(Holder.OURS, now) is AnnouncementReason.REJECTED
        pauses.append(now - begun)
        registration.announced(now)
    assert pauses[0] <= 2.1
    assert 12 < pauses[4] < 20
    assert 47 < max(pauses) <= 60.2


def test_a_yes_ends_the_retries_and_forgets_the_error() -> None:
    registration = announced_registration()
    refuse(registration, 0.5)
    accept(registration, 0.9)
    assert registration.kubelet_error == ""
    assert registration.due_announcement(Holder.OURS, 500.0) is None


def test_a_no_without_words_still_says_something() -> None:
    registration = announced_registration()
    refuse(registration, 0.5, error="")
    assert registration.kubelet_error == "kubelet gave no reason"


def test_a_driver_that_came_back_is_announced_at_once_if_it_was_refused() -> None:
    registration = announced_registration()
    for now in range(6):
        refuse(registration, float(now))
    registration.driver_came_back(5.1)
    assert registration.due_announcement(Holder.OURS, 5.1) is AnnouncementReason.REJECTED


def test_a_registered_driver_that_came_back_costs_no_announcement() -> None:
    """R11: each announcement leaves the node without the driver for a second."""
    registration = announced_registration()
    accept(registration, 0.5)
    registration.driver_came_back(5.0)
    assert registration.due_announcement(Holder.OURS, 5.0) is None


@pytest.mark.parametrize(
    ("holder", "reason"),
    [(Holder.NOBODY, AnnouncementReason.MISSING), (Holder.DEAD, AnnouncementReason.REPLACED)],
)
def test_a_lost_socket_is_announced_anew_and_counts_as_waiting_until_then(
    holder: Holder, reason: AnnouncementReason
) -> None:
    """R02."""
    registration = announced_registration()
    accept(registration, 0.5)
    registration.lost(3.0)
    assert registration.state is State.WAITING
    assert registration.due_announcement(holder, 3.0) is reason


def test_a_socket_that_was_out_of_sight_is_announced_again_when_it_is_back() -> None:
    registration = announced_registration()
    accept(registration, 0.5)
    registration.lost(3.0)
    assert registration.due_announcement(Holder.OURS, 4.0) is AnnouncementReason.MISSING


@pytest.mark.parametrize("holder", [Holder.NOBODY, Holder.DEAD, Holder.OURS])
def test_it_is_never_announced_twice_within_two_seconds(holder: Holder) -> None:
    """R26."""
    registration = announced_registration()
    registration.request(AnnouncementReason.REQUESTED)
    assert registration.due_announcement(holder, 1.999) is None
    assert registration.due_announcement(holder, 2.0) is not None


def test_a_standby_announces_nothing_while_the_peer_lives_and_takes_over_when_it_dies() -> None:
    """R37."""
    registration = announced_registration()
    registration.stood_by(5.0)
    registration.request(AnnouncementReason.REQUESTED)
    registration.lost(6.0)
    assert registration.state is State.STANDBY
    assert registration.due_announcement(Holder.PEER, 10_000.0) is None
    assert registration.due_announcement(Holder.DEAD, 10_000.0) is AnnouncementReason.REPLACED
    assert registration.due_announcement(Holder.NOBODY, 10_000.0) is AnnouncementReason.MISSING


@pytest.mark.parametrize("is_accepted", [True, False])
def test_a_verdict_on_a_socket_that_is_not_ours_any_more_changes_nothing(
    is_accepted: bool,
) -> None:
    for registration in (announced_registration(), announced_registration()):
        registration.stood_by(1.0)
        registration.verdict_received(1.1, is_accepted=is_accepted, error="")
        assert registration.state is State.STANDBY
        assert registration.kubelet_error == ""


def test_a_request_is_met_once() -> None:
    registration = announced_registration()
    accept(registration, 0.5)
    registration.request(AnnouncementReason.DRIVER_CHANGED)
    assert registration.due_announcement(Holder.OURS, 9.0) is AnnouncementReason.DRIVER_CHANGED
    registration.announced(9.0)
    accept(registration, 9.5)
    assert registration.due_announcement(Holder.OURS, 99.0) is None


def test_a_request_before_the_first_announcement_adds_nothing_to_it() -> None:
    registration = new_registration()
    registration.request(AnnouncementReason.REQUESTED)
    registration.announced(0.0)
    accept(registration, 0.5)
    assert registration.due_announcement(Holder.OURS, 9.0) is None


def test_a_silent_kubelet_is_called_so_at_doubling_intervals_up_to_ten_minutes() -> None:
    """R06."""
    registration = announced_registration()
    assert registration.silent_seconds(29.9) is None
    now, intervals = 0.0, []
    for _ in range(7):
        begun = now
        while registration.due_announcement(Holder.OURS, now) is None:
            now += 1.0
        assert registration.due_announcement(Holder.OURS, now) is AnnouncementReason.SILENCE
        intervals.append(now - begun)
        registration.next_silence_interval()
        registration.announced(now)
    assert intervals == [30, 60, 120, 240, 480, 600, 600]


def test_kubelets_call_ends_the_silence_and_leaves_the_driver_its_two_minutes() -> None:
    registration = announced_registration()
    registration.next_silence_interval()
    registration.get_info_received(1.0)
    assert registration.has_get_info
    assert registration.due_announcement(Holder.OURS, 150.9) is None
    assert registration.due_announcement(Holder.OURS, 151.0) is AnnouncementReason.SILENCE


def test_a_call_before_the_last_announcement_is_none_since() -> None:
    registration = announced_registration()
    assert not registration.has_get_info
    registration.get_info_received(1.0)
    registration.announced(3.0)
    assert not registration.has_get_info


def test_a_silence_timeout_of_zero_calls_nobody_silent() -> None:
    registration = Registration(now=0.0, silence_timeout_seconds=0.0)
    registration.announced(0.0)
    assert registration.due_announcement(Holder.OURS, 1e9) is None
