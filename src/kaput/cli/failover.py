"""`kaput failover`: moves consumer groups of a lost cluster to its mirror."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from kaput.cli.options import Json, cluster_and_mirror
from kaput.cli.verbs import print_json
from kaput.errors import UsageError
from kaput.printable import printable

_CLUSTER = "The name of one started by kaput up, or HOST:PORT,..."


def failover_command(
    source: Annotated[str, Argument(metavar="SOURCE", help=f"Cluster to leave. {_CLUSTER}")],
    target: Annotated[str, Argument(metavar="TARGET", help="Cluster to move to.")],
    *,
    group: Annotated[list[str], Option(metavar="ID", help="Consumer group to move. Repeatable.")],
    alias: Annotated[
        str | None,
        Option(metavar="NAME", help="The source's name in MirrorMaker's settings (default: SOURCE)."),
    ] = None,
    source_config: Annotated[
        Path | None, Option(metavar="FILE", help="Client properties of SOURCE (Java format).")
    ] = None,
    target_config: Annotated[
        Path | None, Option(metavar="FILE", help="Client properties of TARGET (Java format).")
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Show what would be done and change nothing.")] = False,
    json: Json = False,
) -> None:
    """Fail consumer groups over to a second data center.

    Sets each group's position from the mirror's checkpoints, one step at a time, with proof for each step.
    You move the producers and members: stop them, run this while the groups have no members in TARGET, then
    start them there. Positions only move forward. Exit status 1 if a step failed. Scenarios rehearse the
    whole failover (docs/FAILOVER.md).

    Example: kaput failover dc1 dc2 --group billing --dry-run
    """

    from kaput.runner.plan.live_failover import fail_over

    if alias is None and ":" in source:
        raise UsageError("the source's name in MirrorMaker's settings is unknown; add --alias NAME")
    ends = cluster_and_mirror(source, source_config, target, target_config)
    done = []
    for step in fail_over(*ends, alias or source, group, dry_run):
        done.append(step)
        if not json:
            typer.echo(printable(f"{step.step:<24} {step.outcome:<7} {step.seconds:7.1f} s  {step.proof}"))
    if json:
        print_json({"steps": [asdict(step) for step in done]}, indent=2)
    if any(step.outcome == "failed" for step in done):
        raise typer.Exit(1)
