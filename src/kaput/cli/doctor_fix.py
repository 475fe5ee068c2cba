"""`kaput doctor --fix`: shows, confirms and applies each fix; then lists the remaining findings and why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from kaput.cli.reassign_steps import Reassignment
    from kaput.cluster.admin.reassignments import ReassignmentClient
    from kaput.operate.doctor.diagnosis import Finding
    from kaput.operate.doctor.fixing import Fix
    from kaput.operate.doctor.snapshot import Snapshot


def resume(
    snapshot: Snapshot, servers: str, command_config: Path | None, *, yes: bool, dry_run: bool, quiet: bool
) -> list[str]:
    """Finishes an interrupted reassignment and returns a sentence; empty if the user declined or for a dry
    run. Raises UsageError, LabError.
    """
    from kaput.cli.reassign_steps import Reassignment
    from kaput.cluster.access import OPEN, Access
    from kaput.cluster.admin.reassignments import reassignment_client
    from kaput.operate.reassign.journal import Folder

    assert snapshot.interrupted is not None
    typer.echo("\nfix KP023: resume the interrupted reassignment", err=quiet)
    if dry_run:
        return []
    access = OPEN if command_config is None else Access.read(command_config)
    with reassignment_client(servers, access) as connection:
        done = Reassignment(connection, connection.view(), Folder(), quiet, yes).resume(None, False)
    return [f"the interrupted reassignment of {snapshot.interrupted.partitions} partitions"] if done else []


def apply(
    snapshot: Snapshot,
    findings: Sequence[Finding],
    servers: str,
    command_config: Path | None,
    *,
    yes: bool,
    dry_run: bool,
    quiet: bool,
) -> list[str]:
    """Applies fixes and returns a sentence for each: none for a dry run. `quiet`: no output on stdout.

    Raises UsageError, LabError; fixes that were already applied stay applied.
    """
    from kaput.cli.cluster_options import confirmed
    from kaput.cli.reassign_steps import Reassignment
    from kaput.cluster.access import OPEN, Access
    from kaput.cluster.admin.reassignments import reassignment_client
    from kaput.operate.doctor.fixing import remedies
    from kaput.operate.reassign.journal import Folder

    found = remedies(snapshot, findings)
    done = []
    access = OPEN if command_config is None else Access.read(command_config)
    with reassignment_client(servers, access) as connection:
        for each in found.fixes:
            typer.echo(f"\nfix {', '.join(each.ids)}: {each.title}", err=quiet)
            work = Reassignment(connection, connection.view(), Folder(), quiet, yes)
            if each.goal is None:
                _show(each, quiet)
                if not dry_run and confirmed("Set this?", yes):
                    connection.configure("broker", each.brokers)
                    connection.configure("topic", each.configs)
                    done.append(each.title)
            elif _moved(work, connection, each, dry_run):
                done.append(each.title)
    for finding, why in found.cannot:
        typer.echo(f"not fixed: {finding.id} {finding.resource}: {why}", err=quiet)
    return done


def _show(fix: Fix, quiet: bool) -> None:
    every = [(f"broker {name}", config) for name, config in fix.brokers.items()]
    every += [(f"topic {name}", config) for name, config in fix.configs.items()]
    for name, config in every[:30]:
        for key, value in config.items():
            typer.echo(f"  {name}: {key}={value}" if value is not None else f"  {name}: no {key}", err=quiet)
    if len(every) > 30:
        typer.echo(f"  and {len(every) - 30:,} more", err=quiet)


def _moved(work: Reassignment, connection: ReassignmentClient, fix: Fix, dry_run: bool) -> bool:
    from kaput.cli.reassign_steps import DEFAULT_IN_FLIGHT, DEFAULT_THROTTLE, rate_of
    from kaput.operate.reassign.applying import elect_all

    assert fix.goal is not None
    moves = work.plan(fix.goal, list(fix.topics))
    work.show(moves, None)
    if dry_run or not work.confirmed():
        return False
    if moves:
        work.apply(moves, rate_of(DEFAULT_THROTTLE), DEFAULT_IN_FLIGHT)
    elect_all(connection)
    return True
