"""The health paths of HTTP: /healthz, /livez, /readyz and each check under all three.

What is asked for stands in `overall`; the server that the routes are handed to in `http_server`.
"""

import json
from collections.abc import Awaitable, Callable

from health.checks import CheckName, Outcome
from health.http_server import Route, last_part
from health.observer import Handler
from health.overall import Endpoint, Health, Report
from health.web import HTTPNotFound, Request, Response

_NO_STORE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def health_routes(health: Health) -> list[Route]:
    """Make the routes of all endpoints and of each check.

    `?verbose` tells every check's outcome as kube-apiserver does, `?exclude=CHECK` (any number of
    times) leaves one out, `?driver=NAME` asks about one driver alone.
    """
    return [route for endpoint in health.endpoints for route in _routes(health, endpoint)]


def _routes(health: Health, endpoint: Endpoint) -> tuple[Route, Route]:
    handler = Handler(endpoint.name)
    return (
        Route(f"/{endpoint.name}", _all_checks(health, endpoint), handler),
        Route(f"/{endpoint.name}/", _one_check(health), handler, takes_name=True),
    )


def _all_checks(health: Health, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        exclude = request.query.getall("exclude", [])
        driver = request.query.get("driver")
        report = await health.report(endpoint, exclude=exclude, driver=driver)
        return _response(request, report, names_drivers=health.has_several_drivers)

    return answer


def _one_check(health: Health) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        name, known = last_part(request), health.check_names
        if name not in known:
            raise HTTPNotFound(text=f"no such check; there are: {', '.join(known)}\n")
        report = await health.check_report(CheckName(name), driver=request.query.get("driver"))
        return _response(request, report, names_drivers=health.has_several_drivers)

    return answer


def _response(request: Request, report: Report, *, names_drivers: bool) -> Response:
    text = verbose_text if "verbose" in request.query else short_text
    status = 200 if report.is_healthy else 500
    body = text(report, names_drivers=names_drivers)
    return Response(status=status, text=body, headers=_NO_STORE)


def short_text(report: Report, *, names_drivers: bool) -> str:
    """Say `ok`, or else why not: a line for each check that fails."""
    failures = [outcome for outcome in report.outcomes if not outcome.is_healthy]
    lines = (f"{_subject(failure, names_drivers)}: {failure.reason}\n" for failure in failures)
    return "".join(lines) or "ok"


def verbose_text(report: Report, *, names_drivers: bool) -> str:
    """Say how each check went, line by line as kube-apiserver's health endpoints do."""
    lines = [_line(outcome, names_drivers) for outcome in report.outcomes]
    lines += [f"[+]{name} excluded: ok" for name in report.excluded]
    if report.unmatched:
        names = ", ".join(json.dumps(name) for name in report.unmatched)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
    lines.append(f"{report.title} check {'passed' if report.is_healthy else 'failed'}")
    return "".join(f"{line}\n" for line in lines)


def _line(outcome: Outcome, names_drivers: bool) -> str:  # noqa: FBT001  # private, one caller
    driver = f"{outcome.driver}: " if names_drivers and outcome.driver else ""
    if outcome.is_healthy:
        return f"[+]{outcome.check} ok{driver and f' ({outcome.driver})'}"
    return f"[-]{outcome.check} failed: {driver}{outcome.reason}"


def _subject(outcome: Outcome, names_drivers: bool) -> str:  # noqa: FBT001  # as above
    return (
        f"{outcome.check} of {outcome.driver}"
        if names_drivers and outcome.driver
        else outcome.check
    )
