"""Logging in klog's text format and in component-base's JSON, on the standard library's logging.

Any package may log with `logging` alone and pass its keys as `extra={"kv": {...}}`; the command
itself uses `Logger`. What is worth a line, and how often, is not decided here.
"""

import contextlib
import fnmatch
import json
import logging
import os
import select
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TextIO

from csi_node_driver_registrar.goquote import quote

# How much deeper than it says a line of a library counts: its INFO is not the operator's.
_LIBRARY_DEPTH = 4
# A pipe that is ready takes at least this much without blocking (POSIX's PIPE_BUF on Linux).
_CHUNK_BYTES = 4096
# The longest that one line may wait for a reader who has stopped reading.
_PATIENCE_MS = 50
_MIN_LEVEL = 1


class LogFormat(StrEnum):
    """How a line looks; `--logging-format`."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """How to log."""

    format: LogFormat = LogFormat.TEXT
    """`--logging-format`. Default text, as Kubernetes components have it."""

    verbosity: int = 0
    """Informational messages up to this level are written; `-v`. Default 0: transitions only."""

    vmodule: tuple[tuple[str, int], ...] = ()
    """Verbosity by file name without suffix, as pairs of a glob and a level; the first that
    matches counts, if it is higher than `verbosity`; `--vmodule`. Default none."""

    is_stream_split: bool = False
    """Whether informational lines go to stdout; `--log-text-split-stream` and
    `--log-json-split-stream`. Default no: one stream keeps the order."""

    has_headers: bool = True
    """Whether text lines begin with severity, time, process and source; `--skip_headers` turns it
    off. Default yes."""

    has_folders: bool = False
    """Whether the source file is shown with its folder; `--add_dir_header`. Default no."""


class Logger:
    """Logs constant messages with keys, as klog's structured calls do.

    A key is written as klog's are, in camel case: `log.info("Driver found", driverName=name)`.
    """

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def is_enabled(self, v: int) -> bool:
        """Tell whether messages of verbosity `v` may be written, before costly keys are made."""
        return self._logger.isEnabledFor(_level(v))

    def info(self, message: str, /, *, v: int = 0, **keys: object) -> None:
        """Log a message that is written at verbosity `v` and above."""
        self._logger.log(_level(v), message, extra={"kv": keys}, stacklevel=2)

    def warning(self, message: str, /, **keys: object) -> None:
        """Log what the operator should look at, though all goes on."""
        self._logger.warning(message, extra={"kv": keys}, stacklevel=2)

    def error(
        self, message: str, /, err: BaseException | str | None = None, **keys: object
    ) -> None:
        """Log a failure; `err` is what it failed with."""
        shown = keys if err is None else {"err": err, **keys}
        self._logger.error(message, extra={"kv": shown}, stacklevel=2)


@contextlib.contextmanager
def logging_to(
    config: LogConfig,
    *,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
) -> Iterator[None]:
    """Send everything that is logged to the streams (the process's own, if none are given).

    On leaving, the logging of the process is as it was before.
    """
    handler = _Handler(config, stdout or sys.stdout, stderr or sys.stderr)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = [handler]
    root.setLevel(_level(max([config.verbosity, *(level for _, level in config.vmodule)])))
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def _level(v: int) -> int:
    return max(logging.INFO - v, _MIN_LEVEL)


class _Handler(logging.Handler):
    """Writes the records that the verbosity lets through. Never raises, never waits for long."""

    def __init__(self, config: LogConfig, stdout: TextIO | None, stderr: TextIO | None) -> None:
        super().__init__()
        self._config = config
        self._stderr = _Output(stderr)
        self._stdout = _Output(stdout) if config.is_stream_split else self._stderr
        self._render = _json_line if config.format is LogFormat.JSON else _text_line

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether the verbosity lets the record through."""
        return record.levelno > logging.INFO or _verbosity(record) <= self._limit(record)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, and how many were lost before it."""
        is_informational = _is_informational(record, self._config)
        output = self._stdout if is_informational else self._stderr
        if output.write(self._line(record)) and output.dropped:
            output.write(self._line(_dropped_record(output.dropped)))
            output.dropped = 0

    def _limit(self, record: logging.LogRecord) -> int:
        for pattern, level in self._config.vmodule:
            if fnmatch.fnmatchcase(record.module, pattern):
                return max(level, self._config.verbosity)
        return self._config.verbosity

    def _line(self, record: logging.LogRecord) -> str:
        try:
            return self._render(record, self._config)
        except Exception as error:  # noqa: BLE001 - a log call must never fail its caller
            return self._render(_unprintable_record(record, error), self._config)


def _is_informational(record: logging.LogRecord, config: LogConfig) -> bool:
    # As component-base splits: text by the letter I, JSON by whether it is an error.
    limit = logging.ERROR if config.format is LogFormat.JSON else logging.WARNING
    return record.levelno < limit


def _verbosity(record: logging.LogRecord) -> int:
    depth = logging.INFO - record.levelno
    return depth if hasattr(record, "kv") else depth + _LIBRARY_DEPTH


def _dropped_record(count: int) -> logging.LogRecord:
    return _own_record("Log lines could not be written and are lost", count=count)


def _unprintable_record(record: logging.LogRecord, error: Exception) -> logging.LogRecord:
    source = f"{record.filename}:{record.lineno}"
    return _own_record(
        "A log record could not be printed", source=source, kind=type(error).__name__
    )


def _own_record(message: str, **keys: object) -> logging.LogRecord:
    record = logging.LogRecord(__name__, logging.WARNING, __file__, 0, message, (), None)
    record.kv = keys
    return record


def _text_line(record: logging.LogRecord, config: LogConfig) -> str:
    header = f"{_header(record, config)} " if config.has_headers else ""
    keys = "".join(f" {key}={_text_value(value)}" for key, value in _keys(record).items())
    return f"{header}{quote(record.getMessage())}{keys}"


def _header(record: logging.LogRecord, config: LogConfig) -> str:
    seconds, microseconds = divmod(int(record.created * 1e6), 1_000_000)
    moment = time.strftime("%m%d %H:%M:%S", time.localtime(seconds))
    pid = record.process or os.getpid()
    return f"{_letter(record)}{moment}.{microseconds:06d} {pid:7d} {_caller(record, config)}]"


def _letter(record: logging.LogRecord) -> str:
    if record.levelno >= logging.CRITICAL:
        return "F"
    if record.levelno >= logging.ERROR:
        return "E"
    return "W" if record.levelno >= logging.WARNING else "I"


def _caller(record: logging.LogRecord, config: LogConfig) -> str:
    parts = record.pathname.rsplit(os.sep, 2)
    file = "/".join(parts[-2:]) if config.has_folders else parts[-1]
    return f"{file}:{record.lineno}"


def _keys(record: logging.LogRecord) -> dict[str, object]:
    keys = dict(getattr(record, "kv", {}))
    error = record.exc_info[1] if record.exc_info else None
    if error is not None:
        keys.setdefault("err", error)
        keys["stacktrace"] = "".join(traceback.format_exception(error))
    return keys


def _text_value(value: object) -> str:
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple | dict):
        return _json_value(value)
    return quote(_words(value))


def _json_line(record: logging.LogRecord, config: LogConfig) -> str:
    fields: dict[str, object] = {
        "ts": round(record.created * 1e3, 3),
        "caller": _caller(record, config),
        "msg": record.getMessage(),
    }
    if record.levelno < logging.ERROR:
        fields["v"] = max(0, _verbosity(record))
    pairs = (*fields.items(), *_keys(record).items())
    return "{" + ",".join(f"{_json_value(key)}:{_json_value(value)}" for key, value in pairs) + "}"


def _json_value(value: object) -> str:
    try:
        return _dump(value)
    except (TypeError, ValueError):  # keys that are no text, a circle, infinity
        return _dump(_words(value))


def _dump(value: object) -> str:
    separators = (",", ":")
    return json.dumps(
        value, default=_words, separators=separators, ensure_ascii=False, allow_nan=False
    )


def _words(value: object) -> str:
    if isinstance(value, BaseException):
        return str(value) or type(value).__name__
    return str(value)


class _Output:
    """One stream. A line that nobody takes is given up and counted."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._descriptor = _descriptor(stream)
        self._is_line_open = False
        self.dropped = 0

    def write(self, line: str) -> bool:
        """Write a line; tell whether it was taken."""
        is_taken = False
        with contextlib.suppress(OSError, ValueError):
            is_taken = self._put(line + "\n")
        self.dropped += not is_taken
        return is_taken

    def _put(self, text: str) -> bool:
        if self._descriptor is not None:
            return self._put_bytes(self._descriptor, text.encode("utf-8", "backslashreplace"))
        if self._stream is not None:
            self._stream.write(text)
            self._stream.flush()
        return True

    def _put_bytes(self, descriptor: int, data: bytes) -> bool:
        data = b"\n" * self._is_line_open + data
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        while data and poll.poll(0 if self.dropped else _PATIENCE_MS):
            data = data[os.write(descriptor, data[:_CHUNK_BYTES]) :]
            self._is_line_open = bool(data)
        return not data


def _descriptor(stream: TextIO | None) -> int | None:
    try:
        return stream.fileno() if stream else None
    except (OSError, ValueError):
        return None
