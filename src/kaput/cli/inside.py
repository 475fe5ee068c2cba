"""`kaput inside`: any program in a network of its own, where kaput.lab can break the network."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Annotated

import typer


def inside_command(
    command: Annotated[
        list[str], typer.Argument(help="The program and its arguments.", metavar="COMMAND...")
    ],
) -> None:
    """Run a program in a network namespace of its own, so that kaput.lab can break the network there.

    The program reaches the brokers of its lab and this machine's loopback within the namespace, and no other
    network. Linux only.

    Example: kaput inside pytest tests/test_failover.py
    """
    from kaput.cluster.network.entering import enter
    from kaput.errors import UsageError

    found = shutil.which(command[0])
    if found is None:
        raise UsageError(f"{command[0]}: there is no such program on the PATH")
    enter(sys.argv[1:])
    sys.stdout.flush()
    # The same process: it is still the one that kaput has brought inside.
    os.execv(found, command)
