"""Errors that end a sub-command.

SimulatorError
└── StepFailedError   a step of the demonstration was not seen
"""


class SimulatorError(Exception):
    """The sub-command cannot go on; the message is one line for the person who called it."""


class StepFailedError(SimulatorError):
    """What the demonstration waited for did not happen."""
