"""How cases of an anomaly are ruled. A rule is in the file of the question that finds them
(analysis/questions/); judge.py asks them all. Not here: what a configuration promises (contracts.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kaput.scenario.model import Scenario
from kaput.verdict.contracts import Ruling, on_inconsistent_offset, on_loss
from kaput.verdict.existing_cluster import ExistingClusterLimits
from kaput.verdict.facts import Displaced, Facts, GroupFacts, Loss

_NOT_EXPLAINED = Ruling("violation", "no loss that may be explains it")
_FOLLOWS = "it follows from a message that was overwritten or lost"
Ruled = Iterable[tuple[Ruling, int]]  # how many cases have which ruling


@dataclass(frozen=True)
class Grounds:
    """What a rule knows: the run, what it was configured to do, and of an anomaly of groups, the group."""

    facts: Facts
    scenario: Scenario
    limits: ExistingClusterLimits
    group: GroupFacts | None = None

    def on_loss(self, loss: Loss) -> Ruling:
        """Whether an acknowledged message might be lost in this way."""
        return self.limits.on_displaced(on_loss(self.scenario, loss), self.scenario, loss)

    def on_displaced(self, found: Displaced) -> Ruling:
        """Whether the log might contradict an acknowledgement in this way."""
        ruling = on_inconsistent_offset(self.scenario, found)
        return self.limits.on_displaced(ruling, self.scenario, found)

    def following(self, name: str) -> list[tuple[Ruling, int]]:
        """What follows from losses has their ruling, the worst of several: the one place where that is so."""
        group = self.group.group if self.group else None
        found = []
        for one in self.facts.consequences:
            if (one.name, one.group) == (name, group):
                rulings = [self.on_loss(loss) for loss in one.losses]
                found.append((min(rulings, key=_severity, default=_NOT_EXPLAINED), one.count))
        return [(ruling._replace(why=f"{_FOLLOWS}: {ruling.why}"), n) for ruling, n in found]


class VerdictRule(NamedTuple):
    """`what` reads after a count ('12 acknowledged messages are lost'). `uncounted`: what it rules may be
    cases, and is not among those that are counted.
    """

    what: str
    ruled: Callable[[Grounds], Ruled]
    uncounted: bool = False


def _severity(ruling: Ruling) -> int:
    return ("violation", "unclear", "permitted").index(ruling.word)
