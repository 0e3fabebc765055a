"""Where one driver's registration stands, and which announcement is due: state, no I/O.

Times are seconds of a monotonic clock, handed in.
"""

from registrar.backoff import jittered_backoff
from registrar.observer import AnnouncementReason, State
from registrar.registration_socket import Holder

MIN_SECONDS_BETWEEN_ANNOUNCEMENTS = 2.0
"""kubelet works once a second and takes two rounds to register anew (R26)."""

RETRY_FIRST_SECONDS = 1.0
RETRY_LIMIT_SECONDS = 60.0
"""kubelet up to about 1.34 never tries again by itself after it refused (R03)."""

SILENCE_LIMIT_SECONDS = 600.0

NODE_GET_INFO_LIMIT_SECONDS = 120.0
"""How long kubelet may wait for the driver between GetInfo and its verdict."""


class Registration:
    """The state of one driver under one name.

    Invariant: `state` is REGISTERED only while kubelet's last verdict was good, the socket it came
    to is still at its path, and kubelet has not been told to begin anew.
    """

    def __init__(
        self,
        *,
        now: float,
        silence_timeout_seconds: float,
        last_announced_at: float | None = None,
        takes_over: bool = True,
    ) -> None:
        """Begin with nothing published.

        Args:
            now: the time.
            silence_timeout_seconds: after which kubelet is called silent; 0 means never.
            last_announced_at: when this process last announced the name, if ever.
            takes_over: whether to publish over a live peer's socket. A new process does, as the
                newest instance; one whose driver has changed its name does not, because all of
                its peers have that same news.
        """
        self.state = State.WAITING
        self.state_since = now
        self.kubelet_error = ""
        """What kubelet said at its last refusal; empty once it has accepted."""
        self.last_get_info_at: float | None = None
        self.published_at: float | None = None
        """The last announcement; None before the first."""
        self._last_announced_at = last_announced_at
        self._takes_over = takes_over
        self._silence_timeout_seconds = silence_timeout_seconds
        self._silence_interval_seconds = silence_timeout_seconds
        self._silent_since = now
        self._refusals = 0
        self._retry_at: float | None = None
        self._requested: AnnouncementReason | None = None

    def get_info_received(self, now: float) -> None:
        """Take note that kubelet asked who is here."""
        self.last_get_info_at = now
        # The verdict may take as long as the driver's NodeGetInfo may.
        self._silent_since = now + NODE_GET_INFO_LIMIT_SECONDS
        self._silence_interval_seconds = self._silence_timeout_seconds

    def get_info_missed(self, now: float) -> None:
        """Take note that the answer came too late, so no verdict will follow from it."""
        self._silent_since = now

    def verdict_received(self, now: float, *, is_accepted: bool, error: str) -> None:
        """Take kubelet's verdict; it counts only while the socket that it came to is published."""
        if self.state in (State.WAITING, State.STANDBY):
            return
        if is_accepted:
            self.kubelet_error = ""
            self._refusals = 0
            self._retry_at = None
            self._enter(State.REGISTERED, now)
            return
        self.kubelet_error = error or "kubelet gave no reason"
        self._refusals += 1
        self._retry_at = now + jittered_backoff(
            self._refusals, first_seconds=RETRY_FIRST_SECONDS, limit_seconds=RETRY_LIMIT_SECONDS
        )
        self._enter(State.REJECTED, now)

    def announced(self, now: float) -> None:
        """Take note that the socket's name has just appeared in the folder: kubelet begins anew."""
        self.published_at = self._last_announced_at = now
        self._silent_since = now
        self._requested = None
        self._retry_at = None
        self._enter(State.ANNOUNCED, now)

    def lost(self, now: float) -> None:
        """Take note that the socket is not at its path any more, nor a live peer's."""
        if self.state is not State.STANDBY:
            self._enter(State.WAITING, now)

    def stood_by(self, now: float) -> None:
        """Take note that a live peer has taken the path."""
        self._requested = None
        self._retry_at = None
        self._enter(State.STANDBY, now)

    def request(self, reason: AnnouncementReason) -> None:
        """Ask for one more announcement as soon as it may be; a standby has nothing to announce."""
        if self.published_at is not None and self.state is not State.STANDBY:
            self._requested = reason

    def driver_came_back(self, now: float) -> None:
        """Take note that the driver answers again: if kubelet refused it, retry now."""
        if self._retry_at is not None:
            self._retry_at = now

    @property
    def has_get_info(self) -> bool:
        """Whether kubelet has asked who is here since the last announcement."""
        if self.last_get_info_at is None or self.published_at is None:
            return False
        return self.last_get_info_at >= self.published_at

    def silent_seconds(self, now: float) -> float | None:
        """Return for how long kubelet has owed a call; None if it owes none."""
        if self.state is not State.ANNOUNCED or self._silence_timeout_seconds <= 0:
            return None
        silent = now - self._silent_since
        return silent if silent >= self._silence_interval_seconds else None

    def next_silence_interval(self) -> float:
        """Wait twice as long before kubelet is called silent again; return that, in seconds."""
        self._silence_interval_seconds = min(
            2 * self._silence_interval_seconds, SILENCE_LIMIT_SECONDS
        )
        return self._silence_interval_seconds

    def seconds_until_allowed(self, now: float) -> float:
        """Return for how many seconds nothing may be announced yet (R26)."""
        if self._last_announced_at is None:
            return 0.0
        return max(0.0, self._last_announced_at + MIN_SECONDS_BETWEEN_ANNOUNCEMENTS - now)

    def leaves_it_to(self, holder: Holder) -> bool:
        """Return whether who is behind the path may stay there, and this instance stands by."""
        return holder is Holder.PEER and (self.published_at is not None or not self._takes_over)

    def due_announcement(self, holder: Holder, now: float) -> AnnouncementReason | None:
        """Return why the socket must be announced now; None if it need not, or not yet (R26)."""
        if self.seconds_until_allowed(now) > 0 or self.leaves_it_to(holder):
            return None
        if self.published_at is None:
            return AnnouncementReason.START
        match holder:
            case Holder.NOBODY:
                return AnnouncementReason.MISSING
            case Holder.DEAD:
                return AnnouncementReason.REPLACED
        return self._due_while_ours(now)

    def _due_while_ours(self, now: float) -> AnnouncementReason | None:
        if self.state is State.WAITING:
            # It was out of sight, so kubelet may have seen it go.
            return AnnouncementReason.MISSING
        if self._requested is not None:
            return self._requested
        if self._retry_at is not None and now >= self._retry_at:
            return AnnouncementReason.REJECTED
        if self.silent_seconds(now) is not None:
            return AnnouncementReason.SILENCE
        return None

    def _enter(self, state: State, now: float) -> None:
        if state is not self.state:
            self.state = state
            self.state_since = now
