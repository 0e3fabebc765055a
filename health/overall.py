"""What the checks of all drivers come to together: /healthz, /livez, /readyz and each check.

How that is told over HTTP or gRPC is not here (`endpoints`, `grpc_health`).
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from health.checks import Check, CheckName, Examiner, Latest, Outcome
from health.observer import Observer

_STOP_GRACE_SECONDS = 0.1


class Endpoint(NamedTuple):
    """Checks that are asked for together; all must pass."""

    name: str
    checks: tuple[CheckName, ...]
    """Of every driver. Empty: it is healthy whenever the process answers."""
    is_red_while_stopping: bool = False
    """So that nothing is sent here any more before the registration goes."""


HEALTHZ = Endpoint(name="healthz", checks=(CheckName.REGISTRATION_SOCKET, CheckName.CSI_DRIVER))
LIVEZ = Endpoint(name="livez", checks=())
READYZ = Endpoint(name="readyz", checks=tuple(CheckName), is_red_while_stopping=True)

REGISTRAR_ENDPOINTS = (HEALTHZ, LIVEZ, READYZ)
"""Of the sidecar that registers drivers."""
LIVENESSPROBE_ENDPOINTS = (
    Endpoint(name="healthz", checks=(CheckName.CSI_PROBE,)),
    LIVEZ,
    Endpoint(name="readyz", checks=(CheckName.CSI_PROBE,), is_red_while_stopping=True),
)
"""Of the sidecar in the role of kubernetes-csi livenessprobe, which knows of no registration."""


class Report(NamedTuple):
    """What an endpoint, or a single check, came to."""

    title: str
    """The endpoint's name or the check's."""
    outcomes: tuple[Outcome, ...]
    excluded: tuple[str, ...] = ()
    """The checks that were left out on request."""
    unmatched: tuple[str, ...] = ()
    """What the request wanted left out but is no check of this endpoint."""

    @property
    def is_healthy(self) -> bool:
        """Whether all that was asked for passes."""
        return all(outcome.is_healthy for outcome in self.outcomes)


class Health:
    """Everything that can be asked about the health of this process and its drivers."""

    def __init__(self, examiners: Sequence[Examiner], endpoints: Sequence[Endpoint]) -> None:
        """Take the checks and what they make up.

        Raises:
            ValueError: An endpoint names a check that does not exist, and so would never fail.
        """
        self.endpoints = tuple(endpoints)
        self._examiners = tuple(examiners)
        self._is_stopping = False
        self._change = asyncio.Event()
        if missing := {name for one in endpoints for name in one.checks} - {*self.check_names}:
            raise ValueError(f"no check is called {', '.join(sorted(missing))}")

    @property
    def check_names(self) -> tuple[CheckName, ...]:
        """The checks that exist here, in the order in which they were given."""
        return tuple(dict.fromkeys(examiner.check.name for examiner in self._examiners))

    @property
    def has_several_drivers(self) -> bool:
        """Whether an outcome must name its driver to be understood."""
        return len({examiner.check.driver() for examiner in self._examiners}) > 1

    @property
    def is_stopping(self) -> bool:
        """Whether `stopping` was called."""
        return self._is_stopping

    def stopping(self) -> None:
        """Turn readiness and the gRPC services red for good; call it first when asked to stop."""
        self._is_stopping = True
        self.changed()

    def changed(self) -> None:
        """Tell whoever watches that another outcome may have come about."""
        self._change.set()
        self._change = asyncio.Event()

    def next_change(self) -> asyncio.Event:
        """Return what will be set by the next `changed`; take it before asking for a report."""
        return self._change

    async def report(
        self, endpoint: Endpoint, *, exclude: Collection[str] = (), driver: str | None = None
    ) -> Report:
        """Ask all checks of an endpoint at the same time, those in `exclude` left out.

        `driver` narrows it down to one driver's checks.
        """
        asked = [name for name in endpoint.checks if name not in exclude]
        stop = _stop_outcomes() if endpoint.is_red_while_stopping and self._is_stopping else ()
        return Report(
            title=endpoint.name,
            outcomes=(*await self.outcomes(asked, driver=driver), *stop),
            excluded=tuple(name for name in endpoint.checks if name in exclude),
            unmatched=tuple(name for name in dict.fromkeys(exclude) if name not in endpoint.checks),
        )

    async def check_report(self, name: CheckName, *, driver: str | None = None) -> Report:
        """Ask one check of every driver, or of one."""
        return Report(title=name, outcomes=await self.outcomes((name,), driver=driver))

    async def outcomes(
        self, names: Collection[str], *, driver: str | None = None
    ) -> tuple[Outcome, ...]:
        """Ask the named checks at the same time. An unknown driver is a failure of its own."""
        if driver is not None and driver not in self._drivers():
            return (self._unknown(driver),)
        asked = [
            examiner
            for examiner in self._examiners
            if examiner.check.name in names and driver in (None, examiner.check.driver())
        ]
        calls = [examiner.begin() for examiner in asked]
        return tuple([await one.outcome(call) for one, call in zip(asked, calls, strict=True)])

    async def latest(self, *, patience_seconds: float) -> tuple[Latest, ...]:
        """Ask every check, and say what each came to last: now if it is quick, or else before."""
        calls = [examiner.begin() for examiner in self._examiners]
        await asyncio.gather(*(call.settle(patience_seconds=patience_seconds) for call in calls))
        return tuple(examiner.latest for examiner in self._examiners)

    def _drivers(self) -> list[str]:
        return list(dict.fromkeys(examiner.check.driver() for examiner in self._examiners))

    def _unknown(self, driver: str) -> Outcome:
        known = ", ".join(self._drivers())
        reason = f"{driver!r} is not served here, or not yet; there are: {known}"
        return Outcome(check="driver", driver="", reason=reason)


def _stop_outcomes() -> tuple[Outcome, ...]:
    return (Outcome(check="shutdown", driver="", reason="the process is stopping"),)


@asynccontextmanager
async def examining(
    checks: Sequence[Check],
    endpoints: Sequence[Endpoint] = REGISTRAR_ENDPOINTS,
    *,
    timeout_seconds: float,
    observer: Observer,
) -> AsyncIterator[Health]:
    """Answer questions about health while the block runs; end what is under way afterwards.

    Each check gets `timeout_seconds`. The servers that ask belong inside this block.

    Raises:
        ValueError: An endpoint names a check that does not exist.
    """
    examiners = [
        Examiner(check, timeout_seconds=timeout_seconds, observer=observer) for check in checks
    ]
    health = Health(examiners, endpoints)
    try:
        yield health
    finally:
        for examiner in examiners:
            await examiner.stop(grace_seconds=_STOP_GRACE_SECONDS)
