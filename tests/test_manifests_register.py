"""Each argument list that real projects give to the Go registrar registers a driver with ours."""

import asyncio
import dataclasses
import os

import pytest
from manifest_corpus import accepted_registrar_specs

from csi_node_driver_registrar.config import DriverConfig, parse_registrar
from csi_node_driver_registrar.registrar_run import run_registrar
from csi_registration_simulator.driver import SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet
from csi_registration_simulator.kubelet_records import GetInfoAnswered, Notified
from csi_registration_simulator.kubelet_rules import Timings

SHARES = 8
ALL = list(accepted_registrar_specs())


@pytest.mark.timeout(180)
@pytest.mark.parametrize("share", range(SHARES))
async def test_every_argument_list_of_a_real_manifest_registers_a_driver(
    folder: str, share: int
) -> None:
    """The paths of the container are put below a folder; all else is as the manifest has it."""
    assert len(ALL) >= 90
    for spec_id, argv in ALL[share::SHARES]:
        endpoint = await registered_endpoint(f"{folder}/{spec_id[-40:]}", argv)
        assert endpoint in " ".join(argv), spec_id


async def registered_endpoint(root: str, argv: list[str]) -> str:
    """Run the registrar until kubelet has accepted; return the endpoint that kubelet was told."""
    os.mkdir(root)
    config = parse_registrar(argv)
    (stated,) = config.drivers
    local = DriverConfig(
        csi_address=f"{root}/csi.sock", kubelet_registration_path=stated.kubelet_registration_path
    )
    config = dataclasses.replace(
        config,
        drivers=(local,),
        plugin_registration_path=f"{root}/registration",
        http_endpoint="",
    )
    async with (
        SimulatedDriver(local.csi_address, name="x.csi.example.com"),
        SimulatedKubelet(
            config.plugin_registration_path,
            timings=Timings(tick_seconds=0.05),
            local_path=lambda _endpoint: local.csi_address,
        ) as kubelet,
    ):
        running = asyncio.create_task(run_registrar(config), name="registrar")
        try:
            assert (await kubelet.wait_for_record(Notified)).is_accepted
        finally:
            running.cancel()
            await asyncio.wait([running])
        return kubelet.of(GetInfoAnswered)[0].answer.endpoint
