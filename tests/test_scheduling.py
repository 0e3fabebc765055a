"""How the process is scheduled: on the running command, for every thread of it."""

import errno
import os

import pytest
from commanding import RunningCommand, registrar_arguments, running

from csi_node_driver_registrar.scheduling import never_preempt
from csi_registration_simulator.driver import SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet
from registrar.settings import DriverSettings

AT_LEISURE = ("chrt", "--idle", "0")
"""Runs what follows under a policy that somebody chose."""


def policies(command: RunningCommand) -> set[int]:
    threads = os.listdir(f"/proc/{command.process.pid}/task")
    assert len(threads) > 1, "gRPC's have not been started"
    return {os.sched_getscheduler(int(thread)) for thread in threads}


async def test_no_thread_preempts_the_nodes_work(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings
) -> None:
    await driver.start()
    async with running(*registrar_arguments(settings)) as registrar:
        await registrar.wait_for_log("kubelet registered the driver")
        assert policies(registrar) == {os.SCHED_BATCH}


async def test_a_policy_that_was_chosen_stays(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings
) -> None:
    await driver.start()
    async with running(*AT_LEISURE, *registrar_arguments(settings)) as registrar:
        await registrar.wait_for_log("kubelet registered the driver")
        assert policies(registrar) == {os.SCHED_IDLE}


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM], ids=["musl", "seccomp"])
def test_a_kernel_that_refuses_ends_nothing(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    before = os.sched_getscheduler(0)
    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    never_preempt()
    assert os.sched_getscheduler(0) == before
