"""What command lines come to, which of them are refused, and what the operator is told."""

import dataclasses
import inspect
import re
from collections.abc import Callable, Sequence

import pytest

from csi_node_driver_registrar import addresses, flag_sets, goflags, usage
from csi_node_driver_registrar.config import (
    Config,
    ConfigError,
    DriverConfig,
    LivenessConfig,
    Mode,
    VersionRequested,
    parse_livenessprobe,
    parse_registrar,
)
from csi_node_driver_registrar.goflags import FlagError, HelpRequested
from csi_node_driver_registrar.klog import LogConfig, LogFormat
from registrar.settings import OnRegistrationFailure

HOST_PATH = "/var/lib/kubelet/plugins/csi.example.com/socket"


def registrar(*arguments: str) -> Config:
    return parse_registrar([f"--kubelet-registration-path={HOST_PATH}", *arguments])


def refusal(parse: Callable[[Sequence[str]], object], *arguments: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(arguments)
    text = str(caught.value)
    assert "\n" not in text
    return text


def driver(csi_address: str, kubelet_registration_path: str) -> DriverConfig:
    return DriverConfig(
        csi_address=csi_address, kubelet_registration_path=kubelet_registration_path
    )


def test_a_registrar_needs_nothing_but_the_path_on_the_host() -> None:
    assert registrar() == Config(
        drivers=(driver("/run/csi/socket", HOST_PATH),),
        plugin_registration_path="/registration",
        timeout_seconds=1.0,
        probe_timeout_seconds=1.0,
        monitor_interval_seconds=10.0,
        kubelet_silence_timeout_seconds=30.0,
        on_registration_failure=OnRegistrationFailure.RETRY,
        mode=Mode.REGISTRATION,
        http_endpoint="",
        metrics_path="/metrics",
        grpc_health_endpoint="",
        logging=LogConfig(),
        warnings=(),
    )


def test_every_flag_of_the_registrar_has_its_place() -> None:
    config = parse_registrar(
        [
            "--csi-address=unix:///csi/csi.sock",
            "--kubelet-registration-path=/k/csi.sock",
            "--plugin-registration-path=/plugins",
            "--timeout=10s",
            "--probe-timeout=2500ms",
            "--monitor-interval=1m",
            "--kubelet-silence-timeout=0",
            "--on-registration-failure=exit",
            "--mode=kubelet-registration-probe",
            "--http-endpoint=localhost:29607",
            "--metrics-path=/m",
            "--grpc-health-endpoint=:9810",
            "--logging-format=json",
            "-v=5",
        ]
    )
    assert config == Config(
        drivers=(driver("/csi/csi.sock", "/k/csi.sock"),),
        plugin_registration_path="/plugins",
        timeout_seconds=10.0,
        probe_timeout_seconds=2.5,
        monitor_interval_seconds=60.0,
        kubelet_silence_timeout_seconds=0.0,
        on_registration_failure=OnRegistrationFailure.EXIT,
        mode=Mode.EXEC_PROBE,
        http_endpoint="localhost:29607",
        metrics_path="/m",
        grpc_health_endpoint=":9810",
        logging=LogConfig(format=LogFormat.JSON, verbosity=5),
        warnings=(),
    )


def test_the_probe_timeout_follows_the_timeout() -> None:
    assert registrar("--timeout=40s").probe_timeout_seconds == 40.0


def test_a_livenessprobe_needs_nothing() -> None:
    assert parse_livenessprobe([]) == LivenessConfig(
        csi_address="/run/csi/socket",
        probe_timeout_seconds=3.0,
        http_endpoint="0.0.0.0:9808",
        metrics_address="",
        metrics_path="/metrics",
        logging=LogConfig(),
        warnings=(),
    )


def test_every_flag_of_the_livenessprobe_has_its_place() -> None:
    config = parse_livenessprobe(
        [
            "--csi-address=unix:/csi/csi.sock",
            "--probe-timeout=120s",
            "--health-port=29603",
            "--metrics-address=:8080",
            "--metrics-path=/m",
            "--v=2",
        ]
    )
    assert dataclasses.replace(config, warnings=()) == LivenessConfig(
        csi_address="/csi/csi.sock",
        probe_timeout_seconds=120.0,
        http_endpoint="0.0.0.0:29603",
        metrics_address=":8080",
        metrics_path="/m",
        logging=LogConfig(verbosity=2),
        warnings=(),
    )
    assert config.warnings == (
        "--metrics-address is deprecated: --http-endpoint serves metrics as well",
    )


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        registrar().timeout_seconds = 2.0  # type: ignore[misc]


# --- several drivers


def test_drivers_are_paired_by_the_order_of_their_flags() -> None:
    config = parse_registrar(
        [
            "--csi-address=/disk/csi.sock",
            "--csi-address=/nas/csi.sock",
            "--kubelet-registration-path=/plugins/disk/csi.sock",
            "--kubelet-registration-path=/plugins/nas/csi.sock",
        ]
    )
    assert config.drivers == (
        driver("/disk/csi.sock", "/plugins/disk/csi.sock"),
        driver("/nas/csi.sock", "/plugins/nas/csi.sock"),
    )


@pytest.mark.parametrize(
    ("csi_addresses", "paths", "counts"),
    [
        (["/a"], ["/p/a", "/p/b"], "1 --csi-address for 2"),
        (["/a", "/b"], ["/p/a"], "2 --csi-address for 1"),
        (["/a", "/a"], ["/p/a"], "2 --csi-address for 1"),
        ([], ["/p/a", "/p/b"], "1 --csi-address for 2"),
        (["/a", "/b"], ["/p/a", ""], "2 --csi-address for 1"),
    ],
)
def test_a_driver_without_its_other_half_is_refused_with_both_counts(
    csi_addresses: list[str], paths: list[str], counts: str
) -> None:
    text = refusal(
        parse_registrar,
        *(f"--csi-address={one}" for one in csi_addresses),
        *(f"--kubelet-registration-path={one}" for one in paths),
    )
    assert text.startswith(f"{counts} --kubelet-registration-path:")


def test_the_same_pair_twice_is_one_driver() -> None:
    pair = ["--csi-address=/a/socket", f"--kubelet-registration-path={HOST_PATH}"]
    assert parse_registrar(pair * 2).drivers == (driver("/a/socket", HOST_PATH),)


def test_two_drivers_cannot_share_a_socket_however_it_is_spelt() -> None:
    text = refusal(
        parse_registrar,
        *("--csi-address=/a", "--kubelet-registration-path=/p/a"),
        *("--csi-address=unix:///a", "--kubelet-registration-path=/p/b"),
    )
    assert text == "--csi-address=/a is given for two drivers"


def test_two_drivers_cannot_share_a_path_on_the_host() -> None:
    text = refusal(
        parse_registrar,
        *("--csi-address=/a", "--kubelet-registration-path=/p"),
        *("--csi-address=/b", "--kubelet-registration-path=unix:///p"),
    )
    assert text == "--kubelet-registration-path=/p is given for two drivers"


# --- what is refused


@pytest.mark.parametrize("arguments", [[], ["--kubelet-registration-path="]])
def test_a_registrar_without_a_path_on_the_host_is_refused(arguments: list[str]) -> None:
    assert refusal(parse_registrar, *arguments) == "--kubelet-registration-path is required"


def test_an_exec_probe_needs_the_path_on_the_host_too() -> None:
    text = refusal(parse_registrar, "--mode=kubelet-registration-probe")
    assert text == "--kubelet-registration-path is required"


def test_a_word_among_the_flags_is_told_as_the_likely_reason_for_a_missing_one() -> None:
    text = refusal(parse_registrar, "run", "--kubelet-registration-path=/p")
    assert text == (
        "--kubelet-registration-path is required;"
        ' arguments from "run" on are ignored: that word is no flag'
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--timeout=0"], "--timeout must be over 0"),
        (["--timeout=-1s"], "--timeout must be over 0"),
        (["--probe-timeout=0s"], "--probe-timeout must be over 0"),
        (["--monitor-interval=0"], "--monitor-interval must be over 0"),
        (["--kubelet-silence-timeout=-1s"], "--kubelet-silence-timeout must not be negative"),
        (
            ["--on-registration-failure=crash"],
            "--on-registration-failure=crash is unknown; it is retry or exit",
        ),
        (["--logging-format=xml"], "--logging-format=xml is unknown; it is text or json"),
        (["--logging-format="], "--logging-format= is unknown; it is text or json"),
        (
            ["--plugin-registration-path="],
            "--plugin-registration-path is empty; the default is /registration",
        ),
        (
            ["--health-port=9809", "--http-endpoint=:9809"],
            "only one of --health-port and --http-endpoint can be set",
        ),
        (
            ["--health-port=65536"],
            "--health-port=65536 is no port; use --http-endpoint for HOST:PORT",
        ),
        (["--metrics-path=metrics"], "--metrics-path=metrics must start with a slash"),
        (["--metrics-path="], "--metrics-path= must start with a slash"),
        (["--metrics-path=/"], "--metrics-path=/ is the path of something else"),
        (["--metrics-path=/healthz"], "--metrics-path=/healthz is the path of something else"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_registrar_is_refused_in_one_line(arguments: list[str], text: str) -> None:
    assert refusal(parse_registrar, f"--kubelet-registration-path={HOST_PATH}", *arguments) == text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--probe-timeout=0"], "--probe-timeout must be over 0"),
        (
            ["--health-port=9809", "--http-endpoint=:9809"],
            "only one of --health-port and --http-endpoint can be set",
        ),
        (
            ["--metrics-address=:1", "--http-endpoint=:9809"],
            "only one of --metrics-address and --http-endpoint can be set",
        ),
        (
            ["--health-port=localhost:29613"],
            "--health-port=localhost:29613 is no port; use --http-endpoint for HOST:PORT",
        ),
        (["--health-port="], "--health-port= is no port; use --http-endpoint for HOST:PORT"),
        (
            ["--health-port=\u0663"],
            "--health-port=\u0663 is no port; use --http-endpoint for HOST:PORT",
        ),
        (["--metrics-path=/livez/x"], "--metrics-path=/livez/x is the path of something else"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_livenessprobe_is_refused_in_one_line(arguments: list[str], text: str) -> None:
    assert refusal(parse_livenessprobe, *arguments) == text


@pytest.mark.parametrize(
    "arguments",
    [["--health-port=9808"], ["--health-port=9999", "--health-port=9808"], []],
)
def test_the_livenessprobes_default_port_may_stand_beside_an_endpoint(arguments: list[str]) -> None:
    config = parse_livenessprobe([*arguments, "--http-endpoint=:9809"])
    assert config.http_endpoint == ":9809"


def test_a_deprecated_port_becomes_an_endpoint() -> None:
    for words, endpoint in ((("-health-port", "0x2651"), ":9809"), (("--health-port=1",), ":1")):
        config = registrar(*words)
        assert config.http_endpoint == endpoint
        assert config.warnings == ("--health-port is deprecated: use --http-endpoint",)


@pytest.mark.parametrize("port", ["0", "-1"])
def test_no_port_is_no_server_and_no_contradiction(port: str) -> None:
    assert registrar(f"--health-port={port}").http_endpoint == ""
    config = registrar(f"--health-port={port}", "--http-endpoint=:9809")
    assert config.http_endpoint == ":9809"
    assert config.warnings == ()


@pytest.mark.parametrize("parse", [registrar, lambda *words: parse_livenessprobe(words)])
@pytest.mark.parametrize(
    "endpoint",
    [
        ":9809",
        "9809",
        "0.0.0.0:9809",
        "[::]:9809",
        "127.0.0.1:9809",
        "localhost:9809",
        "[10.0.0.7]:9809",
        "unix:///run/health.sock",
    ],
)
def test_an_endpoint_is_carried_as_it_was_given(
    parse: Callable[..., Config | LivenessConfig], endpoint: str
) -> None:
    """R47, R48."""
    assert parse(f"--http-endpoint={endpoint}").http_endpoint == endpoint


@pytest.mark.parametrize(
    ("parse", "name"),
    [
        (registrar, "http-endpoint"),
        (registrar, "grpc-health-endpoint"),
        (lambda *words: parse_livenessprobe(words), "http-endpoint"),
        (lambda *words: parse_livenessprobe(words), "metrics-address"),
    ],
)
@pytest.mark.parametrize("endpoint", ["localhost", "http", "::1:9809", ":99999", "unix://x.sock"])
def test_an_endpoint_that_cannot_be_listened_on_is_refused(
    parse: Callable[..., object], name: str, endpoint: str
) -> None:
    with pytest.raises(ConfigError, match=f"^--{name}: '{endpoint}'"):
        parse(f"--{name}={endpoint}")


@pytest.mark.parametrize("parse", [parse_registrar, parse_livenessprobe])
def test_the_version_comes_before_all_demands_but_after_the_syntax(
    parse: Callable[[Sequence[str]], object],
) -> None:
    with pytest.raises(VersionRequested):
        parse(["--version", "--timeout=0"] if parse is parse_registrar else ["--version"])
    with pytest.raises(FlagError):
        parse(["--version", "--nonsense"])
    with pytest.raises(HelpRequested):
        parse(["--version", "-h"])


# --- addresses


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/csi/csi.sock", "/csi/csi.sock"),
        ("unix:/csi/csi.sock", "/csi/csi.sock"),
        ("unix:///csi/csi.sock", "/csi/csi.sock"),
        ("/csi/csi_sock", "/csi/csi_sock"),
    ],
)
def test_a_drivers_address_comes_to_its_path(given: str, path: str) -> None:
    assert registrar(f"--csi-address={given}").drivers[0].csi_address == path
    assert parse_livenessprobe([f"--csi-address={given}"]).csi_address == path


@pytest.mark.parametrize(
    "given",
    [
        "C:\\csi\\csi.sock",
        "C:/csi/csi.sock",
        "unix://C:\\csi\\csi.sock",
        "unix://C:\\\\csi\\\\csi.sock",
        "unix:///C:/csi/csi.sock",
    ],
)
def test_a_windows_address_passes_untouched(given: str) -> None:
    """R44."""
    words = [f"--csi-address={given}", f"--kubelet-registration-path={given}"]
    config = parse_registrar(words)
    assert config.drivers == (driver(given, given),)
    assert config.warnings == ()


@pytest.mark.parametrize(
    ("given", "flaw"),
    [
        ("", 'csi-address: "" is empty'),
        ("csi.sock", '"csi.sock" is not an absolute path'),
        ("unix://csi.sock", '"unix://csi.sock" is not an absolute path'),
        ("unix:csi.sock", '"unix:csi.sock" is not an absolute path'),
        ("unix://", '"unix://" is not an absolute path'),
        ("tcp://127.0.0.1:9000", '"tcp://127.0.0.1:9000" is not an absolute path'),
        ("$(ADDRESS)", "the container has no such environment variable"),
        ('"/csi/csi.sock"', "in quotes, which are part of the value"),
    ],
)
def test_an_address_that_no_driver_can_have_is_refused(given: str, flaw: str) -> None:
    host_path = f"--kubelet-registration-path={HOST_PATH}"
    assert flaw in refusal(parse_livenessprobe, f"--csi-address={given}")
    assert flaw in refusal(parse_registrar, f"--csi-address={given}", host_path)


@pytest.mark.parametrize(
    ("given", "endpoint"),
    [
        ("/p/csi.sock", "/p/csi.sock"),
        ("unix:///p/csi.sock", "/p/csi.sock"),
        ("unix:/p/csi.sock", "/p/csi.sock"),
        ("plugins/csi.sock", "plugins/csi.sock"),
        ("C:\\p\\csi.sock", "C:\\p\\csi.sock"),
    ],
)
def test_kubelet_is_told_the_path_alone(given: str, endpoint: str) -> None:
    assert addresses.kubelet_endpoint(given) == endpoint


# --- what the operator is told


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/var/lib/kubelet/plugins/x/socket", []),
        ("/var/lib/kubelet/plugins/plugins_registry-not/socket", []),
        ("unix:///var/lib/kubelet/plugins/x/socket", ["announced without its prefix"]),
        ("unix:/var/lib/kubelet/plugins/x/socket", ["announced without its prefix"]),
        ("plugins/x/socket", ["not an absolute path"]),
        ("$(SOCKET)/socket", ["not filled in"]),
        ("/var/lib/kubelet/plugins_registry/x/socket", ["for a registration socket"]),
        ("/var/lib/kubelet/plugins_registry/socket", ["for a registration socket"]),
        ("/var/lib/kubelet/plugins/x/csi.sock", ["called socket in --csi-address"]),
        (
            "unix://plugins_registry/csi.sock",
            ["without its prefix", "not an absolute path", "registration socket", "called socket"],
        ),
        ("C:\\var\\lib\\kubelet\\plugins_registry\\x\\csi.sock", []),
    ],
)
def test_a_path_that_kubelet_will_stumble_over_is_warned_about(path: str, words: list[str]) -> None:
    """R30."""
    warnings = parse_registrar([f"--kubelet-registration-path={path}"]).warnings
    assert len(warnings) == len(words)
    for warning, part in zip(warnings, words, strict=True):
        assert warning.startswith("--kubelet-registration-path=")
        assert part in warning


