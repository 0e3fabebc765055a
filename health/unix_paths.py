"""The path of a unix socket: taken over from a dead predecessor only, given up only if ours.

Which server answers on the socket is not here.
"""

import errno
import secrets
import socket
import stat
from pathlib import Path
from typing import NamedTuple

HIDDEN_PREFIX = ".reg-"
"""Of names that kubelet ignores; what a killed process leaves under it, the next one sweeps."""

SOCKET_MODE = 0o600
"""Only our own user may connect; what wants to share more can have a TCP port."""


class Claim(NamedTuple):
    """Proof that the socket at a path is the one we put there."""

    path: Path
    identity: tuple[int, int, int]

    def has_path(self) -> bool:
        """Whether the path still leads to our socket."""
        try:
            return _identity(self.path) == self.identity
        except OSError:
            return False

    def release(self) -> None:
        """Remove the socket if the path still leads to ours, and nothing otherwise."""
        if self.has_path():
            self.path.unlink(missing_ok=True)


def hidden_path(path: Path) -> Path:
    """Make up a short name in the same folder to bind under; whoever binds removes it."""
    return path.with_name(HIDDEN_PREFIX + secrets.token_hex(2))


def claim(path: Path, hidden: Path) -> Claim:
    """Put the listening socket at `hidden` in the place of whatever dead socket is at `path`.

    There is no moment at which the path is missing or refuses a connection.

    Raises:
        OSError: EADDRINUSE if somebody answers there, EEXIST if it is no socket at all, or what
            the file system says.
    """
    ensure_free(path)
    hidden.chmod(SOCKET_MODE)
    hidden.rename(path)
    return Claim(path, _identity(path))


def ensure_free(path: Path) -> None:
    """Raise OSError if the path belongs to somebody alive, or to something that is no socket."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EEXIST, "there is a file that is no socket", str(path))
    if _is_answered(path):
        raise OSError(errno.EADDRINUSE, "another process answers on this socket", str(path))


def _is_answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(0)
        try:
            client.connect(str(path))
        except BlockingIOError:  # alive, with a full backlog
            return True
        except OSError:
            return False
        return True


def _identity(path: Path) -> tuple[int, int, int]:
    """Device, inode and ctime: an inode number alone is given out again soon."""
    status = path.lstat()
    return status.st_dev, status.st_ino, status.st_ctime_ns
