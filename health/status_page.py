"""The page at `/`, for a person: what is served here, and the state of each driver.

It shows what it is handed; where a state comes from is not here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from health.http_server import Route
from health.observer import Handler
from health.web import Request, Response

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
}
_STYLE = (
    "body{font-family:sans-serif;margin:2em}"
    "th{text-align:left;font-weight:normal;padding-right:1em;vertical-align:top}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverStatus:
    """What the page says about one driver."""

    name: str
    """The driver's name, or its `--csi-address` as long as the name is unknown."""
    state: str
    details: Mapping[str, str] = field(default_factory=dict)
    """Further lines, such as the last error: what it is, and the text."""


def status_route(
    title: str, *, links: Sequence[str], drivers: Callable[[], Sequence[DriverStatus]]
) -> Route:
    """Make the route of the page.

    Args:
        title: The program and its version.
        links: The paths that are served here.
        drivers: Called for each request.
    """

    async def answer(_request: Request) -> Response:
        page = status_page(title, links=links, drivers=drivers())
        return Response(text=page, content_type="text/html", headers=_HEADERS)

    return Route("/", answer, Handler.ROOT)


def status_page(title: str, *, links: Sequence[str], drivers: Sequence[DriverStatus]) -> str:
    """Write the page as HTML; every text in it is escaped."""
    items = "".join(f'<li><a href="{escape(link)}">{escape(link)}</a></li>' for link in links)
    sections = "".join(_section(driver) for driver in drivers)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{escape(title)}</h1><ul>{items}</ul>{sections}</body></html>\n"
    )


def _section(driver: DriverStatus) -> str:
    lines = {"state": driver.state, **driver.details}
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in lines.items()
    )
    return f"<h2>{escape(driver.name)}</h2><table>{rows}</table>"
