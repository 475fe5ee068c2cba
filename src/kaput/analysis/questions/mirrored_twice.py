"""mirrored-twice: a message of which a topic in another cluster has more visible copies than its home has
copies (or more than one, if its home has none). Counted as messages, for each such topic.

A restarted mirror copies records again whose copying it had not recorded. Only exactly-once mirrors promise
not to (KIP-618): their duplicate copies are in aborted transactions, which nobody sees.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Cases, Find, Question, Reported, SumPart, facts
from kaput.analysis.engine.sums import Sum
from kaput.analysis.engine.words import message
from kaput.analysis.runs.columns import MESSAGE
from kaput.analysis.runs.empty import once_if_empty
from kaput.analysis.runs.names import SHIFT, Names
from kaput.analysis.views.homes import IS_MIRRORED
from kaput.verdict.contracts import Ruling
from kaput.verdict.rules import Grounds, Ruled, VerdictRule

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.messages import Messages

_AT_LEAST_ONCE = Ruling("permitted", "a mirror without exactly-once copies each record at least once")
_EXACTLY_ONCE = Ruling("violation", "the mirror has exactly-once")


def _mirrored_twice_rulings(known: Grounds) -> Ruled:
    exactly = known.facts.mirrored_twice_exactly_once
    yield _EXACTLY_ONCE, exactly
    yield _AT_LEAST_ONCE, known.facts.counts.get("mirrored-twice", 0) - exactly


@dataclass(frozen=True)
class MirroredTwice(Question):
    """`exactly_once`: (source, target) of mirrors with exactly-once."""

    exactly_once: Collection[tuple[str, str]] = ()

    sums = {"mirrored_twice": Sum(("source", "target"), ("n",))}
    stories = {
        "mirrored-twice": lambda r: (
            f"{message(r)} is in {r['topic']} {r['times']:,} times, and in its own cluster {r['logged']:,}"
        )
    }
    rules = {
        "mirrored-twice": VerdictRule(
            "{messages are|message is} stored more often in a mirror's target than in its source",
            _mirrored_twice_rulings,
        )
    }
    shown_by = MESSAGE

    def before_messages(self, run: Run) -> MirroredTwice:
        """Sets the clusters, from the run's mirrors."""
        return replace(self, exactly_once={(m.source, m.target) for m in run.mirrors if m.exactly_once})

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Messages with more copies than at home."""
        found = twice(messages)
        pairs = [f"{one}->{other}" for one, other in self.exactly_once]
        directions = pl.concat_str("source", "target", separator="->")
        yield Cases("mirrored-twice", found.with_columns(flag=directions.is_in(pairs)))
        yield SumPart("mirrored_twice", found.select("source", "target", "n"))

    def report(self, run: Run) -> Iterator[Reported]:
        """The number from mirrors with exactly-once."""
        yield facts(mirrored_twice_exactly_once=run.totals.cases["mirrored-twice", None, True])


def twice(messages: Messages) -> pl.DataFrame:
    """(producer, seq, n, place, topic, offset, times, logged, source, target): stretches, with a row for each
    topic in another cluster with more visible copies than at home, and where the first copy there is.
    """
    others = messages.copies.filter(IS_MIRRORED, "sent")
    return _twice(others, messages.stretches, messages.known.names)


@once_if_empty("others")
def _twice(others: pl.DataFrame, stretches: pl.DataFrame, names: Names) -> pl.DataFrame:
    others = others.sort("offset", "place").with_columns(topic=pl.col("place") // SHIFT)
    counts = others.group_by("part", "topic", maintain_order=True).agg(
        pl.col("place", "offset").first(), times=pl.len().cast(pl.Int64)
    )
    own = stretches.select("part", *MESSAGE, "n", "logged", "home_topic")
    found = counts.join(own, on="part").filter(pl.col("times") > pl.col("logged").clip(1))
    cluster_of = names.cluster_of
    return found.with_columns(source=cluster_of(pl.col("home_topic")), target=cluster_of(pl.col("topic")))
