"""translated-ahead: a message of which the partition where a group began after it was moved has a copy below
that position, and which was never delivered to the group, in any cluster. Counted as messages, per group.

A mirror translates a position to one that is not beyond it, so that a group may read some messages again and
skips none: never permitted, but for what failing back costs (failing_back.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Cases, Find, Part, Question, Section, group_facts
from kaput.analysis.engine.sums import Sum
from kaput.analysis.engine.words import at, message
from kaput.analysis.facts.mirrors import MirrorFacts, Translated
from kaput.analysis.questions.failing_back import costs, rulings
from kaput.analysis.questions.translations import never_given
from kaput.analysis.runs.columns import MESSAGE
from kaput.core import clock
from kaput.verdict.rules import Grounds, Ruled, VerdictRule

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.messages import Messages


def _back(known: Grounds) -> Ruled:
    assert known.group is not None
    return rulings(known.group.ahead_back)


@dataclass(frozen=True)
class TranslatedAhead(Question):
    """By where groups began: `moves`, and of late groups `beginnings`; `mirrors` between the clusters."""

    moves: Sequence[Translated] = ()
    beginnings: pl.DataFrame = field(default_factory=pl.DataFrame)
    mirrors: Sequence[MirrorFacts] = ()

    sums = {"ahead_back": Sum(("group", "fate"), ("n",))}
    stories = {
        "translated-ahead": lambda r: (
            f"{message(r)} is at {at(r)}, below {r['position']:,}, where the group began at "
            f"{clock(r['at_ns'])}, and was never delivered to it"
        )
    }
    rules = {"translated-ahead": VerdictRule("messages were skipped in another cluster", _back)}
    shown_by = MESSAGE

    def before_messages(self, run: Run) -> TranslatedAhead:
        """The positions."""
        return replace(self, moves=run.translated, beginnings=run.beginnings, mirrors=run.mirrors)

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """By group; what of it failing back costs, by cause."""
        skipped = never_given(messages, self.moves, self.beginnings)
        yield Cases("translated-ahead", skipped)
        back = costs(messages, self.moves, self.mirrors, skipped)
        yield Part("ahead_back", back.select("group", "fate", "n"))

    def report(self, run: Run) -> Iterator[Section]:
        """The same, for the verdict."""
        for index in run.groups:
            back = run.sums["ahead_back"].filter(group=index).select("fate", "n")
            yield group_facts(index, ahead_back=dict(back.iter_rows()))
