"""unseen: a message that is stored and was never delivered to a group that is drained and reads its topic.
Counted as messages, per group.

What a group never had to read is excused, of groups that begin at the end, or a stretch of time before it.
What is stored below the offset at which such a group began is none of its business; what is stored from there
on is. Where no offset is known, time tells: what had been acknowledged before the group began is not for it,
what was attempted afterwards is. What lies between is unclear. The beginnings come from the driver
(facts/beginnings.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Find, Part, Question, Section, To, group_facts
from kaput.analysis.engine.sums import Sum
from kaput.analysis.engine.words import at, message
from kaput.analysis.facts.mirrors import MirrorFacts, Translated
from kaput.analysis.questions.failing_back import costs, rulings
from kaput.analysis.questions.late_groups import owed, owed_from, too_early
from kaput.analysis.questions.translations import never_given
from kaput.analysis.runs.columns import MESSAGE, RECORD
from kaput.analysis.runs.cutting import MESSAGES, overlay
from kaput.analysis.runs.names import SHIFT
from kaput.verdict.contracts import Ruling
from kaput.verdict.rules import Grounds, Ruled, VerdictRule

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.messages import Messages

_MOVED = Ruling("permitted", "the group had moved to another cluster, which has no copy of them")
_TOO_EARLY = Sum(("group", "topic", "unclear"), ("n",))
_OWED_FROM = Sum(("group", "place"), (), ("offset",))


def _too_early(known: Grounds) -> Ruled:
    """What was stored before a group began, which it never had to read, and what may have been."""
    group = known.group
    assert group is not None
    specs = [spec.reset for spec in known.scenario.workload.groups if spec.id == group.group]
    setting = "=".join(next(iter(specs), ("auto.offset.reset", "latest")))
    first = "promises nothing of what was stored before the group first looked there"
    if setting.endswith("=none"):
        first = "promises nothing below the position that the group had committed before"
    if "by_duration" in setting:
        first = "promises nothing that was stored longer than that before the group first looked there"
    yield Ruling("permitted", f"{setting} {first}"), group.too_early
    yield (
        Ruling("unclear", f"{setting} {first}, and when that was is not known"),
        group.maybe_too_early,
    )
    yield _MOVED, group.moved_away
    yield from rulings(group.unseen_back)


@dataclass(frozen=True)
class Unseen(Question):
    """`reads`: by drained group, the topics that it reads; `handed`: (group, producer, seq, n), what share
    groups were handed without a delivery on record; `beginnings`: see facts/beginnings.py; `moved`: the
    topics of the cluster where a group was at last, of those that have been in several; `moves`, `mirrors`:
    where groups began in other clusters, and what copied between these.
    """

    reads: Mapping[int, Collection[int]] = field(default_factory=dict)
    handed: pl.DataFrame = field(default_factory=pl.DataFrame)
    beginnings: pl.DataFrame = field(default_factory=pl.DataFrame)
    moved: Mapping[int, Collection[int]] = field(default_factory=dict)

    moves: Sequence[Translated] = ()
    mirrors: Sequence[MirrorFacts] = ()

    sums = {
        "too_early": _TOO_EARLY,
        "owed_from": _OWED_FROM,
        "moved_away": Sum(("group",), ("n",)),
        "unseen_back": Sum(("group", "fate"), ("n",)),
    }
    passes = {"unseen": dict.fromkeys(("group", *RECORD, "n"), pl.Int64)}
    stories = {"unseen": lambda r: f"{message(r)} is stored as {at(r)} and was never delivered to the group"}
    rules = {"unseen": VerdictRule("stored messages were never delivered", _too_early)}
    shown_by = MESSAGE

    def before_messages(self, run: Run) -> Unseen:
        """Who reads what, and from where on."""
        topics = run.names.topics
        reads = {
            index: [n for n, topic in enumerate(topics) if wanted is None or topic in wanted]
            for index, wanted in run.given.subscribed.items()
        }
        return replace(
            self,
            reads=reads,
            beginnings=run.beginnings,
            moved=moved(run),
            moves=run.translated,
            mirrors=run.mirrors,
            handed=run.sums.get("handed_unrecorded", pl.DataFrame()),
        )

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """What is unseen; what of it was too early; and where it is stored, for consequences.py."""
        stored, times = messages.stored, messages.times
        every = [stored.clear().with_columns(group=pl.lit(0, pl.Int64))]
        for index, topics in self.reads.items():
            never = stored.filter(
                pl.col(f"delivered_{index}") == 0, pl.col("home_topic").is_in(sorted(topics))
            )
            every.append(_not_handed(never.with_columns(group=pl.lit(index, pl.Int64)), self.handed))
        unseen = pl.concat(every)
        yield messages.case("unseen", unseen)
        away = left_behind(unseen, messages, self.moved)
        yield Part("moved_away", away.select("group", "n"))
        unseen = unseen.join(away.select("group", "part"), on=["group", "part"], how="anti")
        skipped = never_given(messages, self.moves, self.beginnings)
        unseen, back = _split(unseen, costs(messages, self.moves, self.mirrors, skipped))
        yield Part("unseen_back", back.select("group", "fate", "n"))
        yield Part("too_early", too_early(unseen, self.beginnings, times))
        yield Part("owed_from", owed_from(messages.stretches, self.beginnings, times))
        first = {"first_place": "place", "first_offset": "offset"}
        passed = owed(unseen, self.beginnings, times).rename(first)
        yield To("unseen", passed.select("group", *RECORD, "n"))

    def report(self, run: Run) -> Iterator[Section]:
        """What was too early, or may have been."""
        counts, away = _excused(run), dict(run.sums["moved_away"].iter_rows())
        back = run.sums["unseen_back"]
        for index in run.groups:
            yield group_facts(
                index,
                too_early=counts.get((index, False), 0),
                maybe_too_early=counts.get((index, True), 0),
                moved_away=away.get(index, 0),
                unseen_back=dict(back.filter(group=index).select("fate", "n").iter_rows()),
            )


def _excused(run: Run) -> dict[tuple[int, bool], int]:
    """By group and whether it is unclear, how many were stored before the group began."""
    counts = run.sums["too_early"].group_by("group", "unclear").agg(pl.col("n").sum())
    return {(index, unclear): n for index, unclear, n in counts.iter_rows()}


def moved(run: Run) -> dict[int, list[int]]:
    """By group that has been in several clusters: the topics of the one where it was at last, by what it was
    delivered, assigned or committed.
    """
    clusters, seen = run.names.clusters, run.sums["delivered"].select("group", "place", at_ns="last_ns")
    events = run.events.filter(pl.col("kind").is_in(["assigned", "committed"])).drop_nulls("place")
    last: dict[int, dict[str | None, int]] = {}
    for group, place, at_ns in pl.concat([seen, events.select(seen.columns)]).drop_nulls().iter_rows():
        mine = last.setdefault(group, {})
        cluster = clusters[place // SHIFT]
        mine[cluster] = max(mine.get(cluster, at_ns), at_ns)
    ends = {
        group: max(mine, key=lambda c: (mine[c], c or "")) for group, mine in last.items() if len(mine) > 1
    }
    return {group: [n for n, c in enumerate(clusters) if c == cluster] for group, cluster in ends.items()}


def left_behind(
    unseen: pl.DataFrame, messages: Messages, ends: Mapping[int, Collection[int]]
) -> pl.DataFrame:
    """Of unseen stretches with `group`, those that are not in the cluster where it was at last."""
    found = [unseen.clear()]
    for group, topics in ends.items():
        topic = pl.col("place") // SHIFT
        there = messages.copies.filter(topic.is_in(list(topics)), "visible").select("part").unique()
        mine = unseen.filter(pl.col("group") == group, ~pl.col("home_topic").is_in(list(topics)))
        found.append(mine.join(there, on="part", how="anti"))
    return pl.concat(found)


def _split(unseen: pl.DataFrame, back: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Unseen stretches but for what failing back costs, and that with `fate`."""
    if back.is_empty():
        return unseen, unseen.clear().with_columns(fate=pl.lit("", pl.String))
    parts, causes = overlay([unseen.drop("part"), back], MESSAGES)
    causes = causes.select("group", "part", "fate")
    on = ["group", "part"]
    return parts.join(causes, on=on, how="anti"), parts.join(causes, on=on)


def _not_handed(unseen: pl.DataFrame, handed: pl.DataFrame) -> pl.DataFrame:
    """What a group was not delivered, without what it was handed all the same."""
    if handed.is_empty():
        return unseen
    group = unseen["group"].unique()
    parts, there = overlay([unseen, handed.filter(pl.col("group").is_in(group.implode()))], MESSAGES)
    return parts.join(there, on="part", how="anti")
