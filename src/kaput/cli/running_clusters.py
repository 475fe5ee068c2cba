"""`kaput status`, `grow`, `shell` and `down`: commands for a cluster that `kaput up` started; and
`kaput inside`.
"""

from __future__ import annotations

import json as json_library
import os
import shutil
import sys
import time
from contextlib import suppress
from typing import Annotated, Any

import typer
from typer import Argument, Option

from kaput.cli.options import ClusterName, Json, entry_of
from kaput.cli.verbs import print_json
from kaput.errors import KaputError, LabError, UsageError

_DOWN_TIMEOUT_S = 60.0


def status_command(
    *,
    cluster: ClusterName = None,
    watch: Annotated[
        bool, Option("--watch", help="Update every second, with rates, alerts and changes.")
    ] = False,
    json: Json = False,
) -> None:
    """Show brokers, partitions, consumer groups and active faults.

    With --watch, updates the screen until Ctrl-C. In a pipe, prints changes line by line; with --json, prints
    one line with a document every second.

    Example: kaput status --watch
    """
    from kaput.cli.status_text import watch_status
    from kaput.operate.registry import call

    def look() -> Any:
        return call(entry_of(cluster), {"do": "observe" if watch else "status"})

    if watch:
        watch_status(look, json)
    elif json:
        print_json(look(), indent=2)
    else:
        from kaput.cli.status_text import render

        typer.echo(render(look()).plain, nl=False)


def grow_command(
    brokers: Annotated[str, Argument(metavar="N", help="Number of brokers to add.")] = "1",
    *,
    cluster: ClusterName = None,
    json: Json = False,
) -> None:
    """Add brokers to a running cluster.

    Partitions stay where they are; kaput reassign moves them.

    Example: kaput grow 2
    """
    from kaput.operate.registry import call

    if not brokers.isdecimal() or int(brokers) < 1:
        meant = f" (did you mean --cluster {brokers}?)" if brokers[:1].isalpha() else ""
        raise UsageError(f"{brokers}: write the number of brokers to add{meant}")
    entry = entry_of(cluster)
    grown: Any = call(entry, {"do": "grow", "brokers": int(brokers)})
    if json:
        print_json(grown)
    else:
        ids = ", ".join(map(str, grown["brokers"]))
        typer.echo(f"{entry.name}: brokers {ids} at {grown['bootstrap_servers']}")


def down_command(
    *,
    cluster: ClusterName = None,
    all_: Annotated[bool, Option("--all", help="Stop all running clusters.")] = False,
    json: Json = False,
) -> None:
    """Stop a running cluster and delete everything it left behind.

    Also cleans up after a cluster whose processes were killed.

    Example: kaput down
    """
    from kaput.processes.ending import reap_orphans

    reap_orphans()
    if all_:
        _down_all(json)
        return
    name = _name(cluster)
    text = _down(name)
    typer.echo(json_library.dumps({"down": [name]}) if json else text)


def _down_all(json: bool) -> None:
    """Stops every running cluster, also those after one that could not be stopped. Raises LabError."""
    from kaput.operate.registry import running

    texts: dict[str, str] = {}
    failures: list[str] = []
    for entry in running():
        try:
            texts[entry.name] = _down(entry.name)
        except KaputError as error:
            failures.append(f"{entry.name}: {error}")
    if json:
        print_json({"down": [*texts]} | ({"failed": failures} if failures else {}))
    for text in () if json else texts.values() or ([] if failures else ["no cluster is running"]):
        typer.echo(text)
    if failures:
        raise LabError("\n".join(failures))


def _name(cluster: str | None) -> str:
    """The given name, or that of the running cluster; the default name if none is running."""
    from kaput.operate.registry import DEFAULT_NAME, running

    if cluster is not None:
        return cluster
    return entry_of(None).name if running() else DEFAULT_NAME


def _down(name: str) -> str:
    """Stops a cluster, or removes its remains; returns a sentence for the user."""
    from kaput.operate.registry import directory_of, find

    directory = directory_of(name)
    entry = directory.entry()
    if entry is not None and entry.alive:
        _stop(name)
        return f"{name}: down"
    with directory.locked():  # unless it is just being started
        directory.remove()  # also the remains of one that never came up
    if entry is None:
        find(name)
    return f"{name}: its daemon had already died; nothing of it is left"


def _stop(name: str) -> None:
    from kaput.operate.registry import call, directory_of, find

    entry = find(name)
    trouble = LabError(
        f"the daemon of cluster {name} (pid {entry.pid}) is still running after {_DOWN_TIMEOUT_S:.0f} s"
    )
    try:
        call(entry, {"do": "down"})
    except LabError as error:
        trouble = error  # unless it is already ending because of another `down`
    limit = time.monotonic() + _DOWN_TIMEOUT_S
    while entry.alive:
        if time.monotonic() > limit:
            raise trouble
        time.sleep(0.05)
    # If another process has taken the name in the meantime, the directory belongs to it.
    with suppress(UsageError), directory_of(name).locked():
        directory_of(name).remove()


def shell_command(
    command: Annotated[
        list[str] | None, Argument(metavar="COMMAND", help="A program and its arguments (default: $SHELL).")
    ] = None,
    *,
    cluster: ClusterName = None,
) -> None:
    """Open a shell, or run a program, with access to the cluster.

    BOOTSTRAP_SERVERS holds the brokers' addresses, Kafka's tools are on the PATH, and the shell is inside the
    cluster's network namespace if it has one.

    Example: kaput shell kafka-topics --describe
    """
    from kaput.operate.tools import enter

    enter(entry_of(cluster), command or [])


def inside_command(
    command: Annotated[list[str], Argument(metavar="COMMAND", help="The program and its arguments.")],
) -> None:
    """Run a program in its own network namespace (Linux).

    kaput.lab can break the network there. The program can reach its lab's brokers and the namespace's
    loopback, but no other network.

    Example: kaput inside pytest tests/test_failover.py
    """
    from kaput.cluster.network.reexec import enter

    program = shutil.which(command[0])
    if program is None:
        raise UsageError(f"{command[0]}: no such program on the PATH")
    enter(sys.argv[1:])
    sys.stdout.flush()
    # The same process, so the marker that it is inside stays valid.
    os.execv(program, command)
