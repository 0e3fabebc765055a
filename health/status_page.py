"""The page at `/`, for a person: what is served here, and how each driver is.

It shows what it is handed; where a state comes from is not here. There is no script in it and
nothing from elsewhere, and all that is handed in is text, never markup.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from html import escape
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote

from health.checks import Latest
from health.http_server import Route
from health.observer import Handler
from health.sparkline import Bar, sparkline
from health.status_style import STYLE, STYLE_SHA256
from health.times import ago, utc
from health.web import Request, Response

MAX_BARS = 60
"""How many calls of a method are shown."""

_REFRESH_SECONDS = 15
_HOLD = "hold"
"""The query that keeps the page as it is, for whoever wants to read or copy."""
_MAX_TEXT_CHARACTERS = 1024
"""A driver may call its version anything of any length."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{STYLE_SHA256}'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Tone(StrEnum):
    """How good it is what is said, as the class of an element."""

    GOOD = "good"
    BAD = "bad"
    OPEN = "open"
    """Neither, or not known yet."""


class Calls(NamedTuple):
    """The latest calls of one method."""

    method: str
    words: str
    """What the bars show, in words."""
    bars: Sequence[Bar]
    """Oldest first; the last `MAX_BARS` are shown."""


class DriverStatus(NamedTuple):
    """What the page says about one driver."""

    name: str
    """The driver's name, or its `--csi-address` as long as the name is unknown."""
    state: str
    tone: Tone
    since: str
    """For how long it has been in that state, in words."""
    problems: Mapping[str, str] = MappingProxyType({})
    """What is wrong: where, and the text."""
    checks: Sequence[Latest] = ()
    calls: Sequence[Calls] = ()
    details: Mapping[str, str] = MappingProxyType({})
    """Further lines, such as the driver's version: what it is, and the text."""


def status_route(
    title: str, *, links: Sequence[str], drivers: Callable[[], Awaitable[Sequence[DriverStatus]]]
) -> Route:
    """Make the route of the page.

    Args:
        title: The program and its version.
        links: The paths that are served here.
        drivers: Called for each request.
    """

    async def answer(request: Request) -> Response:
        is_held = _HOLD in request.query
        page = status_page(title, links=links, drivers=await drivers(), is_held=is_held)
        refresh = {} if is_held else {"Refresh": str(_REFRESH_SECONDS)}
        return Response(text=page, content_type="text/html", headers=_HEADERS | refresh)

    return Route("/", answer, Handler.ROOT)


def status_page(
    title: str, *, links: Sequence[str], drivers: Sequence[DriverStatus], is_held: bool = False
) -> str:
    """Write the page as HTML."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{STYLE}</style></head>"
        f"<body><header><h1>{_text(title)}</h1><p>{_as_of(is_held=is_held)}</p>"
        f"<nav>{' '.join(_link(link, link) for link in links)}</nav></header>"
        f"<main>{''.join(map(_section, drivers))}</main></body></html>\n"
    )


def _as_of(*, is_held: bool) -> str:
    now = f"As of {utc(time.time())}"
    if is_held:
        return f"{now}. {_link('/', 'Keep up to date')}"
    return f"{now}, again every {_REFRESH_SECONDS} s. {_link(f'/?{_HOLD}', 'Hold still')}"


def _section(driver: DriverStatus) -> str:
    problems = ((_text(name), _toned(Tone.BAD, text)) for name, text in driver.problems.items())
    checks = (_check(driver.name, check) for check in driver.checks)
    details = ((_text(name), _text(text)) for name, text in driver.details.items())
    return (
        f"<section><h2>{_text(driver.name)}</h2>"
        f'<p><strong class="{driver.tone}">{_text(driver.state)}</strong> {_text(driver.since)}</p>'
        f"{_list(problems)}"
        f"<h3>Checks</h3>{_list(checks)}"
        f"<h3>Calls to the driver</h3>{_list(map(_calls, driver.calls))}"
        f"<h3>Details</h3>{_list(details)}</section>"
    )


def _list(lines: Iterable[tuple[str, str]]) -> str:
    """Write lines of HTML, each a term and what is said of it."""
    rows = "".join(f"<dt>{term}</dt><dd>{said}</dd>" for term, said in lines)
    return f"<dl>{rows}</dl>" if rows else ""


def _check(driver: str, check: Latest) -> tuple[str, str]:
    path = f"/readyz/{check.name}?driver={quote(driver, safe='', errors='replace')}"
    remark = _remark(check)
    said = _toned(*_result(check)) + (f" ({_text(remark)})" if remark else "")
    return _link(path, check.name), said


def _result(check: Latest) -> tuple[Tone, str]:
    """Say what a check came to; that all was well once is no comfort while it gets no answer."""
    if check.seconds_ago is None:
        return Tone.OPEN, "not known yet"
    if check.reason is not None:
        return Tone.BAD, f"failed: {check.reason}"
    return (Tone.OPEN if check.is_under_way else Tone.GOOD), "ok"


def _remark(check: Latest) -> str:
    """Say how old a result is, and whether a newer one is waited for."""
    age = check.seconds_ago
    old = [ago(age)] if age is not None and age >= 1 else []
    waiting = ["asked, no answer yet"] if check.is_under_way else []
    return ", ".join(old + waiting)


def _calls(calls: Calls) -> tuple[str, str]:
    return _text(calls.method), sparkline(calls.bars, places=MAX_BARS) + _text(calls.words)


def _toned(tone: Tone, text: str) -> str:
    return f'<span class="{tone}">{_text(text)}</span>'


def _link(path: str, words: str) -> str:
    return f'<a href="{_text(path)}">{_text(words)}</a>'


def _text(value: str) -> str:
    """Make a foreign text harmless: no markup, no control characters, nothing without end."""
    cut = value if len(value) <= _MAX_TEXT_CHARACTERS else f"{value[:_MAX_TEXT_CHARACTERS]}…"
    line = " ".join(cut.split())
    return escape("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line))
