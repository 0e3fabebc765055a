"""What health checking and serving raise; nothing here is raised for a client's sake.

HealthError
├── Unhealthy     a check's finding: the driver's or kubelet's doing, never the caller's
└── AddressError  the operator's: an address of a flag that cannot be listened on
"""


class HealthError(Exception):
    """Root of this package's errors."""


class Unhealthy(HealthError):  # noqa: N818  # a finding, not a mistake
    """What a check raises when it finds something amiss.

    Its text is shown to the operator: what is wrong, with which path or name, and what to do.
    """


class AddressError(HealthError):
    """An address has no form that can be listened on. Raised while reading flags."""
