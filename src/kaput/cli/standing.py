"""`kaput status`, `grow`, `shell` and `down`: what is done to a cluster that `kaput up` keeps."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kaput.cli.up import Json

if TYPE_CHECKING:
    from rich.text import Text

Which = Annotated[
    str, typer.Option("--cluster", "--name", metavar="NAME", envvar="KAPUT_CLUSTER", help="Which one.")
]
_DOWN_TIMEOUT_S = 60.0
_POLL_S = 0.05


def status_command(
    *,
    cluster: Which = "lab",
    watch: Annotated[bool, typer.Option(help="Show it again every second, until Ctrl-C.")] = False,
    json: Json = False,
) -> None:
    """Show the brokers, the controller, every partition with leader, replicas and ISR, groups, and faults.

    Example: kaput status --watch
    """
    import json as library

    from kaput.operate.homes import call, find

    def look() -> Any:
        return call(find(cluster), {"do": "status"})

    if json:
        typer.echo(library.dumps(look(), indent=2))
    elif watch:
        _watch(look)
    else:
        typer.echo(_text(look()).plain, nl=False)


def _watch(look: Any) -> None:
    from rich.live import Live

    from kaput.console import Console
    from kaput.errors import Interrupted
    from kaput.processes.signals import interrupts

    try:
        with interrupts(), Live(_text(look()), console=Console(), screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(1)
                live.update(_text(look()), refresh=True)
    except Interrupted:
        return  # which is how one leaves it


def _text(said: dict[str, Any]) -> Text:
    from kaput.report.standing import render

    return render(said)


def grow_command(
    brokers: Annotated[int, typer.Argument(min=1, help="How many more brokers.")] = 1,
    *,
    cluster: Which = "lab",
    json: Json = False,
) -> None:
    """Add brokers to a standing cluster; partitions stay where they are.

    Example: kaput grow 2
    """
    import json as library

    from kaput.operate.homes import call, find

    said: Any = call(find(cluster), {"do": "grow", "brokers": brokers})
    if json:
        typer.echo(library.dumps(said))
    else:
        typer.echo(
            f"{cluster}: brokers {', '.join(map(str, said['brokers']))} at {said['bootstrap_servers']}"
        )


def down_command(*, cluster: Which = "lab", all_: Annotated[bool, typer.Option("--all")] = False) -> None:
    """Take a standing cluster down; nothing of it is left behind, also where its keeper was killed.

    Example: kaput down
    """
    from kaput.operate.homes import find, home, standing
    from kaput.processes.reaper import reap_orphans

    reap_orphans()
    if all_:
        for each in standing():
            _take_down(each.name)
        return
    place = home(cluster)
    card = place.card()
    if card is not None and card.alive:
        _take_down(cluster)
        return
    with place.locked():  # unless it is just being started
        place.remove()  # also what is left of one that never came up
    if card is None:
        find(cluster)
    typer.echo(f"{cluster}: its keeper was gone already; nothing of it is left")


def _take_down(name: str) -> None:
    from contextlib import suppress

    from kaput.errors import LabError, UsageError
    from kaput.operate.homes import call, find, home

    card = find(name)
    trouble = LabError(f"the keeper of {name} (pid {card.pid}) is still there after {_DOWN_TIMEOUT_S:.0f} s")
    try:
        call(card, {"do": "down"})
    except LabError as error:
        trouble = error  # unless it is ending already, as another `down` has asked it to
    limit = time.monotonic() + _DOWN_TIMEOUT_S
    while card.alive:
        if time.monotonic() > limit:
            raise trouble
        time.sleep(_POLL_S)
    # If another process has taken the name meanwhile, the directory is its own.
    with suppress(UsageError), home(name).locked():
        home(name).remove()
    typer.echo(f"{name}: down")


def shell_command(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="A program; none: $SHELL.", metavar="COMMAND..."),
    ] = None,
    *,
    cluster: Which = "lab",
) -> None:
    """Open a shell, or run a program, beside the cluster.

    It finds the brokers in BOOTSTRAP_SERVERS and Kafka's tools on the PATH, and is inside the cluster's
    network where that is one of its own.

    Example: kaput shell kafka-topics --describe
    """
    from kaput.operate.homes import find
    from kaput.operate.shell import enter

    enter(find(cluster), command or [])
