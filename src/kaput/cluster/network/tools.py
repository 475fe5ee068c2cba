"""The programs that a network of namespaces takes from the system: util-linux's, which is everywhere.

Its place: namespaces.py and preflight.py. Whatever else is done to the network is asked of the kernel itself.
"""

from __future__ import annotations

import os
import shutil

TOOLS = ("unshare", "nsenter")
SYSTEM_DIRECTORIES = ("/usr/sbin", "/sbin")  # which an ordinary user's PATH often lacks


def tool(name: str) -> str:
    """The tool's path, or its bare name where it is not installed."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_DIRECTORIES])
    return shutil.which(name, path=path) or name
