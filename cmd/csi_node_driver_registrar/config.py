"""What the command lines come to: one frozen value per program, and the rules behind it.

Names, kinds and defaults of the flags are in `flag_sets`; nothing here is started or opened.
Errors: ConfigError (a contradiction or a missing flag: one line, status 1), VersionRequested, and
what `goflags.parse` raises.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from csi_node_driver_registrar import addresses, flag_sets, flag_warnings, goflags
from csi_node_driver_registrar.goflags import Parsed
from csi_node_driver_registrar.klog import LogConfig, LogFormat
from csi_node_driver_registrar.log_flags import parse_vmodule
from health.addresses import parse_address
from health.errors import AddressError
from registrar.settings import OnRegistrationFailure

_PORT_MAX = 65535
_LP_DEFAULT_PORT = "9808"
_HEALTH_PATHS = ("/healthz", "/livez", "/readyz")


class ConfigError(Exception):
    """The flags contradict each other, or one is missing or out of range: one line, status 1."""


class VersionRequested(Exception):  # noqa: N818 - a wish, not a failure
    """The command line asks for the version (`--version`): status 0."""


class Mode(StrEnum):
    """What the registrar is started for."""

    REGISTRATION = "registration"
    EXEC_PROBE = flag_sets.EXEC_PROBE_MODE
    """Ask the running sidecar whether kubelet accepted the driver, and end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverConfig:
    """One driver to register."""

    csi_address: str
    """The path of the driver's socket as this process sees it, without `unix://` (a Windows
    address stays as given); `--csi-address`. Default `/run/csi/socket`, which is Go's."""

    kubelet_registration_path: str
    """The path of the same socket on the host, as kubelet is told it; without `unix://`;
    `--kubelet-registration-path`. No default: it depends on kubelet's root and on the driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What the registrar was asked to do."""

    drivers: tuple[DriverConfig, ...]
    """The drivers to register, at least one, no socket twice; `--csi-address` and
    `--kubelet-registration-path`, paired by their order."""

    plugin_registration_path: str
    """Kubelet's folder `plugins_registry` as this process sees it; `--plugin-registration-path`.
    Default `/registration`, where all charts mount it."""

    timeout_seconds: float
    """Limit for one call to the driver, in seconds, over 0; `--timeout`. Default 1 as in Go; it
    bounds an attempt and never the waiting, so a short limit harms nobody."""

    probe_timeout_seconds: float
    """Limit for one health check, in seconds, over 0; `--probe-timeout`. Default: that of
    `timeout_seconds`, which is what Go's /healthz is bounded by."""

    monitor_interval_seconds: float
    """How often the driver is looked at, in seconds, over 0; `--monitor-interval`. Default 10: one
    small call, and a restart with another answer is noticed well within a pod's start."""

    kubelet_silence_timeout_seconds: float
    """After how long without a call from kubelet to warn and announce again, in seconds; 0 means
    never; `--kubelet-silence-timeout`. Default 30: kubelet calls within a second or two, and its
    own back-off after an error is longer than what is in between."""

    on_registration_failure: OnRegistrationFailure
    """What follows when kubelet refuses the driver; `--on-registration-failure`. Default retry: a
    restart helps no better, and a crash loop waits up to five minutes."""

    mode: Mode
    """What to do at all; `--mode`. Default registration."""

    http_endpoint: str
    """Where health checks and metrics are served, as given; empty means nowhere;
    `--http-endpoint`, or `--health-port` as `:PORT`. Default empty as in Go: with hostNetwork a
    port is the node's."""

    metrics_path: str
    """Path of the metrics, starts with a slash; `--metrics-path`. Default `/metrics`."""

    grpc_health_endpoint: str
    """Where grpc.health.v1 is served over TCP, as given; empty means nowhere;
    `--grpc-health-endpoint`. Default empty: the registration socket has it anyway."""

    logging: LogConfig
    """How to log; the log flags."""

    warnings: tuple[str, ...]
    """What the operator should know about the flags, to be logged once logging is set up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LivenessConfig:
    """What the livenessprobe was asked to do."""

    csi_address: str
    """The path of the driver's socket as this process sees it, without `unix://` (a Windows
    address stays as given); `--csi-address`. Default `/run/csi/socket`, which is Go's."""

    probe_timeout_seconds: float
    """Limit for one health check, in seconds, over 0; `--probe-timeout`. Default 3 as in Go, where
    one second killed healthy but throttled drivers."""

    http_endpoint: str
    """Where health checks and metrics are served, as given; never empty; `--http-endpoint`, or
    `--health-port` as `0.0.0.0:PORT`. Default `0.0.0.0:9808` as in Go."""

    metrics_address: str
    """Where metrics are served as well, as given; empty means nowhere else; `--metrics-address`
    (deprecated in Go). Default empty."""

    metrics_path: str
    """Path of the metrics, starts with a slash; `--metrics-path`. Default `/metrics`."""

    logging: LogConfig
    """How to log; the log flags."""

    warnings: tuple[str, ...]
    """What the operator should know about the flags, to be logged once logging is set up."""


