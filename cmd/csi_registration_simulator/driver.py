"""A simulated CSI driver with faults that can be switched on and off while it runs.

It serves what registering a driver needs, and no volumes.
"""

import asyncio
import contextlib
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import grpc
import grpc.aio
from google.protobuf.wrappers_pb2 import BoolValue

from csi.v1 import csi_pb2, csi_pb2_grpc
from csi_registration_simulator.csi_listener import CSIListener, remove_socket
from csi_registration_simulator.records import Record, Recorder

METHODS = ("GetPluginInfo", "GetPluginCapabilities", "Probe", "NodeGetInfo")


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverStarted(Record):
    """The driver listens on its socket."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverStopped(Record):
    """The driver is gone."""

    leaves_socket: bool
    """Whether the socket's file is still there, as after a crash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReceived(Record):
    """A call came in, and is about to be answered."""

    method: str
    """One of METHODS."""
    authority: str
    """The `:authority` that the client sent. Empty if it was compressed, as Go's clients do."""


@dataclass(frozen=True, slots=True)
class CallError:
    """What a method answers instead of its response."""

    code: grpc.StatusCode
    text: str


class SimulatedDriver(Recorder):
    """A CSI driver on a unix socket, as an async context manager.

    All attributes may be changed at any time; the next call sees it.
    """

    def __init__(self, csi_address: str | Path, *, name: str = "simulated.csi.example.com") -> None:
        """Prepare a driver; it does nothing until it is started.

        Args:
            csi_address: The path of its socket.
            name: What it calls itself.
        """
        super().__init__()
        self.csi_address = str(csi_address)
        self.name = name
        self.vendor_version = "1.0.0"
        self.manifest: dict[str, str] = {}
        self.is_ready: bool | None = True
        """Probe's answer; None leaves it out, which means ready."""
        self.node_id = "simulated-node"
        self.max_volumes_per_node = 0
        self.topology: dict[str, str] = {}
        self.delay_seconds: dict[str, float] = {}
        """How long each of METHODS takes."""
        self.errors: dict[str, CallError] = {}
        """Which of METHODS fail, and how."""
        self._is_black_hole = False
        self._listener: CSIListener | None = None
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Start it.

        Raises:
            OSError: The socket cannot be bound.
        """
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop it, if it runs."""
        await self.stop()

    async def start(self) -> None:
        """Listen; a socket that is there already is replaced, as drivers do.

        Raises:
            OSError: The socket cannot be bound.
        """
        if self._listener is not None:
            raise RuntimeError("this driver runs already")
        server_name = f"csi-registration-simulator-{secrets.token_hex(8)}"
        async with contextlib.AsyncExitStack() as stack:
            server = self._new_server(server_name)
            await server.start()
            stack.push_async_callback(server.stop, None)
            listener = CSIListener(self.csi_address, server_name)
            listener.be_silent(is_silent=self._is_black_hole)
            self._listener = await stack.enter_async_context(listener)
            self._stack = stack.pop_all()
        self.record(DriverStarted(name=self.name))

    async def stop(self) -> None:
        """End as a driver that was asked to: the socket's file is removed."""
        if self._listener is not None:
            remove_socket(self.csi_address)
            await self._end(leaves_socket=False)

    async def crash(self) -> None:
        """End as a driver that was killed: the socket's file stays, and nobody listens."""
        if self._listener is not None:
            await self._end(leaves_socket=True)

    async def restart(self, *, name: str | None = None) -> None:
        """Stop and start again, perhaps under another name."""
        await self.stop()
        self.name = name or self.name
        await self.start()

    @property
    def is_black_hole(self) -> bool:
        """Whether connections are accepted and nothing is ever said on them."""
        return self._is_black_hole

    @is_black_hole.setter
    def is_black_hole(self, is_black_hole: bool) -> None:
        self._is_black_hole = is_black_hole
        if self._listener is not None:
            self._listener.be_silent(is_silent=is_black_hole)

    def calls(self, method: str) -> list[CallReceived]:
        """Return the calls of one of METHODS that were received so far."""
        return [call for call in self.of(CallReceived) if call.method == method]

    async def receive(self, method: str, context: "_Context") -> None:
        """Take note of a call, let its delay pass, and end it if it is to fail."""
        authority = self._listener.authority_of(context.peer()) if self._listener else ""
        self.record(CallReceived(method=method, authority=authority))
        await asyncio.sleep(self.delay_seconds.get(method, 0))
        if error := self.errors.get(method):
            await context.abort(error.code, error.text)

    def _new_server(self, server_name: str) -> grpc.aio.Server:
        server = grpc.aio.server()
        csi_pb2_grpc.add_IdentityServicer_to_server(_Identity(self), server)
        csi_pb2_grpc.add_NodeServicer_to_server(_Node(self), server)
        server.add_insecure_port(f"unix-abstract:{server_name}")
        return server

    async def _end(self, *, leaves_socket: bool) -> None:
        self._listener = None
        await self._stack.aclose()
        self.record(DriverStopped(leaves_socket=leaves_socket))


_Context = grpc.aio.ServicerContext[Any, Any]


class _Identity(csi_pb2_grpc.IdentityServicer):
    """The Identity service of a driver. The method names are those of the CSI specification."""

    def __init__(self, driver: SimulatedDriver) -> None:
        self._driver = driver

    async def GetPluginInfo(  # noqa: N802
        self, _: csi_pb2.GetPluginInfoRequest, context: _Context
    ) -> csi_pb2.GetPluginInfoResponse:
        """Answer who the driver is."""
        driver = self._driver
        await driver.receive("GetPluginInfo", context)
        return csi_pb2.GetPluginInfoResponse(
            name=driver.name, vendor_version=driver.vendor_version, manifest=driver.manifest
        )

    async def GetPluginCapabilities(  # noqa: N802
        self, _: csi_pb2.GetPluginCapabilitiesRequest, context: _Context
    ) -> csi_pb2.GetPluginCapabilitiesResponse:
        """Answer that the driver has no controller."""
        await self._driver.receive("GetPluginCapabilities", context)
        return csi_pb2.GetPluginCapabilitiesResponse()

    async def Probe(  # noqa: N802
        self, _: csi_pb2.ProbeRequest, context: _Context
    ) -> csi_pb2.ProbeResponse:
        """Answer whether the driver is ready."""
        await self._driver.receive("Probe", context)
        is_ready = self._driver.is_ready
        return csi_pb2.ProbeResponse(ready=None if is_ready is None else BoolValue(value=is_ready))


class _Node(csi_pb2_grpc.NodeServicer):
    """The Node service of a driver."""

    def __init__(self, driver: SimulatedDriver) -> None:
        self._driver = driver

    async def NodeGetInfo(  # noqa: N802
        self, _: csi_pb2.NodeGetInfoRequest, context: _Context
    ) -> csi_pb2.NodeGetInfoResponse:
        """Answer what kubelet asks for when it registers the driver."""
        driver = self._driver
        await driver.receive("NodeGetInfo", context)
        return csi_pb2.NodeGetInfoResponse(
            node_id=driver.node_id,
            max_volumes_per_node=driver.max_volumes_per_node,
            accessible_topology=csi_pb2.Topology(segments=driver.topology),
        )
