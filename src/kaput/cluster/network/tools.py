"""The system's own tools: where they are, and one bounded call of one of them.

Its place: namespaces.py and preflight.py. An ordinary user's PATH often lacks
their directories.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from kaput.errors import LabError

PACKAGES = {
    "ip": "iproute2",
    "tc": "iproute2",
    "ss": "iproute2",
    "nft": "nftables",
    "unshare": "util-linux",
    "nsenter": "util-linux",
}
SYSTEM_DIRECTORIES = ("/usr/sbin", "/sbin")
TIMEOUT_S = 10


def tool(name: str) -> str:
    """The tool's path, or its bare name where it is not installed."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_DIRECTORIES])
    return shutil.which(name, path=path) or name


def call(command: Sequence[str], text: str = "") -> str:
    """What the command printed. Raises LabError with what it complained about."""
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{Path(command[0]).name}: {error}") from None
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())
        raise LabError(f"{' '.join([Path(command[0]).name, *command[1:]])} failed: {said[:500]}")
    return done.stdout
