"""The system programs that namespaces need: those of util-linux, which every distribution has.

Its place: namespaces.py and reexec.py. All other network changes go to the kernel directly.
"""

from __future__ import annotations

import os
import shutil

TOOLS = ("unshare", "nsenter")
SYSTEM_DIRECTORIES = ("/usr/sbin", "/sbin")  # often not in an ordinary user's PATH


def tool(name: str) -> str:
    """The tool's path, or its bare name if it is not installed."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_DIRECTORIES])
    return shutil.which(name, path=path) or name
