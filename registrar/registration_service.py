"""The service that kubelet calls on the registration socket, answered from memory.

kubelet gives GetInfo one second, so nothing here waits for anything (R23).
"""

from typing import Protocol

import grpc.aio

from pluginregistration.v1 import registration_pb2, registration_pb2_grpc

PLUGIN_TYPE = "CSIPlugin"
"""kubelet, `pkg/apis/pluginregistration/v1`."""

SUPPORTED_VERSIONS = ("1.0.0",)
"""What every CSI driver says; kubelet refuses a second socket that does not say more."""

MAX_ERROR_BYTES = 1024
"""kubelet's errors quote the driver's, which may be of any length."""


class KubeletCalls(Protocol):
    """Whoever is told what kubelet asks and decides."""

    def get_info_received(self) -> None:
        """Take note that kubelet asked who is here."""

    def get_info_missed(self) -> None:
        """Take note that the last answer to that came too late for kubelet."""

    def verdict_received(self, *, is_accepted: bool, error: str) -> None:
        """Take note of kubelet's verdict; the error is empty if it accepted."""


class RegistrationService(registration_pb2_grpc.RegistrationServicer):
    """Answers kubelet for one driver, any number of times, on any number of connections."""

    def __init__(self, driver_name: str, endpoint: str, calls: KubeletCalls) -> None:
        self._info = registration_pb2.PluginInfo(
            type=PLUGIN_TYPE,
            name=driver_name,
            endpoint=endpoint,
            supported_versions=SUPPORTED_VERSIONS,
        )
        self._calls = calls

    async def GetInfo(  # noqa: N802 - the method's name in the protocol
        self,
        request: registration_pb2.InfoRequest,  # noqa: ARG002 - empty in the protocol
        context: grpc.aio.ServicerContext[
            registration_pb2.InfoRequest, registration_pb2.PluginInfo
        ],
    ) -> registration_pb2.PluginInfo:
        """Return who is behind this socket."""
        self._calls.get_info_received()
        context.add_done_callback(self._get_info_done)  # type: ignore[arg-type] # any callable does
        return self._info

    def _get_info_done(
        self,
        context: grpc.aio.ServicerContext[
            registration_pb2.InfoRequest, registration_pb2.PluginInfo
        ],
    ) -> None:
        """See whether kubelet's second was over before the answer was out."""
        if context.cancelled() or context.time_remaining() == 0:
            self._calls.get_info_missed()

    async def NotifyRegistrationStatus(  # noqa: N802 - the method's name in the protocol
        self,
        request: registration_pb2.RegistrationStatus,
        context: grpc.aio.ServicerContext[  # noqa: ARG002
            registration_pb2.RegistrationStatus, registration_pb2.RegistrationStatusResponse
        ],
    ) -> registration_pb2.RegistrationStatusResponse:
        """Take kubelet's verdict, and always say OK.

        kubelet 1.36 deregisters a driver if its good verdict is not answered.
        """
        self._calls.verdict_received(
            is_accepted=request.plugin_registered, error=_cut(request.error, MAX_ERROR_BYTES)
        )
        return registration_pb2.RegistrationStatusResponse()


def _cut(text: str, max_bytes: int) -> str:
    encoded = text.encode()
    if len(encoded) <= max_bytes:
        return text
    return encoded[:max_bytes].decode(errors="ignore") + "…"
