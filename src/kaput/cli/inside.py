"""`kaput inside`: runs any program in a network namespace, where kaput.lab can break the network."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Annotated

import typer


def inside_command(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="The program and its arguments.")],
) -> None:
    """Run a program in its own network namespace (Linux).

    kaput.lab can break the network there. The program can reach its lab's brokers and the namespace's
    loopback, but no other network.

    Example: kaput inside pytest tests/test_failover.py
    """
    from kaput.cluster.network.reexec import enter
    from kaput.errors import UsageError

    found = shutil.which(command[0])
    if found is None:
        raise UsageError(f"{command[0]}: no such program on the PATH")
    enter(sys.argv[1:])
    sys.stdout.flush()
    # The same process, so the marker that it is inside stays valid.
    os.execv(found, command)
