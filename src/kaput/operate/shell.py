"""A shell with access to a running cluster: in its network, with its addresses and Kafka's tools."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from kaput.cluster.network.tools import tool
from kaput.errors import UsageError
from kaput.operate.registry import ClusterEntry, directory_of
from kaput.operate.tools import TOOLS

CLUSTER = "KAPUT_CLUSTER"  # the default of --cluster inside the shell
BOOTSTRAP_SERVERS = "BOOTSTRAP_SERVERS"
CLIENT_PROPERTIES = "CLIENT_PROPERTIES"  # the security settings for clients, if they need any


def enter(entry: ClusterEntry, command: Sequence[str]) -> None:
    """Replaces this process by the command, or by a shell. Raises UsageError, LabError."""
    wanted = list(command) or [os.environ.get("SHELL", "/bin/sh")]
    env = {
        **os.environ,
        CLUSTER: entry.name,
        BOOTSTRAP_SERVERS: entry.bootstrap_servers,
        **({CLIENT_PROPERTIES: entry.client_properties} if entry.client_properties else {}),
        "PATH": os.pathsep.join([str(_tools(entry)), os.environ.get("PATH", os.defpath)]),
    }
    found = shutil.which(wanted[0], path=env["PATH"])
    if found is None:
        raise UsageError(f"{wanted[0]}: no such program on the PATH")
    sys.stdout.flush()
    again = [*_nsenter_command(entry), found, *wanted[1:]]
    os.execve(again[0], again, env)


def _nsenter_command(entry: ClusterEntry) -> list[str]:
    if entry.network != "namespaces":
        return []
    # An ordinary user's cluster is also in a user namespace.
    users = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
    return [tool("nsenter"), "-t", str(entry.pid), *users, "-n", "--"]


def _tools(entry: ClusterEntry) -> Path:
    """A directory with a script for each tool, under its usual names."""
    folder = directory_of(entry.name).path / "bin"
    folder.mkdir(exist_ok=True)
    for name in TOOLS:
        for known in (f"kafka-{name}", f"kafka-{name}.sh"):
            script = folder / known
            if not script.exists():
                script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m kaput tool {name} "$@"\n')
                script.chmod(0o755)
    return folder
