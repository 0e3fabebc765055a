"""Puts the parts together for one run, and takes them apart again in reverse order."""

import asyncio

from csi_node_driver_registrar.config import Config
from csi_node_driver_registrar.klog import Logger
from csi_node_driver_registrar.log_observer import LogObserver
from csi_node_driver_registrar.signals import handling_signals
from registrar.settings import DriverSettings, OnRegistrationFailure
from registrar.supervisor import Supervisor

_log = Logger(__name__)


class _StopRequested(Exception):  # noqa: N818 - a wish, no error
    """Ends the root task group, and with it everything that runs, at any moment."""


async def run_registrar(config: Config) -> None:
    """Keep all drivers registered until a signal asks to stop.

    Raises:
        ExceptionGroup: with the reason why the process cannot go on.
    """
    observer = LogObserver()
    supervisors = [Supervisor(settings, observer) for settings in _settings(config)]
    stop = asyncio.Event()

    def on_stop(signal_name: str) -> None:
        _log.info("Stopping", signal=signal_name)
        stop.set()

    def on_hangup() -> None:
        _log.info("Announcing again on request", signal="SIGHUP")
        for supervisor in supervisors:
            supervisor.request_announcement()

    try:
        with handling_signals(on_stop=on_stop, on_hangup=on_hangup):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_stopper(stop), name="stopper")
                for supervisor in supervisors:
                    tasks.create_task(
                        supervisor.run(), name=f"supervisor {supervisor.settings.csi_address}"
                    )
    except* _StopRequested:
        _log.info("Stopped")


async def _stopper(stop: asyncio.Event) -> None:
    await stop.wait()
    raise _StopRequested


def _settings(config: Config) -> list[DriverSettings]:
    return [
        DriverSettings(
            csi_address=driver.csi_address,
            kubelet_registration_path=driver.kubelet_registration_path,
            registration_folder=config.plugin_registration_path,
            timeout_seconds=config.timeout_seconds,
            monitor_interval_seconds=config.monitor_interval_seconds,
            kubelet_silence_seconds=config.kubelet_silence_timeout_seconds,
            on_registration_failure=OnRegistrationFailure(config.on_registration_failure),
        )
        for driver in config.drivers
    ]
