"""The commands: arguments in, an exit status out.

0: asked to stop, or the probe passes. 1: cannot go on, with the reason in one line. 2: wrong usage.
Imports come late on purpose: stop signals are obeyed before anything heavy is loaded, and the exec
probe loads nothing heavy at all.
"""

from __future__ import annotations

import sys

from csi_node_driver_registrar.early_exit import leave_at_once_when_asked

TYPE_CHECKING = False  # as typing has it, without its weight
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from csi_node_driver_registrar.goflags import Parsed

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
    return _run(_registrar)


def livenessprobe() -> int:
    """Run `livenessprobe` with the process's arguments; return the exit status."""
    return _run(_livenessprobe)


def _run(command: Callable[[Sequence[str]], int]) -> int:
    leave_at_once_when_asked()
    try:
        return command(sys.argv[1:])
    except _Done as done:
        return done.status


def _registrar(arguments: Sequence[str]) -> int:
    from csi_node_driver_registrar import flag_sets, goflags

    def read_flags(words: Sequence[str]) -> Parsed:
        return goflags.parse(flag_sets.by_name(flag_sets.REGISTRAR), words)

    flags = _parsed(read_flags, arguments, _registrar_usage)
    if flags.text("mode") == flag_sets.EXEC_PROBE_MODE and not flags.switch("version"):
        return _exec_probe(flags)

    from csi_node_driver_registrar.config import parse_registrar

    config = _parsed(parse_registrar, arguments, _registrar_usage)

    from csi_node_driver_registrar.lean_imports import importing_leanly

    _prepare_grpc()
    with importing_leanly():
        from csi_node_driver_registrar.process import leave, run_to_exit_status
        from csi_node_driver_registrar.registrar_run import run_registrar

    return leave(
        run_to_exit_status(
            lambda: run_registrar(config), logging=config.logging, warnings=config.warnings
        )
    )


def _exec_probe(flags: Parsed) -> int:
    from csi_node_driver_registrar.addresses import kubelet_endpoint
    from csi_node_driver_registrar.exec_probe import ask_sidecar

    paths = [path for path in flags.texts("kubelet-registration-path") if path]
    if not paths:
        sys.stderr.write("--kubelet-registration-path is required\n")
        return EXIT_CANNOT_GO_ON
    folder = flags.text("plugin-registration-path")
    reasons = [reason for path in paths if (reason := ask_sidecar(folder, kubelet_endpoint(path)))]
    sys.stderr.write("".join(f"{reason}\n" for reason in reasons))
    return EXIT_CANNOT_GO_ON if reasons else EXIT_OK


def _livenessprobe(arguments: Sequence[str]) -> int:
    from csi_node_driver_registrar.config import parse_livenessprobe

    config = _parsed(parse_livenessprobe, arguments, _livenessprobe_usage)

    from csi_node_driver_registrar.lean_imports import importing_leanly

    _prepare_grpc()
    with importing_leanly():
        from csi_node_driver_registrar.livenessprobe_run import run_livenessprobe
        from csi_node_driver_registrar.process import leave, run_to_exit_status

    return leave(
        run_to_exit_status(
            lambda: run_livenessprobe(config), logging=config.logging, warnings=config.warnings
        )
    )


def _prepare_grpc() -> None:
    """Set what gRPC's library reads from the environment when it is loaded."""
    import os

    # Nothing here forks, and being ready for it costs threads that wake up several times a second.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    # Its own lines know nothing of the log's format; what they tell is told with the errors.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def _registrar_usage() -> str:
    from csi_node_driver_registrar.usage import registrar_usage

    return registrar_usage()


def _livenessprobe_usage() -> str:
    from csi_node_driver_registrar.usage import livenessprobe_usage

    return livenessprobe_usage()


def _parsed(
    parse: Callable[[Sequence[str]], _Config],
    arguments: Sequence[str],
    usage: Callable[[], str],
) -> _Config:
    """Return what the arguments say.

    Raises:
        _Done: if they ask for help or the version, or cannot be used; that has been told.
    """
    from csi_node_driver_registrar.goflags import FlagError, HelpRequested

    try:
        return parse(arguments)
    except HelpRequested:
        sys.stdout.write(f"{usage()}\n")
        raise _Done(EXIT_OK) from None
    except FlagError as error:
        sys.stderr.write(f"{error}\n{usage()}\n")
        raise _Done(EXIT_USAGE) from error
    except Exception as error:
        raise _Done(_told(error)) from error


def _told(error: Exception) -> int:
    """Tell what the rules of the flags came to, other than their syntax; return the status."""
    from csi_node_driver_registrar.config import ConfigError, VersionRequested
    from csi_node_driver_registrar.version import version_line

    if isinstance(error, VersionRequested):
        sys.stdout.write(f"{version_line()}\n")
        return EXIT_OK
    if isinstance(error, ConfigError):
        sys.stderr.write(f"{error}\n")
        return EXIT_CANNOT_GO_ON
    raise error


if __name__ == "__main__":
    sys.exit(main())
