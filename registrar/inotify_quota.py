"""Whether the kernel still gives an inotify watch: kubelet cannot do without one (R24).

The kernel counts instances and watches per user, so a failure of ours is kubelet's only if it runs
as the same user.
"""

import errno
import os
from typing import Any, NamedTuple

_CREATE = 0x100  # inotify(7), IN_CREATE
_LIMITS = "/proc/sys/fs/inotify"
_ALL_USERS = ["0", "0", "4294967295"]  # user_namespaces(7), the map of the first namespace


class InotifyProblem(NamedTuple):
    """inotify is used up for this process's user."""

    call: str
    """The system call that failed."""
    error_name: str
    """Such as `EMFILE`."""
    limit_name: str
    """The kernel's setting that limits it."""
    limit: str
    """Its value; empty if it cannot be read."""
    user: int

    def __str__(self) -> str:
        value = f", now {self.limit}" if self.limit else ""
        return (
            f"{self.call} fails with {self.error_name} for user {self.user} "
            f"({self.limit_name}{value})"
        )


def inotify_problem(folder: str) -> InotifyProblem | None:
    """Try to watch a folder as kubelet would; return what the kernel's quota has against it.

    Anything but the quota is no problem here: also not that this process has no file descriptor
    left.
    """
    import ctypes  # noqa: PLC0415 - a quarter of a megabyte that only a silent kubelet is worth

    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    if descriptor < 0:
        return _no_instance(ctypes.get_errno())
    try:
        return _no_watch(libc, ctypes, descriptor, folder)
    finally:
        os.close(descriptor)


def _no_instance(error_number: int) -> InotifyProblem | None:
    if error_number != errno.EMFILE or not _has_free_descriptor():
        return None
    return _problem("inotify_init1", error_number, "max_user_instances")


def _no_watch(libc: Any, ctypes: Any, descriptor: int, folder: str) -> InotifyProblem | None:  # noqa: ANN401 - ctypes has no types for libraries
    if libc.inotify_add_watch(descriptor, os.fsencode(folder), _CREATE) >= 0:
        return None
    error_number: int = ctypes.get_errno()
    if error_number != errno.ENOSPC:
        return None
    return _problem("inotify_add_watch", error_number, "max_user_watches")


def _has_free_descriptor() -> bool:
    try:
        os.close(os.open("/", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _problem(call: str, error_number: int, limit: str) -> InotifyProblem:
    try:
        with open(f"{_LIMITS}/{limit}", encoding="ascii") as file:
            value = file.read().strip()
    except OSError:
        value = ""
    name = errno.errorcode[error_number]
    return InotifyProblem(call, name, f"fs.inotify.{limit}", value, os.geteuid())


def shares_quota_with_owner(path: str) -> bool:
    """Return whether the owner of a file has the same inotify quota as this process.

    So it is if both are one user of the host's own user namespace.
    """
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            is_hosts_namespace = file.read().split() == _ALL_USERS
        return is_hosts_namespace and os.stat(path).st_uid == os.geteuid()
    except OSError:
        return False
