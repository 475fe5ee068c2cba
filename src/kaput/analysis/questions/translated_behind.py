"""translated-behind: a message with a copy at or above the position at which a group began after a move, in
that partition, that had been delivered to the group before in any cluster: it is read again. Counted as
messages, per group.

Permitted: translated positions are as exact as the mirror's offset syncs are dense (offset.lag.max), and
groups that lag far behind get coarser ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kaput.analysis.engine.question import Cases, Find, Question
from kaput.analysis.engine.words import at, message
from kaput.analysis.facts.mirrors import Translated
from kaput.analysis.questions.translations import given_before
from kaput.analysis.runs.columns import MESSAGE
from kaput.core import clock
from kaput.verdict.contracts import Ruling
from kaput.verdict.rules import Grounds, Ruled, VerdictRule

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.messages import Messages

_COARSE = Ruling("permitted", "a translated position may be behind the one that the group had")


def _rulings(known: Grounds) -> Ruled:
    assert known.group is not None
    yield _COARSE, known.group.counts.get("translated-behind", 0)


@dataclass(frozen=True)
class TranslatedBehind(Question):
    """`moves`: where groups began."""

    moves: Sequence[Translated] = ()

    stories = {
        "translated-behind": lambda r: (
            f"{message(r)} is at {at(r)}, not below {r['position']:,}, where the group began at "
            f"{clock(r['at_ns'])}, and had been delivered to it before"
        )
    }
    rules = {
        "translated-behind": VerdictRule("{messages are|message is} read again in another cluster", _rulings)
    }
    shown_by = MESSAGE

    def before_messages(self, run: Run) -> TranslatedBehind:
        """Sets the positions."""
        return replace(self, moves=run.translated)

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Cases by group."""
        yield Cases("translated-behind", given_before(messages, self.moves))
