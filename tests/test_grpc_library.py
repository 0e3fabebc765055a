"""gRPC's threads do not preempt the node's work; what else the library needs is seen elsewhere."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from commanding import registrar_arguments, running

from csi_registration_simulator.driver import SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet
from registrar.grpc_library import threads_that_never_preempt
from registrar.settings import DriverSettings


def policies(pid: int) -> dict[str, set[int]]:
    """Return how the threads of each name are scheduled, that of the event loop under `main`."""
    found: dict[str, set[int]] = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        name = (thread / "comm").read_text(encoding="ascii").strip()
        name = "main" if thread.name == str(pid) else name
        found.setdefault(name, set()).add(os.sched_getscheduler(int(thread.name)))
    return found


def policy_before_within_and_after(chosen: int) -> tuple[int, int, int]:
    """Return how a thread with this policy is scheduled around the block."""

    def look() -> tuple[int, int, int]:
        os.sched_setscheduler(0, chosen, os.sched_param(0))  # of this thread alone
        before = os.sched_getscheduler(0)
        with threads_that_never_preempt():
            within = os.sched_getscheduler(0)
        return before, within, os.sched_getscheduler(0)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(look).result()


async def test_grpcs_threads_never_preempt_and_the_event_loop_does(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings
) -> None:
    await driver.start()
    async with running(*registrar_arguments(settings)) as registrar:
        await registrar.wait_for_log("kubelet registered the driver")
        found = policies(registrar.process.pid)
    assert found["main"] == {os.SCHED_OTHER}
    assert found["event_engine"] == {os.SCHED_BATCH}


@pytest.mark.parametrize(
    ("chosen", "within"),
    [
        (os.SCHED_OTHER, os.SCHED_BATCH),
        (os.SCHED_BATCH, os.SCHED_BATCH),
        (os.SCHED_IDLE, os.SCHED_IDLE),
    ],
    ids=["usual", "batch", "idle"],
)
def test_a_policy_that_was_chosen_stays(chosen: int, within: int) -> None:
    assert policy_before_within_and_after(chosen) == (chosen, within, chosen)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM], ids=["musl", "seccomp"])
@pytest.mark.parametrize("call", ["sched_getscheduler", "sched_setscheduler"])
def test_a_kernel_that_refuses_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    before = os.sched_getscheduler(0)
    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        with threads_that_never_preempt():
            pass
    assert os.sched_getscheduler(0) == before