def test_a_path_is_warned_about_for_each_driver() -> None:
    warnings = parse_registrar(
        [
            *("--csi-address=/a/csi.sock", "--kubelet-registration-path=/p/a.sock"),
            *("--csi-address=/b/csi.sock", "--kubelet-registration-path=/p/b.sock"),
        ]
    ).warnings
    assert [re.findall(r"=(\S+):", warning) for warning in warnings] == [
        ["/p/a.sock"],
        ["/p/b.sock"],
    ]


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("--connection-timeout=1m", "--connection-timeout has no effect"),
        ("--connection-timeout=0", "--connection-timeout has no effect"),
        ("--mode=node-register", "--mode=node-register has no effect"),
        ("--mode=nonsense", "--mode=nonsense has no effect"),
        ("--driver-requires-attachment=false", "--driver-requires-attachment has no effect"),
        ('--pod-info-mount-version="v1"', "--pod-info-mount-version has no effect"),
        ("--kubeconfig=/etc/kubeconfig", "--kubeconfig has no effect"),
        ("--enable-pprof", "--enable-pprof has no effect"),
        ("--log_dir=/var/log", "--log_dir has no effect"),
        ("--log_file=/var/log/x", "--log_file has no effect"),
        ("--logtostderr=false", "--logtostderr=false has no effect"),
        ("--log_backtrace_at=x.go:1", "--log_backtrace_at has no effect"),
        ("word", 'arguments from "word" on are ignored'),
    ],
)
def test_a_flag_that_lost_its_effect_is_accepted_and_named_once(argument: str, words: str) -> None:
    """R66, R67."""
    (warning,) = registrar(argument, argument).warnings
    assert warning.startswith(words)


