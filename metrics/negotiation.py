"""Which format and encoding a scraper asks for (RFC 9110, sections 12.4.2, 12.5.1 and 12.5.3)."""

import re
from collections.abc import Iterator

_OPENMETRICS = "application/openmetrics-text"
_OPENMETRICS_VERSIONS = ("1.0.0", "0.0.1")
"""They differ in nothing that is written here; Prometheus asks for both."""

_TEXT = ("text/plain", "text/*", "*/*")

_WEIGHT = re.compile(r"0(\.\d{0,3})?|1(\.0{0,3})?", re.ASCII)


def openmetrics_version(accept: str) -> str | None:
    """Return the version of OpenMetrics to answer an Accept header with; None means plain text.

    OpenMetrics must be asked for by its name and weigh no less than plain text; of what weighs the
    same, the first counts. Never is a scrape refused because neither was asked for.
    """
    for media_type, parameters in _by_weight(accept):
        if media_type == _OPENMETRICS:
            version = parameters.get("version", _OPENMETRICS_VERSIONS[0])
            if version in _OPENMETRICS_VERSIONS:
                return version
        elif media_type in _TEXT:
            return None
    return None


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether an Accept-Encoding header admits gzip."""
    weights = {name: _weight(parameters) for name, parameters in _clauses(accept_encoding)}
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0


def _by_weight(header: str) -> list[tuple[str, dict[str, str]]]:
    """Return the clauses that are not ruled out, those that weigh most first."""
    wanted = [clause for clause in _clauses(header) if _weight(clause[1]) > 0]
    return sorted(wanted, key=lambda clause: -_weight(clause[1]))


def _clauses(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    for clause in header.lower().split(","):
        name, *parameters = (part.strip() for part in clause.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        yield name, {key.strip(): value.strip().strip('"') for key, _, value in pairs}


def _weight(parameters: dict[str, str]) -> float:
    """Return what `q` says, from 0 to 1; a weight that is none counts as 0."""
    weight = parameters.get("q", "1")
    return float(weight) if _WEIGHT.fullmatch(weight) else 0.0
