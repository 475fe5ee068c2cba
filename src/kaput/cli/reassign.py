"""`kaput reassign`: moves replicas to other brokers, with confirmation, throttle, resume and rollback. Its
steps are shared with `kaput doctor --fix`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from kaput.cli.options import (
    ClusterName,
    CommandConfig,
    Servers,
    access_of,
    confirmed,
    servers_of,
    write_text,
)
from kaput.cli.verbs import print_json
from kaput.errors import Interrupted, KaputError, UsageError

if TYPE_CHECKING:
    from kaput.cluster.admin.reassignments import ClusterView, ReassignmentClient
    from kaput.cluster.placement import Goal
    from kaput.operate.doctor.diagnosis import Address
    from kaput.operate.reassign.journal import Folder, MoveJournal
    from kaput.operate.reassign.moves import Move


DEFAULT_THROTTLE = "50MB"
DEFAULT_IN_FLIGHT = 50  # partitions reassigned at the same time
Rollback = Annotated[
    Path | None,
    Option(metavar="FILE", help="Restore the assignment in this file (Kafka's reassignment JSON)."),
]
Throttle = Annotated[
    str | None,
    Option(metavar="RATE", help=f"Bytes per second per broker, or none (default: {DEFAULT_THROTTLE})."),
]

Topics = Annotated[list[str] | None, Option(metavar="NAME", help="Topic to reassign. Repeatable.")]
AwayFrom = Annotated[
    list[int] | None, Option(metavar="BROKER", help="Move all replicas off this broker. Repeatable.")
]

InFlight = Annotated[int, Option(min=1, metavar="N", help="Partitions reassigned at the same time.")]


def reassign_command(
    *,
    topic: Topics = None,
    all_topics: Annotated[
        bool, Option("--all-topics", help="Reassign all topics, including Kafka's internal ones.")
    ] = False,
    replication_factor: Annotated[
        int | None, Option(min=1, metavar="N", help="Number of replicas of each partition.")
    ] = None,
    away_from: AwayFrom = None,
    spread_racks: Annotated[
        bool, Option("--spread-racks", help="Spread each partition's replicas over racks.")
    ] = False,
    balance: Annotated[
        bool, Option("--balance", help="Give all brokers the same number of replicas.")
    ] = False,
    resume: Annotated[bool, Option("--resume", help="Continue an interrupted reassignment.")] = False,
    rollback: Rollback = None,
    throttle: Throttle = None,
    in_flight: InFlight = DEFAULT_IN_FLIGHT,
    dry_run: Annotated[bool, Option("--dry-run", help="Show the plan and change nothing.")] = False,
    plan_file: Annotated[
        Path | None, Option(metavar="FILE", help="Write the plan as Kafka's reassignment JSON.")
    ] = None,
    allow_offline: Annotated[
        bool, Option("--allow-offline", help="Reassign even if brokers are down.")
    ] = False,
    cluster_id: Annotated[
        str | None, Option(metavar="ID", help="Stop unless the cluster has this id.")
    ] = None,
    yes: Annotated[bool, Option("--yes", help="Do not ask for confirmation.")] = False,
    json: Annotated[
        bool, Option("--json", help="Print the plan as Kafka's reassignment JSON on stdout.")
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
    from kaput.cluster.admin.reassignments import reassignment_client
    from kaput.cluster.placement import Goal
    from kaput.operate.doctor.diagnosis import Address
    from kaput.operate.reassign.journal import Folder

    rate = rate_of(throttle or DEFAULT_THROTTLE)
    goal = Goal(replication_factor, frozenset(away_from or []), spread_racks, balance)
    _check(goal, topic, all_topics, resume, rollback)
    access = access_of(bootstrap_servers, cluster, command_config)
    address = Address(bootstrap_servers, command_config, cluster)
    servers = servers_of(bootstrap_servers, cluster)
    with _named(address), reassignment_client(servers, access) as connection:
        view = connection.view()
        if cluster_id not in (None, view.cluster_id):
            raise UsageError(f"this is cluster {view.cluster_id}, not {cluster_id}: nothing was changed")
        work = Reassignment(connection, view, Folder(), json, yes, allow_offline, address)
        if resume:
            work.resume(rate if throttle is not None else None, throttle is not None)
        else:
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


@contextmanager
def _named(address: Address) -> Iterator[None]:
    """Commands in the sentences of errors name the cluster as it was named here."""
    try:
        yield
    except (KaputError, Interrupted) as error:
        error.args = (address.added_to(str(error)),)
        raise


class Reassignment:
    """A reassignment: plans, shows, confirms and applies moves."""

    def __init__(
        self,
        connection: ReassignmentClient,
        view: ClusterView,
        folder: Folder,
        json: bool,
        yes: bool,
        allow_offline: bool = False,
        address: Address | None = None,
    ) -> None:
        self._allow_offline, self._address = allow_offline, address
        self._connection, self._view, self._folder = connection, view, folder
        self._json, self._yes = json, yes
        self._document: dict[str, Any] = {}

    def plan(self, goal: Goal, topics: list[str] | None) -> list[Move]:
        """The moves to that goal. Raises UsageError if a reassignment is active, or a broker is down."""
        from kaput.operate.reassign import moves as planning

        if (journal := self._folder.read(self._view.cluster_id)) is not None:
            raise UsageError(
                "a reassignment of this cluster was interrupted: kaput reassign --resume continues it, "
                f"kaput reassign --rollback {journal.rollback} undoes it"
            )
        if ongoing := self._connection.ongoing():
            first = "/".join(map(str, min(ongoing)))
            raise UsageError(f"{len(ongoing)} partitions are already being reassigned, for example {first}")
        if not self._allow_offline:
            planning.refuse_offline(self._view)
        moves = planning.plan_moves(self._view, self._connection.sizes(self._view.partitions), topics, goal)
        return planning.without_leaderless(self._view, moves)

    def plan_rollback(self, path: Path) -> list[Move]:
        """The moves back to the assignment in a file; active reassignments are reversed."""
        from kaput.operate.reassign import moves as planning
        from kaput.operate.reassign.moves import read_kafka_json

        of, wanted = read_kafka_json(path)
        return planning.rollback(self._view, self._connection.sizes(self._view.partitions), wanted, of)

    def show(self, moves: list[Move], plan_file: Path | None) -> None:
        """Prints the plan as a table (to stderr with --json) and writes the plan file. Raises UsageError."""
        import json

        from kaput.cli.reassign_text import render
        from kaput.console import Console
        from kaput.operate.reassign.moves import to_kafka_json

        document = to_kafka_json(
            ((move.topic_partition, move.after) for move in moves), self._view.cluster_id
        )
        self._document = {
            **document,
            "copies": sum(len(m.adding) for m in moves),
            "bytes": sum(m.copied for m in moves),
        }
        if plan_file is not None:
            write_text("--plan-file", plan_file, json.dumps(document))
        now = {place: state.replicas for place, state in self._view.partitions.items()}
        Console(soft_wrap=True, stderr=self._json).print(render(moves, now), end="")

    def confirmed(self) -> bool:
        return confirmed("Apply this?", self._yes)

    def apply(self, moves: list[Move], rate: int | None, in_flight: int) -> None:
        """Applies the moves. Raises LabError; the journal then stays for --resume."""
        from kaput.operate.reassign.applying import begin

        with self._folder.locked(self._view.cluster_id):
            journal = begin(self._connection, self._folder, self._view.cluster_id, moves, rate, in_flight)
            self._follow(journal)

    def resume(self, rate: int | None, other_rate: bool) -> bool:
        """Continues an interrupted reassignment; False if declined. Raises UsageError if there is none."""
        with self._folder.locked(self._view.cluster_id):
            journal = self._folder.read(self._view.cluster_id)
            if journal is None:
                raise UsageError(
                    f"no interrupted reassignment of cluster {self._view.cluster_id} on this machine"
                )
            if other_rate:
                journal = replace(journal, throttle=rate)
                self._folder.write(journal)
            self.show(list(journal.moves), None)
            if not self.confirmed():
                return False
            self._follow(journal)
        return True

    def _follow(self, journal: MoveJournal) -> None:
        from kaput.cli.progress import BytesProgress
        from kaput.operate.reassign.applying import apply
        from kaput.processes.signals import interrupts

        typer.echo(f"old assignment saved to {journal.rollback}", err=True)
        try:
            with interrupts(), BytesProgress("reassign") as progress:
                outcome = apply(
                    self._connection,
                    self._folder,
                    journal,
                    lambda p: progress.tell(p.copied, p.of_bytes, p.partitions, p.of_partitions),
                    allow_offline=self._allow_offline,
                )
        except Interrupted as error:
            raise Interrupted(
                "interrupted; the brokers keep copying, throttled: kaput reassign --resume continues, "
                f"kaput reassign --rollback {journal.rollback} undoes it"
            ) from error
        self._document |= {
            "applied": True,
            "rollback": journal.rollback,
            "seconds": round(outcome.seconds, 1),
        }
        for sentence in outcome.left_alone:
            typer.echo(sentence, err=True)
        if not self._json:
            undo = f"kaput reassign --rollback {journal.rollback}"
            typer.echo(
                f"done in {outcome.seconds:,.1f} s and verified: {outcome.moved:,} partitions; "
                f"to undo it: {undo if self._address is None else self._address.added_to(undo)}"
            )

    def print_json(self) -> None:
        """Prints the plan and the outcome, with --json."""

        if self._json:
            print_json({"applied": False, "rollback": None, **self._document})


def rate_of(text: str) -> int | None:
    """Bytes per second: `50MB`, `800000`; None for `none`. Raises UsageError."""
    if text == "none":
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMG]?)B?(?:/s)?", text)
    if match is None or float(match[1]) == 0:
        raise UsageError(f"--throttle {text}: write bytes per second (800kB, 50MB, 1GB), or none")
    return round(float(match[1]) * {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}[match[2]])
