"""The syntax of Go's flag package, as measured on the Go programs."""

import contextlib
import pathlib
import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csi_node_driver_registrar import goflags
from csi_node_driver_registrar.goflags import (
    BOOL,
    DURATION,
    INT,
    STRING,
    UINT,
    Flag,
    FlagError,
    HelpRequested,
    Parsed,
    parse,
    parse_bool,
    parse_duration,
    parse_int,
    parse_uint,
)
from csi_node_driver_registrar.goquote import quote
from csi_node_driver_registrar.log_flags import (
    LEVEL,
    LOG_FLAGS,
    OLD_LOG_FLAGS,
    parse_level,
    parse_vmodule,
)

FLAGS = {
    flag.name: flag
    for flag in (
        Flag("name", STRING, "nobody", ""),
        Flag("port", INT, "0", ""),
        Flag("size", UINT, "7", ""),
        Flag("timeout", DURATION, "1s", ""),
        Flag("quiet", BOOL, "false", ""),
        Flag("v", LEVEL, "0", ""),
    )
}
LOGGING = {flag.name: flag for flag in (*LOG_FLAGS, *OLD_LOG_FLAGS)}


def read(*arguments: str) -> Parsed:
    return parse(FLAGS, arguments)


def refusal(arguments: Sequence[str]) -> str:
    with pytest.raises(FlagError) as caught:
        parse(FLAGS, arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [["-name=x"], ["--name=x"], ["-name", "x"], ["--name", "x"]],
    ids=" ".join,
)
def test_one_dash_or_two_and_an_equals_sign_or_a_word_of_its_own(arguments: list[str]) -> None:
    assert read(*arguments).text("name") == "x"


def test_a_flag_that_is_not_given_has_its_default() -> None:
    flags = read()
    assert flags.text("name") == "nobody"
    assert flags.number("size") == 7
    assert flags.seconds("timeout") == 1.0
    assert flags.switch("quiet") is False
    assert not flags.is_given("name")


def test_asking_for_an_unknown_flag_is_a_mistake_of_the_program() -> None:
    with pytest.raises(KeyError):
        read().text("nmae")


def test_of_a_repeated_flag_the_last_value_counts_and_all_of_them_can_be_had() -> None:
    flags = read("--name=a", "--quiet", "--name=b", "--quiet=false")
    assert flags.text("name") == "b"
    assert flags.texts("name") == ["a", "b"]
    assert flags.switch("quiet") is False


def test_all_values_of_a_flag_that_is_not_given_are_none() -> None:
    assert read().texts("name") == []


def test_a_value_keeps_equals_signs_quotes_and_spaces() -> None:
    assert read('--name="a=b" ').text("name") == '"a=b" '


def test_an_empty_value_is_a_value() -> None:
    flags = read("--name=")
    assert flags.text("name") == ""
    assert flags.is_given("name")


def test_the_next_word_is_the_value_even_if_it_looks_like_a_flag() -> None:
    assert read("--name", "--quiet").text("name") == "--quiet"


def test_a_boolean_never_takes_the_next_word() -> None:
    flags = read("--quiet", "false", "--name=x")
    assert flags.switch("quiet") is True
    assert flags.rest == ["false", "--name=x"]


