"""Fixtures that every ring of the tests uses: real peers on real sockets, in a short folder."""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator

import pytest
from observing import RecordingObserver

from csi_registration_simulator.driver import SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet
from registrar.settings import DriverSettings, OnRegistrationFailure


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, where it cannot work, what needs root; CI runs as root and leaves out nothing."""
    if os.geteuid() == 0:
        return
    left_out = [item for item in items if item.get_closest_marker("needs_root")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def pytest_report_header() -> str:
    """Say what is left out."""
    if os.geteuid() == 0:
        return "as root: nothing is left out"
    return "not as root: tests that need mounts, PID namespaces or other users are left out"


@pytest.fixture
def folder() -> Iterator[str]:
    """Make a folder whose path is short enough for sockets of drivers with long names."""
    path = tempfile.mkdtemp(prefix="r", dir="/tmp")
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
async def driver(folder: str) -> AsyncIterator[SimulatedDriver]:
    """Prepare a driver; a test starts it when it likes."""
    driver = SimulatedDriver(f"{folder}/csi.sock", name="x.csi.example.com")
    yield driver
    await driver.stop()


@pytest.fixture
async def kubelet(folder: str) -> AsyncIterator[SimulatedKubelet]:
    """Run a kubelet that watches the folder `registration`."""
    async with SimulatedKubelet(f"{folder}/registration") as kubelet:
        yield kubelet


@pytest.fixture
def observer() -> RecordingObserver:
    """Keep what the registrar reports."""
    return RecordingObserver()


@pytest.fixture
def settings(folder: str) -> DriverSettings:
    """Give the settings that fit the two peers, quick enough for a test."""
    return DriverSettings(
        csi_address=f"{folder}/csi.sock",
        kubelet_registration_path=f"{folder}/csi.sock",
        registration_folder=f"{folder}/registration",
        timeout_seconds=1.0,
        monitor_interval_seconds=10.0,
        kubelet_silence_seconds=30.0,
        on_registration_failure=OnRegistrationFailure.RETRY,
    )
