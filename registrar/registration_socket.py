"""The registration socket as a file: published by rename, recognised, announced again, removed.

Who listens on it is not here (`publication`), nor when to do what (`registration`).
"""

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from enum import Enum, auto

from registrar.errors import PublicationError
from registrar.unix_sockets import (
    FileIdentity,
    bind_errno,
    connect_errno,
    identity_of,
    kind_of_file,
    listener_pid,
)

# Hidden, because kubelet ignores names that begin with a dot; never longer than any final name
# (`x-reg.sock`), so a driver's name that fits the 107 bytes of a path never fails on this one.
_HIDDEN_PREFIX = ".reg-"
_HIDDEN_RANDOM_BYTES = 2

# Ours, and the socket of the exec probe that the command keeps in the same folder.
_SWEPT = re.compile(r"\.reg-[0-9a-f]{4,8}", re.ASCII)

# Longer than a process can stand between bind() and listen(), when its socket looks dead.
_SWEEP_AGE_SECONDS = 2.0

_MODE = 0o600


class Holder(Enum):
    """Who is behind the registration socket's path."""

    OURS = auto()
    PEER = auto()
    """Another process listens there."""
    DEAD = auto()
    """A socket that nobody listens on."""
    NOBODY = auto()
    """No file."""


class RegistrationSocket:
    """The file at one registration path, and the proof that it is ours."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.folder = os.path.dirname(path)
        self._identity: FileIdentity | None = None

    def hidden_path(self) -> str:
        """Return a path in the same folder to bind a listener at before it is published."""
        return os.path.join(self.folder, _HIDDEN_PREFIX + secrets.token_hex(_HIDDEN_RANDOM_BYTES))

    def publish(self, hidden_path: str) -> None:
        """Give the listener bound at the hidden path its final name.

        kubelet's watcher sees one Create and no Remove, whatever socket had the name before, and
        never a file with other permissions than 0600 (R10, R43).

        Raises:
            PublicationError: if the folder does not take it, or something that is no socket has
                the name; that is never replaced.
        """
        self.check_replaceable()
        try:
            os.chmod(hidden_path, _MODE)
            bound = identity_of(os.lstat(hidden_path))
            os.rename(hidden_path, self.path)
        except OSError as error:
            raise self._refusal(error.errno) from error
        self._identity = bound
        self._note_change()

    def announce_again(self) -> None:
        """Rename the published socket away and back, so that kubelet sees a Create.

        Call it only after `look` said `OURS`. kubelet deregisters the driver at its next tick and
        registers it one tick later, on the same listener.

        Raises:
            PublicationError: if the folder does not let us; the next `look` tells what is left.
        """
        hidden_path = self.hidden_path()
        try:
            os.rename(self.path, hidden_path)
            os.rename(hidden_path, self.path)
        except OSError as error:
            raise self._refusal(error.errno) from error
        self._note_change()

    def look(self) -> Holder:
        """Return who is behind the path.

        Raises:
            PublicationError: if that cannot be told or mended from here: the folder is missing,
                something that is no socket has the name, permission is denied.
        """
        found = self._stat()
        if found is None:
            return Holder.NOBODY
        if self._is_ours(found):
            return Holder.OURS
        return self._stranger()

    def was_published_within(self, seconds: float) -> bool:
        """Return whether whatever socket is at the path has got its name so lately.

        A rename sets the change time; after a jump of the clock the answer is no.
        """
        try:
            age = time.time() - os.lstat(self.path).st_ctime
        except OSError:
            return False
        return 0 <= age < seconds

    def remove(self) -> None:
        """Remove the file if it is ours, and ours alone; any other is left (R01)."""
        with contextlib.suppress(OSError, PublicationError):
            found = self._stat()
            if found is not None and self._is_ours(found):
                os.unlink(self.path)
        self._identity = None

    def disown(self) -> None:
        """Forget the file: our listener on it is closed, or about to be."""
        self._identity = None

    def sweep(self) -> None:
        """Remove hidden sockets that dead predecessors left in the folder."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self.folder):
                if _SWEPT.fullmatch(name):
                    _remove_if_abandoned(os.path.join(self.folder, name))

    def check_replaceable(self) -> None:
        """Return if the path may be taken.

        Raises:
            PublicationError: if the folder is missing, or what has the name is no socket.
        """
        self._stat()

    def explain_bind_failure(self, hidden_path: str) -> PublicationError:
        """Return why no socket could be bound in the folder, in words."""
        return self._refusal(bind_errno(hidden_path))

    def _stat(self) -> os.stat_result | None:
        try:
            found = os.lstat(self.path)
        except FileNotFoundError:
            if not os.path.isdir(self.folder):
                raise self._refusal(errno.ENOENT) from None
            return None
        except OSError as error:
            raise self._refusal(error.errno) from error
        if not stat.S_ISSOCK(found.st_mode):
            raise PublicationError(
                f"{self.path} is {kind_of_file(found.st_mode)} and no socket, so it is left alone "
                "and the driver cannot be registered: remove it"
            )
        return found

    def _is_ours(self, found: os.stat_result) -> bool:
        """Return whether the file is the socket that we listen on.

        A live listener keeps its inode, so the inode alone nearly proves it. Where the change time
        differs (somebody renamed it or changed its mode), the kernel is asked who listens.
        """
        mine, its = self._identity, identity_of(found)
        if mine is None or not its.is_same_inode(mine):
            return False
        if its == mine:
            return True
        if listener_pid(self.path) != os.getpid():
            return False
        self._identity = its
        return True

    def _stranger(self) -> Holder:
        error_number = connect_errno(self.path)
        if error_number == 0:
            return Holder.PEER
        if error_number == errno.ECONNREFUSED:
            return Holder.DEAD
        if error_number == errno.ENOENT:
            return Holder.NOBODY
        raise self._refusal(error_number)

    def _note_change(self) -> None:
        """Remember the change time that our own rename has just given to the file."""
        mine = self._identity
        with contextlib.suppress(OSError):
            its = identity_of(os.lstat(self.path))
            if mine is not None and its.is_same_inode(mine):
                self._identity = its

    def _refusal(self, error_number: int | None) -> PublicationError:
        number = error_number or errno.EIO
        if not os.path.isdir(self.folder):
            return PublicationError(
                f"the registration folder {self.folder} does not exist: mount the host folder "
                "plugins_registry of kubelet's root there (--plugin-registration-path)"
            )
        if number in (errno.EACCES, errno.EPERM):
            return PublicationError(_permission_words(self.folder))
        return PublicationError(
            f"the socket {self.path} cannot be published: {os.strerror(number)} "
            f"({errno.errorcode.get(number, number)})"
        )


def _permission_words(folder: str) -> str:
    about = os.stat(folder)
    return (
        f"permission denied in the registration folder {folder}, which belongs to user "
        f"{about.st_uid} with mode {stat.S_IMODE(about.st_mode):04o}, for user {os.geteuid()}: "
        "run as its owner, or allow it (SELinux counts too)"
    )


def _remove_if_abandoned(path: str) -> None:
    with contextlib.suppress(OSError):
        found = os.lstat(path)
        is_old = time.time() - found.st_ctime > _SWEEP_AGE_SECONDS
        if stat.S_ISSOCK(found.st_mode) and is_old and connect_errno(path) == errno.ECONNREFUSED:
            os.unlink(path)
