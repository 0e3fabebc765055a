"""What this program is called and which version of it runs."""

import importlib.metadata
import os
import platform

PROGRAM = "csi-node-driver-registrar"


def version() -> str:
    """Return the version of the installed package."""
    return importlib.metadata.version(PROGRAM)


def revision() -> str:
    """Return the commit that the image was built from; empty if nobody said."""
    return os.environ.get("CSI_NODE_DRIVER_REGISTRAR_REVISION", "")


def version_line() -> str:
    """Return what `--version` prints."""
    return f"{PROGRAM} v{version()} (Python {platform.python_version()})"
