"""The role of kubernetes-csi livenessprobe: its situations, and those in which the Go one fails."""

import asyncio
import socket
import subprocess

import aiohttp
import grpc
import pytest
from commanding import LIVENESSPROBE, running

from csi_registration_simulator.driver import CallError, SimulatedDriver


async def answer(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


def arguments(driver: SimulatedDriver, *more: str) -> tuple[str, ...]:
    return (
        LIVENESSPROBE,
        f"--csi-address={driver.csi_address}",
        "--http-endpoint=127.0.0.1:0",
        *more,
    )


@pytest.mark.parametrize(
    ("situation", "status", "words"),
    [
        ("ready", 200, "ok"),
        ("ready is absent", 200, "ok"),
        ("not ready", 500, "Probe answered ready=false"),
        ("Probe fails", 500, "the driver failed Probe with Internal: disk on fire"),
        ("Probe hangs", 500, "did not answer Probe within 0.5 s"),
        ("no Probe", 500, "does not implement csi.v1.Identity/Probe"),
        ("driver gone", 500, "there is no driver socket at"),
        ("driver dead", 500, "nobody listens on the driver's socket"),
    ],
)
async def test_healthz_is_the_drivers_probe(
    driver: SimulatedDriver, situation: str, status: int, words: str
) -> None:
    await driver.start()
    driver.is_ready = {"not ready": False, "ready is absent": None}.get(situation, True)
    if situation == "Probe fails":
        driver.errors["Probe"] = CallError(grpc.StatusCode.INTERNAL, "disk on fire")
    if situation == "no Probe":
        driver.errors["Probe"] = CallError(grpc.StatusCode.UNIMPLEMENTED, "unknown method")
    if situation == "Probe hangs":
        driver.delay_seconds["Probe"] = 30
    async with running(*arguments(driver, "--probe-timeout=500ms")) as probe:
        url = await probe.url()
        if situation == "driver gone":
            await driver.stop()
        if situation == "driver dead":
            await driver.crash()
        its_status, body = await answer(f"{url}/healthz")
        assert its_status == status
        assert words in body


async def test_it_answers_before_the_driver_is_there_and_turns_green_with_it(
    driver: SimulatedDriver,
) -> None:
    """R05: the Go one refuses the connection meanwhile."""
    async with running(*arguments(driver)) as probe:
        url = await probe.url()
        status, body = await answer(f"{url}/healthz")
        assert status == 500
        assert "there is no driver socket at" in body
        assert (await answer(f"{url}/livez"))[0] == 200
        await driver.start()
        assert await answer(f"{url}/healthz") == (200, "ok")
        assert (await probe.stop())[0] == 0


async def test_a_driver_that_never_speaks_does_not_hang_it(driver: SimulatedDriver) -> None:
    """R62: the Go one hangs at its start, for ever."""
    driver.is_black_hole = True
    await driver.start()
    async with running(*arguments(driver, "--probe-timeout=300ms")) as probe:
        url = await probe.url()
        async with asyncio.timeout(1.0):
            assert (await answer(f"{url}/healthz"))[0] == 500
        status, seconds = await probe.stop()
        assert (status, seconds < 1.0) == (0, True)


async def test_a_busy_port_is_said_and_tried_again(driver: SimulatedDriver) -> None:
    """R70: the Go one ends with status 0."""
    await driver.start()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        flags = (f"--csi-address={driver.csi_address}", f"--http-endpoint=127.0.0.1:{port}")
        async with running(LIVENESSPROBE, *flags) as probe:
            await probe.wait_for_log("Cannot listen")
            assert probe.process.returncode is None
            other.close()
            await probe.wait_for_log(f'url="http://127.0.0.1:{port}"', timeout_seconds=6)


def test_a_port_beside_an_endpoint_is_status_1_and_the_default_port_is_not() -> None:
    done = subprocess.run(
        [LIVENESSPROBE, "--http-endpoint=:1", "--health-port=2"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "only one of --health-port and --http-endpoint can be set" in done.stderr


def test_its_help_is_its_own() -> None:
    done = subprocess.run([LIVENESSPROBE, "-h"], capture_output=True, text=True, check=True)
    assert "Usage of livenessprobe" in done.stdout
    assert "--kubelet-registration-path" not in done.stdout
