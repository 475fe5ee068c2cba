"""`kaput reassign`: replicas moved to other brokers; shown, confirmed, throttled, resumable, undone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kaput.cli.moving import DEFAULT_THROTTLE, MANY
from kaput.cli.which import CommandConfig, Servers, Standing

if TYPE_CHECKING:
    from kaput.cluster.placement import Goal
    from kaput.operate.reassign.cluster import View

Rollback = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Back to what this file says; any of Kafka's will do.")
]
Throttle = Annotated[
    str | None,
    typer.Option(metavar="RATE", help=f"Bytes a second and broker, or none.  [default: {DEFAULT_THROTTLE}]"),
]


def reassign_command(
    *,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="This topic; several: again.")
    ] = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="Every topic, Kafka's own too.")] = False,
    replication_factor: Annotated[
        int | None, typer.Option(min=1, help="So many replicas of each partition.")
    ] = None,
    away_from: Annotated[
        list[int] | None, typer.Option(metavar="BROKER", help="None on this broker.")
    ] = None,
    spread_racks: Annotated[
        bool, typer.Option("--spread-racks", help="Move also what is in too few racks.")
    ] = False,
    balance: Annotated[
        bool, typer.Option("--balance", help="Move until all brokers have the same number of replicas.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what was interrupted.")] = False,
    rollback: Rollback = None,
    throttle: Throttle = None,
    in_flight: Annotated[int, typer.Option(min=1, help="Partitions under way at a time.")] = MANY,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and change nothing.")] = False,
    plan_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the plan there, as Kafka's own JSON.")
    ] = None,
    despite_offline: Annotated[
        bool, typer.Option("--despite-offline", help="Also while brokers are down.")
    ] = False,
    cluster_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Refuse any other cluster than this.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The plan on stdout, as Kafka's own JSON.")] = False,
    bootstrap_servers: Servers = None,
    cluster: Standing = None,
    command_config: CommandConfig = None,
) -> None:
    """Move replicas: with as few copies as that takes, over racks, leaders balanced; shown before it is done.

    What was before is saved; a kill leaves what --resume goes on with.

    Example: kaput reassign --replication-factor 3 --all-topics
    """
    from kaput.cli.moving import Work, rate_of
    from kaput.cli.which import access_of, servers_of
    from kaput.cluster.placement import Goal
    from kaput.operate.reassign.cluster import connected
    from kaput.operate.reassign.journal import Folder

    rate = rate_of(throttle or DEFAULT_THROTTLE)
    goal = Goal(replication_factor, frozenset(away_from or []), spread_racks, balance)
    _check(goal, topic, all_topics, resume, rollback)
    access = access_of(bootstrap_servers, cluster, command_config)
    with connected(servers_of(bootstrap_servers, cluster), access) as connection:
        view = connection.view()
        _guard(view, cluster_id)
        work = Work(connection, view, Folder(), json, yes, despite_offline)
        if resume:
            work.resume(rate if throttle is not None else None, throttle is not None)
            work.say()
            return
        of_topics = None if all_topics else topic
        moves = work.plan(goal, of_topics) if rollback is None else work.back(rollback)
        work.show(moves, plan_file)
        if not dry_run and moves and work.agreed():
            work.apply(moves, rate, in_flight)
        work.say()


def _check(
    goal: Goal, topics: list[str] | None, all_topics: bool, resume: bool, rollback: Path | None
) -> None:
    """Raises UsageError where it is not clear what is wanted."""
    from kaput.cluster.placement import Goal
    from kaput.errors import UsageError

    of_topics = bool(topics) or all_topics
    wanted = goal != Goal()
    if resume or rollback is not None:
        if wanted or of_topics or (resume and rollback is not None):
            raise UsageError("--resume and --rollback know already what is to be moved: say nothing else")
    elif not of_topics:
        raise UsageError("of which topics? say --all-topics, or --topic NAME")
    elif topics and all_topics:
        raise UsageError("--topic and --all-topics: say one of them")
    elif not wanted:
        raise UsageError(
            "what is wanted? say --replication-factor N, --away-from B, --spread-racks or --balance"
        )


def _guard(view: View, cluster_id: str | None) -> None:
    from kaput.errors import UsageError

    if cluster_id is not None and cluster_id != view.cluster_id:
        raise UsageError(f"this is cluster {view.cluster_id}, not {cluster_id}: nothing was changed")
