"""Errors in the words of Go's grpc library, because kubelet passes those on to a registrar."""

import errno
import os
import socket

import grpc
import grpc.aio

_PREFIX = {0: "OK", 1: "Canceled"}


def code_name(code: grpc.StatusCode) -> str:
    """Spell a status as Go does, such as `DeadlineExceeded`, `OK` or `Canceled`."""
    number: int = code.value[0]
    return _PREFIX.get(number) or "".join(part.capitalize() for part in code.name.split("_"))


def rpc_error(code: grpc.StatusCode, details: str) -> str:
    """Put a failed call into words as the `Error` method of Go's gRPC status does."""
    return f"rpc error: code = {code_name(code)} desc = {details}"


def call_error(error: grpc.aio.AioRpcError) -> str:
    """Put an error of our own gRPC library into Go's words."""
    details = error.details() or ""
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        details = "context deadline exceeded"
    return rpc_error(error.code(), details)


def connect_error(socket_path: str, shown_as: str) -> str | None:
    """Connect to a unix socket and say in Go's words why that fails; None if it does not.

    Args:
        socket_path: As this process sees it.
        shown_as: The path that the words name.
    """
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(0)
        try:
            client.connect(socket_path)
        except BlockingIOError:
            return None  # its backlog is full, so somebody listens
        except OSError as error:
            # A path over 107 bytes fails in Python, without an errno; in Go it is EINVAL.
            reason = os.strerror(error.errno or errno.EINVAL).lower()
            return f"dial unix {shown_as}: connect: {reason}"
    return None


def dialing_error(connect_reason: str) -> str:
    """Say what Go's gRPC client says when a call finds no connection."""
    details = f'connection error: desc = "transport: Error while dialing: {connect_reason}"'
    return rpc_error(grpc.StatusCode.UNAVAILABLE, details)
