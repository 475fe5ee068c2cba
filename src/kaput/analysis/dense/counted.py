"""One count of everything: what the tasks must be told, the job, and its sums as the findings want them.

Not here: what the sums leave open (closer/).
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

from kaput.analysis import faults
from kaput.analysis.dense import engine, ledger_file
from kaput.analysis.dense.context import Context, Reached
from kaput.analysis.dense.group_events import GroupEvents, read_groups
from kaput.analysis.dense.numbers import NULL
from kaput.analysis.dense.summary import Summary
from kaput.analysis.dense.work import Plan, plan
from kaput.analysis.faults import Reach
from kaput.analysis.inputs import Inputs
from kaput.analysis.names import Place
from kaput.analysis.partitions import Partitions
from kaput.analysis.tally import Tally, check
from kaput.analysis.timeline import Timeline, build
from kaput.analysis.watching import Tell, nobody, watched
from kaput.errors import EvidenceError
from kaput.scenario.vocabulary import OUTCOMES

_STORED = ("0", "1", "n")


@dataclass(frozen=True)
class Counted:
    """`context`: what the tasks were told. `commits`: (offset, at_ns, member) by (group, place), by offset.

    `first_positions`: where a (group, place) began, as far as that is known.
    """

    context: Context
    summary: Summary
    partitions: Partitions
    tally: Tally
    timeline: Timeline
    reaches: Sequence[Reach]
    commits: Mapping[tuple[int, int], Sequence[tuple[int, int, int]]]
    first_positions: Mapping[tuple[int, int], int]


def count(
    spark: SparkSession,
    given: Inputs,
    work: Plan | None = None,
    tell: Tell = nobody,
    ledger: bool = True,
) -> Counted:
    """Counts a run folder and writes its ledger, if told so. `work`: how, if not as is best for its size.

    Raises EvidenceError, AccountingError.
    """
    place = given.evidence.folder.analysis / "ledger"
    shutil.rmtree(place, ignore_errors=True)
    work = work or plan(given.evidence)
    groups = read_groups(given)
    known = {(e["topic"], e["partition"]) for e in given.cluster_events if e["topic"] in given.names.topics}
    context = _context(given, groups, work, place.resolve() if ledger else None)
    context = replace(context, reached=_reached(given, _reaches(given, known, {}, {})[1]))
    with watched(spark, len(work.tasks) + work.homes.parts, tell):
        summary = engine.run(spark, work, context)
    partitions = _partitions(given, summary, groups)
    told = _better_told(given, context, summary, partitions)
    if (told.reached, told.complete_topics) != (context.reached, context.complete_topics):
        summary = engine.run(spark, work, told)
    if ledger and not any(place.glob("*.parquet")):
        ledger_file.empty(place, given.names.groups)
    tally = _tally(given, summary, partitions)
    timeline, reaches = _reaches(given, set(partitions.complete), partitions.logged, partitions.ends)
    first_positions = {key: offset for key, (_, offset) in summary.begun.items()} | dict(
        groups.first_positions
    )
    return Counted(told, summary, partitions, tally, timeline, reaches, groups.commits, first_positions)


def _better_told(given: Inputs, context: Context, summary: Summary, partitions: Partitions) -> Context:
    """The context as the tasks should have had it, now that every partition is known."""
    reached = _reached(given, _reaches(given, set(partitions.complete), {}, {})[1])
    unplaced = any(place == NULL and stored == 0 for _, _, place, _, stored in summary.cells)
    topics = _complete_topics(given, partitions.complete) if unplaced else context.complete_topics
    return replace(context, reached=reached, complete_topics=topics)


def _reaches(
    given: Inputs,
    places: Collection[Place],
    logged: Mapping[Place, Mapping[int, tuple[int, int]]],
    ends: Mapping[Place, int],
) -> tuple[Timeline, Sequence[Reach]]:
    """What the faults reached. Only the run's own partitions: one that moves another moves no message."""
    events = [e for e in given.cluster_events if (e["topic"], e["partition"]) in places]
    timeline = build(events, given.faults, logged, ends)
    return timeline, faults.plan(given.faults, timeline, given.replicas)


def _reached(given: Inputs, reaches: Sequence[Reach]) -> tuple[Reached, ...]:
    return tuple(
        Reached(
            reach.fault.id,
            given.names.code(place),
            reach.fault.effective_ns,
            election,
            reach.elected,
            reach.restored_ns or given.ended_ns,
        )
        for reach in reaches
        for place, election in reach.places.items()
        if reach.fault.effective_ns is not None
    )


