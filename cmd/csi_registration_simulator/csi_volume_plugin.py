"""kubelet's CSI volume plugin: validates drivers, asks them for the node, keeps the CSINode object.

Sockets of registrars, ticks and verdicts are not here: it is told of a driver and its endpoint.
"""

import re
import time
from collections.abc import Callable

import grpc.aio

from csi.v1 import csi_pb2, csi_pb2_grpc
from csi_registration_simulator import csi_versions, go_errors
from csi_registration_simulator.kubelet_records import (
    CSINodeChanged,
    NodeGetInfoAnswered,
    NodeGetInfoFailed,
    NodeInfo,
    PluginAnswer,
)
from csi_registration_simulator.kubelet_rules import Timings
from csi_registration_simulator.records import Record
from csi_registration_simulator.unix_channels import connecting

_PREFIX = "kubernetes.io/csi: "
_DRIVER_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_DRIVER_NAME = 63


class PluginRefusedError(Exception):
    """kubelet does not take the driver; the message is kubelet's."""


class CSIVolumePlugin:
    """The drivers that kubelet knows, and what it wrote into its CSINode object about them."""

    def __init__(
        self,
        csinode: dict[str, NodeInfo],
        install_errors: list[str],
        timings: Timings,
        local_path: Callable[[str], str],
        record: Callable[[Record], None],
    ) -> None:
        self._csinode = csinode
        self._timings = timings
        self._local_path = local_path
        self._record = record
        self._versions: dict[str, csi_versions.Version] = {}
        # Texts with which the next writes of the CSINode object fail, one each.
        self._install_errors = install_errors

    def validate(self, answer: PluginAnswer) -> None:
        """Check a driver before anything is done for it.

        Raises:
            PluginRefusedError: No version fits, or another endpoint has the name.
        """
        try:
            self._check_versions("ValidatePlugin", answer)
        except PluginRefusedError as error:
            raise PluginRefusedError(
                f"validation failed for CSI Driver {answer.driver_name} "
                f"at endpoint {answer.endpoint}: {error}"
            ) from error

    async def register(self, socket_path: str, answer: PluginAnswer) -> None:
        """Ask the driver for the node and write both into the CSINode object.

        Raises:
            PluginRefusedError: The driver did not answer, or the object could not be written;
                the driver is not known any more then.
        """
        self._versions[answer.driver_name] = self._check_versions("RegisterPlugin", answer)
        try:
            node_info = await self._ask_node_info(socket_path, answer)
            self._install(answer.driver_name, node_info)
        except PluginRefusedError:
            self.deregister(answer.driver_name)
            raise

    def deregister(self, driver_name: str) -> None:
        """Forget a driver, whoever registered it."""
        self._versions.pop(driver_name, None)
        if self._csinode.pop(driver_name, None) is not None:
            self._record_csinode()

    def _check_versions(self, caller: str, answer: PluginAnswer) -> csi_versions.Version:
        failed = f'{_PREFIX}{caller} for CSI driver "{answer.driver_name}" failed.'
        if not answer.supported_versions:
            raise PluginRefusedError(
                f"{failed} Plugin returned an empty list for supported versions"
            )
        try:
            version = csi_versions.highest_supported(answer.supported_versions)
        except ValueError as error:
            listed = " ".join(f'"{each}"' for each in answer.supported_versions)
            raise PluginRefusedError(
                f"{failed} None of the versions specified [{listed}] are supported. err={error}"
            ) from error
        known = self._versions.get(answer.driver_name)
        if known is not None and known >= version:
            raise PluginRefusedError(
                f"{failed} Another driver with the same name is already registered "
                f'with a higher supported version: "{csi_versions.show(known)}"'
            )
        return version

    async def _ask_node_info(self, socket_path: str, answer: PluginAnswer) -> NodeInfo:
        began = time.monotonic()
        try:
            node_info = await self._call_node_get_info(answer.endpoint)
        except PluginRefusedError as error:
            self._record(
                NodeGetInfoFailed(
                    socket_path=socket_path,
                    driver_name=answer.driver_name,
                    endpoint=answer.endpoint,
                    error=str(error),
                    seconds=time.monotonic() - began,
                )
            )
            raise
        self._record(
            NodeGetInfoAnswered(
                socket_path=socket_path,
                driver_name=answer.driver_name,
                endpoint=answer.endpoint,
                answer=node_info,
                seconds=time.monotonic() - began,
            )
        )
        return node_info

    async def _call_node_get_info(self, endpoint: str) -> NodeInfo:
        local_path = self._local_path(endpoint)
        if reason := go_errors.connect_error(local_path, shown_as=endpoint):
            raise PluginRefusedError(go_errors.dialing_error(reason))
        try:
            async with connecting(local_path, authority="localhost") as channel:
                response = await csi_pb2_grpc.NodeStub(channel).NodeGetInfo(
                    csi_pb2.NodeGetInfoRequest(), timeout=self._timings.node_get_info_seconds
                )
        except grpc.aio.AioRpcError as error:
            raise PluginRefusedError(go_errors.call_error(error)) from error
        return NodeInfo(
            node_id=response.node_id,
            max_volumes_per_node=response.max_volumes_per_node,
            topology=tuple(sorted(response.accessible_topology.segments.items())),
        )

    def _install(self, driver_name: str, node_info: NodeInfo) -> None:
        if not node_info.node_id:
            raise PluginRefusedError(
                "error adding CSI driver node info: driverNodeID must not be empty"
            )
        if self._install_errors:
            raise PluginRefusedError(self._install_errors.pop(0))
        self._check_name(driver_name)
        self._csinode[driver_name] = node_info
        self._record_csinode()

    @staticmethod
    def _check_name(driver_name: str) -> None:
        # The API server's validation of CSINode: spec.drivers[].name.
        lowered = driver_name.lower()
        if len(driver_name) <= _MAX_DRIVER_NAME and _DRIVER_NAME.fullmatch(lowered):
            return
        raise PluginRefusedError(
            "error updating CSINode object with CSI driver node info: error updating CSINode: "
            "timed out waiting for the condition; caused by: CSINode.storage.k8s.io is invalid: "
            f'spec.drivers[0].name: Invalid value: "{driver_name}"'
        )

    def _record_csinode(self) -> None:
        self._record(CSINodeChanged(driver_names=tuple(sorted(self._csinode))))
