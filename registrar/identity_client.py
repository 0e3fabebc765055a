"""Calls to the driver's Identity service over one long-lived channel, with errors in words.

When to call is not here (`driver_watch`).
"""

import asyncio
import errno
import os
import stat
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

import grpc
import grpc.aio

from csi.v1 import csi_pb2, csi_pb2_grpc
from registrar.errors import DriverError, DriverTimeoutError
from registrar.observer import CallFinished, Observer, ProbeFinished, ProbeResult
from registrar.unix_sockets import (
    FileIdentity,
    connect_errno,
    grpc_target,
    identity_of,
    kind_of_file,
)

_Response = TypeVar("_Response")

_METHOD_PREFIX = "/csi.v1.Identity/"

_CHANNEL_OPTIONS = (
    # Drivers in Rust, Node and .NET refuse the socket's path as an authority (R53).
    ("grpc.default_authority", "localhost"),
    # An idle driver is a healthy driver (R56); no keepalive pings are sent either (R55).
    ("grpc.client_idle_timeout_ms", 2**31 - 1),
    # Each channel has its own connection: never one that another part of the process broke.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    # No pings to estimate how much the connection could carry.
    ("grpc.http2.bdp_probe", 0),
    # A driver's error text travels as metadata; between the two limits gRPC refuses at random.
    ("grpc.max_metadata_size", 64 * 1024),
    ("grpc.absolute_max_metadata_size", 128 * 1024),
    # No back-off is set: a failed channel is given up, and a short one would also bound how long
    # a throttled driver may take to accept a connection.
)

_MAX_DETAIL_CHARACTERS = 1024

_GRPC_DEADLINE_MARGIN_SECONDS = 30.0
"""How much later than our own limit the deadline is that gRPC keeps and tells the driver.

gRPC looks at its timers at intervals of a third of their usual length, and no longer than a second.
Deadlines of a second had it wake up three times as often, with four threads (measured: 21 times a
second instead of 12). Ours comes first and cancels the call; theirs is for a driver that we could
not tell so.
"""


class DriverAnswer(NamedTuple):
    """What a driver says of itself in GetPluginInfo."""

    name: str
    vendor_version: str
    manifest: tuple[tuple[str, str], ...]
    """Sorted by key, so that equal answers are equal."""


