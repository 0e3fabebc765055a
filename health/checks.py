"""One check of one driver: asked for by many, carried out once at a time, answered in time.

What the check finds out is handed in; which checks make up an endpoint is not here (`overall`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import NamedTuple

from health.errors import Unhealthy
from health.observer import CheckChanged, Observer

_MAX_REASON_CHARACTERS = 1024
_HEED_SECONDS = 0.05
"""For a call to end itself at its deadline, before those who wait for it give it up."""


class CheckName(StrEnum):
    """The checks that there are: a closed set, named in paths, flags and gRPC services."""

    REGISTRATION_SOCKET = "registration-socket"
    """The registration socket exists, and it is ours or a live peer's."""
    CSI_DRIVER = "csi-driver"
    """The driver answers GetPluginInfo under its known name."""
    CSI_PROBE = "csi-probe"
    """The driver's Probe says that it is ready."""
    KUBELET_REGISTRATION = "kubelet-registration"
    """kubelet has accepted the registration."""


class Check(NamedTuple):
    """A question about one driver's health."""

    name: CheckName
    driver: Callable[[], str]
    """The driver's name now, or its `--csi-address` as long as the name is unknown."""
    ask: Callable[[], Awaitable[None]]
    """Returns if all is well, and raises `Unhealthy` with the reason if not. Any other exception
    means unhealthy too. It may hang: it is cancelled when its time is over."""


class Outcome(NamedTuple):
    """What a check came to."""

    check: str
    driver: str
    reason: str | None = None
    """Why it fails, in one line; None if it passes."""

    @property
    def is_healthy(self) -> bool:
        """Whether the check passes."""
        return self.reason is None


class Latest(NamedTuple):
    """What a check came to last, however long ago, for who does not want to wait."""

    name: CheckName
    driver: str
    reason: str | None = None
    """Why it failed, in one line; None if it passed, or has come to nothing yet."""
    seconds_ago: float | None = None
    """None if it has come to nothing yet."""
    is_under_way: bool = False
    """Whether it is being carried out once more."""


class Call:
    """One carrying out of a check, shared by all who asked while it was under way."""

    def __init__(self, task: "asyncio.Task[str | None]", *, timeout_seconds: float) -> None:
        self._task = task
        self._timeout_seconds = timeout_seconds
        self._given_up_at = asyncio.get_running_loop().time() + timeout_seconds + _HEED_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether it has ended; one that does not heed its deadline goes on."""
        return self._task.done()

    async def settle(self, *, patience_seconds: float) -> None:
        """Wait until it has ended, but no longer than this."""
        await asyncio.wait({self._task}, timeout=patience_seconds)

    async def reason(self) -> str | None:
        """Say why the check fails, or None; come what may, once its time is over."""
        if not self._task.done():
            remaining_seconds = self._given_up_at - asyncio.get_running_loop().time()
            await self.settle(patience_seconds=max(0.0, remaining_seconds))
        if not self._task.done():
            return _overdue(self._timeout_seconds)
        return "the check was cancelled" if self._task.cancelled() else self._task.result()

    async def stop(self, *, grace_seconds: float) -> None:
        """Cancel it and see it off, or leave it behind if it does not heed that."""
        if self._task.cancel():
            await asyncio.wait({self._task}, timeout=grace_seconds)


class Examiner:
    """Carries out one check for all who ask.

    There is never more than one call under way (R08). Whoever asks meanwhile shares its outcome,
    and whoever stops waiting leaves it to the others: a call ends by itself or at its deadline.
    """

    def __init__(self, check: Check, *, timeout_seconds: float, observer: Observer) -> None:
        self.check = check
        self._timeout_seconds = timeout_seconds
        self._observer = observer
        self._call: Call | None = None
        self._is_failing = False
        self._reason: str | None = None
        self._noted_at: float | None = None

    def begin(self) -> Call:
        """Start a call, or join the one under way."""
        if self._call is None or self._call.is_over:
            name = f"check {self.check.name} of {self.check.driver()}"
            task = asyncio.create_task(self._asked(), name=name)
            self._call = Call(task, timeout_seconds=self._timeout_seconds)
        return self._call

    async def outcome(self, call: Call) -> Outcome:
        """Say what the call comes to, at its deadline at the latest."""
        reason = await call.reason()
        if not call.is_over:
            self._note(reason)
        return Outcome(check=self.check.name, driver=self.check.driver(), reason=reason)

    @property
    def latest(self) -> Latest:
        """What the check came to last."""
        now, noted_at = asyncio.get_running_loop().time(), self._noted_at
        return Latest(
            name=self.check.name,
            driver=self.check.driver(),
            reason=self._reason,
            seconds_ago=None if noted_at is None else now - noted_at,
            is_under_way=self._call is not None and not self._call.is_over,
        )

    async def stop(self, *, grace_seconds: float) -> None:
        """End the call under way, if there is one."""
        if self._call is not None:
            await self._call.stop(grace_seconds=grace_seconds)

    async def _asked(self) -> str | None:
        reason = await self._finding()
        self._note(reason)
        return reason

    async def _finding(self) -> str | None:
        try:
            async with asyncio.timeout(self._timeout_seconds) as limit:
                await self.check.ask()
        except Unhealthy as finding:
            return _in_one_line(str(finding))
        except Exception as error:  # noqa: BLE001  # whatever it is, it is not health
            return _overdue(self._timeout_seconds) if limit.expired() else _named(error)
        return None

    def _note(self, reason: str | None) -> None:
        self._reason, self._noted_at = reason, asyncio.get_running_loop().time()
        if self._is_failing == (reason is not None):
            return
        self._is_failing = reason is not None
        driver = self.check.driver()
        self._observer.notify(CheckChanged(check=self.check.name, driver=driver, reason=reason))


def _overdue(timeout_seconds: float) -> str:
    return f"no answer within {timeout_seconds:g} s"


def _named(error: Exception) -> str:
    return _in_one_line(f"{type(error).__name__}: {error}")


def _in_one_line(text: str) -> str:
    """Keep a foreign text from forging lines of the answer, or from filling it."""
    return " ".join(text.split())[:_MAX_REASON_CHARACTERS] or "no reason given"
