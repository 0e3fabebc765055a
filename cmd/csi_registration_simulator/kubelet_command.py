"""The sub-command `kubelet`: what a kubelet would do with a registration folder."""

import argparse
import asyncio
from pathlib import Path

from csi_registration_simulator.arguments import add_time_limit, pair
from csi_registration_simulator.errors import SimulatorError
from csi_registration_simulator.kubelet import SimulatedKubelet, mapped, same_path
from csi_registration_simulator.kubelet_rules import KUBELET_1_36, RULES
from csi_registration_simulator.printing import Printer

DESCRIPTION = """\
Does with a registration folder what kubelet does: it watches for sockets, asks the registrar
behind each one who it is (GetInfo), asks the driver for the node (NodeGetInfo) and tells the
registrar the verdict (NotifyRegistrationStatus). Every step is printed with the seconds since the
start. No kubelet, cluster or privilege is needed. Ends on SIGINT and SIGTERM."""

EPILOG = """\
example:
  csi-registration-simulator kubelet /tmp/registration \\
      --map-path=/var/lib/kubelet/plugins/my.csi.example.com=/tmp/my-driver"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what this sub-command takes."""
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        help="the registration folder, as --plugin-registration-path of the registrar; "
        "a real kubelet's is /var/lib/kubelet/plugins_registry",
    )
    parser.add_argument(
        "--kubelet-version",
        choices=sorted(RULES),
        default=KUBELET_1_36.version,
        help="whose rules to follow: 1.34 does not try again after a failed registration until "
        "the socket is created anew, 1.36 does (default: %(default)s)",
    )
    parser.add_argument(
        "--map-path",
        metavar="HOSTPREFIX=LOCALPREFIX",
        type=pair,
        help="where to find the driver's socket here, if the path that the registrar gives "
        "(--kubelet-registration-path) begins with HOSTPREFIX",
    )
    add_time_limit(parser)


async def run(arguments: argparse.Namespace) -> int:
    """Run a kubelet, print what it does, and return the exit status.

    Raises:
        SimulatorError: The folder is missing, or cannot be watched.
    """
    folder = _checked_folder(arguments.folder)
    printer = Printer()
    printer.say(f"kubelet   {arguments.kubelet_version} watches {folder}")
    kubelet = SimulatedKubelet(
        folder,
        rules=RULES[arguments.kubelet_version],
        local_path=mapped(*arguments.map_path) if arguments.map_path else same_path,
    )
    kubelet.listeners.append(printer.tell)
    try:
        async with asyncio.timeout(arguments.for_seconds):
            await kubelet.run()
    except TimeoutError:
        return 0
    except OSError as error:
        raise SimulatorError(f"cannot watch {folder}: {error.strerror}") from error


def _checked_folder(text: str) -> Path:
    folder = Path(text)
    if not folder.exists():
        raise SimulatorError(
            f"there is no folder {text}; create it, or give the registrar's "
            "--plugin-registration-path"
        )
    if not folder.is_dir():
        raise SimulatorError(f"{text} is no folder")
    return folder.absolute()
