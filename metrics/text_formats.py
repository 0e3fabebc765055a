"""Writes metric families as text: Prometheus 0.0.4 and OpenMetrics 1.0.

prometheus_client's own writer drags in http.server, and sorts `le` among the other labels. Sources:
prometheus.io, "Exposition formats", and the OpenMetrics specification.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.metrics_core import Metric

from metrics.go_numbers import go_float, openmetrics_float

_Number = Callable[[float], str]

# What a family of a type is called in the older format, which knows fewer types.
_PROMETHEUS_SUFFIXES = {"counter": "_total", "info": "_info"}
_PROMETHEUS_TYPES = {"info": "gauge", "stateset": "gauge", "unknown": "untyped"}


class TextFormat(NamedTuple):
    """How an exposition is written."""

    content_type: str
    write: Callable[[Metric], str]
    """Writes one family."""
    end: str
    """Comes after the last family."""


def prometheus_format() -> TextFormat:
    """Return the text format 0.0.4, which everything reads."""
    return TextFormat("text/plain; version=0.0.4; charset=utf-8", _write_prometheus, "")


def openmetrics_format(version: str) -> TextFormat:
    """Return the text format of OpenMetrics, under one of the versions that read the same."""
    content_type = f"application/openmetrics-text; version={version}; charset=utf-8"
    return TextFormat(content_type, _write_openmetrics, "# EOF\n")


def _write_prometheus(family: Metric) -> str:
    name = family.name + _PROMETHEUS_SUFFIXES.get(family.type, "")
    kind = _PROMETHEUS_TYPES.get(family.type, family.type)
    header = _header(name, kind, _escaped_help(family.documentation))
    return "".join((header, *_lines(family, go_float)))


def _write_openmetrics(family: Metric) -> str:
    header = _header(family.name, family.type, _escaped(family.documentation))
    return "".join((header, *_lines(family, _openmetrics_number)))


def _header(name: str, kind: str, documentation: str) -> str:
    return f"# HELP {name} {documentation}\n# TYPE {name} {kind}\n"


def _lines(family: Metric, number: _Number) -> Iterator[str]:
    left_out = f"{family.name}_created"
    for sample in family.samples:
        if sample.name != left_out:
            yield f"{sample.name}{_labels(sample.labels)} {number(sample.value)}\n"


def _labels(labels: Mapping[str, str]) -> str:
    """Write the labels as the collector gives them, in its order.

    A label, `le` included, is what a series is known by: it is the same in every format.
    """
    if not labels:
        return ""
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}"


def _openmetrics_number(value: float) -> str:
    """Write counts as integers and all else as floats."""
    return str(int(value)) if isinstance(value, int) else openmetrics_float(value)


def _escaped(text: str) -> str:
    return _escaped_help(text).replace('"', r"\"")


def _escaped_help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")
