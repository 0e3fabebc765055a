"""Any command line comes to a configuration or to one of the errors that it may come to."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import settings as how
from hypothesis import strategies as st

from csi_node_driver_registrar import flag_sets
from csi_node_driver_registrar.config import (
    ConfigError,
    VersionRequested,
    parse_livenessprobe,
    parse_registrar,
)
from csi_node_driver_registrar.goflags import FlagError, HelpRequested

MANY = how(max_examples=300, derandomize=True, deadline=None)
ERRORS = (ConfigError, FlagError, HelpRequested, VersionRequested)
MAX_TEXT = 5_000

KNOWN = {*flag_sets.by_name(flag_sets.REGISTRAR), *flag_sets.by_name(flag_sets.LIVENESSPROBE)}
NAMES = sorted({*KNOWN, "h", "help", "", "=", "-"})
VALUES = st.one_of(
    st.sampled_from(
        (
            *("", "0", "1", "-1", "true", "false", "1s", "1h1m1.5s", "-5s", "9999999h", "json"),
            *(":9809", "[::1]:0", "unix:///x", "/csi/csi.sock", "C:\\csi\\csi.sock", "$(X)"),
            *("a=1,b=2", "=", ",", "registrar*=5", "exit", "kubelet-registration-probe"),
            *("0x7fffffffffffffff", "9" * 400, "1e9", "\u0661", "\udcff", "\x00", "a" * 1_000),
        )
    ),
    st.text(max_size=20),
)
WORDS = st.one_of(
    st.builds(
        "{}{}{}{}".format,
        st.sampled_from(("-", "--", "---", "")),
        st.sampled_from(NAMES),
        st.sampled_from(("=", "", "==")),
        VALUES,
    ),
    VALUES,
)


def refusal(parse: Callable[[Sequence[str]], object], arguments: list[str]) -> str:
    """Return why a command line is refused; empty if it is not."""
    try:
        parse(arguments)
    except ERRORS as error:
        return str(error)
    return ""


@pytest.mark.parametrize("parse", [parse_registrar, parse_livenessprobe])
def test_a_command_line_is_understood_or_refused_in_a_line(
    parse: Callable[[Sequence[str]], object],
) -> None:
    @MANY
    @given(st.lists(WORDS, max_size=8))
    def fuzz(arguments: list[str]) -> None:
        text = refusal(parse, arguments)
        assert "\n" not in text
        assert len(text) < MAX_TEXT

    fuzz()
