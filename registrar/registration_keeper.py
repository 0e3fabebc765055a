"""Keeps the registration of a driver under one name: its state and its socket, held together.

When to look is not here (`supervisor`), nor what is due when (`registration`).
"""

from collections.abc import Callable

import grpc.aio

from pluginregistration.v1 import registration_pb2_grpc
from registrar.driver_watch import IdentifiedDriver
from registrar.errors import PublicationError, RegistrationRefused
from registrar.observer import (
    Announced,
    AnnouncementReason,
    GetInfoReceived,
    KubeletSilent,
    Observer,
    RegistrationBlocked,
    RegistrationSocketSeen,
    State,
    StateChanged,
    VerdictReceived,
)
from registrar.publication import AddServices, Publication
from registrar.registration import MIN_SECONDS_BETWEEN_ANNOUNCEMENTS, Registration
from registrar.registration_service import RegistrationService
from registrar.registration_socket import Holder
from registrar.settings import DriverSettings, OnRegistrationFailure
from registrar.silence_evidence import KubeletProbe
from registrar.silence_watch import SilenceReport, SilenceWatch
from registrar.silence_words import describe_deleted_folder


class RegistrationKeeper:
    """Publishes the socket of one driver name and repairs what happens to it.

    It takes kubelet's calls itself (`registration_service.KubeletCalls`).
    """

    def __init__(
        self,
        driver: IdentifiedDriver,
        settings: DriverSettings,
        observer: Observer,
        *,
        add_services: tuple[AddServices, ...],
        clock: Callable[[], float],
        wake: Callable[[], None],
        kubelet_probe: Callable[[], KubeletProbe | None] = lambda: None,
        last_announced_at: float | None = None,
        takes_over: bool = True,
    ) -> None:
        self.driver_name = driver.name
        self.problem: str | None = None
        """Why the socket cannot be published; None while it is."""
        self.registration = Registration(
            now=clock(),
            silence_timeout_seconds=settings.kubelet_silence_seconds,
            last_announced_at=last_announced_at,
            takes_over=takes_over,
        )
        self._settings = settings
        self._observer = observer
        self._clock = clock
        self._wake = wake
        self._further_services = add_services
        self._publication = Publication(driver.registration_socket_path, self._add_services)
        self._publication.socket.sweep()
        self._answer_told = driver.answer
        self._was_up = True
        self._has_socket: bool | None = None
        self._silence = SilenceWatch(
            self.registration,
            settings,
            driver.registration_socket_path,
            clock=clock,
            kubelet_probe=kubelet_probe,
        )

    @property
    def diagnosis(self) -> str:
        """Why kubelet does not call; empty if it owes no call, or not for long enough."""
        return self._silence.text

    def get_info_received(self) -> None:
        """Take note that kubelet asked who is here."""
        self.registration.get_info_received(self._clock())
        self._silence.get_info_received()
        self._observer.notify(
            GetInfoReceived(csi_address=self._settings.csi_address, driver_name=self.driver_name)
        )

    def get_info_missed(self) -> None:
        """Take note that the answer came too late for kubelet."""
        self._silence.get_info_missed()
        self.registration.get_info_missed(self._clock())

    def verdict_received(self, *, is_accepted: bool, error: str) -> None:
        """Take note of kubelet's verdict; what follows from it is done outside of its call."""
        self._silence.verdict_received()
        now, before = self._clock(), self.registration.state
        published_at = self.registration.published_at
        self.registration.verdict_received(now, is_accepted=is_accepted, error=error)
        self._observer.notify(
            VerdictReceived(
                csi_address=self._settings.csi_address,
                driver_name=self.driver_name,
                is_accepted=is_accepted,
                error=error,
                seconds_since_announcement=0.0 if published_at is None else now - published_at,
            )
        )
        self._report_change_from(before)
        self._wake()

    async def keep(self, driver: IdentifiedDriver, *, is_up: bool) -> None:
        """Look at the socket, and do what is due.

        Raises:
            RegistrationRefused: if kubelet refused, and the settings say to stop then.
        """
        self._stop_if_refused()
        self._silence.note_pace()
        self._note_driver(driver, is_up=is_up)
        try:
            await self._act_on(self._publication.look())
        except PublicationError as error:
            deleted = describe_deleted_folder(self._publication.socket.folder)
            self._blocked(f"{error}; {deleted}" if deleted else str(error))

    def check_socket(self) -> None:
        """Return if a live socket is at the path: ours or a peer's.

        Raises:
            PublicationError: if there is none, with the reason.
        """
        match self._publication.look():
            case Holder.NOBODY:
                what = "is not there"
            case Holder.DEAD:
                what = "is one that nobody listens on"
            case _:
                return
        path = self._publication.socket.path
        raise PublicationError(f"the registration socket {path} {what}; it is being published anew")

    async def withdraw(self) -> None:
        """Remove the socket if it is ours, and answer nobody any more."""
        await self._publication.withdraw()

    def _stop_if_refused(self) -> None:
        is_refused = self.registration.state is State.REJECTED
        if is_refused and self._settings.on_registration_failure is OnRegistrationFailure.EXIT:
            raise RegistrationRefused(self.driver_name, self.registration.kubelet_error)

    def _note_driver(self, driver: IdentifiedDriver, *, is_up: bool) -> None:
        if driver.answer != self._answer_told:
            self._answer_told = driver.answer
            self.registration.request(AnnouncementReason.DRIVER_CHANGED)
        if is_up and not self._was_up:
            self.registration.driver_came_back(self._clock())
        self._was_up = is_up

    async def _act_on(self, holder: Holder) -> None:
        await self._note_holder(holder)
        reason = self.registration.due_announcement(holder, self._clock())
        if holder is Holder.PEER and self._has_just_been_published():
            # Otherwise the peer, if this instance ends at once, could not yet take over again.
            reason = None
        self._report_silence(self._silence.report(reason))
        if reason is not None:
            await self._announce(reason, holder)
        self._report_socket(is_present=reason is not None or holder in (Holder.OURS, Holder.PEER))

    def _has_just_been_published(self) -> bool:
        return self._publication.socket.was_published_within(MIN_SECONDS_BETWEEN_ANNOUNCEMENTS)

    async def _note_holder(self, holder: Holder) -> None:
        """Follow what became of the path since the last look."""
        before, now = self.registration.state, self._clock()
        if self.registration.published_at is None and holder is Holder.DEAD:
            self._silence.dead_socket_found()
        if self.registration.leaves_it_to(holder):
            if before is not State.STANDBY:
                self.registration.stood_by(now)
                self._report_change_from(before)
                await self._publication.stand_by()
        elif holder in (Holder.NOBODY, Holder.DEAD):
            self.registration.lost(now)
            self._report_change_from(before)

    async def _announce(self, reason: AnnouncementReason, holder: Holder) -> None:
        if holder is Holder.OURS:
            self._publication.announce_again()
            self._announced(reason)
        else:
            await self._publication.publish(lambda: self._announced(reason))

    def _announced(self, reason: AnnouncementReason) -> None:
        before = self.registration.state
        self.registration.announced(self._clock())
        self.problem = None
        self._silence.announced(reason)
        self._observer.notify(
            Announced(
                csi_address=self._settings.csi_address,
                driver_name=self.driver_name,
                reason=reason,
                registration_socket_path=self._publication.socket.path,
            )
        )
        self._report_change_from(before)

    def _blocked(self, problem: str) -> None:
        before = self.registration.state
        self.registration.lost(self._clock())
        self._report_change_from(before)
        self._report_socket(is_present=False)
        if problem != self.problem:
            self.problem = problem
            self._observer.notify(
                RegistrationBlocked(
                    csi_address=self._settings.csi_address,
                    driver_name=self.driver_name,
                    problem=problem,
                )
            )

    def _report_change_from(self, before: State) -> None:
        if self.registration.state is not before:
            self._observer.notify(
                StateChanged(
                    csi_address=self._settings.csi_address,
                    driver_name=self.driver_name,
                    old=before,
                    new=self.registration.state,
                    registration_socket_path=self._publication.socket.path,
                )
            )

    def _report_socket(self, *, is_present: bool) -> None:
        if is_present is not self._has_socket:
            self._has_socket = is_present
            self._observer.notify(
                RegistrationSocketSeen(
                    csi_address=self._settings.csi_address,
                    driver_name=self.driver_name,
                    is_present=is_present,
                )
            )

    def _report_silence(self, report: SilenceReport | None) -> None:
        if report is not None:
            self._observer.notify(
                KubeletSilent(
                    csi_address=self._settings.csi_address,
                    driver_name=self.driver_name,
                    silent_seconds=report.silent_seconds,
                    diagnosis=report.diagnosis.text,
                    retry_seconds=report.retry_seconds,
                    cause=report.diagnosis.cause,
                )
            )

    def _add_services(self, server: grpc.aio.Server) -> None:
        registration_pb2_grpc.add_RegistrationServicer_to_server(
            RegistrationService(self.driver_name, self._settings.kubelet_registration_path, self),
            server,
        )
        for add_service in self._further_services:
            add_service(server)
