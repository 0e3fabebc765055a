"""Keeps one driver registered: the only part that knows all the others.

The driver is watched by one task and the socket kept by another, so that a driver that hangs
never delays kubelet. Several drivers are several supervisors.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from registrar.driver_watch import DriverWatch, IdentifiedDriver
from registrar.errors import DriverError, PublicationError
from registrar.identity_client import IdentityClient
from registrar.observer import AnnouncementReason, Observer, State
from registrar.pauses import Alarm, seconds_to_next_tick
from registrar.publication import AddServices
from registrar.registration import MIN_SECONDS_BETWEEN_ANNOUNCEMENTS
from registrar.registration_keeper import RegistrationKeeper
from registrar.settings import DriverSettings
from registrar.silence_evidence import KubeletProbe

_TICK_SECONDS = 1.0
"""How often the socket is looked at (R02)."""


class Status(NamedTuple):
    """Where one driver's registration stands, at one moment."""

    csi_address: str
    driver_name: str | None
    vendor_version: str | None
    state: State
    state_seconds: float
    """For how long it has been so."""
    driver_problem: str | None
    """Why the driver counts as down; None while it is up."""
    publication_problem: str | None
    """Why the socket cannot be published; None while it is."""
    kubelet_error: str
    """kubelet's last refusal in its own words; empty once it has accepted."""
    kubelet_silence: str
    """Why kubelet does not call, as far as that can be told; empty unless it owes a call."""
    registration_socket_path: str | None


class Supervisor:
    """Registers one driver with kubelet and keeps it registered, whatever happens."""

    def __init__(
        self,
        settings: DriverSettings,
        observer: Observer,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self._observer = observer
        self._further_services: tuple[AddServices, ...] = ()
        self._clock = clock
        self._started_at = clock()
        self._wake = Alarm()
        self._client = IdentityClient(settings.csi_address, settings.timeout_seconds, observer)
        self._watch = DriverWatch(
            self._client,
            registration_folder=settings.registration_folder,
            monitor_interval_seconds=settings.monitor_interval_seconds,
            observer=observer,
            on_change=self._wake.set,
        )
        self._current: RegistrationKeeper | None = None
        self._announced_at: dict[str, float] = {}
        """When names that were given up a moment ago were announced last."""
        self._kubelet_probe: tuple[str, float] | None = None

    async def run(self, further_services: Iterable[AddServices] = ()) -> None:
        """Keep the driver registered until cancelled; leave no file of ours behind.

        `further_services` are offered on the registration socket beside kubelet's.

        Raises:
            ExceptionGroup: with a `RegistrationRefused` if kubelet refuses the driver and the
                settings say to stop then.
        """
        address = self.settings.csi_address
        self._further_services = tuple(further_services)
        async with self._client, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch.run(), name=f"driver watch {address}")
            tasks.create_task(self._keep_registered(), name=f"registration keeper {address}")

    def request_announcement(self) -> None:
        """Announce the socket to kubelet once more, as soon as that may be."""
        if self._current is not None:
            self._current.registration.request(AnnouncementReason.REQUESTED)
            self._wake.set()

    def kubelet_probed(self, version: str) -> None:
        """Take note that kubelet probes this process: it lives, and says its version."""
        self._kubelet_probe = (version, self._clock())

    @property
    def label(self) -> str:
        """The driver's name, or the address of its socket as long as the name is unknown."""
        driver = self._watch.driver
        return driver.name if driver is not None else self.settings.csi_address

    @property
    def status(self) -> Status:
        """Where the registration stands now."""
        current, driver = self._current, self._watch.driver
        since = current.registration.state_since if current else self._started_at
        return Status(
            csi_address=self.settings.csi_address,
            driver_name=driver.name if driver else None,
            vendor_version=driver.answer.vendor_version if driver else None,
            state=current.registration.state if current else State.WAITING,
            state_seconds=self._clock() - since,
            driver_problem=self._watch.problem,
            publication_problem=current.problem if current else None,
            kubelet_error=current.registration.kubelet_error if current else "",
            kubelet_silence=current.diagnosis if current else "",
            registration_socket_path=driver.registration_socket_path if driver else None,
        )

    async def check_driver(self, *, timeout_seconds: float | None = None) -> None:
        """Ask the driver who it is, now, within the time given or that of the settings.

        Raises:
            DriverError: if it does not answer, or under another name than it is registered by.
        """
        answer = await self._client.get_plugin_info(timeout_seconds=timeout_seconds)
        self._watch.look_soon()
        known = self._watch.driver
        if known is None:
            raise DriverError(self._watch.problem or "the driver's name is not known yet")
        if answer.name != known.name:
            raise DriverError(
                f"the driver answers as {answer.name!r} now, and is registered as {known.name!r}"
            )

    async def probe_driver(self, *, timeout_seconds: float | None = None) -> bool:
        """Return whether the driver says that it is ready, within the time given, as above.

        Raises:
            DriverError: if it does not answer.
        """
        return await self._client.probe(timeout_seconds=timeout_seconds)

    def check_socket(self) -> None:
        """Return if a live socket for the driver is at its registration path: ours or a peer's.

        Raises:
            PublicationError: if there is none, with the reason.
        """
        if self._current is None:
            raise PublicationError("nothing is published yet: the driver's name is not known")
        self._current.check_socket()

    async def _keep_registered(self) -> None:
        try:
            while True:
                self._wake.clear()
                await self._tick()
                await self._wake.pause(self._pause_seconds())
        finally:
            if self._current is not None:
                await self._current.withdraw()

    def _pause_seconds(self) -> float:
        """Return the time to the next tick, or to the moment of the next announcement before it.

        Without the latter a socket lost right after it was announced would be missed for three
        seconds instead of two.
        """
        tick = seconds_to_next_tick(_TICK_SECONDS)
        if self._current is None:
            return tick
        until_allowed = self._current.registration.seconds_until_allowed(self._clock())
        return min(tick, until_allowed) or tick

    async def _tick(self) -> None:
        driver = self._watch.driver
        if driver is None:
            return
        if self._current is None or self._current.driver_name != driver.name:
            await self._move_to(driver)
        if self._current is not None:
            await self._current.keep(driver, is_up=self._watch.problem is None)

    async def _move_to(self, driver: IdentifiedDriver) -> None:
        """Give up the registration under the old name, if any, for one under the new."""
        is_first = self._current is None
        if self._current is not None:
            await self._current.withdraw()
            self._remember_announcement(self._current)
        self._current = RegistrationKeeper(
            driver,
            self.settings,
            self._observer,
            add_services=self._further_services,
            clock=self._clock,
            wake=self._wake.set,
            kubelet_probe=self._last_kubelet_probe,
            last_announced_at=self._announced_at.get(driver.name),
            takes_over=is_first,
        )

    def _remember_announcement(self, keeper: RegistrationKeeper) -> None:
        """Keep when a name was announced, for a driver that goes back to it at once (R26)."""
        oldest = self._clock() - MIN_SECONDS_BETWEEN_ANNOUNCEMENTS
        at = keeper.registration.published_at
        known = {**self._announced_at, **({keeper.driver_name: at} if at is not None else {})}
        self._announced_at = {name: at for name, at in known.items() if at > oldest}

    def _last_kubelet_probe(self) -> KubeletProbe | None:
        if self._kubelet_probe is None:
            return None
        version, at = self._kubelet_probe
        return KubeletProbe(version=version, seconds_ago=self._clock() - at)
