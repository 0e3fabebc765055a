"""The metrics of one run: the registry, who feeds it, and the route that shows it."""

import platform
from collections.abc import Callable, Sequence

from csi_node_driver_registrar.klog import Logger
from csi_node_driver_registrar.version import __version__, revision
from health import observer as health_events
from health.http_server import Route
from health.observer import Handler, RequestAnswered
from metrics.exposition import metrics_handler
from metrics.families import DRIVER_FAMILIES, BuildInfo, DriverFamily
from metrics.observer import MetricsObserver
from metrics.registry import TolerantRegistry, register_process_metrics
from registrar.observer import Event

_log = Logger(__name__)


class Measuring:
    """Counts what the registrar and the health server report, from the start of a run."""

    def __init__(self, families: Sequence[DriverFamily] = DRIVER_FAMILIES) -> None:
        """Start to count.

        Args:
            families: what to show of each driver; a role that registers none leaves out what would
                only say that none is registered.
        """
        self._registry = TolerantRegistry(on_failure=_report_failure)
        build = BuildInfo(
            version=__version__, revision=revision(), python_version=platform.python_version()
        )
        self._registry.register(build)
        register_process_metrics(self._registry)
        self._observer = MetricsObserver(self._registry, families=families)

    @property
    def notify(self) -> Callable[[Event], None]:
        """Takes the registrar's events."""
        return self._observer.notify

    def notify_health(self, event: health_events.Event) -> None:
        """Take the health server's events."""
        if isinstance(event, RequestAnswered):
            self._observer.count_http_request(event.handler, event.code)

    def route(self, path: str) -> Route:
        """Return the route that shows all of it."""
        return Route(path, metrics_handler(self._registry), Handler.METRICS)


def _report_failure(sentence: str) -> None:
    _log.error("Some metrics cannot be collected; the others are served", err=sentence)
