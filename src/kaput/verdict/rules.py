"""The interface of verdict rules, which decide how cases of an anomaly are ruled.

Each rule is in the file of the question that finds the cases (analysis/questions/); judge.py applies them
all. Not here: what a configuration promises (contracts.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kaput.scenario.model import Scenario
from kaput.verdict.contracts import Ruling, on_inconsistent_offset, on_loss
from kaput.verdict.existing_cluster import ExistingClusterLimits
from kaput.verdict.facts import Displaced, Facts, GroupFacts, Loss

_NOT_EXPLAINED = Ruling("violation", "no permitted loss explains it")
_FOLLOWS = "it follows from a message that was overwritten or lost"
Ruled = Iterable[tuple[Ruling, int]]  # rulings with numbers of cases


@dataclass(frozen=True)
class Grounds:
    """The input of a rule: facts and scenario of the run, and the group for a group anomaly."""

    facts: Facts
    scenario: Scenario
    limits: ExistingClusterLimits
    group: GroupFacts | None = None

    def on_loss(self, loss: Loss) -> Ruling:
        """Rules on lost acknowledged messages."""
        ruling = on_loss(self.scenario, loss)
        if loss.known.removed_by is not None:
            return ruling  # whatever is not known of leaders and replicas
        return self.limits.on_overwritten(ruling, self.scenario, loss)

    def on_overwritten(self, found: Displaced) -> Ruling:
        """Rules on inconsistent offsets."""
        ruling = on_inconsistent_offset(self.scenario, found)
        return self.limits.on_overwritten(ruling, self.scenario, found)

    def following(self, name: str) -> list[tuple[Ruling, int]]:
        """Rulings on cases that follow from losses: the loss's ruling, the worst of several."""
        group = self.group.group if self.group else None
        found = []
        for one in self.facts.consequences:
            if (one.name, one.group) == (name, group):
                rulings = [self.on_loss(loss) for loss in one.losses]
                found.append((min(rulings, key=_severity, default=_NOT_EXPLAINED), one.count))
        return [(ruling._replace(why=f"{_FOLLOWS}: {ruling.why}"), n) for ruling, n in found]


class VerdictRule(NamedTuple):
    """`what` follows a count (core.py: counted). `uncounted`: it rules on possible cases that are not
    included in the anomaly's count.
    """

    what: str
    ruled: Callable[[Grounds], Ruled]
    uncounted: bool = False


def _severity(ruling: Ruling) -> int:
    return ("violation", "unclear", "permitted").index(ruling.word)
