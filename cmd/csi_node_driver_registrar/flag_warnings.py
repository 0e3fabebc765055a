"""What an operator should know about flags that are accepted and do not do what they once did.

Each one is named once. What is refused stands in `config`; what is odd about paths, in `addresses`.
"""

from csi_node_driver_registrar.flag_sets import MODES
from csi_node_driver_registrar.goflags import Parsed
from csi_node_driver_registrar.goquote import quote

_NO_FILES = "has no effect: no log files are written, the log goes to stderr"
_NO_CONNECTION_TIMEOUT = "has no effect: the driver is waited for as long as it takes"
_REMOVED = (
    ("connection-timeout", f"{_NO_CONNECTION_TIMEOUT}, and --timeout bounds each call"),
    ("driver-requires-attachment", "has no effect: see attachRequired of the CSIDriver object"),
    ("pod-info-mount-version", "has no effect: see podInfoOnMount of the CSIDriver object"),
    ("kubeconfig", "has no effect: the API server is not called"),
)


def registrar_warnings(flags: Parsed) -> list[str]:
    """Return one sentence for each flag of the registrar that does not do what it once did."""
    mode = flags.text("mode")
    return _applying(
        (flags.number("health-port") > 0, "--health-port is deprecated: use --http-endpoint"),
        (mode not in MODES, f"--mode={mode} has no effect: the driver is registered"),
        (flags.switch("enable-pprof"), "--enable-pprof has no effect: pprof is not available"),
        *((flags.is_given(name), f"--{name} {fate}") for name, fate in _REMOVED),
        *_common_rules(flags),
    )


def livenessprobe_warnings(flags: Parsed) -> list[str]:
    """Return one sentence for each flag of livenessprobe that does not do what it once did."""
    return _applying(
        (
            flags.is_given("connection-timeout"),
            f"--connection-timeout {_NO_CONNECTION_TIMEOUT}, and --probe-timeout bounds each call",
        ),
        (
            bool(flags.text("metrics-address")),
            "--metrics-address is deprecated: --http-endpoint serves metrics as well",
        ),
        *_common_rules(flags),
    )


def ignored_words(flags: Parsed) -> str:
    """Tell of the words that Go's flag package leaves alone, flags among them; empty if none."""
    if not flags.rest:
        return ""
    return f"arguments from {quote(flags.rest[0])} on are ignored: that word is no flag"


def _common_rules(flags: Parsed) -> tuple[tuple[bool, str], ...]:
    return (
        (not flags.switch("logtostderr"), f"--logtostderr=false {_NO_FILES}"),
        (bool(flags.text("log_dir")), f"--log_dir {_NO_FILES}"),
        (bool(flags.text("log_file")), f"--log_file {_NO_FILES}"),
        (bool(flags.text("log_backtrace_at")), "--log_backtrace_at has no effect: not available"),
        (bool(flags.rest), ignored_words(flags)),
    )


def _applying(*rules: tuple[bool, str]) -> list[str]:
    return [warning for applies, warning in rules if applies]
