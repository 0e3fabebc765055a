"""The calls that kubelet makes to a registrar, on a connection of their own.

What follows from the answers is not here (`plugin_registration`).
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

import grpc
import grpc.aio

from csi_registration_simulator import go_errors
from csi_registration_simulator.kubelet_records import (
    Dialled,
    Dialling,
    GetInfoAnswered,
    GetInfoFailed,
    Notified,
    PluginAnswer,
)
from csi_registration_simulator.kubelet_rules import Timings
from csi_registration_simulator.operations import OperationError
from csi_registration_simulator.records import Record
from csi_registration_simulator.unix_channels import authority_of, connecting
from pluginregistration.v1 import registration_pb2, registration_pb2_grpc


class RegistrarClient:
    """A connection to the registrar behind one socket."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        socket_path: str,
        timings: Timings,
        record: Callable[[Record], None],
    ) -> None:
        self.socket_path = socket_path
        self._channel = channel
        self._stub = registration_pb2_grpc.RegistrationStub(channel)
        self._timings = timings
        self._record = record

    async def wait_until_connected(self) -> None:
        """Wait for the connection, trying again and again until the time is over.

        Raises:
            OperationError: There was none in time.
        """
        self._record(Dialling(socket_path=self.socket_path))
        began = time.monotonic()
        error = ""
        try:
            async with asyncio.timeout(self._timings.dial_seconds):
                await self._channel.channel_ready()
        except TimeoutError:
            error = "context deadline exceeded"
        seconds = time.monotonic() - began
        self._record(Dialled(socket_path=self.socket_path, seconds=seconds, error=error))
        if error:
            path = self.socket_path
            raise OperationError(
                f"RegisterPlugin error -- dial failed at socket {path}, "
                f"err: failed to dial socket {path}, err: {error}"
            )

    async def get_info(self) -> PluginAnswer:
        """Ask who is behind the socket; an absent endpoint means the socket itself.

        Raises:
            OperationError: There was no answer in time.
        """
        began = time.monotonic()
        try:
            info = await self._stub.GetInfo(
                registration_pb2.InfoRequest(), timeout=self._timings.get_info_seconds
            )
        except grpc.aio.AioRpcError as error:
            raise self._get_info_failed(error, time.monotonic() - began) from error
        answer = PluginAnswer(
            plugin_type=info.type,
            driver_name=info.name,
            endpoint=info.endpoint or self.socket_path,
            supported_versions=tuple(info.supported_versions),
        )
        seconds = time.monotonic() - began
        self._record(GetInfoAnswered(socket_path=self.socket_path, answer=answer, seconds=seconds))
        return answer

    async def notify(self, *, is_accepted: bool, error: str = "", is_lost: bool = False) -> None:
        """Tell the verdict.

        Args:
            is_accepted: Whether kubelet took the plugin.
            error: Why not; empty if it did.
            is_lost: Break the connection instead, as a failing network would.

        Raises:
            OperationError: The registrar did not take it.
        """
        began = time.monotonic()
        failure = await self._send_verdict(is_accepted=is_accepted, error=error, is_lost=is_lost)
        code = failure.code() if failure else grpc.StatusCode.OK
        self._record(
            Notified(
                socket_path=self.socket_path,
                is_accepted=is_accepted,
                error=error,
                code=go_errors.code_name(code),
                seconds=time.monotonic() - began,
            )
        )
        if failure:
            raise OperationError(f"{error}: {go_errors.call_error(failure)}") from failure

    async def _send_verdict(
        self, *, is_accepted: bool, error: str, is_lost: bool
    ) -> grpc.aio.AioRpcError | None:
        if is_lost:
            return _lost()
        try:
            await self._stub.NotifyRegistrationStatus(
                registration_pb2.RegistrationStatus(plugin_registered=is_accepted, error=error),
                timeout=self._timings.notify_seconds,
            )
        except grpc.aio.AioRpcError as failure:
            return failure
        return None

    def _get_info_failed(self, error: grpc.aio.AioRpcError, seconds: float) -> OperationError:
        text = go_errors.call_error(error)
        self._record(
            GetInfoFailed(
                socket_path=self.socket_path,
                code=go_errors.code_name(error.code()),
                error=text,
                seconds=seconds,
            )
        )
        return OperationError(
            "RegisterPlugin error -- failed to get plugin info using RPC GetInfo "
            f"at socket {self.socket_path}, err: {text}"
        )


@contextlib.asynccontextmanager
async def dialled(
    socket_path: str, timings: Timings, record: Callable[[Record], None]
) -> AsyncIterator[RegistrarClient]:
    """Yield a client on a new connection, which is closed in the end.

    Raises:
        OperationError: There was no connection in time.
    """
    async with connecting(socket_path, authority_of(socket_path)) as channel:
        client = RegistrarClient(channel, socket_path, timings, record)
        await client.wait_until_connected()
        yield client


def _lost() -> grpc.aio.AioRpcError:
    empty = grpc.aio.Metadata()
    details = "error reading from server: EOF"
    return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, empty, empty, details=details)