@pytest.mark.parametrize(
    ("arguments", "rest"),
    [
        (["--quiet", "--", "--name=x"], ["--name=x"]),
        (["--quiet", "word", "--name=x"], ["word", "--name=x"]),
        (["--quiet", "-", "--name=x"], ["-", "--name=x"]),
        (["--quiet", "", "--name=x"], ["", "--name=x"]),
    ],
    ids=["two dashes", "a word", "one dash", "an empty word"],
)
def test_flags_end_at_the_first_word_that_is_none(arguments: list[str], rest: list[str]) -> None:
    flags = read(*arguments)
    assert flags.rest == rest
    assert flags.text("name") == "nobody"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--V=5"], "flag provided but not defined: -V"),
        (["-nme=x"], "flag provided but not defined: -nme"),
        (["--name"], "flag needs an argument: -name"),
        (["---v"], "bad flag syntax: ---v"),
        (["-=x"], "bad flag syntax: -=x"),
        (["--=x"], "bad flag syntax: --=x"),
        (["--v="], 'invalid value "" for flag -v: strconv.ParseUint: parsing "": invalid syntax'),
        (
            ["--v=5.0"],
            'invalid value "5.0" for flag -v: strconv.ParseUint: parsing "5.0": invalid syntax',
        ),
        (
            ["-v", "-1"],
            'invalid value "-1" for flag -v: strconv.ParseUint: parsing "-1": invalid syntax',
        ),
        (
            ["--v=2147483648"],
            (
                'invalid value "2147483648" for flag -v:'
                ' strconv.ParseUint: parsing "2147483648": value out of range'
            ),
        ),
        (["--port=http"], 'invalid value "http" for flag -port: parse error'),
        (
            ["--port=9223372036854775808"],
            'invalid value "9223372036854775808" for flag -port: value out of range',
        ),
        (["--quiet=yes"], 'invalid boolean value "yes" for -quiet: parse error'),
        (
            ["--timeout=60"],
            (
                'invalid value "60" for flag -timeout:'
                " parse error: missing unit in duration, such as 30s"
            ),
        ),
        (
            ["--timeout=6 s"],
            'invalid value "6 s" for flag -timeout: parse error: unknown unit " s" in duration',
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_go_refuses_is_refused_in_its_words(arguments: list[str], text: str) -> None:
    assert refusal(arguments) == text


def test_the_first_error_is_told_even_if_help_is_asked_for_later() -> None:
    assert refusal(["--V=5", "-h"]) == "flag provided but not defined: -V"


@pytest.mark.parametrize("word", ["-h", "--h", "-help", "--help", "--help=please"])
def test_help_may_be_asked_for(word: str) -> None:
    with pytest.raises(HelpRequested):
        read("--quiet", word)


def test_a_flag_called_h_is_a_flag() -> None:
    assert parse({"h": Flag("h", BOOL, "false", "")}, ["-h"]).switch("h") is True


@pytest.mark.parametrize("text", ["1", "t", "T", "true", "TRUE", "True"])
def test_words_for_yes(text: str) -> None:
    assert parse_bool(text) is True


@pytest.mark.parametrize("text", ["0", "f", "F", "false", "FALSE", "False"])
def test_words_for_no(text: str) -> None:
    assert parse_bool(text) is False


@pytest.mark.parametrize("text", ["", "yes", "no", "on", "off", "tRUE", "2", " true", '"true"'])
def test_no_other_word_is_a_boolean(text: str) -> None:
    with pytest.raises(ValueError, match="parse error"):
        parse_bool(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("9809", 9809),
        ("+9809", 9809),
        ("-1", -1),
        ("-0", 0),
        ("0x1F", 31),
        ("-0X1f", -31),
        ("0b101", 5),
        ("0o17", 15),
        ("017", 15),
        ("00", 0),
        ("0_17", 15),
        ("1_000", 1000),
        ("0x_ff", 255),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
    ],
)
def test_integers_as_go_reads_them(text: str, number: int) -> None:
    assert parse_int(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "+-1",
        "--1",
        " 1",
        "1 ",
        "1\n",
        "08",
        "0x",
        "0b2",
        "1_",
        "_1",
        "1__0",
        "0_",
        "1.0",
        "1e3",
        "\u0661",
        "9" * 5000,
    ],
)
def test_what_go_takes_for_no_integer(text: str) -> None:
    with pytest.raises(ValueError, match="parse error"):
        parse_int(text)


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809", "0x1" + "0" * 16])
def test_integers_have_64_bits(text: str) -> None:
    with pytest.raises(ValueError, match="value out of range"):
        parse_int(text)


