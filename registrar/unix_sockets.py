"""Small questions about unix sockets that never block: what is at a path, who listens there."""

import contextlib
import errno
import os
import socket
import stat
import struct
from typing import NamedTuple

_UCRED = struct.Struct("3i")  # pid, uid, gid: unix(7), SO_PEERCRED


class FileIdentity(NamedTuple):
    """Which file is at a path: equal means the same file, untouched since."""

    device: int
    inode: int
    ctime_ns: int
    """Changed by rename and chmod; tells a new file that was given a freed inode number."""

    def is_same_inode(self, other: "FileIdentity") -> bool:
        """Return whether both are one file, though perhaps renamed or given another mode."""
        return (self.device, self.inode) == (other.device, other.inode)


def identity_of(found: os.stat_result) -> FileIdentity:
    """Return the identity that a stat result shows."""
    return FileIdentity(found.st_dev, found.st_ino, found.st_ctime_ns)


def grpc_target(path: str) -> str:
    """Return gRPC's name for a unix socket's path.

    gRPC takes the name for a URI, so what has a meaning there is escaped.
    """
    escaped = path.replace("%", "%25").replace("?", "%3F").replace("#", "%23")
    return f"unix:{escaped}"


def connect_errno(path: str) -> int:
    """Return 0 if somebody listens at the path, or else the error number of connecting.

    A listener whose queue is full (EAGAIN) is alive, if busy: it counts as 0.
    """
    return _connect(path)[0]


def listener_pid(path: str) -> int | None:
    """Return the process that listens at the path, by SO_PEERCRED; None if nobody can be reached.

    A process outside this process's PID namespace is seen as 0.
    """
    return _connect(path)[1]


def _connect(path: str) -> tuple[int, int | None]:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as client:
            client.connect(path)
            credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    except BlockingIOError:
        return 0, None
    except OSError as error:
        return error.errno or errno.ENAMETOOLONG, None
    return 0, int(_UCRED.unpack(credentials)[0])


def bind_errno(path: str) -> int:
    """Return 0 if a socket could be bound at the path, or else the error number; leave no file.

    gRPC does not tell why it could not bind, so the same is tried once without it.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.bind(path)
    except OSError as error:
        return error.errno or errno.ENAMETOOLONG
    with contextlib.suppress(OSError):
        os.unlink(path)
    return 0


def kind_of_file(mode: int) -> str:
    """Return what a file of this mode is, in words for an error."""
    for is_kind, words in (
        (stat.S_ISREG, "a regular file"),
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISFIFO, "a named pipe"),
    ):
        if is_kind(mode):
            return words
    return "a device"