def parse_registrar(arguments: Iterable[str]) -> Config:
    """Read the registrar's command line, without the program's name.

    Raises:
        ConfigError: if flags are missing, contradict each other or are out of range.
        VersionRequested: at `--version`.
        FlagError: if the syntax is wrong or a flag unknown (`goflags`).
        HelpRequested: at `-h` (`goflags`).
    """
    flags = goflags.parse(flag_sets.by_name(flag_sets.REGISTRAR), arguments)
    _raise_if_version(flags)
    return Config(
        drivers=_drivers(flags),
        plugin_registration_path=_folder(flags),
        timeout_seconds=_positive_seconds(flags, "timeout"),
        probe_timeout_seconds=_probe_timeout_seconds(flags),
        monitor_interval_seconds=_positive_seconds(flags, "monitor-interval"),
        kubelet_silence_timeout_seconds=_seconds(flags, "kubelet-silence-timeout"),
        on_registration_failure=_on_registration_failure(flags),
        mode=_mode(flags),
        http_endpoint=_registrar_endpoint(flags),
        metrics_path=_metrics_path(flags),
        grpc_health_endpoint=_endpoint(flags, "grpc-health-endpoint"),
        logging=_logging(flags),
        warnings=(*flag_warnings.registrar_warnings(flags), *_path_warnings(flags)),
    )


def parse_livenessprobe(arguments: Iterable[str]) -> LivenessConfig:
    """Read the livenessprobe's command line, without the program's name.

    Raises:
        ConfigError: if flags are missing, contradict each other or are out of range.
        VersionRequested: at `--version`.
        FlagError: if the syntax is wrong or a flag unknown (`goflags`).
        HelpRequested: at `-h` (`goflags`).
    """
    flags = goflags.parse(flag_sets.by_name(flag_sets.LIVENESSPROBE), arguments)
    _raise_if_version(flags)
    return LivenessConfig(
        csi_address=_csi_address(flags.text("csi-address")),
        probe_timeout_seconds=_positive_seconds(flags, "probe-timeout"),
        http_endpoint=_livenessprobe_endpoint(flags),
        metrics_address=_endpoint(flags, "metrics-address"),
        metrics_path=_metrics_path(flags),
        logging=_logging(flags),
        warnings=tuple(flag_warnings.livenessprobe_warnings(flags)),
    )


def _raise_if_version(flags: Parsed) -> None:
    if flags.switch("version"):
        raise VersionRequested


def _logging(flags: Parsed) -> LogConfig:
    log_format = flags.text("logging-format")
    if log_format not in set(LogFormat):
        raise ConfigError(f"--logging-format={log_format} is unknown; it is text or json")
    return LogConfig(
        format=LogFormat(log_format),
        verbosity=flags.number("v"),
        vmodule=tuple(pair for text in flags.texts("vmodule") for pair in parse_vmodule(text)),
        is_stream_split=flags.switch(f"log-{log_format}-split-stream"),
        has_headers=not flags.switch("skip_headers"),
        has_folders=flags.switch("add_dir_header"),
    )


def _mode(flags: Parsed) -> Mode:
    is_probe = flags.text("mode") == Mode.EXEC_PROBE
    return Mode.EXEC_PROBE if is_probe else Mode.REGISTRATION


def _drivers(flags: Parsed) -> tuple[DriverConfig, ...]:
    drivers = tuple(
        DriverConfig(
            csi_address=_csi_address(csi_address),
            kubelet_registration_path=addresses.kubelet_endpoint(path),
        )
        for csi_address, path in dict.fromkeys(_pairs(flags))
    )
    _refuse_twice("csi-address", [driver.csi_address for driver in drivers])
    _refuse_twice("kubelet-registration-path", [one.kubelet_registration_path for one in drivers])
    return drivers