def test_an_unsigned_integer_has_no_sign_and_one_bit_more() -> None:
    assert parse_uint("18446744073709551615") == 2**64 - 1
    assert parse_uint("0x10") == 16
    for text in ("-1", "+1", ""):
        with pytest.raises(ValueError, match="parse error"):
            parse_uint(text)
    with pytest.raises(ValueError, match="value out of range"):
        parse_uint("18446744073709551616")


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from(["{:d}", "{:#x}", "{:#o}", "{:#b}"]))
def test_every_integer_comes_back_from_every_base(number: int, form: str) -> None:
    assert parse_int(form.format(number)) == number


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("+0", 0.0),
        ("-0", 0.0),
        ("3s", 3.0),
        ("+3s", 3.0),
        ("-1s", -1.0),
        ("500ms", 0.5),
        ("1m30s", 90.0),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("1h2m3s4ms5us6ns", 3723.004005006),
        ("10\u00b5s", 1e-05),
        ("10\u03bcs", 1e-05),
        ("5s10s", 15.0),
        ("00000000000000000000000000000000000001s", 1.0),
        ("0.100000000000000000000000000000000000001s", 0.1),
        ("9223372036854775807ns", 9223372036.854775807),
        ("-9223372036854775808ns", -9223372036.854775808),
    ],
)
def test_durations_as_go_reads_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("60", "missing unit"),
        ("1m30", "missing unit"),
        ("", "not a duration"),
        ("-", "not a duration"),
        ("s", "not a duration"),
        (".s", "not a duration"),
        ("+-1s", "not a duration"),
        (" 1s", "not a duration"),
        ("1s ", 'unknown unit "s "'),
        ("1S", 'unknown unit "S"'),
        ("1d", 'unknown unit "d"'),
        ("1 s", 'unknown unit " s"'),
        ("1s-1s", 'unknown unit "s-"'),
        ("1e3s", 'unknown unit "e"'),
        ("9223372036854775808ns", "out of range"),
        ("-9223372036854775809ns", "out of range"),
        ("3000000h", "out of range"),
        ("9" * 5000 + "s", "out of range"),
    ],
)
def test_what_go_takes_for_no_duration(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"^parse error: ") as caught:
        parse_duration(text)
    assert reason in str(caught.value)