@pytest.mark.parametrize(
    "argument",
    [
        "--mode=",
        "--mode=registration",
        "--mode=kubelet-registration-probe",
        "--enable-pprof=false",
        "--automaxprocs",
        "--health-port=0",
        "--logtostderr",
        "--alsologtostderr",
        "--stderrthreshold=INFO",
        "--log_file_max_size=1",
        "--one_output",
        "--skip_log_headers",
        "--log-flush-frequency=1s",
        "--log-json-info-buffer-size=64k",
        "--log-text-info-buffer-size=64k",
    ],
)
def test_a_flag_whose_effect_nobody_misses_is_accepted_in_silence(argument: str) -> None:
    assert registrar(argument).warnings == ()


def test_the_livenessprobe_of_older_releases_is_accepted() -> None:
    """R66: blob-csi-driver's --connection-timeout."""
    (warning,) = parse_livenessprobe(["--connection-timeout=3s", "--health-port=9898"]).warnings
    assert warning.startswith("--connection-timeout has no effect")


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("", Mode.REGISTRATION),
        ("registration", Mode.REGISTRATION),
        ("node-register", Mode.REGISTRATION),
        ("anything", Mode.REGISTRATION),
        ("kubelet-registration-probe", Mode.EXEC_PROBE),
    ],
)
def test_every_mode_but_the_probe_registers_as_in_go(mode: str, expected: Mode) -> None:
    assert registrar(f"--mode={mode}").mode is expected


