"""How a run ends: the exit status, the log's last lines, and the termination log."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from csi_node_driver_registrar.klog import LogConfig
from csi_node_driver_registrar.process import run_to_exit_status
from registrar.errors import RegistrationRefused

Run = Callable[[], Coroutine[object, object, None]]


def status_of(run: Run, termination_log: str) -> int:
    return run_to_exit_status(
        run, logging=LogConfig(), warnings=["odd flag"], termination_log=termination_log
    )


async def end() -> None:
    await asyncio.sleep(0)


async def be_refused() -> None:
    async with asyncio.TaskGroup() as outer:
        async with asyncio.TaskGroup() as inner:
            inner.create_task(_refused(), name="refused")
        outer.create_task(end(), name="never started")


async def _refused() -> None:
    raise RegistrationRefused("x.io", "no such\nnode")


async def break_down() -> None:
    raise ZeroDivisionError("nobody foresaw this")


def test_an_end_that_was_asked_for_is_0_and_says_nothing_to_kubernetes(
    folder: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert status_of(end, f"{folder}/termination-log") == 0
    log = capfd.readouterr().err
    assert '"Starting"' in log
    assert 'problem="odd flag"' in log


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (be_refused, "kubelet refused the registration of x.io: no such node"),
        (break_down, "ZeroDivisionError: nobody foresaw this"),
    ],
)
def test_an_end_that_was_not_asked_for_is_1_with_the_reason_in_one_line(
    folder: str, capfd: pytest.CaptureFixture[str], run: Run, words: str
) -> None:
    path = f"{folder}/termination-log"
    with open(path, "w", encoding="ascii") as file:
        file.write("an older and much, much longer message than the one that will be written now")
    assert status_of(run, path) == 1
    with open(path, encoding="utf-8") as file:
        assert file.read() == words
    assert '"Cannot go on"' in capfd.readouterr().err


def test_a_termination_log_that_is_not_provided_is_not_made(folder: str) -> None:
    """R17: nothing is written anywhere that was not provided for it."""
    import os  # noqa: PLC0415 - this test's alone

    assert status_of(break_down, f"{folder}/termination-log") == 1
    assert os.listdir(folder) == []


def test_last_words_fit_into_what_kubernetes_keeps(folder: str) -> None:
    async def ramble() -> None:
        raise ValueError("ü" * 100_000)

    path = f"{folder}/termination-log"
    open(path, "w", encoding="ascii").close()
    assert status_of(ramble, path) == 1
    with open(path, "rb") as file:
        assert len(file.read()) == 4096
