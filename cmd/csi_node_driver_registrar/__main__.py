"""The command: arguments and environment in, an exit status out.

0: asked to stop. 1: cannot go on, with the reason in one line. 2: wrong usage.
Imports come late on purpose: stop signals are obeyed before anything heavy is loaded.
"""

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from csi_node_driver_registrar.signals import leave_at_once_when_asked

_Config = TypeVar("_Config")

EXIT_OK = 0
EXIT_CANNOT_GO_ON = 1
EXIT_USAGE = 2


class _Done(Exception):  # noqa: N818 - no error
    """The command has nothing more to do; its status is the argument."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def main() -> int:
    """Run `csi-node-driver-registrar` with the process's arguments; return the exit status."""
    leave_at_once_when_asked()
    try:
        return _registrar(sys.argv[1:])
    except _Done as done:
        return done.status


def _registrar(arguments: Sequence[str]) -> int:
    from csi_node_driver_registrar.config import parse_registrar
    from csi_node_driver_registrar.usage import registrar_usage

    config = _parsed(parse_registrar, arguments, registrar_usage)

    from csi_node_driver_registrar.application import run_registrar
    from csi_node_driver_registrar.process import run_to_exit_status

    return run_to_exit_status(
        lambda: run_registrar(config), logging=config.logging, warnings=config.warnings
    )


def _parsed(
    parse: Callable[[Sequence[str]], _Config],
    arguments: Sequence[str],
    usage: Callable[[], str],
) -> _Config:
    """Return what the arguments say.

    Raises:
        _Done: if they ask for help or the version, or cannot be used; that has been told.
    """
    from csi_node_driver_registrar.config import ConfigError, VersionRequested
    from csi_node_driver_registrar.goflags import FlagError, HelpRequested
    from csi_node_driver_registrar.version import version_line

    try:
        return parse(arguments)
    except HelpRequested:
        sys.stdout.write(f"{usage()}\n")
        raise _Done(EXIT_OK) from None
    except VersionRequested:
        sys.stdout.write(f"{version_line()}\n")
        raise _Done(EXIT_OK) from None
    except FlagError as error:
        sys.stderr.write(f"{error}\n{usage()}\n")
        raise _Done(EXIT_USAGE) from error
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        raise _Done(EXIT_CANNOT_GO_ON) from error


if __name__ == "__main__":
    sys.exit(main())
