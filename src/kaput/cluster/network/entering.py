"""Entering: kaput becomes the same program, of the same process id, in a network namespace of its own.

It happens before anything is started, so that everything (clients, brokers, Spark) is inside from the
beginning. There is no way out and none is needed: the namespace goes with the last process in it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence

from kaput.cluster.network.links import raise_loopback
from kaput.cluster.network.preflight import way_in
from kaput.errors import LabError
from kaput.processes.records import own_marker

# Whose process it is stands in the mark: a kaput that is started from inside is not inside by itself.
MARK = "KAPUT_CLIENTS_NAMESPACE"


def inside() -> bool:
    """Whether this very process is in a namespace that kaput made for it."""
    return os.environ.get(MARK) == own_marker()


def check_inside() -> None:
    """Raises LabError unless this process is in such a namespace: a library cannot start its program over."""
    if not inside():
        raise LabError(
            "network: namespaces needs a program that kaput has started in a network of its own: "
            "kaput inside COMMAND ..."
        )


def enter(arguments: Sequence[str], needs: Collection[str] = ()) -> None:
    """Starts over inside with the same arguments; returns at once where that has happened already.

    `needs`: what the faults need of the kernel, in the words of preflight. Raises LabError saying what
    is missing.
    """
    if inside():
        raise_loopback(None)
        return
    way = way_in(needs)
    sys.stdout.flush()
    sys.stderr.flush()
    # -P: a file of the working directory must not be taken for a module.
    again = [*way, sys.executable, "-P", "-m", "kaput", *arguments]
    os.execve(again[0], again, {**os.environ, MARK: own_marker()})
