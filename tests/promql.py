"""Asks a Prometheus over its HTTP API, as Grafana does."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Series:
    """One series of an answer, its values in the order of time."""

    labels: Labels
    values: tuple[float, ...]

    @property
    def last(self) -> float:
        """The latest value, which is the only one of an instant query."""
        return self.values[-1]


class PromQL:
    """A server to ask; queries go as a form, for they may be longer than an address."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self._session = session

    async def now(self, query: str, *, at: float | None = None) -> list[Series]:
        """Return what a query gives now, or gave at another Unix time.

        Raises:
            AssertionError: if the server refuses it, with its words.
        """
        result = await self._ask("query", query=query, time=at or time.time())
        return [_series(each["metric"], [each["value"]]) for each in result]

    async def over(
        self, query: str, *, seconds: float, step_seconds: float, at: float | None = None
    ) -> list[Series]:
        """Return what a query has given in the last seconds, or in those before another Unix time.

        Raises:
            AssertionError: if the server refuses it, with its words.
        """
        end = at or time.time()
        result = await self._ask(
            "query_range", query=query, start=end - seconds, end=end, step=step_seconds
        )
        return [_series(each["metric"], each["values"]) for each in result]

    async def label_values(self, selector: str, label: str) -> list[str]:
        """Return the values that a label has in the series of a selector."""
        parameters = {"match[]": selector}
        url = f"{self.url}/api/v1/label/{label}/values"
        async with self._session.get(url, params=parameters) as answer:
            assert answer.status == 200, await answer.text()
            return list((await answer.json())["data"])

    async def wait_until(
        self, query: str, is_reached: Callable[[list[Series]], bool], *, timeout_seconds: float = 30
    ) -> None:
        """Ask again and again until the answer will do.

        Raises:
            TimeoutError: if it never does; the message has the last answer.
        """
        answer: list[Series] = []
        try:
            async with asyncio.timeout(timeout_seconds):
                # A process of its own cannot set an event of ours.
                while not is_reached(answer := await self.now(query)):  # noqa: ASYNC110
                    await asyncio.sleep(0.2)
        except TimeoutError as error:
            raise TimeoutError(f"{query} still gives {answer}") from error

    async def own_metrics(self) -> dict[str, float]:
        """Return what the server says of itself, by name; series of one name are added up."""
        figures: dict[str, float] = {}
        async with self._session.get(f"{self.url}/metrics") as answer:
            for line in (await answer.text()).splitlines():
                if not line.startswith("#"):
                    series, _, value = line.rpartition(" ")
                    name = series.partition("{")[0]
                    figures[name] = figures.get(name, 0) + float(value)
        return figures

    async def _ask(self, kind: str, **form: object) -> list[dict[str, Any]]:
        async with self._session.post(f"{self.url}/api/v1/{kind}", data=form) as answer:
            body = await answer.json()
        assert answer.status == 200, f"{body.get('error')} in {form['query']}"
        result: list[dict[str, Any]] = body["data"]["result"]
        return result


def _series(labels: Labels, points: list[tuple[float, str]]) -> Series:
    return Series(labels, tuple(float(value) for _, value in points))
