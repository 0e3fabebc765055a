"""What kubelet means when it refuses a driver: one plain sentence for each kind that is known.

kubelet's own text stays the truth; the sentence only stands beside it. The forms are those of
kubelet's `pkg/volume/csi` and `pkg/kubelet/pluginmanager`, 1.14 to 1.36, and of the API server's
validation.
"""

import re
from typing import NamedTuple

from registrar.kubelet_root import shown

_MAX_QUOTED_CHARACTERS = 200

_QUOTED = r'"((?:[^"\\]|\\.)*)"'


class _Kind(NamedTuple):
    form: str
    """A regular expression that finds the kind in kubelet's text."""
    sentence: str
    """With a place for each group of the form."""


# The first that fits is taken, so the narrow ones come first.
_KINDS = (
    _Kind(
        rf"topology value collision: driver reported {_QUOTED}:{_QUOTED} "
        rf"but existing label is {_QUOTED}:{_QUOTED}",
        "the driver reports the topology {0}={1}, but the Node already has the label {2}={3}: "
        "correct the driver's setting, or remove the label if it is stale "
        "(kubectl label node NODE {2}-)",
    ),
    _Kind(
        r"Another driver with the same name is already registered",
        "another driver with this name is registered on the node already, from another socket: "
        "remove the other deployment, or the stale socket in a sub-folder of plugins_registry",
    ),
    _Kind(
        r"dial unix (\S+?): connect: no such file or directory",
        "there is no driver socket at {0} on the host: either the driver is down, or "
        "--kubelet-registration-path does not name the socket's path as the host sees it",
    ),
    _Kind(
        r"dial unix (\S+?): connect: connection refused",
        "the driver is down: its socket {0} is there, but nobody listens on it",
    ),
    _Kind(
        r"dial unix (\S+?): connect: permission denied",
        "kubelet may not connect to the driver's socket {0}: look at its mode and at SELinux",
    ),
    _Kind(
        r"driverNodeID must not be empty|nodeID: Required value",
        "the driver gave an empty node_id (NodeGetInfo): it does not know on which node it runs; "
        "look at its setting for the node's name or instance id",
    ),
    _Kind(
        r"nodeID: (?:Invalid value|Too long).*?(?:must be|may not be (?:more|longer) than) (\d+)",
        "the node_id that the driver gave (NodeGetInfo) is longer than the {0} characters that "
        "Kubernetes takes: shorten the driver's node id",
    ),
    _Kind(
        r"code = Unimplemented",
        "the driver has no Node service at that socket (NodeGetInfo is not implemented): register "
        "the node plugin's socket, not the controller's",
    ),
    _Kind(
        r'nodes "([^"]*)" not found',
        "the Node object {0} does not exist yet, which solves itself on a node that is just "
        "joining; otherwise kubelet runs under another name than its Node",
    ),
    _Kind(
        r"resource name may not be empty",
        "kubelet does not know its Node's name yet, which solves itself on a node that is just "
        "joining",
    ),
    _Kind(
        r"error updating CSINode object with CSI driver node info: (.*)",
        "kubelet could not write the driver into the CSINode object; the API server could not be "
        "reached, or said no: {0}",
    ),
    _Kind(
        r"error updating Node object with CSI driver node info: (.*)",
        "kubelet could not write the driver's node id or topology into the Node object; the API "
        "server could not be reached, or said no: {0}",
    ),
    _Kind(
        r"registration failed.*rpc error: code = DeadlineExceeded",
        "the driver did not answer NodeGetInfo within the 2 minutes that kubelet waits: look into "
        "the driver's log",
    ),
    _Kind(
        r"registration failed.*?rpc error: code = (\w+) desc = (.*)",
        "the driver's NodeGetInfo failed with {0}: {1}",
    ),
)


def explain_refusal(error: str) -> str | None:
    """Return what a refusal of kubelet's means, in one sentence; None if its kind is not known."""
    for kind in _KINDS:
        if match := re.search(kind.form, error, re.DOTALL):
            values = [shown(_unquoted(value), _MAX_QUOTED_CHARACTERS) for value in match.groups("")]
            return kind.sentence.format(*values)
    return None


def with_explanation(error: str) -> str:
    """Return a refusal in kubelet's own words, with the plain sentence after it if there is one."""
    sentence = explain_refusal(error)
    return f"{error} ({sentence})" if sentence else error


def _unquoted(value: str) -> str:
    """Undo what Go's %q escapes within the values that matter here."""
    return re.sub(r'\\(["\\])', r"\1", value)