def _pairs(flags: Parsed) -> list[tuple[str, str]]:
    paths = [path for path in flags.texts("kubelet-registration-path") if path]
    if not paths:
        raise ConfigError(_no_path(flags))
    csi_addresses = flags.texts("csi-address") or [flags.text("csi-address")]
    if len(csi_addresses) != len(paths):
        raise ConfigError(
            f"{len(csi_addresses)} --csi-address for {len(paths)} --kubelet-registration-path:"
            " give one of each for every driver, in the same order",
        )
    return list(zip(csi_addresses, paths, strict=True))


def _no_path(flags: Parsed) -> str:
    ignored = flag_warnings.ignored_words(flags)
    return "--kubelet-registration-path is required" + (f"; {ignored}" if ignored else "")


def _refuse_twice(name: str, values: list[str]) -> None:
    for value in values:
        if values.count(value) > 1:
            raise ConfigError(f"--{name}={value} is given for two drivers")


def _csi_address(text: str) -> str:
    try:
        return addresses.driver_socket(text)
    except ValueError as error:
        raise ConfigError(f"--csi-address: {error}") from error


def _folder(flags: Parsed) -> str:
    folder = flags.text("plugin-registration-path")
    if not folder:
        raise ConfigError("--plugin-registration-path is empty; the default is /registration")
    return folder


def _seconds(flags: Parsed, name: str) -> float:
    seconds = flags.seconds(name)
    if seconds < 0:
        raise ConfigError(f"--{name} must not be negative")
    return seconds


def _positive_seconds(flags: Parsed, name: str) -> float:
    seconds = flags.seconds(name)
    if seconds <= 0:
        raise ConfigError(f"--{name} must be over 0")
    return seconds


def _probe_timeout_seconds(flags: Parsed) -> float:
    is_given = flags.is_given("probe-timeout")
    return _positive_seconds(flags, "probe-timeout" if is_given else "timeout")


def _on_registration_failure(flags: Parsed) -> OnRegistrationFailure:
    text = flags.text("on-registration-failure")
    if text not in set(OnRegistrationFailure):
        raise ConfigError(f"--on-registration-failure={text} is unknown; it is retry or exit")
    return OnRegistrationFailure(text)


def _registrar_endpoint(flags: Parsed) -> str:
    port, endpoint = flags.number("health-port"), _endpoint(flags, "http-endpoint")
    if port <= 0:
        return endpoint
    if endpoint:
        raise ConfigError("only one of --health-port and --http-endpoint can be set")
    return f":{_port(str(port))}"


def _livenessprobe_endpoint(flags: Parsed) -> str:
    port, endpoint = flags.text("health-port"), _endpoint(flags, "http-endpoint")
    if not endpoint:
        return f"0.0.0.0:{_port(port)}"
    if port != _LP_DEFAULT_PORT:
        raise ConfigError("only one of --health-port and --http-endpoint can be set")
    if flags.text("metrics-address"):
        raise ConfigError("only one of --metrics-address and --http-endpoint can be set")
    return endpoint


def _endpoint(flags: Parsed, name: str) -> str:
    text = flags.text(name)
    try:
        if text:
            parse_address(text)
    except AddressError as error:
        raise ConfigError(f"--{name}: {error}") from error
    return text


def _port(text: str) -> str:
    is_number = text.isascii() and text.isdigit()
    if not is_number or len(text) > len(str(_PORT_MAX)) or int(text) > _PORT_MAX:
        raise ConfigError(f"--health-port={text} is no port; use --http-endpoint for HOST:PORT")
    return text


def _metrics_path(flags: Parsed) -> str:
    path = flags.text("metrics-path")
    if not path.startswith("/"):
        raise ConfigError(f"--metrics-path={path} must start with a slash")
    if path == "/" or path.startswith(_HEALTH_PATHS):
        raise ConfigError(f"--metrics-path={path} is the path of something else")
    return path


def _path_warnings(flags: Parsed) -> list[str]:
    pairs = dict.fromkeys(_pairs(flags))
    return [oddity for pair in pairs for oddity in addresses.oddities(*pair)]
