"""What this program is called and which version of it runs."""

import os
import platform

PROGRAM = "csi-node-driver-registrar"

__version__ = "0.1.0"
"""Read by the build, too. To ask the installed package's metadata would cost each start 10 ms."""


def revision() -> str:
    """Return the commit that the image was built from; empty if nobody said."""
    return os.environ.get("CSI_NODE_DRIVER_REGISTRAR_REVISION", "")


def version_line() -> str:
    """Return what `--version` prints."""
    return f"{PROGRAM} v{__version__} (Python {platform.python_version()})"
