"""Weakens rulings for clusters that are only observed from outside: leaders and ISR by polling, faults by
commands of which only the effect on a broker is proven.

Leaders are still exact (epochs are numbered, so a missed one is noticed). Unknown are the ISR at a given
time, whether an election was unclean, and what a command took from a broker's disk. Used by judge.py after
contracts.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from kaput.core import MS
from kaput.scenario.model import Scenario
from kaput.scenario.options import COMMAND_FAULTS
from kaput.scenario.pipes import spec_of
from kaput.verdict.contracts import Ruling, min_isr, unclean_allowed
from kaput.verdict.facts import Displaced, Facts, Loss, Reordered


@dataclass(frozen=True)
class ExistingClusterLimits:
    """What is not known about a run. `polled_ns`: see Facts; `hit`: brokers hit by commands."""

    polled_ns: int | None
    hit: frozenset[int]

    @classmethod
    def of(cls, facts: Facts) -> ExistingClusterLimits:
        """The limits of a run; on a cluster of kaput's own there are none."""
        hit = {b for fault in facts.faults if fault.fault in COMMAND_FAULTS for b in fault.brokers}
        return cls(facts.polled_ns, frozenset(hit))

    def on_overwritten(self, ruling: Ruling, scenario: Scenario, loss: Loss | Displaced) -> Ruling:
        """The ruling, or `unclear` if too little is known for it."""
        spec = spec_of(scenario, loss.producer)
        if spec is None or spec.acks == "0" or ruling.word == "unclear":
            return ruling
        if spec.acks == "1":
            if loss.cause == "leader-restarted" and self.hit and ruling.word == "violation":
                return Ruling(
                    "unclear",
                    "acks=1, and the same leader came back without what it had acknowledged: "
                    "whether a command destroyed more than the process is not known",
                )
            return ruling
        needed = min_isr(scenario, loss.topic)
        if self.polled_ns is not None and needed <= 1:
            return Ruling(
                "unclear",
                "min.insync.replicas=1, and polling does not tell what the ISR was at the time",
            )
        if self.polled_ns is not None and unclean_allowed(scenario, loss.topic):
            return Ruling(
                "unclear",
                "unclean leader election is enabled, and polling does not show whether this election was "
                "unclean",
            )
        if len(self.hit) >= needed and ruling.word == "violation":
            return Ruling(
                "unclear",
                f"commands hit {len(self.hit)} brokers, and as few as {needed} may have held these messages: "
                "it is unknown whether any copy survived",
            )
        return ruling

    def on_reordered(self, ruling: Ruling, found: Reordered, leader_changes: int) -> Ruling:
        """The ruling, or `unclear` because the exact time of a leader change is unknown."""
        if self.polled_ns is None or ruling.word != "violation" or found.across_leaders or not leader_changes:
            return ruling
        return Ruling(
            "unclear", "there may have been a leader change in between: its time is known only from polling"
        )

    def notes(self) -> list[str]:
        """A note on the precision of times, if polled."""
        if self.polled_ns is None:
            return []
        return [
            "Changes of leader and ISR were seen by polling: their times are those at which they were seen, "
            f"and known to ± {self.polled_ns / MS:,.0f} ms."
        ]
