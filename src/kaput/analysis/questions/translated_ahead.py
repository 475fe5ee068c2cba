"""translated-ahead: a message with a copy below the position at which a group began after a move, in that
partition, that was never delivered to the group in any cluster. Counted as messages, per group.

A mirror never translates a position to a later one, so a group may read messages again but skips none: never
permitted, except for the cost of failing back (failing_back.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Cases, Find, Question, Reported, SumPart, group_facts
from kaput.analysis.engine.sums import Sum
from kaput.analysis.engine.words import at, message
from kaput.analysis.facts.mirrors import MirrorFacts, Translated
from kaput.analysis.questions.failing_back import costs, returned_ns, rulings
from kaput.analysis.questions.translations import never_given
from kaput.analysis.runs.columns import MESSAGE
from kaput.core import clock
from kaput.verdict.rules import Grounds, Ruled, VerdictRule

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.messages import Messages


def _failing_back_rulings(known: Grounds) -> Ruled:
    assert known.group is not None
    return rulings(known.group.ahead_back)


@dataclass(frozen=True)
class TranslatedAhead(Question):
    """`moves`: where groups began; `beginnings`: of late groups; `mirrors`: between the clusters."""

    moves: Sequence[Translated] = ()
    beginnings: pl.DataFrame = field(default_factory=pl.DataFrame)
    mirrors: Sequence[MirrorFacts] = ()
    returned: Mapping[int, int] = field(default_factory=dict)

    sums = {"ahead_back": Sum(("group", "fate"), ("n",))}
    stories = {
        "translated-ahead": lambda r: (
            f"{message(r)} is at {at(r)}, below {r['position']:,}, where the group began at "
            f"{clock(r['at_ns'])}, and was never delivered to it"
        )
    }
    rules = {
        "translated-ahead": VerdictRule(
            "{messages were|message was} skipped in another cluster", _failing_back_rulings
        )
    }
    shown_by = MESSAGE

    def before_messages(self, run: Run) -> TranslatedAhead:
        """Sets the positions."""
        return replace(
            self,
            moves=run.translated,
            beginnings=run.beginnings,
            mirrors=run.mirrors,
            returned=returned_ns(run),
        )

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Cases by group; and the cost of failing back among them, by cause."""
        skipped = never_given(messages, self.moves, self.beginnings)
        yield Cases("translated-ahead", skipped)
        back = costs(messages, self.moves, self.mirrors, skipped, self.returned)
        yield SumPart("ahead_back", back.select("group", "fate", "n"))

    def report(self, run: Run) -> Iterator[Reported]:
        """The cost of failing back, for the verdict."""
        for index in run.groups:
            back = run.sums["ahead_back"].filter(group=index).select("fate", "n")
            yield group_facts(index, ahead_back=dict(back.iter_rows()))
