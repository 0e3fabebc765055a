"""What the page at `/` says of each driver."""

from collections.abc import Iterable

from health.status_page import DriverStatus
from registrar.kubelet_refusals import with_explanation
from registrar.supervisor import Status, Supervisor


def driver_statuses(supervisors: Iterable[Supervisor]) -> list[DriverStatus]:
    """Return what is known of each driver now, for a person."""
    return [
        DriverStatus(
            name=supervisor.label,
            state=f"{status.state} for {status.state_seconds:.0f} s",
            details=_details(status),
        )
        for supervisor in supervisors
        for status in (supervisor.status,)
    ]


def _details(status: Status) -> dict[str, str]:
    known = {
        "version": status.vendor_version,
        "driver's socket": status.csi_address,
        "registration socket": status.registration_socket_path,
        "driver's problem": status.driver_problem,
        "publication's problem": status.publication_problem,
        "kubelet's last refusal": with_explanation(status.kubelet_error),
        "kubelet's silence": status.kubelet_silence,
    }
    return {name: text for name, text in known.items() if text}
