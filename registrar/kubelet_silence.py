"""Why kubelet may not have called, as far as it can be seen from inside the container."""

import os

USUAL_KUBELET_ROOTS = (
    "/var/lib/kubelet",
    "/var/lib/k0s/kubelet",
    "/var/snap/microk8s/common/var/lib/kubelet",
    "/opt/rke/var/lib/kubelet",
    "/var/lib/rancher/k3s/agent/kubelet",
    "/var/data/kubelet",
    "/var/vcap/data/kubelet",
)
"""Where distributions put kubelet's root; the first is kubelet's own default (R07)."""

_MAX_LISTED_NAMES = 8


def describe_silence(folder: str, own_name: str) -> str:
    """Return what can be said of a kubelet that never asked who is behind the socket."""
    roots = ", ".join(USUAL_KUBELET_ROOTS)
    return (
        f"kubelet has not called on {own_name} in {folder}. Either kubelet is down, or this folder "
        "is not the plugins_registry of the root that kubelet runs with (--root-dir): the host "
        f"path mounted at {folder} must be ROOT/plugins_registry. Usual roots: {roots}. "
        f"{_neighbours(folder, own_name)}"
    )


def describe_missing_verdict(folder: str, own_name: str) -> str:
    """Return what can be said of a kubelet that asked, was answered, and gave no verdict."""
    return (
        f"kubelet asked who is behind {own_name} in {folder} and was answered, but gave no verdict "
        "since: the driver's NodeGetInfo hangs, or kubelet was stopped in between"
    )


def _neighbours(folder: str, own_name: str) -> str:
    try:
        others = sorted(
            name for name in os.listdir(folder) if name != own_name and not name.startswith(".")
        )
    except OSError as error:
        return f"The folder cannot be listed: {error.strerror}."
    if not others:
        return "Nothing else lies in it, though a kubelet's folder often holds other drivers."
    listed = ", ".join(others[:_MAX_LISTED_NAMES])
    more = len(others) - _MAX_LISTED_NAMES
    return f"Beside it: {listed}{f' and {more} more' if more > 0 else ''}."
