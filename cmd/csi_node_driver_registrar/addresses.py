"""What the addresses of sockets on the command line may look like, and what is odd about them.

Import-light like `goflags`: the exec probe finds the running sidecar by the path that kubelet is
told. Where the health server listens is not decided here.
"""

from csi_node_driver_registrar.goquote import quote

_WATCHED_FOLDER = "plugins_registry"


def driver_socket(csi_address: str) -> str:
    """Return the path in `/p`, `unix:/p` or `unix:///p`; a Windows address comes back as it is.

    Raises:
        ValueError: if it is no absolute path. Go fails on such an address too, after 30 seconds.
    """
    if is_windows_path(csi_address):
        return csi_address
    path = _without_scheme(csi_address)
    if not path.startswith("/"):
        raise ValueError(f"{quote(csi_address)} is {_flaw(csi_address)}; use /path or unix:///path")
    return path


def kubelet_endpoint(kubelet_registration_path: str) -> str:
    """Return what kubelet is told: the path alone, since kubelet adds `unix://` itself."""
    if is_windows_path(kubelet_registration_path):
        return kubelet_registration_path
    return _without_scheme(kubelet_registration_path)


def is_windows_path(address: str) -> bool:
    r"""Tell whether this is `C:\path` or `C:/path`, with or without `unix://` before it."""
    path = _without_scheme(address).lstrip("/")
    return path[:1].isalpha() and path[1:2] == ":" and path[2:3] in {"\\", "/"}


def oddities(csi_address: str, kubelet_registration_path: str) -> list[str]:
    """Tell what will probably keep kubelet from the driver, in sentences for the operator.

    A Windows path is not judged: both of its sides are often spelt differently and work.
    """
    if is_windows_path(csi_address) or is_windows_path(kubelet_registration_path):
        return []
    path = kubelet_endpoint(kubelet_registration_path)
    found = (
        _scheme_oddity(kubelet_registration_path, path),
        _relative_oddity(path),
        _watched_oddity(path),
        _name_oddity(driver_socket(csi_address), path),
    )
    return [f"--kubelet-registration-path={path}: {oddity}" for oddity in found if oddity]


def _without_scheme(address: str) -> str:
    return address.removeprefix("unix:").removeprefix("//") if _has_scheme(address) else address


def _has_scheme(address: str) -> bool:
    return address.startswith("unix:")


def _flaw(address: str) -> str:
    if not address:
        return "empty"
    if "$(" in address:
        return "not filled in: the container has no such environment variable"
    if address[0] in "\"'":
        return "in quotes, which are part of the value"
    return "not an absolute path"


def _scheme_oddity(given: str, path: str) -> str:
    if given == path:
        return ""
    return f"kubelet takes a path, so {given} is announced without its prefix"


def _relative_oddity(path: str) -> str:
    if path.startswith("/"):
        return ""
    return (
        f"the path is {_flaw(path)}, so kubelet will not find the driver; give its path on the host"
    )


def _watched_oddity(path: str) -> str:
    if _WATCHED_FOLDER not in path.split("/")[:-1]:
        return ""
    return (
        f"kubelet takes every socket below {_WATCHED_FOLDER} for a registration socket and will"
        " call the driver in vain; put the driver's socket below plugins/"
    )


def _name_oddity(csi_path: str, path: str) -> str:
    ours, hosts = (one.rpartition("/")[2] for one in (csi_path, path))
    if ours == hosts:
        return ""
    return f"the file is called {ours} in --csi-address, so this may be another socket"
