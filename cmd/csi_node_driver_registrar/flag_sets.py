"""The flags of both programs, in the groups that the usage shows: names, kinds and defaults.

Like `goflags` this is read by the exec probe, so it imports nothing heavy. The rules that bind
several flags, and what is warned about, are in `config`.
"""

from csi_node_driver_registrar.goflags import BOOL, DURATION, INT, STRING, Flag
from csi_node_driver_registrar.log_flags import LOG_FLAGS, OLD_LOG_FLAGS

EXEC_PROBE_MODE = "kubelet-registration-probe"
"""The `--mode` that asks the running sidecar whether its driver is registered."""

MODES = frozenset({"", "registration", EXEC_PROBE_MODE})
"""The modes of current releases; any other is taken for registration, as in Go."""

Groups = tuple[tuple[str, tuple[Flag, ...]], ...]
"""Titles, each with its flags."""

_CSI_ADDRESS = "/run/csi/socket"

_NDR_FLAGS = (
    Flag(
        "csi-address",
        STRING,
        _CSI_ADDRESS,
        "The CSI driver's socket as this container sees it: /path, unix:/path or unix:///path."
        " Repeat it to serve several drivers, each with its --kubelet-registration-path, in the"
        " same order.",
    ),
    Flag(
        "kubelet-registration-path",
        STRING,
        "",
        "The same socket's path on the host, which kubelet will call. Required.",
    ),
    Flag(
        "plugin-registration-path",
        STRING,
        "/registration",
        "Kubelet's folder plugins_registry as this container sees it.",
    ),
    Flag(
        "timeout",
        DURATION,
        "1s",
        "Limit for one call to the driver. The driver itself is waited for as long as it takes.",
    ),
    Flag(
        "http-endpoint",
        STRING,
        "",
        "Where health checks and metrics are served: :9809, 127.0.0.1:9809, [::1]:9809 or"
        " unix:///path. Empty: nowhere.",
    ),
    Flag(
        "mode",
        STRING,
        "",
        f"{EXEC_PROBE_MODE} asks the running sidecar whether the driver behind"
        " --kubelet-registration-path is registered (exit status 0) or not (1), and ends.",
    ),
    Flag("version", BOOL, "false", "Show the version and end."),
)

_OWN_FLAGS = (
    Flag(
        "on-registration-failure",
        STRING,
        "retry",
        "When kubelet refuses the driver: retry announces it again, after 1 s to 60 s; exit ends"
        " with status 1, as node-driver-registrar does.",
    ),
    Flag(
        "monitor-interval",
        DURATION,
        "10s",
        "How often the driver is looked at, for a restart or another answer.",
    ),
    Flag(
        "kubelet-silence-timeout",
        DURATION,
        "30s",
        "After how long without a call from kubelet to warn and announce the driver again."
        " 0: never.",
    ),
    Flag(
        "probe-timeout",
        DURATION,
        "",
        "Limit for one health check. Without it, that of --timeout.",
    ),
    Flag("metrics-path", STRING, "/metrics", "Path of the metrics on --http-endpoint."),
    Flag(
        "grpc-health-endpoint",
        STRING,
        "",
        "Where grpc.health.v1 is served over TCP as well, for kubelet's grpc probes: :9810."
        " Empty: on the registration socket alone.",
    ),
)

_OLD_NDR_FLAGS = (
    Flag("health-port", INT, "0", "Deprecated: use --http-endpoint=:PORT. 0: off."),
    Flag("connection-timeout", DURATION, "0s", "No effect: the driver is waited for."),
    Flag("automaxprocs", BOOL, "false", "No effect: one thread does the work."),
    Flag("enable-pprof", BOOL, "false", "Not available."),
    Flag("driver-requires-attachment", BOOL, "true", "No effect: belongs into CSIDriver."),
    Flag("pod-info-mount-version", STRING, "", "No effect: belongs into CSIDriver."),
    Flag("kubeconfig", STRING, "", "No effect: the API server is not called."),
)

_LP_FLAGS = (
    Flag(
        "csi-address",
        STRING,
        _CSI_ADDRESS,
        "The CSI driver's socket as this container sees it: /path, unix:/path or unix:///path.",
    ),
    Flag("probe-timeout", DURATION, "3s", "Limit for one health check."),
    Flag(
        "http-endpoint",
        STRING,
        "",
        "Where health checks and metrics are served: :9808, 127.0.0.1:9808, [::1]:9808 or"
        " unix:///path. Empty: on --health-port.",
    ),
    Flag("metrics-path", STRING, "/metrics", "Path of the metrics."),
    Flag("version", BOOL, "false", "Show the version and end."),
)

_OLD_LP_FLAGS = (
    Flag("health-port", STRING, "9808", "Deprecated: use --http-endpoint=0.0.0.0:PORT."),
    Flag(
        "metrics-address",
        STRING,
        "",
        "Deprecated: where metrics are served as well. Excludes --http-endpoint.",
    ),
    Flag("connection-timeout", DURATION, "30s", "No effect: the driver is waited for."),
    Flag("automaxprocs", BOOL, "false", "No effect: one thread does the work."),
)

REGISTRAR: Groups = (
    ("Registration (the flags of node-driver-registrar)", _NDR_FLAGS),
    ("Beyond node-driver-registrar", _OWN_FLAGS),
    ("Logging", LOG_FLAGS),
    ("Deprecated or without effect, accepted as they were", (*_OLD_NDR_FLAGS, *OLD_LOG_FLAGS)),
)

LIVENESSPROBE: Groups = (
    ("Probing (the flags of livenessprobe)", _LP_FLAGS),
    ("Logging", LOG_FLAGS),
    ("Deprecated or without effect, accepted as they were", (*_OLD_LP_FLAGS, *OLD_LOG_FLAGS)),
)


def by_name(groups: Groups) -> dict[str, Flag]:
    """Index the flags of `groups` for `goflags.parse`."""
    return {flag.name: flag for _, flags in groups for flag in flags}
