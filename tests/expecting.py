"""What an answer of Prometheus has to be, in the words of the tables in `test_fleet_queries`."""

from collections.abc import Callable, Collection, Mapping

from promql import Series

Expectation = Callable[[list[Series]], bool]
"""Says whether an answer will do."""

Good = Callable[[float], bool]
"""Says whether a value will do."""


def number(is_good: Good) -> Expectation:
    """Expect one series without labels; its latest value counts."""
    return lambda answer: [dict(each.labels) for each in answer] == [{}] and is_good(answer[0].last)


def nothing(answer: list[Series]) -> bool:
    """Expect no series."""
    return answer == []


def exactly(labels: str, values: Mapping[str, Good]) -> Expectation:
    """Expect these series and no others, by the values of some labels; the latest value counts."""
    return lambda answer: (
        values.keys() == _latest(labels, answer).keys()
        and _are_good(values, _latest(labels, answer))
    )


def among(labels: str, values: Mapping[str, Good]) -> Expectation:
    """Expect these series, by the values of some labels, and perhaps others; the latest counts."""
    return lambda answer: _are_good(values, _latest(labels, answer))


def at_times(labels: str, names: Collection[str], is_good: Good) -> Expectation:
    """Expect series with these values of some labels, each good at one time at least."""

    def is_met(answer: list[Series]) -> bool:
        good = {_name(labels, each) for each in answer if any(map(is_good, each.values))}
        return good >= set(names)

    return is_met


def of(*allowed: float) -> Good:
    """Allow these values."""
    return lambda value: any(abs(value - each) < 1e-9 for each in allowed)


def between(low: float, high: float) -> Good:
    """Allow values between two others, and the higher one."""
    return lambda value: low < value <= high


def _latest(labels: str, answer: list[Series]) -> dict[str, float]:
    latest = {_name(labels, each): each.last for each in answer}
    assert len(latest) == len(answer), f"two series have the same {labels}"
    return latest


def _are_good(values: Mapping[str, Good], latest: Mapping[str, float]) -> bool:
    return all(name in latest and is_good(latest[name]) for name, is_good in values.items())


def _name(labels: str, series: Series) -> str:
    return " ".join(series.labels.get(label, "") for label in labels.split())
