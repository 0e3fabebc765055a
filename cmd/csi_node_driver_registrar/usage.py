"""The usage texts of both programs, made from `flag_sets` for a person who reads them."""

import textwrap

from csi_node_driver_registrar import flag_sets
from csi_node_driver_registrar.goflags import Flag

_INDENT = " " * 8
_WIDTH = 80
# What a flag's type has by itself; Go's usage leaves such defaults out, and so does this.
_ZEROS = frozenset({"", "0", "0s", "false"})
_SYNTAX = """\
Go's syntax: --flag=value or --flag value, one dash or two; booleans --flag or
--flag=false; durations such as 500ms, 3s or 1m30s. Of a flag that is repeated,
the last value counts, unless its text says otherwise."""


def registrar_usage() -> str:
    """Return the registrar's usage, without a line break at its end."""
    example = (
        "csi-node-driver-registrar --csi-address=/csi/csi.sock \\\n"
        "    --kubelet-registration-path=/var/lib/kubelet/plugins/DRIVER/csi.sock"
    )
    return _usage(
        "csi-node-driver-registrar",
        "Registers a CSI driver with kubelet and keeps it registered.",
        example,
        flag_sets.REGISTRAR,
    )


def livenessprobe_usage() -> str:
    """Return the livenessprobe's usage, without a line break at its end."""
    return _usage(
        "livenessprobe",
        "Answers /healthz with what the CSI driver's Probe says.",
        "livenessprobe --csi-address=/csi/csi.sock --http-endpoint=127.0.0.1:9808",
        flag_sets.LIVENESSPROBE,
    )


def _usage(program: str, purpose: str, example: str, groups: flag_sets.Groups) -> str:
    head = f"Usage of {program}:\n\n{purpose}\n\n  {example}"
    return "\n\n".join([head, *(_group(title, flags) for title, flags in groups), _SYNTAX])


def _group(title: str, flags: tuple[Flag, ...]) -> str:
    return "\n".join([f"{title}:", *map(_entry, flags)])


def _entry(flag: Flag) -> str:
    head = f"  --{flag.name} {flag.kind.name}".rstrip()
    return f"{head}\n{_wrapped(flag.meaning + _default(flag))}"


def _wrapped(text: str) -> str:
    return textwrap.fill(
        text,
        width=_WIDTH,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
        break_on_hyphens=False,
    )


def _default(flag: Flag) -> str:
    return "" if flag.default in _ZEROS else f" (default {flag.default})"