UNITS = {"h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@given(st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(sorted(UNITS))), min_size=1))
def test_a_duration_is_the_sum_of_its_parts(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{count}{unit}" for count, unit in parts)
    nanoseconds = sum(count * UNITS[unit] for count, unit in parts)
    if nanoseconds < 2**63:
        assert parse_duration(text) == nanoseconds / 1e9
        assert parse_duration("-" + text) == -nanoseconds / 1e9


@given(st.text())
def test_a_reader_takes_a_text_or_raises_value_error(text: str) -> None:
    for reader in (parse_bool, parse_int, parse_uint, parse_duration, parse_level, parse_vmodule):
        with contextlib.suppress(ValueError):
            reader(text)


@given(st.lists(st.text() | st.sampled_from([f"--{name}" for name in LOGGING])))
def test_every_command_line_is_read_or_refused(arguments: list[str]) -> None:
    with contextlib.suppress(FlagError, HelpRequested):
        parse(LOGGING, arguments)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", '""'),
        ("plain text", '"plain text"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("C:\\csi", '"C:\\\\csi"'),
        ("a\nb\tc\rd", '"a\\nb\\tc\\rd"'),
        ("\a\b\f\v", '"\\a\\b\\f\\v"'),
        ("\x00\x1b\x7f", '"\\x00\\x1b\\x7f"'),
        ("\u00e9\u4e16\U0001f600", '"\u00e9\u4e16\U0001f600"'),
        ("\u00a0\u2028\ufeff", '"\\u00a0\\u2028\\ufeff"'),
        ("\U000e0001", '"\\U000e0001"'),
        ("\x80\uffff", '"\\u0080\\uffff"'),
        (b"\x80\xff".decode(errors="surrogateescape"), '"\\x80\\xff"'),
        ("\udc7f\udd00", '"\\udc7f\\udd00"'),
    ],
)
def test_quoting_as_go_does_it(text: str, quoted: str) -> None:
    assert quote(text) == quoted


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_quoted_text_is_one_printable_line_that_can_be_read_back(text: str) -> None:
    quoted = quote(text)
    assert quoted.isprintable()
    escapes = quoted.encode("ascii", "backslashreplace").decode("unicode_escape")
    assert escapes == f'"{text}"'


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", ()),
        ("klog=4", (("klog", 4),)),
        ("klog=4,http*=5,", (("klog", 4), ("http*", 5))),
    ],
)
def test_vmodule_names_files_and_levels(text: str, pairs: tuple[tuple[str, int], ...]) -> None:
    assert parse_vmodule(text) == pairs


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("klog", '"klog" does not have the pattern=N format'),
        ("=4", '"=4" does not have the pattern=N format'),
        ("klog=", '"klog=" does not have the pattern=N format'),
        ("a=1=2", '"a=1=2" does not have the pattern=N format'),
        (
            "klog=x",
            'parsing verbosity in "klog=x": strconv.ParseUint: parsing "x": invalid syntax',
        ),
    ],
)
def test_vmodule_is_refused_as_component_base_does(text: str, reason: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse(LOGGING, [f"--vmodule={text}"])
    assert str(caught.value) == f"invalid value {quote(text)} for flag -vmodule: {reason}"


@pytest.mark.parametrize(
    "arguments",
    [
        ["-v", "0"],
        ["--v=005"],
        ["--v=2147483647"],
        ["--logtostderr"],
        ["--logtostderr=true", "--alsologtostderr", "--one_output=true"],
        ["--stderrthreshold=INFO"],
        ["--stderrthreshold=warning"],
        ["-stderrthreshold", "2"],
        ["--log_dir=/tmp", "--log_file=/tmp/x", "--log_file_max_size=1800"],
        ["--skip_headers", "--skip_log_headers=false", "--add_dir_header"],
        ["--log_backtrace_at=gopher.go:234"],
        ["--log_backtrace_at="],
        ["--log-flush-frequency=5s"],
        ["--log-json-info-buffer-size=0", "--log-json-split-stream"],
        ["--log-text-info-buffer-size=64Ki", "--log-text-split-stream=true"],
        ["--log-text-info-buffer-size=1.5M"],
        ["--log-text-info-buffer-size=1e3"],
        ["--log-text-info-buffer-size=1E"],
        ["--log-text-info-buffer-size=+2E-3"],
    ],
    ids=" ".join,
)
def test_log_flags_of_every_generation_are_taken(arguments: list[str]) -> None:
    assert parse(LOGGING, arguments).rest == []


@pytest.mark.parametrize(
    "word",
    [
        "--log-dir=/tmp",
        "--log_flush_frequency=5s",
        "--log-flush-frequency=5",
        "--stderrthreshold=LOUD",
        "--log_file_max_size=-1",
        "--log_backtrace_at=gopher:234",
        "--log_backtrace_at=gopher.go:x",
        "--log-text-info-buffer-size=",
        "--log-text-info-buffer-size=.",
        "--log-text-info-buffer-size=1.2.3",
        "--log-text-info-buffer-size=64KB",
        "--log-text-info-buffer-size=1e",
        "--log-text-info-buffer-size=1e+-3",
        "--log-text-info-buffer-size=lots",
        "--v=+1",
        "--v=0x1",
        "--v=\u0661",
        "--v=99999999999999999999",
    ],
)
def test_log_flags_are_refused_where_kubernetes_refuses_them(word: str) -> None:
    with pytest.raises(FlagError):
        parse(LOGGING, [word])


def test_reading_the_command_line_imports_next_to_nothing() -> None:
    """R52: the exec probe lives on 40 ms of CPU."""
    script = (
        "import sys; before = set(sys.modules); sys.path.insert(0, sys.argv[1])\n"
        "from csi_node_driver_registrar import addresses, flag_sets, goflags\n"
        "goflags.parse(flag_sets.by_name(flag_sets.REGISTRAR), ['--mode=x', '--timeout=3s'])\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    root = pathlib.Path(goflags.__file__).parents[1]
    # Without site, which loads modules of its own.
    command = [sys.executable, "-I", "-S", "-c", script, str(root)]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    foreign = [name for name in loaded if not name.startswith("csi_node_driver_registrar")]
    assert foreign == ["__future__"]
