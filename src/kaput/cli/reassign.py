"""`kaput reassign`: moves replicas to other brokers, with confirmation, throttle, resume and rollback."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kaput.cli.cluster_options import ClusterName, CommandConfig, Servers
from kaput.cli.reassign_steps import DEFAULT_IN_FLIGHT, DEFAULT_THROTTLE

if TYPE_CHECKING:
    from kaput.cluster.admin.reassignments import ClusterView
    from kaput.cluster.placement import Goal

Rollback = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Restore the assignment in this file (Kafka's reassignment JSON)."),
]
Throttle = Annotated[
    str | None,
    typer.Option(metavar="RATE", help=f"Bytes per second per broker, or none (default: {DEFAULT_THROTTLE})."),
]

Topics = Annotated[list[str] | None, typer.Option(metavar="NAME", help="Topic to reassign. Repeatable.")]
AwayFrom = Annotated[
    list[int] | None,
    typer.Option(metavar="BROKER", help="Move all replicas off this broker. Repeatable."),
]

InFlight = Annotated[int, typer.Option(min=1, metavar="N", help="Partitions reassigned at the same time.")]


def reassign_command(
    *,
    topic: Topics = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Reassign all topics, including Kafka's internal ones.")
    ] = False,
    replication_factor: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Number of replicas of each partition.")
    ] = None,
    away_from: AwayFrom = None,
    spread_racks: Annotated[
        bool, typer.Option("--spread-racks", help="Spread each partition's replicas over racks.")
    ] = False,
    balance: Annotated[
        bool, typer.Option("--balance", help="Give all brokers the same number of replicas.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted reassignment.")] = False,
    rollback: Rollback = None,
    throttle: Throttle = None,
    in_flight: InFlight = DEFAULT_IN_FLIGHT,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")] = False,
    plan_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the plan as Kafka's reassignment JSON.")
    ] = None,
    allow_offline: Annotated[
        bool, typer.Option("--allow-offline", help="Reassign even if brokers are down.")
    ] = False,
    cluster_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Stop unless the cluster has this id.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the plan as Kafka's reassignment JSON on stdout.")
    ] = False,
    bootstrap_servers: Servers = None,
    cluster: ClusterName = None,
    command_config: CommandConfig = None,
) -> None:
    """Move replicas to other brokers; shows the plan first.

    Copies as little as possible, spreads replicas over racks and balances leaders. The old assignment is
    saved for --rollback; --resume continues after a kill.

    Example: kaput reassign --replication-factor 3 --all-topics
    """
    from kaput.cli.cluster_options import access_of, servers_of
    from kaput.cli.reassign_steps import Reassignment, rate_of
    from kaput.cluster.admin.reassignments import reassignment_client
    from kaput.cluster.placement import Goal
    from kaput.operate.reassign.journal import Folder

    rate = rate_of(throttle or DEFAULT_THROTTLE)
    goal = Goal(replication_factor, frozenset(away_from or []), spread_racks, balance)
    _check(goal, topic, all_topics, resume, rollback)
    access = access_of(bootstrap_servers, cluster, command_config)
    with reassignment_client(servers_of(bootstrap_servers, cluster), access) as connection:
        view = connection.view()
        _guard(view, cluster_id)
        work = Reassignment(connection, view, Folder(), json, yes, allow_offline)
        if resume:
            work.resume(rate if throttle is not None else None, throttle is not None)
            work.print_json()
            return
        of_topics = None if all_topics else topic
        moves = work.plan(goal, of_topics) if rollback is None else work.plan_rollback(rollback)
        work.show(moves, plan_file)
        if not dry_run and moves and work.confirmed():
            work.apply(moves, rate, in_flight)
        work.print_json()


def _check(
    goal: Goal, topics: list[str] | None, all_topics: bool, resume: bool, rollback: Path | None
) -> None:
    """Raises UsageError for incompatible options."""
    from kaput.cluster.placement import Goal
    from kaput.errors import UsageError

    of_topics = bool(topics) or all_topics
    wanted = goal != Goal()
    if resume or rollback is not None:
        if wanted or of_topics or (resume and rollback is not None):
            raise UsageError("--resume and --rollback cannot be combined with other choices of what to move")
    elif not of_topics:
        raise UsageError("choose topics with --all-topics or --topic NAME")
    elif topics and all_topics:
        raise UsageError("--topic and --all-topics cannot be combined")
    elif not wanted:
        raise UsageError(
            "nothing to do: give --replication-factor N, --away-from BROKER, --spread-racks or --balance"
        )


def _guard(view: ClusterView, cluster_id: str | None) -> None:
    from kaput.errors import UsageError

    if cluster_id is not None and cluster_id != view.cluster_id:
        raise UsageError(f"this is cluster {view.cluster_id}, not {cluster_id}: nothing was changed")
