"""A CSI driver that only says who it is, in a process of its own so that it slows nobody down."""

import asyncio
import sys

import grpc.aio

from csi.v1 import csi_pb2, csi_pb2_grpc
from registrar.unix_sockets import grpc_target


class _Identity(csi_pb2_grpc.IdentityServicer):
    def __init__(self, name: str) -> None:
        self._name = name

    async def GetPluginInfo(  # noqa: N802 - gRPC's name
        self, _request: csi_pb2.GetPluginInfoRequest, _context: object
    ) -> csi_pb2.GetPluginInfoResponse:
        """Say the name."""
        return csi_pb2.GetPluginInfoResponse(name=self._name, vendor_version="1.0.0")

    async def GetPluginCapabilities(  # noqa: N802 - gRPC's name
        self, _request: csi_pb2.GetPluginCapabilitiesRequest, _context: object
    ) -> csi_pb2.GetPluginCapabilitiesResponse:
        """Say none."""
        return csi_pb2.GetPluginCapabilitiesResponse()

    async def Probe(  # noqa: N802 - gRPC's name
        self, _request: csi_pb2.ProbeRequest, _context: object
    ) -> csi_pb2.ProbeResponse:
        """Be ready."""
        return csi_pb2.ProbeResponse()


class _Node(csi_pb2_grpc.NodeServicer):
    async def NodeGetInfo(  # noqa: N802 - gRPC's name
        self, _request: csi_pb2.NodeGetInfoRequest, _context: object
    ) -> csi_pb2.NodeGetInfoResponse:
        """Say the node's id."""
        return csi_pb2.NodeGetInfoResponse(node_id="bench")


async def _serve(path: str, name: str) -> None:
    # As gRPC's Go library, in which drivers are written, it pings together with its answers only,
    # and not once more half a second later.
    server = grpc.aio.server(options=[("grpc.http2.bdp_probe", 0)])
    csi_pb2_grpc.add_IdentityServicer_to_server(_Identity(name), server)
    csi_pb2_grpc.add_NodeServicer_to_server(_Node(), server)
    server.add_insecure_port(grpc_target(path))
    await server.start()
    sys.stderr.write("listening\n")
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
