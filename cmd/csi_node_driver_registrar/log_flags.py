"""The log flags of Kubernetes components (component-base) and of older programs (klog, glog).

Like `goflags` this is read by the exec probe, so it imports nothing heavy. What the flags do is
`klog`'s affair.
"""

from csi_node_driver_registrar.goflags import BOOL, DURATION, STRING, UINT, Flag, Kind
from csi_node_driver_registrar.goquote import quote

_LEVEL_MAX = 2**31 - 1
_SEVERITIES = frozenset({"INFO", "WARNING", "ERROR", "FATAL"})
_BINARY_SUFFIXES = frozenset({"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"})
_DECIMAL_SUFFIXES = frozenset({"", "n", "u", "m", "k", "M", "G", "T", "P", "E"})


def parse_level(text: str) -> int:
    """Read a verbosity, a decimal number of 31 bits without sign (component-base).

    Raises:
        ValueError: in the words of Go's `strconv.ParseUint`.
    """
    digits = text.lstrip("0") or text[:1]
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"strconv.ParseUint: parsing {quote(text)}: invalid syntax")
    if len(digits) > len(str(_LEVEL_MAX)) or int(digits) > _LEVEL_MAX:
        raise ValueError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return int(digits)


def parse_vmodule(text: str) -> tuple[tuple[str, int], ...]:
    """Read `pattern=N,...` as pairs of a file's pattern and its verbosity (component-base).

    Raises:
        ValueError: for a part that is not `pattern=N`.
    """
    return tuple(_vmodule_item(item) for item in text.split(",") if item)


def _vmodule_item(item: str) -> tuple[str, int]:
    pattern, _, level = item.partition("=")
    if not pattern or not level or "=" in level:
        raise ValueError(f"{quote(item)} does not have the pattern=N format")
    try:
        return pattern, parse_level(level)
    except ValueError as error:
        raise ValueError(f"parsing verbosity in {quote(item)}: {error}") from error


def _checked_vmodule(text: str) -> str:
    parse_vmodule(text)
    return text


def _parse_severity(text: str) -> str:
    if text.upper() not in _SEVERITIES and not text.removeprefix("-").isdecimal():
        raise ValueError(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
    return text


def _parse_quantity(text: str) -> str:
    body = text[1:] if text[:1] in {"+", "-"} else text
    number = body[: len(body) - len(body.lstrip("0123456789."))]
    if not number.strip(".") or number.count(".") > 1 or not _is_suffix(body[len(number) :]):
        raise ValueError("quantities are numbers such as 512, 64k or 1Mi")
    return text


def _is_suffix(suffix: str) -> bool:
    if suffix in _DECIMAL_SUFFIXES or suffix in _BINARY_SUFFIXES:
        return True
    digits = suffix[2:] if suffix[1:2] in {"+", "-"} else suffix[1:]
    return suffix[0] in "eE" and digits.isascii() and digits.isdigit()


def _parse_trace_location(text: str) -> str:
    file, _, line = text.partition(":")
    if text and ("." not in file or not line.isdecimal()):
        raise ValueError("syntax error: expect file.go:234")
    return text


LEVEL = Kind("level", parse_level)
_VMODULE = Kind("pattern=N,...", _checked_vmodule)
_SEVERITY = Kind("severity", _parse_severity)
_QUANTITY = Kind("quantity", _parse_quantity)
_TRACE_LOCATION = Kind("file:N", _parse_trace_location)

LOG_FLAGS = (
    Flag("v", LEVEL, "0", "Verbosity of the log: messages up to this level are written."),
    Flag(
        "vmodule",
        _VMODULE,
        "",
        "Verbosity by source file, such as supervisor=4,http*=5: file names without their suffix.",
    ),
    Flag("logging-format", STRING, "text", "Format of the log: text or json."),
    Flag(
        "log-text-split-stream",
        BOOL,
        "false",
        "In text format, write informational lines to stdout, and the others to stderr.",
    ),
    Flag(
        "log-json-split-stream",
        BOOL,
        "false",
        "In JSON format, write informational lines to stdout, and errors to stderr.",
    ),
)

# Nothing is buffered here and nothing goes to a file, so these have nothing to act on.
_BUFFER_FLAGS = (
    Flag("log-flush-frequency", DURATION, "5s", "No effect: every line is written at once."),
    Flag("log-text-info-buffer-size", _QUANTITY, "0", "No effect: every line is written at once."),
    Flag("log-json-info-buffer-size", _QUANTITY, "0", "No effect: every line is written at once."),
)

OLD_LOG_FLAGS = (
    Flag("add_dir_header", BOOL, "false", "Show the source file's folder in the log as well."),
    Flag("skip_headers", BOOL, "false", "Write log lines without time, process and source line."),
    *_BUFFER_FLAGS,
    Flag("logtostderr", BOOL, "true", "No effect: the log goes to stderr."),
    Flag("alsologtostderr", BOOL, "false", "No effect: the log goes to stderr."),
    Flag("stderrthreshold", _SEVERITY, "ERROR", "No effect: the log goes to stderr."),
    Flag("log_dir", STRING, "", "No effect: no log files are written."),
    Flag("log_file", STRING, "", "No effect: no log files are written."),
    Flag("log_file_max_size", UINT, "1800", "No effect: no log files are written."),
    Flag("skip_log_headers", BOOL, "false", "No effect: no log files are written."),
    Flag("one_output", BOOL, "false", "No effect: no log files are written."),
    Flag("log_backtrace_at", _TRACE_LOCATION, "", "No effect: stack traces are not available."),
)
