"""The command `csi-registration-simulator`: arguments, signals and the exit status."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from types import ModuleType
from typing import Any

from csi_registration_simulator import demo, driver_command, kubelet_command
from csi_registration_simulator.errors import SimulatorError
from csi_registration_simulator.task_groups import RunningTasks

_PROGRAM = "csi-registration-simulator"
_DESCRIPTION = """\
Plays the peers of a CSI driver registrar, so that it can be tried without a cluster."""
_SUB_COMMANDS = (
    ("kubelet", kubelet_command, "do with a registration folder what kubelet does"),
    ("driver", driver_command, "be a CSI driver, with faults as desired"),
    ("demo", demo, "run the real registrar between a driver and a kubelet, and check each step"),
)

_Run = Callable[[argparse.Namespace], Coroutine[Any, Any, int]]


class _SignalledError(Exception):
    """The process was asked to end."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 done, 1 failed, 2 usage."""
    arguments = _parser().parse_args(argv)
    try:
        return asyncio.run(_run_until_signalled(arguments.run, arguments))
    except SimulatorError as error:
        sys.stderr.write(f"{_PROGRAM} {arguments.sub_command}: {error}\n")
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=_PROGRAM, description=_DESCRIPTION)
    sub_parsers = parser.add_subparsers(dest="sub_command", required=True, metavar="COMMAND")
    for name, module, summary in _SUB_COMMANDS:
        _add_sub_command(sub_parsers.add_parser, name, module, summary)
    return parser


def _add_sub_command(
    add_parser: Callable[..., argparse.ArgumentParser], name: str, module: ModuleType, summary: str
) -> None:
    parser = add_parser(
        name,
        help=summary,
        description=module.DESCRIPTION,
        epilog=module.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    parser.set_defaults(run=module.run)


async def _run_until_signalled(run: _Run, arguments: argparse.Namespace) -> int:
    status = 0
    signalled = _listen_for_signals()
    try:
        async with RunningTasks() as tasks:
            tasks.create_task(_raise_when(signalled), name="signals")
            status = await run(arguments)
    except* _SignalledError:
        status = 0
    return status


def _listen_for_signals() -> asyncio.Event:
    """Return what SIGINT and SIGTERM set; a second one ends the process at once."""
    signalled = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def end() -> None:
        signalled.set()
        for number in numbers:
            loop.remove_signal_handler(number)

    for number in numbers:
        loop.add_signal_handler(number, end)
    return signalled


async def _raise_when(signalled: asyncio.Event) -> None:
    await signalled.wait()
    raise _SignalledError


if __name__ == "__main__":
    sys.exit(main())