def _context(given: Inputs, groups: GroupEvents, work: Plan, ledger: Path | None) -> Context:
    names, ends = given.names, given.ends
    return Context(
        names,
        work.bits,
        work.homes,
        complete=frozenset(names.code(place) for place, (end, drained) in ends.items() if end == drained),
        complete_topics=_complete_topics(given, _complete(given, ends, set())),
        assigned=groups.assigned,
        given_up=groups.given_up,
        gone=groups.gone,
        commits={key: np.unique([offset for offset, _, _ in rows]) for key, rows in groups.commits.items()},
        ledger=str(ledger) if ledger else None,
        judged=frozenset(
            (group, place)
            for (group, _, place), rows in groups.assigned.items()
            if any(owns for _, owns in rows)
        ),
        reached=(),
    )


def _complete(given: Inputs, ends: Mapping[Place, tuple[int, int]], seen: set[Place]) -> dict[Place, bool]:
    known = sorted({*given.expected_places, *ends, *seen})
    return {place: place in ends and ends[place][0] == ends[place][1] for place in known}


def _complete_topics(given: Inputs, complete: Mapping[Place, bool]) -> frozenset[int]:
    topics: dict[str, bool] = {}
    for (topic, _), done in complete.items():
        topics[topic] = topics.get(topic, True) and done
    return frozenset(given.names.topics.index(topic) for topic, done in topics.items() if done)


def _partitions(given: Inputs, summary: Summary, groups: GroupEvents) -> Partitions:
    names = given.names
    told = {place for code in {*summary.places, *summary.records} - {NULL} if (place := names.place(code))}
    handed = {place for _, code in summary.begun if code != NULL and (place := names.place(code))}
    complete = _complete(given, given.ends, told | handed)
    mentioned = {*told, *given.expected_places, *given.ends}
    ends = given.ends
    logged: dict[Place, dict[int, tuple[int, int]]] = {}
    after_last: dict[Place, int] = {}
    for (code, epoch), (low, high) in summary.epochs.items():
        place = names.place(code)
        assert place is not None
        after_last[place] = max(after_last.get(place, 0), high + 1)
        if epoch is not None:
            logged.setdefault(place, {})[epoch] = low, high
    return Partitions(
        complete=complete,
        unread=[p for p, done in complete.items() if not done and p in mentioned],
        logged=logged,
        ends={**after_last, **{place: end for place, (end, _) in ends.items()}},
        log_records=sum(summary.records.values()),
        foreign_records=summary.foreign,
        damaged=summary.damaged,
        end_offsets_sum=sum(end for end, _ in ends.values()),
        kinds=groups.kinds,
        begun_ns={key: first_ns for key, (first_ns, _) in summary.begun.items()},
    )


def _tally(given: Inputs, summary: Summary, partitions: Partitions) -> Tally:
    """The sums of fates. Raises EvidenceError (a message sent twice), AccountingError (a sum is off)."""
    names = given.names
    _refuse(given, summary)
    topics = partitions.topics()

    def label(topic: int, place: int, stored: int) -> str:
        if stored:
            return _STORED[stored]
        where = names.place(place) if place != NULL else None
        read = partitions.complete[where] if where is not None else topics.get(names.topics[topic], False)
        return "0" if read else "unread"

    tally = Tally(
        extra_copies=summary.extra_copies,
        phantom_records=summary.phantom_records,
        unsettled=summary.unsettled,
        first_attempt_ns=summary.first_attempt_ns,
        last_attempt_ns=summary.last_attempt_ns,
        last_ack_ns=summary.last_ack_ns,
    )
    for (producer, topic, place, outcome, stored), messages in summary.cells.items():
        tally.fates[OUTCOMES[outcome], label(topic, place, stored)] += messages
        if stored == 2:
            tally.duplicates[producer] += messages
    for (group, topic, place, outcome, stored, times), messages in summary.group_cells.items():
        where = label(topic, place, stored)
        tally.group_fates[group, OUTCOMES[outcome], where, _STORED[times]] += messages
        if stored and not times:
            tally.unseen[group, names.topics[topic]] += messages
    tally.stored_twice = bool(tally.duplicates)
    check(tally, names.groups, given.evidence.tables["sends"].rows)
    return tally


def _refuse(given: Inputs, summary: Summary) -> None:
    """What cannot be counted: rows that stand there twice. Raises EvidenceError."""
    if summary.sent_twice is not None:
        who, seq = summary.sent_twice
        raise EvidenceError(f"table sends: message {seq} of producer {who} has more than one row")
    if summary.logged_twice is not None:
        code, offset, who, seq, times = summary.logged_twice
        name, partition = given.names.place(code) or ("", 0)
        raise EvidenceError(
            f"table log: {name}/{partition} offset {offset} stands there {times} times "
            f"with the same message (producer {who}, seq {seq})"
        )
