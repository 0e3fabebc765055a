"""Knows who the driver is and whether it answers: asks it again and again, and never gives up.

What follows for the registration is not here (`supervisor`).
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from registrar.backoff import jittered_backoff
from registrar.driver_names import registration_socket_path
from registrar.errors import DriverError
from registrar.identity_client import DriverAnswer, IdentityClient
from registrar.observer import (
    CsiSocketSeen,
    DriverAnswered,
    DriverFailed,
    DriverForgotten,
    DriverIdentified,
    DriverRestarted,
    Observer,
)
from registrar.pauses import Alarm, seconds_to_next_tick
from registrar.unix_sockets import FileIdentity

_RETRY_FIRST_SECONDS = 0.1
_RETRY_LIMIT_SECONDS = 5.0

_GLANCE_SECONDS = 1.0
"""How soon a socket that appears, goes or changes is noticed."""


class IdentifiedDriver(NamedTuple):
    """A driver whose name is known and can be registered."""

    answer: DriverAnswer
    registration_socket_path: str

    @property
    def name(self) -> str:
        """The name under which it is registered."""
        return self.answer.name


class DriverWatch:
    """Asks one driver at intervals, and at once when its socket or connection changes."""

    def __init__(
        self,
        client: IdentityClient,
        *,
        registration_folder: str,
        monitor_interval_seconds: float,
        observer: Observer,
        on_change: Callable[[], None],
    ) -> None:
        self.driver: IdentifiedDriver | None = None
        """Who the driver was when it last gave a usable answer; None before that."""
        self.problem: str | None = "the driver has not been asked yet"
        """Why the driver counts as down; None while it is up."""
        self._client = client
        self._registration_folder = registration_folder
        self._monitor_interval_seconds = monitor_interval_seconds
        self._observer = observer
        self._on_change = on_change
        self._failures = 0
        self._has_socket: bool | None = None
        self._answered_on: tuple[FileIdentity | None, int] | None = None
        self._look_soon = Alarm()
        self._half_time = 0.0
        self._seldom_from = 0.0

    async def run(self) -> None:
        """Watch the driver until cancelled."""
        self._seldom_from = asyncio.get_running_loop().time() + self._monitor_interval_seconds / 2
        while True:
            await self.look()
            await self._wait_for_a_reason_to_look()

    def look_soon(self) -> None:
        """Bring the next look forward: the driver has just answered a health probe.

        To look in the same moment, and not at one of its own, wakes up gRPC's threads once and not
        twice: 3 times a second less where kubelet probes every ten seconds. A prober in a hurry has
        the driver looked at no more than twice in an interval.
        """
        now = asyncio.get_running_loop().time()
        is_seldom = now > self._seldom_from
        self._seldom_from = now + self._monitor_interval_seconds / 2
        if self.problem is not None or is_seldom or now > self._half_time:
            self._look_soon.set()

    async def look(self) -> None:
        """Ask the driver once who it is and whether it is ready; failures are kept, not raised."""
        self._glance_at_socket()
        try:
            answer = await self._client.get_plugin_info()
            path = registration_socket_path(self._registration_folder, answer.name)
        except DriverError as error:
            self._failed(str(error))
            return
        self._answered(IdentifiedDriver(answer, path))
        try:
            await self._client.probe()
        except DriverError:
            # Reported by the client. A driver that answers GetPluginInfo is up, ready or not.
            return

    async def _wait_for_a_reason_to_look(self) -> None:
        clock = asyncio.get_running_loop().time
        seen, whole_seconds = self._client.socket_identity(), self._pause_seconds()
        ends = clock() + whole_seconds
        self._half_time = ends - whole_seconds / 2
        self._look_soon.clear()
        while (remaining := ends - clock()) > 0:
            glance = seconds_to_next_tick(_GLANCE_SECONDS)
            if await self._look_soon.pause(min(remaining, glance)):
                return
            found = self._glance_at_socket()
            has_lost_connection = self.problem is None and not self._client.is_connected
            if has_lost_connection or found != seen:
                return

    def _pause_seconds(self) -> float:
        if self._failures == 0:
            return self._monitor_interval_seconds
        return jittered_backoff(
            self._failures, first_seconds=_RETRY_FIRST_SECONDS, limit_seconds=_RETRY_LIMIT_SECONDS
        )

    def _glance_at_socket(self) -> FileIdentity | None:
        found = self._client.socket_identity()
        has_socket = found is not None
        if has_socket is not self._has_socket:
            self._has_socket = has_socket
            self._observer.notify(
                CsiSocketSeen(
                    csi_address=self._client.csi_address,
                    driver_name=self._name(),
                    is_present=has_socket,
                )
            )
        return found

    def _failed(self, problem: str) -> None:
        self._failures += 1
        was_up, self.problem = self.problem is None, problem
        self._observer.notify(
            DriverFailed(
                csi_address=self._client.csi_address, driver_name=self._name(), problem=problem
            )
        )
        if was_up:
            self._on_change()

    def _answered(self, driver: IdentifiedDriver) -> None:
        before, was_up = self.driver, self.problem is None
        self.driver, self.problem, self._failures = driver, None, 0
        if before is None or before.name != driver.name:
            self._introduce(before, driver)
        self._observer.notify(
            DriverAnswered(
                csi_address=self._client.csi_address,
                driver_name=driver.name,
                vendor_version=driver.answer.vendor_version,
            )
        )
        self._notice_restart(before, driver)
        if before != driver or not was_up:
            self._on_change()

    def _introduce(self, before: IdentifiedDriver | None, driver: IdentifiedDriver) -> None:
        address = self._client.csi_address
        if before is not None:
            self._observer.notify(DriverForgotten(csi_address=address, driver_name=before.name))
        self._client.driver_name = driver.name
        self._observer.notify(
            DriverIdentified(
                csi_address=address,
                driver_name=driver.name,
                vendor_version=driver.answer.vendor_version,
                registration_socket_path=driver.registration_socket_path,
            )
        )

    def _notice_restart(self, before: IdentifiedDriver | None, driver: IdentifiedDriver) -> None:
        """Tell of another socket at the path that was connected to anew."""
        answered_on = (self._client.socket_identity(), self._client.connection_number)
        previous, self._answered_on = self._answered_on, answered_on
        if before is None or previous is None:
            return
        if all(now != then for now, then in zip(answered_on, previous, strict=True)):
            self._observer.notify(
                DriverRestarted(
                    csi_address=self._client.csi_address,
                    driver_name=driver.name,
                    has_changed_answer=before.answer != driver.answer,
                )
            )

    def _name(self) -> str | None:
        return self.driver.name if self.driver is not None else None
