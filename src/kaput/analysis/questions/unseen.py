"""unseen: a stored message that was never delivered to a drained group that reads its topic. Counted as
messages, per group.

Messages stored too early for a late group are excused: those below the offset at which the group began. If
that is unknown, time decides: messages acknowledged before the group began are not for it, those attempted
afterwards are; others are unclear. The beginnings come from the driver (facts/group_starts.py). Also excused:
messages in a cluster that the group has left, and the cost of failing back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Find, Question, Reported, SumPart, To, anomaly
from kaput.analysis.engine.sums import Sum
from kaput.analysis.engine.words import at, message
from kaput.analysis.questions.late_groups import owed, owed_from, too_early
from kaput.analysis.questions.translations import costs, never_given, rulings
from kaput.analysis.runs.columns import MESSAGE, RECORD
from kaput.analysis.runs.cutting import MESSAGES, overlay
from kaput.analysis.runs.names import SHIFT
from kaput.verdict.contracts import Ruling
from kaput.verdict.rules import Grounds, Ruled, VerdictRule

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.messages import Messages

_MOVED = Ruling("permitted", "the group had moved to another cluster, which has no copy of {them|it}")
# What excuses unseen messages, besides a cause of being unmirrored (mirrors.py).
_TOO_EARLY, _MAYBE_TOO_EARLY, _MOVED_AWAY = "too early", "maybe too early", "moved away"


_NEVER = "stored {messages were|message was} never delivered"


def _too_early(known: Grounds) -> Ruled:
    """Rulings on messages stored before the group began, or possibly so, or excused by a move."""
    group = known.group
    assert group is not None
    specs = [spec.reset for spec in known.scenario.workload.groups if spec.id == group.group]
    setting = "=".join(next(iter(specs), ("auto.offset.reset", "latest")))
    first = "promises nothing about what was stored before the group first read the partition"
    if setting.endswith("=none"):
        first = "promises nothing below the position that the group had committed before"
    if "by_duration" in setting:
        first = (
            "promises nothing about what was stored longer than that before the group first read the "
            "partition"
        )
    excused = dict(known.excused)
    yield Ruling("permitted", f"{setting} {first}"), excused.pop(_TOO_EARLY, 0)
    unknown = Ruling("unclear", f"{setting} {first}, and when that was is unknown")
    yield unknown, excused.pop(_MAYBE_TOO_EARLY, 0)
    yield _MOVED, excused.pop(_MOVED_AWAY, 0)
    yield from rulings(excused)


@dataclass(frozen=True)
class Unseen(Question):
    """`reads`: by drained group, the topics that it reads; `acquired`: (group, producer, seq, n), messages
    that share groups acquired without a recorded delivery; `moved`: by group that was in several clusters,
    the topics of its last one.
    """

    reads: Mapping[int, Collection[int]] = field(default_factory=dict)
    acquired: pl.DataFrame = field(default_factory=pl.DataFrame)
    moved: Mapping[int, Collection[Collection[int]]] = field(default_factory=dict)

    sums = {
        "too_early": Sum(("group", "topic", "unclear"), ("n",)),
        "owed_from": Sum(("group", "place"), (), ("offset",)),
        "moved_away": Sum(("group",), ("n",)),
        "unseen_back": Sum(("group", "fate"), ("n",)),
    }
    passes = {"unseen": dict.fromkeys(("group", *RECORD, "n"), pl.Int64)}
    stories = {"unseen": lambda r: f"{message(r)} is stored as {at(r)} and was never delivered to the group"}
    rules = {"unseen": VerdictRule(_NEVER, _too_early, never=_NEVER)}
    shown_by = MESSAGE

    def before_messages(self, run: Run) -> Unseen:
        """Sets what each group reads."""
        topics = run.names.topics
        reads = {
            index: [n for n, topic in enumerate(topics) if wanted is None or topic in wanted]
            for index, wanted in run.given.subscribed.items()
        }
        return replace(self, reads=reads, moved=moved(run), acquired=run.sums["handed_unrecorded"])

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Unseen messages, which of them are excused, and where the others are stored, for
        consequences.py.
        """
        stored, times, beginnings = messages.stored, messages.times, messages.known.beginnings
        every = [stored.clear().with_columns(group=pl.lit(0, pl.Int64))]
        for index, topics in self.reads.items():
            never = stored.filter(
                pl.col(f"delivered_{index}") == 0, pl.col("home_topic").is_in(sorted(topics))
            )
            every.append(_not_acquired(never.with_columns(group=pl.lit(index, pl.Int64)), self.acquired))
        unseen = pl.concat(every)
        yield messages.case("unseen", unseen)
        away = left_behind(unseen, messages, self.moved)
        yield SumPart("moved_away", away.select("group", "n"))
        unseen = unseen.join(away.select("group", "part"), on=["group", "part"], how="anti")
        unseen, failing_back = _split_failing_back(unseen, costs(messages, never_given(messages)))
        yield SumPart("unseen_back", failing_back.select("group", "fate", "n"))
        if beginnings.height:
            yield SumPart("too_early", too_early(unseen, beginnings, times))
            yield SumPart("owed_from", owed_from(messages.stretches, beginnings, times))
        first = {"first_place": "place", "first_offset": "offset"}
        passed = owed(unseen, beginnings, times).rename(first)
        yield To("unseen", passed.select("group", *RECORD, "n"))

    def report(self, run: Run) -> Iterator[Reported]:
        """The numbers of excused messages, for the verdict."""
        counts, away = _excused(run), dict(run.sums["moved_away"].iter_rows())
        failing_back = run.sums["unseen_back"]
        for index in run.groups:
            excused = {
                _TOO_EARLY: counts.get((index, False), 0),
                _MAYBE_TOO_EARLY: counts.get((index, True), 0),
                _MOVED_AWAY: away.get(index, 0),
                **dict(failing_back.filter(group=index).select("fate", "n").iter_rows()),
            }
            yield anomaly("unseen", index, excused=excused)


