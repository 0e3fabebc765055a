"""What a driver may be called, and the path of the registration socket that follows from it."""

import os
import re

from registrar.errors import DriverNameError

MAX_NAME_CHARACTERS = 63
"""CSI specification, GetPluginInfoResponse.name; the API server enforces it in CSINode."""

MAX_SOCKET_PATH_BYTES = 107
"""`sun_path` of Linux holds 108 bytes, the last of them a zero."""

# The API server's rule for CSINode's driver names: a DNS-1123 subdomain, case apart.
_PART = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_NAME = re.compile(rf"{_PART}(?:\.{_PART})*", re.ASCII)


def check_driver_name(name: str) -> None:
    """Accept a driver's name that kubelet and the API server will accept.

    Raises:
        DriverNameError: if the name is empty, too long or has a character or a form that CSINode
            does not take. Such a name must never become a file name (R38).
    """
    if not name:
        raise DriverNameError(
            "the driver gave an empty name: GetPluginInfo must return one (a setting of the driver)"
        )
    if len(name) > MAX_NAME_CHARACTERS:
        raise DriverNameError(
            f"the driver's name {name[:MAX_NAME_CHARACTERS]!r}… has {len(name)} characters, and "
            f"Kubernetes takes at most {MAX_NAME_CHARACTERS}: the driver must be renamed"
        )
    if not _NAME.fullmatch(name):
        raise DriverNameError(
            f"the driver's name {name!r} is none that Kubernetes takes (letters, digits, '-' and "
            "'.', each part between dots beginning and ending with a letter or digit): "
            "the driver must be renamed"
        )


def registration_socket_path(folder: str, driver_name: str) -> str:
    """Return the path `FOLDER/NAME-reg.sock` at which kubelet will look for the driver.

    Raises:
        DriverNameError: if the name is bad, or the path too long for a unix socket (R39).
    """
    check_driver_name(driver_name)
    path = os.path.join(folder, f"{driver_name}-reg.sock")
    length = len(os.fsencode(path))
    if length > MAX_SOCKET_PATH_BYTES:
        raise DriverNameError(
            f"the registration socket's path {path} has {length} bytes, and a unix socket's may "
            f"have {MAX_SOCKET_PATH_BYTES}: mount the registration folder at a shorter path"
        )
    return path
