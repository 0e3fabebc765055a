"""The log: klog's text, component-base's JSON, verbosity, streams, and what must never happen."""

import datetime as dt
import enum
import io
import json
import logging
import os
import pathlib
import re
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csi_node_driver_registrar.klog import LogConfig, LogFormat, Logger, logging_to

log = Logger(__name__)
JSON = LogFormat.JSON


def lines_of(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


@pytest.fixture
def stderr() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def text_log(stderr: io.StringIO) -> Iterator[io.StringIO]:
    """The log in text format, without headers."""
    with logging_to(LogConfig(has_headers=False), stderr=stderr):
        yield stderr


@pytest.fixture
def json_log(stderr: io.StringIO) -> Iterator[io.StringIO]:
    with logging_to(LogConfig(format=JSON), stderr=stderr):
        yield stderr


def test_a_line_has_klogs_header(stderr: io.StringIO) -> None:
    before = dt.datetime.now()  # noqa: DTZ005 - klog writes local time too
    with logging_to(LogConfig(), stderr=stderr):
        log.info("Registration server started", socketPath="/registration/x-reg.sock")
    (line,) = lines_of(stderr)
    pattern = (
        r"I(\d{4} \d\d:\d\d:\d\d\.\d{6}) ([ \d]{7,}) test_klog\.py:\d+\] "
        r'"Registration server started" socketPath="/registration/x-reg\.sock"'
    )
    match = re.fullmatch(pattern, line)
    assert match is not None
    assert match[2] == f"{os.getpid():>7}"
    written = dt.datetime.strptime(f"{before.year} {match[1]}", "%Y %m%d %H:%M:%S.%f")  # noqa: DTZ007 - as above
    assert abs(written - before) < dt.timedelta(minutes=1)


def test_the_time_is_written_to_the_microsecond(stderr: io.StringIO) -> None:
    record = logging.LogRecord("x", logging.INFO, "/a/b/server.py", 22, "Hello", (), None)
    record.created = time.mktime((2025, 11, 30, 18, 34, 34, 0, 0, -1)) + 0.0003164
    record.process = 3986
    record.kv = {}
    with logging_to(LogConfig(), stderr=stderr):
        logging.getLogger().handle(record)
    with logging_to(LogConfig(format=JSON), stderr=stderr):
        logging.getLogger().handle(record)
    text, as_json = lines_of(stderr)
    assert text == 'I1130 18:34:34.000316    3986 server.py:22] "Hello"'
    assert re.search(r'"ts":\d{10}000\.316,', as_json)


def test_the_severity_is_one_letter(stderr: io.StringIO) -> None:
    with logging_to(LogConfig(), stderr=stderr):
        log.info("a")
        log.warning("b")
        log.error("c")
        logging.getLogger("x").critical("d")
    assert [line[0] for line in lines_of(stderr)] == ["I", "W", "E", "F"]


def test_every_call_is_located_where_it_stands(stderr: io.StringIO) -> None:
    with logging_to(LogConfig(), stderr=stderr):
        log.info("a")
        log.warning("b")
        log.error("c")
    found = [re.findall(r"(\S+):(\d+)\]", line) for line in lines_of(stderr)]
    ((file, first),) = found[0]
    assert file == "test_klog.py"
    assert [int(line) - int(first) for ((_, line),) in found] == [0, 1, 2]


def test_the_folder_is_shown_on_request(stderr: io.StringIO) -> None:
    with logging_to(LogConfig(has_folders=True), stderr=stderr):
        log.info("a")
    assert " tests/test_klog.py:" in stderr.getvalue()


def test_headers_can_be_left_out(text_log: io.StringIO) -> None:
    log.info("Hello")
    assert text_log.getvalue() == '"Hello"\n'


class Color(enum.StrEnum):
    """A text that is more than a text."""

    RED = "red"


@pytest.mark.parametrize(
    ("value", "text", "plain"),
    [
        ("plain", '"plain"', "plain"),
        ('say "hi"', '"say \\"hi\\""', 'say "hi"'),
        ("two\nlines", '"two\\nlines"', "two\nlines"),
        ("", '""', ""),
        ("C:\\csi", '"C:\\\\csi"', "C:\\csi"),
        (5, "5", 5),
        (-1, "-1", -1),
        (2.5, "2.5", 2.5),
        (True, "true", True),
        (False, "false", False),
        (None, "<nil>", None),
        (float("inf"), "inf", "inf"),
        (["a", 1], '["a",1]', ["a", 1]),
        ({"a": pathlib.Path("/x")}, '{"a":"/x"}', {"a": "/x"}),
        ({(1, 2): "tuple"}, "\"{(1, 2): 'tuple'}\"", "{(1, 2): 'tuple'}"),
        (pathlib.Path("/x y"), '"/x y"', "/x y"),
        (Color.RED, '"red"', "red"),
        (OSError(2, "gone"), '"[Errno 2] gone"', "[Errno 2] gone"),
        (TimeoutError(), '"TimeoutError"', "TimeoutError"),
    ],
    ids=repr,
)
def test_a_value_is_shown_by_its_kind(value: object, text: str, plain: object) -> None:
    stream = io.StringIO()
    with logging_to(LogConfig(has_headers=False), stderr=stream):
        log.info("m", key=value)
    with logging_to(LogConfig(format=JSON), stderr=stream):
        log.info("m", key=value)
    shown, as_json = lines_of(stream)
    assert shown == f'"m" key={text}'
    assert json.loads(as_json)["key"] == plain


def test_an_error_comes_first_and_a_missing_one_not_at_all(text_log: io.StringIO) -> None:
    log.error("Failed", err=OSError(98, "in use"), address=":9809")
    log.error("Failed", err="as text")
    log.error("Failed", address=":9809")
    assert lines_of(text_log) == [
        '"Failed" err="[Errno 98] in use" address=":9809"',
        '"Failed" err="as text"',
        '"Failed" address=":9809"',
    ]


def test_keys_keep_their_order(text_log: io.StringIO) -> None:
    log.info("m", b=1, a=2)
    assert text_log.getvalue() == '"m" b=1 a=2\n'


def test_a_json_line_has_component_bases_fields(json_log: io.StringIO) -> None:
    log.info("Registration server started", socketPath="/x")
    (line,) = lines_of(json_log)
    row = json.loads(line)
    assert list(row) == ["ts", "caller", "msg", "v", "socketPath"]
    assert abs(row["ts"] / 1000 - time.time()) < 60
    assert re.fullmatch(r"test_klog\.py:\d+", row["caller"])
    assert (row["msg"], row["v"], row["socketPath"]) == ("Registration server started", 0, "/x")
    assert re.search(r'"ts":\d{13}(\.\d{1,3})?,', line)


def test_json_is_written_in_utf_8_and_not_in_escapes(json_log: io.StringIO) -> None:
    log.info("m", key="\u00e9\u4e16")
    assert '"key":"\u00e9\u4e16"' in json_log.getvalue()


def test_a_json_error_has_no_verbosity(json_log: io.StringIO) -> None:
    log.error("Failed", err=OSError(98, "in use"))
    row = json.loads(json_log.getvalue())
    assert list(row) == ["ts", "caller", "msg", "err"]
    assert row["err"] == "[Errno 98] in use"


def test_a_json_warning_counts_as_verbosity_zero(json_log: io.StringIO) -> None:
    log.warning("Beware")
    assert json.loads(json_log.getvalue())["v"] == 0


def test_the_level_of_a_detail_stands_in_json(stderr: io.StringIO) -> None:
    with logging_to(LogConfig(format=JSON, verbosity=5), stderr=stderr):
        log.info("detail", v=5)
    assert json.loads(stderr.getvalue())["v"] == 5


@given(st.text(), st.text())
def test_a_record_is_one_line_whatever_it_says(message: str, value: str) -> None:
    stream = io.StringIO()
    with logging_to(LogConfig(has_headers=False), stderr=stream):
        log.info(message, key=value)
    with logging_to(LogConfig(format=JSON), stderr=stream):
        log.info(message, key=value)
    text, as_json = stream.getvalue().split("\n")[:-1]
    assert text.isprintable()
    row = json.loads(as_json)
    assert (row["msg"], row["key"]) == (message, value)


# --- verbosity


@pytest.mark.parametrize(
    ("verbosity", "expected"),
    [(0, ["0"]), (1, ["0", "1"]), (4, ["0", "1", "4"]), (30, ["0", "1", "4", "30"])],
)
def test_messages_up_to_the_verbosity_are_written(
    verbosity: int, expected: list[str], stderr: io.StringIO
) -> None:
    with logging_to(LogConfig(verbosity=verbosity, has_headers=False), stderr=stderr):
        for level in (0, 1, 4, 30):
            log.info(str(level), v=level)
    assert [line.strip('"') for line in lines_of(stderr)] == expected


def test_whether_a_detail_would_be_written_can_be_asked(stderr: io.StringIO) -> None:
    with logging_to(LogConfig(verbosity=2), stderr=stderr):
        assert log.is_enabled(2)
        assert not log.is_enabled(3)


def test_warnings_and_errors_are_always_written(text_log: io.StringIO) -> None:
    log.warning("w")
    log.error("e")
    assert lines_of(text_log) == ['"w"', '"e"']


@pytest.mark.parametrize(
    ("vmodule", "is_written"),
    [
        ((("test_klog", 3),), True),
        ((("test_*", 4),), True),
        ((("test_????", 3),), True),
        ((("test_klog", 2),), False),
        ((("klog", 9),), False),
        ((("test_klog.py", 9),), False),
        ((("other", 9), ("test_klog", 3)), True),
        ((("test_klog", 1), ("*", 9)), False),
    ],
)
def test_a_file_may_have_a_verbosity_of_its_own(
    vmodule: tuple[tuple[str, int], ...], *, is_written: bool, stderr: io.StringIO
) -> None:
    with logging_to(LogConfig(vmodule=vmodule), stderr=stderr):
        log.info("detail", v=3)
    assert bool(stderr.getvalue()) is is_written


def test_a_file_is_never_quieter_than_the_rest(stderr: io.StringIO) -> None:
    with logging_to(LogConfig(verbosity=5, vmodule=(("test_klog", 1),)), stderr=stderr):
        log.info("detail", v=5)
    assert stderr.getvalue()


@pytest.mark.parametrize(("verbosity", "is_written"), [(0, False), (3, False), (4, True)])
def test_what_libraries_tell_is_for_those_who_ask(
    verbosity: int, *, is_written: bool, stderr: io.StringIO
) -> None:
    """R64: a library's line per request must not fill the log."""
    with logging_to(LogConfig(verbosity=verbosity), stderr=stderr):
        logging.getLogger("aiohttp.access").info("%s %d", "GET /healthz", 200)
    assert bool(stderr.getvalue()) is is_written


def test_a_library_may_warn_in_its_own_words(text_log: io.StringIO) -> None:
    logging.getLogger("aiohttp.server").warning("100 %s\nof it", "percent")
    assert text_log.getvalue() == '"100 percent\\nof it"\n'


def test_other_packages_log_with_keys_and_without_this_module(text_log: io.StringIO) -> None:
    logging.getLogger("health").info("Listening", extra={"kv": {"address": ":9809"}})
    assert text_log.getvalue() == '"Listening" address=":9809"\n'


# --- streams


def test_all_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to(LogConfig(has_headers=False)):
        log.info("a")
        log.error("b")
    assert capsys.readouterr() == ("", '"a"\n"b"\n')


@pytest.mark.parametrize(
    ("log_format", "to_stdout"), [(LogFormat.TEXT, ["i"]), (JSON, ["i", "w"])], ids=["text", "json"]
)
def test_a_split_stream_sends_what_is_no_fault_to_stdout(
    log_format: LogFormat, to_stdout: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with logging_to(LogConfig(format=log_format, is_stream_split=True)):
        log.info("i")
        log.warning("w")
        log.error("e")
    out, err = capsys.readouterr()
    assert [word for word in "iwe" if f'"{word}"' in out] == to_stdout
    assert [word for word in "iwe" if f'"{word}"' in err] == [
        w for w in "iwe" if w not in to_stdout
    ]


def test_the_logging_of_before_is_restored_so_that_it_can_be_set_up_twice() -> None:
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    streams = [io.StringIO(), io.StringIO()]
    for stream in streams:
        with logging_to(LogConfig(verbosity=3), stderr=stream):
            log.info("once", v=3)
        assert (root.handlers, root.level) == before
    assert [len(lines_of(stream)) for stream in streams] == [1, 1]


def test_the_logging_of_before_is_restored_after_an_error_too() -> None:
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    with pytest.raises(ZeroDivisionError), logging_to(LogConfig(), stderr=io.StringIO()):
        _ = 1 / 0
    assert (root.handlers, root.level) == before


# --- errors with a trace


def test_a_trace_stays_on_the_line(text_log: io.StringIO) -> None:
    try:
        _ = 1 / 0
    except ZeroDivisionError:
        logging.getLogger("asyncio").exception("Task failed")
    (line,) = lines_of(text_log)
    assert line.startswith('"Task failed" err="division by zero" stacktrace="Traceback (most')
    assert line.endswith('ZeroDivisionError: division by zero\\n"')


def test_a_request_for_a_trace_outside_of_an_error_is_harmless(text_log: io.StringIO) -> None:
    logging.getLogger("x").error("No error", exc_info=sys.exc_info())
    assert text_log.getvalue() == '"No error"\n'


# --- what must never happen


class Unprintable:
    """A value that fails whoever shows it."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_a_value_that_cannot_be_shown_fails_nobody(
    log_format: LogFormat, stderr: io.StringIO
) -> None:
    with logging_to(LogConfig(format=log_format), stderr=stderr):
        log.info("m", key=Unprintable())
    (line,) = lines_of(stderr)
    assert "A log record could not be printed" in line
    assert "RuntimeError" in line
    assert "test_klog.py:" in line


def test_arguments_that_do_not_fit_fail_nobody(stderr: io.StringIO) -> None:
    with logging_to(LogConfig(), stderr=stderr):
        logging.getLogger("x").warning("%d items", "seven")
    assert "A log record could not be printed" in stderr.getvalue()


def test_a_closed_stream_fails_nobody(tmp_path: pathlib.Path) -> None:
    with (tmp_path / "log").open("w") as stream, logging_to(LogConfig(), stderr=stream):
        stream.close()
        log.info("a")
        log.error("b")


class FailingOnce(io.StringIO):
    """A stream whose first write fails."""

    has_failed = False

    def write(self, text: str) -> int:
        """Fail, or write."""
        if not self.has_failed:
            self.has_failed = True
            raise OSError(28, "No space left on device")
        return super().write(text)


def test_a_line_that_could_not_be_written_is_told_once_by_the_next() -> None:
    stream = FailingOnce()
    with logging_to(LogConfig(has_headers=False), stderr=stream):
        for message in ("lost", "seen", "seen too"):
            log.info(message)
    assert lines_of(stream) == [
        '"seen"',
        '"Log lines could not be written and are lost" count=1',
        '"seen too"',
    ]


def test_a_broken_pipe_fails_nobody() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream, logging_to(LogConfig(), stderr=stream):
        log.error("nobody reads this")


def test_a_process_without_stderr_logs_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    with logging_to(LogConfig()):
        log.error("nobody reads this")


def test_what_is_no_unicode_is_written_all_the_same(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    name = os.fsdecode(b"\xff")
    with path.open("w") as stream, logging_to(LogConfig(format=JSON), stderr=stream):
        log.info("m", name=name)
    assert json.loads(path.read_text())["name"] == name


class SlowReader:
    """A pipe as stderr, and what was read from it."""

    def __init__(self) -> None:
        self.descriptor, writer = os.pipe()
        self.stream = os.fdopen(writer, "w")

    def fill(self) -> None:
        """Write until nothing fits any more."""
        os.set_blocking(self.stream.fileno(), False)
        try:
            while True:
                os.write(self.stream.fileno(), b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(self.stream.fileno(), True)

    def read_all(self) -> str:
        """Read what is there, and do not wait for more."""
        os.set_blocking(self.descriptor, False)
        chunks = []
        while True:
            try:
                chunks.append(os.read(self.descriptor, 1 << 16))
            except BlockingIOError:
                return b"".join(chunks).decode()

    def close(self) -> None:
        """Close both ends."""
        self.stream.close()
        os.close(self.descriptor)


@pytest.fixture
def pipe() -> Iterator[SlowReader]:
    reader = SlowReader()
    yield reader
    reader.close()


def test_a_reader_who_stops_reading_holds_up_nobody_and_is_told_what_he_missed(
    pipe: SlowReader,
) -> None:
    with logging_to(LogConfig(has_headers=False), stderr=pipe.stream):
        pipe.fill()
        for _ in range(100):
            log.info("lost")
        pipe.read_all()
        log.info("seen")
        log.info("seen too")
    assert lines_of(io.StringIO(pipe.read_all())) == [
        '"seen"',
        '"Log lines could not be written and are lost" count=100',
        '"seen too"',
    ]


def test_a_line_that_was_cut_short_does_not_spoil_the_next(pipe: SlowReader) -> None:
    long = "y" * (1 << 17)
    with logging_to(LogConfig(has_headers=False), stderr=pipe.stream):
        log.info("cut", value=long)
        pipe.read_all()
        log.info("whole")
    assert lines_of(io.StringIO(pipe.read_all())) == [
        "",
        '"whole"',
        '"Log lines could not be written and are lost" count=1',
    ]


def test_a_long_line_reaches_a_reader_who_reads(pipe: SlowReader) -> None:
    got: list[bytes] = []

    def read() -> None:
        while chunk := os.read(pipe.descriptor, 1 << 16):
            got.append(chunk)

    thread = threading.Thread(target=read)
    thread.start()
    with logging_to(LogConfig(has_headers=False), stderr=pipe.stream):
        log.info("m", value="z" * 300_000)
    pipe.stream.close()
    thread.join()
    assert len(b"".join(got)) == 300_000 + len('"m" value=""\n')