def _excused(run: Run) -> dict[tuple[int, bool], int]:
    """By group and whether unclear, the number stored before the group began."""
    counts = run.sums["too_early"].group_by("group", "unclear").agg(pl.col("n").sum())
    return {(index, unclear): n for index, unclear, n in counts.iter_rows()}


def moved(run: Run) -> dict[int, list[list[int]]]:
    """By group that was in several clusters: the topics of its last cluster, by deliveries, assignments and
    commits; of each of them that may have been the last.
    """
    clusters, seen = run.names.clusters, run.sums["delivered"].select("group", "place", at_ns="last_ns")
    events = run.events.filter(pl.col("kind").is_in(["assigned", "committed"])).drop_nulls("place")
    last: dict[int, dict[str | None, int]] = {}
    for group, place, at_ns in pl.concat([seen, events.select(seen.columns)]).drop_nulls().iter_rows():
        mine = last.setdefault(group, {})
        cluster = clusters[place // SHIFT]
        mine[cluster] = max(mine.get(cluster, at_ns), at_ns)
    return {
        group: [
            [n for n, c in enumerate(clusters) if c == cluster]
            for cluster, at_ns in mine.items()
            if at_ns == max(mine.values())
        ]
        for group, mine in last.items()
        if len(mine) > 1
    }


def left_behind(
    unseen: pl.DataFrame, messages: Messages, ends: Mapping[int, Collection[Collection[int]]]
) -> pl.DataFrame:
    """Of unseen stretches with `group`, those that are not in a cluster that may be the group's last."""
    by_cluster = [unseen.clear()]
    for group, topics in ((group, topics) for group, every in ends.items() for topics in every):
        topic = pl.col("place") // SHIFT
        there = messages.copies.filter(topic.is_in(list(topics)), "visible").select("part").unique()
        mine = unseen.filter(pl.col("group") == group, ~pl.col("home_topic").is_in(list(topics)))
        by_cluster.append(mine.join(there, on="part", how="anti"))
    return pl.concat(by_cluster).unique(["group", "part"], maintain_order=True)


def _split_failing_back(
    unseen: pl.DataFrame, failing_back: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Unseen stretches without the cost of failing back; and that cost, with `fate`."""
    if failing_back.is_empty():
        return unseen, unseen.clear().with_columns(fate=pl.lit("", pl.String))
    parts, causes = overlay([unseen.drop("part"), failing_back], MESSAGES)
    causes = causes.select("group", "part", "fate")
    on = ["group", "part"]
    return parts.join(causes, on=on, how="anti"), parts.join(causes, on=on)


def _not_acquired(unseen: pl.DataFrame, acquired: pl.DataFrame) -> pl.DataFrame:
    """Unseen stretches without messages that the group acquired."""
    if acquired.is_empty():
        return unseen
    group = unseen["group"].unique()
    parts, there = overlay([unseen, acquired.filter(pl.col("group").is_in(group.implode()))], MESSAGES)
    return parts.join(there, on="part", how="anti")
