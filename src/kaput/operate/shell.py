"""A program beside a standing cluster: in its network, with its addresses and Kafka's tools at hand."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from kaput.cluster.network.tools import tool
from kaput.errors import UsageError
from kaput.operate.homes import Card, home
from kaput.operate.tools import TOOLS

CLUSTER = "KAPUT_CLUSTER"  # the verbs' --cluster, for what runs in the shell
BOOTSTRAP_SERVERS = "BOOTSTRAP_SERVERS"
CLIENT_PROPERTIES = "CLIENT_PROPERTIES"  # the file by which clients are let in, where not everybody is


def enter(card: Card, command: Sequence[str]) -> None:
    """Becomes the command, or a shell where there is none. Raises UsageError, LabError."""
    wanted = list(command) or [os.environ.get("SHELL", "/bin/sh")]
    env = {
        **os.environ,
        CLUSTER: card.name,
        BOOTSTRAP_SERVERS: card.bootstrap_servers,
        **({CLIENT_PROPERTIES: card.client_properties} if card.client_properties else {}),
        "PATH": os.pathsep.join([str(_tools(card)), os.environ.get("PATH", os.defpath)]),
    }
    found = shutil.which(wanted[0], path=env["PATH"])
    if found is None:
        raise UsageError(f"{wanted[0]}: there is no such program on the PATH")
    sys.stdout.flush()
    again = [*_way_in(card), found, *wanted[1:]]
    os.execve(again[0], again, env)


def _way_in(card: Card) -> list[str]:
    if card.network != "namespaces":
        return []
    # A user's own cluster stands in a namespace of users as well.
    users = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
    return [tool("nsenter"), "-t", str(card.pid), *users, "-n", "--"]


def _tools(card: Card) -> Path:
    """A directory with a program for each tool, by the name people know."""
    folder = home(card.name).path / "bin"
    folder.mkdir(exist_ok=True)
    for name in TOOLS:
        for known in (f"kafka-{name}", f"kafka-{name}.sh"):
            script = folder / known
            if not script.exists():
                script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m kaput tool {name} "$@"\n')
                script.chmod(0o755)
    return folder