# --- logging


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-v", "5"], LogConfig(verbosity=5)),
        (["--vmodule=a=1,b*=2"], LogConfig(vmodule=(("a", 1), ("b*", 2)))),
        (["--vmodule=a=1", "--vmodule=b=2"], LogConfig(vmodule=(("a", 1), ("b", 2)))),
        (["--skip_headers"], LogConfig(has_headers=False)),
        (["--add_dir_header"], LogConfig(has_folders=True)),
        (["--log-text-split-stream"], LogConfig(is_stream_split=True)),
        (["--log-json-split-stream"], LogConfig()),
        (["--logging-format=json"], LogConfig(format=LogFormat.JSON)),
        (
            ["--logging-format=json", "--log-json-split-stream"],
            LogConfig(format=LogFormat.JSON, is_stream_split=True),
        ),
        (
            ["--logging-format=json", "--log-text-split-stream"],
            LogConfig(format=LogFormat.JSON),
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_log_flags_come_to_one_value(arguments: list[str], expected: LogConfig) -> None:
    """R65."""
    assert registrar(*arguments).logging == expected
    assert parse_livenessprobe(arguments).logging == expected


# --- usage


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        (usage.registrar_usage(), flag_sets.REGISTRAR),
        (usage.livenessprobe_usage(), flag_sets.LIVENESSPROBE),
    ],
    ids=["registrar", "livenessprobe"],
)
def test_the_usage_names_every_flag_once_and_fits_a_terminal(
    text: str, groups: flag_sets.Groups
) -> None:
    entries = re.findall(r"^  --(\S+)", text, flags=re.MULTILINE)
    assert sorted(entries) == sorted(flag_sets.by_name(groups))
    assert max(map(len, text.splitlines())) <= 80
    assert not [line for line in text.splitlines() if line.endswith("-")]


