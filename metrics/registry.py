"""A registry whose collectors may fail, and the collectors that describe the process itself."""

from collections.abc import Callable, Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry


class TolerantRegistry(CollectorRegistry):
    """Collects from each collector on its own, so that one that fails takes no other with it."""

    def __init__(self, on_failure: Callable[[str], None] = lambda _: None) -> None:
        """Make an empty registry.

        Args:
            on_failure: is told, in a sentence, of a collector that fails: once until it fails in
                other words or has worked again.
        """
        super().__init__()
        self._on_failure = on_failure
        self._failures: dict[Collector, str | None] = {}
        """The collectors in the order of their registration, and how each failed last."""

    def register(self, collector: Collector) -> None:
        """Add a collector.

        Raises:
            ValueError: if it describes a series that another collector has.
        """
        super().register(collector)
        self._failures[collector] = None

    def unregister(self, collector: Collector) -> None:
        """Remove a collector.

        Raises:
            KeyError: if it is not there.
        """
        super().unregister(collector)
        del self._failures[collector]

    def collect(self) -> Iterator[Metric]:
        """Yield the families of all collectors that do not fail."""
        for collector in tuple(self._failures):
            yield from self._collect_from(collector)

    def _collect_from(self, collector: Collector) -> list[Metric]:
        try:
            families = list(collector.collect())
        except Exception as error:  # noqa: BLE001  # whatever it is, the others are worth more
            self._note_failure(collector, f"{type(collector).__name__} failed: {error!r}")
            return []
        self._note_failure(collector, None)
        return families

    def _note_failure(self, collector: Collector, failure: str | None) -> None:
        before, self._failures[collector] = self._failures[collector], failure
        if failure is not None and failure != before:
            self._on_failure(failure)


def register_process_metrics(registry: CollectorRegistry) -> None:
    """Add `process_*` and `python_info`; what the garbage collector does is left out."""
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
