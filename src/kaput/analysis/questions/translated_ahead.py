"""translated-ahead: a message of which the partition where a group began after it was moved has a copy below
that position, and which was never delivered to the group, in any cluster. Counted as messages, per group.

Never permitted: a mirror translates a position to one that is not beyond it, so that a group may read some
messages again and skips none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Cases, Find, Question
from kaput.analysis.engine.words import at, message
from kaput.analysis.facts.mirrors import Translated
from kaput.analysis.questions.translations import never_given
from kaput.analysis.runs.columns import MESSAGE
from kaput.core import clock

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.messages import Messages


@dataclass(frozen=True)
class TranslatedAhead(Question):
    """By where groups began: `moves`, and of late groups `beginnings`."""

    moves: Sequence[Translated] = ()
    beginnings: pl.DataFrame = field(default_factory=pl.DataFrame)

    stories = {
        "translated-ahead": lambda r: (
            f"{message(r)} is at {at(r)}, below {r['position']:,}, where the group began at "
            f"{clock(r['at_ns'])}, and was never delivered to it"
        )
    }
    shown_by = MESSAGE

    def before_messages(self, run: Run) -> TranslatedAhead:
        """The positions."""
        return replace(self, moves=run.translated, beginnings=run.beginnings)

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """By group."""
        yield Cases("translated-ahead", never_given(messages, self.moves, self.beginnings))
