"""Values on the command line: durations, pairs, and what a method is told to do."""

import argparse
import re

import grpc

from csi_registration_simulator.driver import METHODS, CallError
from csi_registration_simulator.go_errors import code_name

_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def duration_seconds(text: str) -> float:
    """Turn a duration such as `500ms` or `1m30s` into seconds.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration such as 500ms, 3s or 1m30s")
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)


def pair(text: str) -> tuple[str, str]:
    """Split `KEY=VALUE`.

    Raises:
        argparse.ArgumentTypeError: There is no key or no `=`.
    """
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=VALUE")
    return key, value


def method_delay(text: str) -> tuple[str, float]:
    """Turn `METHOD=DURATION` into the method and seconds.

    Raises:
        argparse.ArgumentTypeError: The method is unknown, or the duration is none.
    """
    method, value = _method_and_value(text)
    return method, duration_seconds(value)


def method_error(text: str) -> tuple[str, CallError]:
    """Turn `METHOD=CODE` or `METHOD=CODE:TEXT` into the method and what it answers.

    Raises:
        argparse.ArgumentTypeError: The method or the code is unknown.
    """
    method, value = _method_and_value(text)
    name, _, details = value.partition(":")
    for code in grpc.StatusCode:
        if code is not grpc.StatusCode.OK and name in {code.name, code_name(code)}:
            return method, CallError(code, details or "asked for on the command line")
    raise argparse.ArgumentTypeError(f"{name!r} is no gRPC status such as UNAVAILABLE")


def socket_path(text: str) -> str:
    """Take a path, or one behind `unix:` or `unix://`."""
    return text.removeprefix("unix:").removeprefix("//")


def _method_and_value(text: str) -> tuple[str, str]:
    method, value = pair(text)
    if method not in METHODS:
        raise argparse.ArgumentTypeError(f"{method!r} is none of {', '.join(METHODS)}")
    return method, value


def add_time_limit(parser: argparse.ArgumentParser) -> None:
    """Add `--for`, which ends a sub-command after some time."""
    parser.add_argument(
        "--for",
        dest="for_seconds",
        metavar="DURATION",
        type=duration_seconds,
        help="end after that time, such as 30s or 1m30s (default: run until told to end)",
    )
