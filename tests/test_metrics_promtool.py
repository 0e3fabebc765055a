"""What promtool, Prometheus' own linter, thinks of a scrape in each state of a registration.

Here a missing promtool is a failure; `.ci/debian-packages` installs it.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from measuring import MeasuringObserver, serving_metrics, short_name
from supervising import supervising

from csi_registration_simulator.driver import SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet
from health.observer import Handler
from metrics.families import BuildInfo
from metrics.registry import register_process_metrics
from registrar.observer import DriverFailed, State, StateChanged
from registrar.settings import DriverSettings

pytestmark = pytest.mark.needs_prometheus


@pytest.fixture
def promtool() -> str:
    """Return the path of promtool."""
    path = shutil.which("promtool")
    assert path is not None, "promtool is not installed: run .ci/debian-packages"
    return path


@pytest.fixture
def measured() -> MeasuringObserver:
    """Give metrics with all that the command shows, as after a while of probes and scrapes."""
    measured = MeasuringObserver()
    measured.registry.register(BuildInfo(version="0.1.0", revision="", python_version="3.11.7"))
    register_process_metrics(measured.registry)
    for handler in Handler:
        for code in (200, 404, 500):
            measured.metrics.count_http_request(handler, code)
    return measured


async def check(promtool: str, measured: MeasuringObserver) -> None:
    """Scrape, and assert that promtool finds nothing to say."""
    async with (
        serving_metrics(measured.registry) as url,
        aiohttp.ClientSession() as session,
        session.get(url) as answer,
    ):
        text = await answer.read()
    process = await asyncio.create_subprocess_exec(
        promtool,
        "check",
        "metrics",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    opinion, _ = await process.communicate(text)
    assert (opinion.decode(), process.returncode) == ("", 0)


def state(measured: MeasuringObserver) -> list[str]:
    """Return which state the metrics show."""
    return [
        short_name(name)
        for name, value in measured.series().items()
        if "registration_state{" in name and value != "0"
    ]


@asynccontextmanager
async def entering(
    state: State, settings: DriverSettings, measured: MeasuringObserver
) -> AsyncIterator[None]:
    """Run a registrar while the block runs, from when its registration is in a state."""
    async with supervising(settings, measured):
        await measured.wait_for(StateChanged, lambda event: event.new is state)
        yield


async def test_promtool_has_opinions_at_all(promtool: str) -> None:
    """So that its silence means something."""
    process = await asyncio.create_subprocess_exec(
        promtool,
        "check",
        "metrics",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    opinion, _ = await process.communicate(b"# TYPE calls counter\ncalls 1\n")
    assert b"_total" in opinion
    assert process.returncode != 0


async def test_before_there_is_a_driver(
    promtool: str, settings: DriverSettings, measured: MeasuringObserver
) -> None:
    async with supervising(settings, measured):
        await measured.wait_for(DriverFailed)
        assert state(measured) == []
        await check(promtool, measured)


async def test_waiting(
    promtool: str, driver: SimulatedDriver, settings: DriverSettings, measured: MeasuringObserver
) -> None:
    """The socket was published once, and lost with its folder."""
    os.mkdir(settings.registration_folder)
    await driver.start()
    async with entering(State.ANNOUNCED, settings, measured):
        os.rename(settings.registration_folder, f"{settings.registration_folder}~")
        await measured.wait_for(StateChanged, lambda event: event.new is State.WAITING)
        assert state(measured) == ['registration_state{state="waiting"}']
        await check(promtool, measured)


async def test_announced(
    promtool: str, driver: SimulatedDriver, settings: DriverSettings, measured: MeasuringObserver
) -> None:
    os.mkdir(settings.registration_folder)
    await driver.start()
    async with entering(State.ANNOUNCED, settings, measured):
        assert state(measured) == ['registration_state{state="announced"}']
        await check(promtool, measured)


async def test_registered(
    promtool: str,
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    measured: MeasuringObserver,
) -> None:
    await driver.start()
    async with entering(State.REGISTERED, settings, measured):
        assert state(measured) == ['registration_state{state="registered"}']
        await check(promtool, measured)


async def test_rejected(
    promtool: str,
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    measured: MeasuringObserver,
) -> None:
    kubelet.refuse_next(100, "no such node")
    await driver.start()
    async with entering(State.REJECTED, settings, measured):
        assert state(measured) == ['registration_state{state="rejected"}']
        await check(promtool, measured)


async def test_standby(
    promtool: str,
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    measured: MeasuringObserver,
) -> None:
    await driver.start()
    async with (
        entering(State.REGISTERED, settings, measured),
        supervising(settings, MeasuringObserver()),
    ):
        await measured.wait_for(StateChanged, lambda event: event.new is State.STANDBY)
        assert state(measured) == ['registration_state{state="standby"}']
        await check(promtool, measured)


async def test_registered_with_a_driver_that_is_down(
    promtool: str,
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    measured: MeasuringObserver,
) -> None:
    await driver.start()
    async with entering(State.REGISTERED, settings, measured):
        await driver.stop()
        await measured.wait_for(DriverFailed)
        assert state(measured) == ['registration_state{state="registered"}']
        await check(promtool, measured)
