"""The PromQL of the dashboards: which series, narrowed by which variables, joined by which labels.

Our families are written without the prefix that they share. `$name` is a variable of Grafana's.
"""

from metrics.families import PREFIX

SIDECAR = "cluster, job, namespace, node, instance"
"""The labels that the scrape gives to one sidecar; a plain Prometheus may lack some of them."""

DRIVER = f"{SIDECAR}, driver_name"
"""What tells one driver beside one sidecar from all others."""

TARGET = "cluster, namespace, job, instance"
"""The least that tells one sidecar from all others."""

ALERTS = (
    "CSIDriverNotRegistered",
    "CSIDriverNotRegisteredOnManyNodes",
    "CSIDriverProbeSlow",
    "CSIDriverSocketMissing",
    "CSIDriverUnhealthy",
    "CSIDriverVersionSkew",
    "KubeletPluginNotRegistered",
    "NodeRegistrarAbsent",
    "NodeRegistrarDown",
    "RegistrationFailing",
    "RegistrationFlapping",
)
"""All that deploy/prometheus has; their names are nobody else's."""

AT_END = " @ end()"
"""Makes a query one and the same for the whole of a graph, so that Prometheus computes it once."""

BY_VARIABLES = tuple(f'{label}=~"${label}"' for label in SIDECAR.split(", "))


def of_sidecar(family: str, *matchers: str) -> str:
    """Select a family of ours that has series for each sidecar."""
    return selector(PREFIX + family, *BY_VARIABLES, *matchers)


def of_driver(family: str, *matchers: str) -> str:
    """Select a family of ours that has series for each driver."""
    return of_sidecar(family, 'driver_name=~"$driver"', *matchers)


def of_process(metric: str) -> str:
    """Select a metric that every program has, of our sidecars alone."""
    return f"{selector(metric, *BY_VARIABLES)} {only_ours()}"


def rate_of_process(metric: str) -> str:
    """Give the rate of a counter that every program has, of our sidecars alone."""
    return f"rate({selector(metric, *BY_VARIABLES)}[$__rate_interval]) {only_ours()}"


def restarts_of_sidecars() -> str:
    """Count for each sidecar how often it began anew under the address that it had."""
    started_at = selector("process_start_time_seconds", *BY_VARIABLES)
    return f"changes({started_at}[$__rate_interval]) {only_ours()}"


def only_ours() -> str:
    """Leave out other programs from what stands before this and has the labels of a target."""
    return f"and on ({TARGET}) {of_sidecar('build_info')}"


def rate_of_calls(*matchers: str) -> str:
    """Give the rates of calls in the histogram that all CSI sidecars share."""
    driver = 'driver_name=~"$driver"'
    series = selector("csi_sidecar_operations_seconds_count", *BY_VARIABLES, driver, *matchers)
    return f"rate({series}[$__rate_interval])"


def recorded_bucket_rates() -> str:
    """Select the rates of buckets that the recording rules have summed over all nodes."""
    return selector(
        "driver_method_le:csi_node_registrar_csi_call_duration_seconds_bucket:rate5m",
        'cluster=~"$cluster"',
        'job=~"$job"',
        'namespace=~"$namespace"',
        'driver_name=~"$driver"',
    )


def of_our_jobs(query: str) -> str:
    """Leave out other CSI sidecars' jobs from a query that keeps the labels cluster and job."""
    return f"{query} and on (cluster, job) group by (cluster, job) ({of_sidecar('build_info')})"


def of_kubelet(world: str) -> str:
    """Select kubelet's own view of the registration sockets; kubelet has another scrape job.

    Args:
        world: `desired` for those that it has found, `actual` for those that it has registered.
    """
    return selector(
        "plugin_manager_total_plugins",
        'cluster=~"$cluster"',
        'node=~"$node"',
        'socket_path=~".*/$driver-reg[.]sock"',
        f'state="{world}_state_of_world"',
    )


def of_alerts() -> str:
    """Select the alerts of ours that fire."""
    names = f'alertname=~"{"|".join(ALERTS)}"'
    return selector("ALERTS", 'alertstate="firing"', names, 'cluster=~"$cluster"')


def silent_sidecars(at: str = "") -> str:
    """Select the sidecars that Prometheus cannot scrape, where any of their job could be lately.

    Args:
        at: `AT_END`, or nothing for each point of a graph.
    """
    lately = f"last_over_time({of_sidecar('build_info')}[$__range]{AT_END})"
    ours = f"group by (cluster, job) ({lately})"
    return f"{selector('up', *BY_VARIABLES)}{at} == 0 and on (cluster, job) {ours}"


def sidecars_without_driver(at: str = "") -> str:
    """Select the sidecars whose driver has never told its name.

    The variable for the driver plays no part: such a sidecar may wait for any driver.

    Args:
        at: `AT_END`, or nothing for each point of a graph.
    """
    with_driver = f"{of_sidecar('driver_up')}{at}"
    return f"{of_sidecar('build_info')}{at} unless on ({TARGET}) {with_driver}"


def increase(family: str, by: str, *matchers: str) -> str:
    """Sum by some labels how much a counter of ours has grown between two points of a graph."""
    return f"sum by ({by}) (increase({of_driver(family, *matchers)}[$__rate_interval]))"


def rate(family: str, by: str, *matchers: str) -> str:
    """Sum by some labels how fast a counter of ours grows."""
    return f"sum by ({by}) (rate({of_driver(family, *matchers)}[$__rate_interval]))"


def seconds_since(family: str, *matchers: str) -> str:
    """Give the time since a Unix time that is 0 for never."""
    return f"time() - max by ({DRIVER}) ({of_driver(family, *matchers)} > 0)"


def unregistered_share() -> str:
    """Give the part of the time on display for which each driver was not registered, 0 to 1.

    It is one number for the whole of a graph: what is chosen by it is the same at each point.
    """
    return f"1 - avg_over_time({of_driver('registered')}[$__range]{AT_END})"


def selector(metric: str, *matchers: str) -> str:
    """Select a metric."""
    return f"{metric}{{{', '.join(matchers)}}}" if matchers else metric
