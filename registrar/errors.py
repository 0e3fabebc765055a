"""Everything that the registrar raises on purpose.

RegistrarError
├── DriverError             the driver cannot be asked, or its answer cannot be used
│   ├── DriverNameError     its name cannot become a registration
│   └── DriverTimeoutError  it did not answer in time
├── PublicationError        the registration socket cannot be put into the folder, for now
└── RegistrationRefused     kubelet said no, and the operator chose to stop then
"""


class RegistrarError(Exception):
    """The root. The text is a sentence for the operator."""


class DriverError(RegistrarError):
    """The driver's fault or its absence: asking again may help."""


class DriverNameError(DriverError):
    """The driver's name would be refused by the API server, or by the file system."""


class DriverTimeoutError(DriverError):
    """The driver was reached, and did not answer within the limit of the call."""


class PublicationError(RegistrarError):
    """The folder's fault: nothing was published, nothing was deleted, trying again may help."""


class RegistrationRefused(RegistrarError):  # noqa: N818 - a verdict of kubelet's, no fault of ours
    """kubelet refused the driver and `--on-registration-failure=exit` was asked for."""

    def __init__(self, driver_name: str, reason: str) -> None:
        super().__init__(f"kubelet refused the registration of {driver_name}: {reason}")
