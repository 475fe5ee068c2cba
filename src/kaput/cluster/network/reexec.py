"""Restarts kaput, as the same process, inside its own network namespace.

This happens before anything else is started, so that everything (clients, brokers, Spark) is inside. The
namespace ends with the last process in it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence

from kaput.cluster.network.links import raise_loopback
from kaput.cluster.network.preflight import namespace_command
from kaput.errors import LabError
from kaput.processes.records import own_marker

# The value is the process id, so that a kaput started from inside does not count as marked.
MARK = "KAPUT_CLIENTS_NAMESPACE"


def inside() -> bool:
    """Whether this process is in a namespace that kaput created for it."""
    return os.environ.get(MARK) == own_marker()


def check_inside() -> None:
    """Raises LabError unless this process is in such a namespace: a library cannot restart its program."""
    if not inside():
        raise LabError(
            "network: namespaces needs a program that kaput started in its own network namespace: "
            "kaput inside COMMAND ..."
        )


def enter(arguments: Sequence[str], needs: Collection[str] = ()) -> None:
    """Restarts inside with the same arguments; returns at once if already inside.

    `needs`: what the faults need from the kernel (capability_checks.NEEDS). Raises LabError naming what is
    missing.
    """
    if inside():
        raise_loopback(None)
        return
    way = namespace_command(needs)
    sys.stdout.flush()
    sys.stderr.flush()
    # -P: do not import modules from the working directory.
    again = [*way, sys.executable, "-P", "-m", "kaput", *arguments]
    os.execve(again[0], again, {**os.environ, MARK: own_marker()})
