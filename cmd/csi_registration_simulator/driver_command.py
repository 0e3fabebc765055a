"""The sub-command `driver`: a CSI driver that misbehaves as it is told."""

import argparse
import asyncio

from csi_registration_simulator.arguments import (
    add_time_limit,
    method_delay,
    method_error,
    pair,
    socket_path,
)
from csi_registration_simulator.driver import METHODS, SimulatedDriver
from csi_registration_simulator.errors import SimulatorError
from csi_registration_simulator.printing import Printer

DESCRIPTION = f"""\
Serves the CSI Identity service and NodeGetInfo on a unix socket, and prints each call with the
seconds since the start. It can be slow, failing, not ready or mute.
METHOD is one of {", ".join(METHODS)}.
Ends on SIGINT and SIGTERM."""

EPILOG = """\
examples:
  csi-registration-simulator driver --csi-address=/tmp/csi.sock --name=my.csi.example.com
  csi-registration-simulator driver --csi-address=/tmp/csi.sock --name=my.csi.example.com \\
      --delay=GetPluginInfo=1.5s --error='Probe=UNAVAILABLE:backend is away'"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what this sub-command takes."""
    _add_identity(parser)
    _add_faults(parser)
    add_time_limit(parser)


async def run(arguments: argparse.Namespace) -> int:
    """Run a driver, print the calls it gets, and return the exit status.

    Raises:
        SimulatorError: The socket cannot be bound.
    """
    driver = _driver(arguments)
    driver.listeners.append(Printer().tell)
    try:
        async with driver, asyncio.timeout(arguments.for_seconds):
            await asyncio.get_running_loop().create_future()
    except TimeoutError:
        pass
    except OSError as error:
        reason = error.strerror or error
        raise SimulatorError(f"cannot listen at {driver.csi_address}: {reason}") from error
    return 0


def _add_identity(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--csi-address",
        metavar="PATH",
        type=socket_path,
        required=True,
        help="where to listen; the same as --csi-address of the registrar",
    )
    parser.add_argument("--name", required=True, help="what GetPluginInfo gives as the name")
    parser.add_argument(
        "--vendor-version", metavar="TEXT", default="1.0.0", help="(default: %(default)s)"
    )
    parser.add_argument(
        "--manifest",
        metavar="KEY=VALUE",
        type=pair,
        action="append",
        default=[],
        help="a part of GetPluginInfo's manifest; may be repeated",
    )
    parser.add_argument(
        "--node-id",
        metavar="TEXT",
        default="simulated-node",
        help="what NodeGetInfo gives (default: %(default)s)",
    )
    parser.add_argument(
        "--topology",
        metavar="KEY=VALUE",
        type=pair,
        action="append",
        default=[],
        help="a segment of NodeGetInfo's topology; may be repeated",
    )


def _add_faults(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--delay",
        metavar="METHOD=DURATION",
        type=method_delay,
        action="append",
        default=[],
        help="how long a method takes; may be repeated",
    )
    parser.add_argument(
        "--error",
        metavar="METHOD=CODE[:TEXT]",
        type=method_error,
        action="append",
        default=[],
        help="with which gRPC status a method fails; may be repeated",
    )
    parser.add_argument(
        "--not-ready", action="store_true", help="let Probe answer that the driver is not ready"
    )
    parser.add_argument(
        "--black-hole", action="store_true", help="accept connections and never say anything"
    )


def _driver(arguments: argparse.Namespace) -> SimulatedDriver:
    driver = SimulatedDriver(arguments.csi_address, name=arguments.name)
    driver.vendor_version = arguments.vendor_version
    driver.manifest = dict(arguments.manifest)
    driver.node_id = arguments.node_id
    driver.topology = dict(arguments.topology)
    driver.delay_seconds = dict(arguments.delay)
    driver.errors = dict(arguments.error)
    driver.is_ready = not arguments.not_ready
    driver.is_black_hole = arguments.black_hole
    return driver
