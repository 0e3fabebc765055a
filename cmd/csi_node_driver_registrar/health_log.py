"""What happens while health is served, as log lines: transitions only (R64)."""

from csi_node_driver_registrar.klog import Logger
from health.observer import CheckChanged, Event, ListeningFailed, ListeningStarted, RequestAnswered

_log = Logger(__name__)

_EVERY_REQUEST = 5


class HealthLog:
    """Writes the events that an operator wants to know (implements `health.Observer`)."""

    def notify(self, event: Event) -> None:
        """Write a line if the event deserves one."""
        match event:
            case RequestAnswered():
                _log.info(
                    "HTTP request answered",
                    v=_EVERY_REQUEST,
                    handler=event.handler,
                    code=event.code,
                    userAgent=event.user_agent,
                )
            case CheckChanged(reason=None):
                _log.info("Health check passes again", check=event.check, driver=event.driver)
            case CheckChanged():
                _log.warning(
                    "Health check fails",
                    check=event.check,
                    driver=event.driver,
                    reason=event.reason,
                )
            case ListeningFailed():
                _log.error(
                    "Cannot listen; trying again, the registration goes on without it",
                    err=event.problem,
                    address=event.address,
                    errno=event.errno,
                )
            case ListeningStarted():
                _log.info("Listening", address=event.address, url=event.url)