def test_the_usage_of_a_flag_has_kind_meaning_and_default() -> None:
    assert (
        "  --monitor-interval duration\n"
        "        How often the driver is looked at, for a restart or another answer.\n"
        "        (default 10s)\n"
    ) in usage.registrar_usage()


@pytest.mark.parametrize("groups", [flag_sets.REGISTRAR, flag_sets.LIVENESSPROBE])
def test_every_default_can_be_written_on_the_command_line(groups: flag_sets.Groups) -> None:
    flags = flag_sets.by_name(groups)
    written = [f"--{flag.name}={flag.default}" for flag in flags.values() if flag.default]
    goflags.parse(flags, written)


@pytest.mark.parametrize("groups", [flag_sets.REGISTRAR, flag_sets.LIVENESSPROBE])
def test_no_flag_is_defined_twice(groups: flag_sets.Groups) -> None:
    assert len(flag_sets.by_name(groups)) == sum(len(flags) for _, flags in groups)


@pytest.mark.parametrize("config", [Config, LivenessConfig, DriverConfig, LogConfig])
def test_every_field_names_its_flag_and_its_default(config: type) -> None:
    """The docstring stands right under the field; it is what an operator's question leads to."""
    source = inspect.getsource(config)
    for field in dataclasses.fields(config):
        pattern = rf'^    {field.name}: [^\n]+\n    """(.*?)"""'
        (text,) = re.findall(pattern, source, re.MULTILINE | re.DOTALL)
        if field.name not in {"logging", "warnings", "drivers"}:
            assert "`-" in text
            assert "efault" in text
