"""The HTTP handler that shows a registry to a scraper; under which path is the caller's affair."""

import asyncio
import time
import zlib
from collections.abc import Awaitable, Callable

from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response
from prometheus_client.registry import CollectorRegistry

from metrics.negotiation import accepts_gzip, openmetrics_version
from metrics.text_formats import TextFormat, openmetrics_format, prometheus_format

_SLICE_SECONDS = 0.002
"""After which others on the event loop have their turn: ten drivers take that long to write, and
several times as long on a slow core."""

_GZIP_WINDOW_BITS = 31
"""Makes zlib write gzip, without the module of that name."""

_GZIP_LEVEL = 1
"""A third of the time that the default level takes on an exposition, for a tenth more bytes."""


def metrics_handler(registry: CollectorRegistry) -> Callable[[BaseRequest], Awaitable[Response]]:
    """Return a handler for GET and HEAD that collects from the registry at each request."""

    async def show_metrics(request: BaseRequest) -> Response:
        version = openmetrics_version(_header(request, "Accept"))
        text_format = prometheus_format() if version is None else openmetrics_format(version)
        body = (await _exposition(registry, text_format)).encode()
        headers = {"Content-Type": text_format.content_type, "Vary": "Accept, Accept-Encoding"}
        if accepts_gzip(_header(request, "Accept-Encoding")):
            body = zlib.compress(body, _GZIP_LEVEL, _GZIP_WINDOW_BITS)
            headers["Content-Encoding"] = "gzip"
        return Response(body=body, headers=headers)

    return show_metrics


async def _exposition(registry: CollectorRegistry, text_format: TextFormat) -> str:
    """Write all families, sorted by name; they are of one moment although it takes a few."""
    parts = []
    families = sorted(registry.collect(), key=lambda family: family.name)
    turn_ends_at = time.monotonic() + _SLICE_SECONDS
    for family in families:
        parts.append(text_format.write(family))
        if time.monotonic() > turn_ends_at:
            await asyncio.sleep(0)
            turn_ends_at = time.monotonic() + _SLICE_SECONDS
    return "".join((*parts, text_format.end))


def _header(request: BaseRequest, name: str) -> str:
    return ",".join(request.headers.getall(name, []))
