"""Claims: what kaput says about the record, each with its kind, subject, times and figures.

Sentences, tables, charts and comparisons render claims; nothing else interprets. The kinds are defined in
docs/GLOSSARY.md, and an independent reader of the raw tables (tests/second_opinion) checks every claim. The
document: findings.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from kaput.evidence.findings_parts import FindingsPart

EndedBy = Literal["heal", "election", "isr", "setting", "rebalance", "client", "unknown"]
ClaimKind = Literal[
    "silence", "cause", "unavailable", "election", "first-ack", "affected", "stuck", "backlog", "within-1s",
    "load", "rebalance", "times-unknown",
]  # fmt: skip


class Wait(FindingsPart):
    """One condition that a silence waited for, until it was met."""

    condition: EndedBy
    """heal: a broker (or client) of a fault serves again; election: a new leader; isr: a change of the
    in-sync replicas; setting: a step lowered min.insync.replicas; rebalance: an owner in the group; client:
    the client's own time after all of these."""
    from_ns: int
    """Since when this condition was the one that was missing."""
    to_ns: int
    """When it was met."""
    record: str = ""
    """The record that met it, in words."""
    fault: str | None = None
    """The fault that was healed, or the step that changed the setting; else null."""

    @property
    def seconds(self) -> float:
        """Its length in seconds."""
        return (self.to_ns - self.from_ns) / 1e9


class Claim(FindingsPart):
    """One interpretation of the record. A field is null where the claim is not about such a thing."""

    kind: ClaimKind
    """What is claimed (see the glossary)."""
    cluster: str | None = None
    """The cluster's name; null where a run has one cluster, or the claim is about no partition."""
    topic: str | None = None
    """The topic; null: not about one partition."""
    partition: int | None = None
    """The partition; null as above."""
    group: str | None = None
    """The group; null: about acknowledgements."""
    producer: int | None = None
    """The producer; null: about all together."""
    fault: str | None = None
    """The id of the fault; null: not about a fault."""
    from_ns: int | None = None
    """Since when; null if that is not known."""
    to_ns: int | None = None
    """Until when; null if it never ended, or that is not known."""
    figures: dict[str, int | float] = {}
    """Its figures by name."""
    waited_for: list[Wait] = []
    """Of a silence: what it waited for, in order."""
    ended_by: EndedBy | None = None
    """Of a silence: the last condition that was met; null if it ended with the load."""
    decidable: bool = True
    """Whether the record decides it; if not, `why` says what is missing."""
    why: str = ""
    """The record in words, or why it is not decidable."""


def needs_heal(waits: Sequence[Wait]) -> bool:
    """Whether a longer fault would have meant a longer silence: one of its conditions was a heal."""
    return any(wait.condition == "heal" for wait in waits)