class IdentityClient:
    """Asks one driver who it is and whether it is ready.

    An asynchronous context manager; the connection is made by the first call, always from the
    path, and made anew whenever another socket is at the path.
    """

    def __init__(self, csi_address: str, timeout_seconds: float, observer: Observer) -> None:
        self.csi_address = csi_address
        self.driver_name: str | None = None
        """The name that calls are reported under; whoever checks it sets it."""
        self._timeout_seconds = timeout_seconds
        self._observer = observer
        self._channel: grpc.aio.Channel | None = None
        self._stub: csi_pb2_grpc.IdentityAsyncStub | None = None
        self._connection_number = 0
        self._connected_to: FileIdentity | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._disconnect()

    @property
    def is_connected(self) -> bool:
        """Whether a connection to the driver stands."""
        channel = self._channel
        return channel is not None and channel.get_state() is grpc.ChannelConnectivity.READY

    @property
    def connection_number(self) -> int:
        """How many channels to the driver have been made: changes with each new connection."""
        return self._connection_number

    def socket_identity(self) -> FileIdentity | None:
        """Return which socket is at the path; None if none can be seen."""
        try:
            return identity_of(os.stat(self.csi_address))
        except OSError:
            return None

    async def get_plugin_info(self, *, timeout_seconds: float | None = None) -> DriverAnswer:
        """Return what the driver says of itself (CSI specification, GetPluginInfo).

        The call gets `timeout_seconds`, or the client's own limit.

        Raises:
            DriverError: if it cannot be reached.
            DriverTimeoutError: if it does not answer in time.
        """
        limit = timeout_seconds or self._timeout_seconds
        response = await self._call(
            "GetPluginInfo",
            lambda stub, seconds: stub.GetPluginInfo(
                csi_pb2.GetPluginInfoRequest(), timeout=seconds
            ),
            limit,
        )
        return DriverAnswer(
            name=response.name,
            vendor_version=response.vendor_version,
            manifest=tuple(sorted(response.manifest.items())),
        )

    async def probe(self, *, timeout_seconds: float | None = None) -> bool:
        """Return whether the driver is ready (CSI specification, Probe): absent means yes.

        The call gets `timeout_seconds`, or the client's own limit.

        Raises:
            DriverError: if it cannot be reached.
            DriverTimeoutError: if it does not answer in time.
        """
        limit = timeout_seconds or self._timeout_seconds
        try:
            response = await self._call(
                "Probe",
                lambda stub, seconds: stub.Probe(csi_pb2.ProbeRequest(), timeout=seconds),
                limit,
            )
        except DriverTimeoutError:
            self._report_probe(ProbeResult.TIMEOUT)
            raise
        except DriverError:
            self._report_probe(ProbeResult.ERROR)
            raise
        is_ready = response.ready.value if response.HasField("ready") else True
        self._report_probe(ProbeResult.READY if is_ready else ProbeResult.NOT_READY)
        return is_ready

    def _report_probe(self, result: ProbeResult) -> None:
        if self.driver_name is not None:
            self._observer.notify(
                ProbeFinished(
                    csi_address=self.csi_address, driver_name=self.driver_name, result=result
                )
            )

    async def _call(
        self,
        method: str,
        start: Callable[["csi_pb2_grpc.IdentityAsyncStub", float], Awaitable[_Response | None]],
        limit_seconds: float,
    ) -> _Response:
        """Make one call: timed, counted and with its failure in words, however it ends."""
        begun = time.monotonic()
        try:
            async with asyncio.timeout(limit_seconds):
                await self._check_path()
                response = await start(
                    self._connected_stub(), limit_seconds + _GRPC_DEADLINE_MARGIN_SECONDS
                )
        except TimeoutError as error:
            self._report(method, grpc.StatusCode.DEADLINE_EXCEEDED, begun)
            if not self.is_connected:
                await self._disconnect()
            raise DriverTimeoutError(
                f"the driver behind {self.csi_address} did not answer {method} within "
                f"{limit_seconds:g} s: it hangs, or it needs a longer --timeout"
            ) from error
        except DriverError:
            self._report(method, grpc.StatusCode.UNAVAILABLE, begun)
            raise
        except asyncio.CancelledError as error:
            self._report(method, grpc.StatusCode.CANCELLED, begun)
            if _is_being_cancelled():
                raise
            # gRPC cancels the calls of a channel that is closed, here by a concurrent call that
            # found another socket at the path.
            raise DriverError(
                f"the driver's socket {self.csi_address} was replaced while {method} was under way"
            ) from error
        except grpc.aio.AioRpcError as error:
            self._report(method, error.code(), begun)
            problem = self._in_words(method, error)
            if not self.is_connected:
                await self._disconnect()
            raise DriverError(problem) from error
        if response is None:
            # gRPC's asyncio client says so, and nothing else, if it cannot decode the bytes.
            self._report(method, grpc.StatusCode.INTERNAL, begun)
            raise DriverError(
                f"the driver behind {self.csi_address} answered {method} with bytes that are no "
                "valid message (such as a name that is not UTF-8)"
            )
        self._report(method, grpc.StatusCode.OK, begun)
        return response

    def _report(self, method: str, code: grpc.StatusCode, begun: float) -> None:
        self._observer.notify(
            CallFinished(
                csi_address=self.csi_address,
                driver_name=self.driver_name,
                method=_METHOD_PREFIX + method,
                code=go_code_name(code),
                seconds=time.monotonic() - begun,
            )
        )

    async def _check_path(self) -> None:
        """Drop a connection to a socket that is not at the path any more.

        Raises:
            DriverError: if there is no socket at the path.
        """
        try:
            found = os.stat(self.csi_address)
        except OSError as error:
            await self._disconnect()
            raise DriverError(_unreachable(self.csi_address, error.errno)) from error
        if not stat.S_ISSOCK(found.st_mode):
            await self._disconnect()
            raise DriverError(
                f"{self.csi_address} is {kind_of_file(found.st_mode)} and no socket: --csi-address "
                "must be the path of the driver's socket"
            )
        if not self._is_connected_to(identity_of(found)):
            await self._disconnect()
        self._connected_to = identity_of(found)

    def _is_connected_to(self, its: FileIdentity) -> bool:
        """Return whether the channel leads to this socket.

        A mere change of its mode or owner leaves a connection standing; where the connection broke
        as well, it is another socket that was given a freed inode number.
        """
        mine = self._connected_to
        if mine is None or not its.is_same_inode(mine):
            return False
        return its == mine or self.is_connected

    def _connected_stub(self) -> "csi_pb2_grpc.IdentityAsyncStub":
        if self._channel is None or self._stub is None:
            self._connection_number += 1
            self._channel = grpc.aio.insecure_channel(
                grpc_target(self.csi_address), options=_CHANNEL_OPTIONS
            )
            self._stub = csi_pb2_grpc.IdentityStub(self._channel)
        return self._stub

    async def _disconnect(self) -> None:
        channel, self._channel, self._stub = self._channel, None, None
        self._connected_to = None
        if channel is not None:
            await channel.close()

    def _in_words(self, method: str, error: grpc.aio.AioRpcError) -> str:
        match error.code():
            case grpc.StatusCode.UNAVAILABLE if not self.is_connected:
                return _unreachable(self.csi_address, connect_errno(self.csi_address))
            case grpc.StatusCode.UNIMPLEMENTED:
                return (
                    f"who listens on {self.csi_address} does not implement "
                    f"csi.v1.Identity/{method}: is --csi-address the driver's socket?"
                )
        detail = (error.details() or "no reason given")[:_MAX_DETAIL_CHARACTERS]
        return f"the driver failed {method} with {go_code_name(error.code())}: {detail}"


def _is_being_cancelled() -> bool:
    """Return whether somebody wants the current task to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def go_code_name(code: grpc.StatusCode) -> str:
    """Return a status code as Go's gRPC spells it, such as `DeadlineExceeded`."""
    if code is grpc.StatusCode.OK:
        return "OK"
    if code is grpc.StatusCode.CANCELLED:
        return "Canceled"
    return "".join(word.capitalize() for word in code.name.split("_"))


def _unreachable(path: str, error_number: int | None) -> str:
    match error_number:
        case errno.ENOENT | errno.ENOTDIR:
            return (
                f"there is no driver socket at {path}: the driver has not started, or its "
                "folder is not mounted here, or --csi-address is wrong"
            )
        case errno.ECONNREFUSED:
            return (
                f"nobody listens on the driver's socket {path}: the driver died, "
                "or has only begun to start"
            )
        case errno.EACCES | errno.EPERM:
            return (
                f"permission denied on the driver's socket {path} for user {os.geteuid()}: "
                "look at the modes of the socket and its folders, and at SELinux"
            )
        case 0 | None:
            return f"the driver's socket {path} was reached, but the connection broke at once"
    return f"the driver's socket {path} cannot be reached: {os.strerror(error_number)}"
