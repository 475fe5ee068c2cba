"""Verdict rules, which decide how the cases of an anomaly are ruled, and what they know.

Each rule is in the file of the question that finds the cases (analysis/questions/); judge.py applies them
all. Not here: what a configuration promises (contracts.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from kaput.core import MS
from kaput.scenario.fault_kinds import COMMAND
from kaput.scenario.model import Scenario, spec_of
from kaput.verdict.contracts import (
    Ruling,
    min_isr,
    on_inconsistent_offset,
    on_loss,
    unclean_allowed,
    unclear,
    violation,
)
from kaput.verdict.facts import Facts, GroupFacts, Loss, Reordered

_NOT_EXPLAINED = violation("no permitted loss explains it")
_FOLLOWS = "it follows from a message that was overwritten, lost or removed"
Ruled = Iterable[tuple[Ruling, int]]  # rulings with numbers of cases


@dataclass(frozen=True)
class ExistingClusterLimits:
    """What is not known about a cluster that is only observed from outside: leaders and ISR by polling,
    faults by commands of which only the effect on a broker is proven. Weakens rulings of contracts.py.
    Leaders are still exact (epochs are numbered, so a missed one is noticed). Unknown are the ISR at a given
    time, whether an election was unclean, and what a command took from a broker's disk. `polled_ns`: see
    Facts; `hit`: brokers hit by commands.
    """

    polled_ns: int | None
    hit: frozenset[int]

    @classmethod
    def of(cls, facts: Facts) -> ExistingClusterLimits:
        """The limits of a run; on a cluster of kaput's own there are none."""
        hit = {b for fault in facts.faults if fault.fault == COMMAND for b in fault.brokers}
        return cls(facts.polled_ns, frozenset(hit))

    def on_overwritten(self, ruling: Ruling, scenario: Scenario, loss: Loss) -> Ruling:
        """The ruling, or `unclear` if too little is known for it."""
        spec = spec_of(scenario, loss.producer)
        if spec is None or spec.acks == "0" or ruling.word == "unclear":
            return ruling
        if spec.acks == "1":
            if loss.cause == "leader-restarted" and self.hit and ruling.word == "violation":
                return unclear(
                    "acks=1, and the same leader came back without what it had acknowledged: "
                    "whether a command destroyed more than the process is not known"
                )
            return ruling
        needed = min_isr(scenario, loss.topic)
        if self.polled_ns is not None and needed <= 1:
            return unclear("min.insync.replicas=1, and polling does not tell what the ISR was at the time")
        if self.polled_ns is not None and unclean_allowed(scenario, loss.topic):
            return unclear(
                "unclean leader election is enabled, and polling does not show whether this election was "
                "unclean"
            )
        if len(self.hit) >= needed and ruling.word == "violation":
            return unclear(
                f"commands hit {len(self.hit)} brokers, and as few as {needed} may have held these messages: "
                "it is unknown whether any copy survived"
            )
        return ruling

    def on_reordered(self, ruling: Ruling, late: Reordered, leader_changes: bool) -> Ruling:
        """The ruling, or `unclear` because the exact time of a leader change is unknown."""
        if self.polled_ns is None or ruling.word != "violation" or late.across_leaders or not leader_changes:
            return ruling
        return unclear("there may have been a leader change in between: its time is known only from polling")

    def notes(self) -> list[str]:
        """A note on the precision of times, if polled."""
        if self.polled_ns is None:
            return []
        return [
            "Changes of leader and ISR were seen by polling: each may have happened up to "
            f"{self.polled_ns / MS:,.0f} ms before it was seen."
        ]


@dataclass(frozen=True)
class Grounds:
    """The input of a rule: facts and scenario of the run, the anomaly, and the group for a group anomaly."""

    facts: Facts
    scenario: Scenario
    limits: ExistingClusterLimits
    group: GroupFacts | None = None
    name: str = ""

    @property
    def count(self) -> int:
        """The number of cases of the anomaly."""
        return self._of.counts.get(self.name, 0)

    @property
    def flagged(self) -> int:
        """Of these, how many have a flag (engine/question.py: Cases)."""
        return self._of.flagged.get(self.name, 0)

    @property
    def unclear(self) -> int:
        """The number of possible cases (engine/question.py: Unclear)."""
        return self._of.unclear.get(self.name, 0)

    @property
    def causes(self) -> Mapping[str, int]:
        """The number of cases by cause, as the question reports it."""
        return self._of.causes.get(self.name, {})

    @property
    def excused(self) -> Mapping[str, int]:
        """The number of cases by what excuses them, as the question reports it."""
        return self._of.excused.get(self.name, {})

    @property
    def _of(self) -> Facts | GroupFacts:
        return self.group or self.facts

    def on_loss(self, loss: Loss) -> Ruling:
        """Rules on lost acknowledged messages."""
        ruling = on_loss(self.scenario, loss)
        if loss.known.removed_by is not None:
            return ruling  # whatever is not known of leaders and replicas
        return self.limits.on_overwritten(ruling, self.scenario, loss)

    def on_overwritten(self, displaced: Loss) -> Ruling:
        """Rules on inconsistent offsets."""
        ruling = on_inconsistent_offset(self.scenario, displaced)
        return self.limits.on_overwritten(ruling, self.scenario, displaced)

    def following(self) -> list[tuple[Ruling, int]]:
        """Rulings on cases that follow from losses: the loss's ruling, the worst of several."""
        group = self.group.group if self.group else None
        ruled = []
        for one in self.facts.consequences:
            if (one.name, one.group) == (self.name, group):
                rulings = [self.on_loss(loss) for loss in one.losses]
                ruled.append((min(rulings, key=_severity, default=_NOT_EXPLAINED), one.count))
        return [(ruling._replace(why=f"{_FOLLOWS}: {ruling.why}"), n) for ruling, n in ruled]


def nothing(known: Grounds) -> Ruled:
    """Rules on no case."""
    return ()


@dataclass(frozen=True)
class VerdictRule:
    """How an anomaly is ruled. Texts follow a count (core.py: counted). `what`: the cases that `ruled` rules
    on; `uncounted`: these are possible cases, which are not in the anomaly's count. `never`: all other cases,
    each a violation unless it follows from a permitted loss; None if there are no others. `harmless`: cases
    that are no errors, so that nothing is written about them.
    """

    what: str = ""
    ruled: Callable[[Grounds], Ruled] = nothing
    never: str | None = None
    uncounted: bool = False
    harmless: Literal["none", "unflagged", "all"] = "none"

    def harmless_cases(self, name: str, of: Facts | GroupFacts) -> int:
        """The number of cases of the anomaly that are no errors."""
        cases, flagged = of.counts.get(name, 0), of.flagged.get(name, 0)
        return {"none": 0, "unflagged": cases - flagged, "all": cases}[self.harmless]


def never(what: str) -> VerdictRule:
    """The rule for what is never permitted. `what`: its meaning, after a count."""
    return VerdictRule(never=what)


def by_flag(flagged: Ruling, others: Ruling) -> Callable[[Grounds], Ruled]:
    """Rules on cases by whether they have a flag."""
    return lambda known: ((flagged, known.flagged), (others, known.count - known.flagged))


def _severity(ruling: Ruling) -> int:
    return ("violation", "unclear", "permitted").index(ruling.word)
