"""The words that every stage shares; docs/GLOSSARY.md says what each one means."""

from __future__ import annotations

from typing import Literal, get_args

Verdict = Literal["held", "violated", "inconclusive"]
Outcome = Literal["acked", "failed", "unknown"]
Acks = Literal["0", "1", "all"]

OUTCOMES: tuple[Outcome, ...] = ("acked", "failed", "unknown")

# One count for the whole run.
RUN_ANOMALIES = (
    "lost",
    "duplicate",
    "recovered",
    "ghost",
    "phantom",
    "corrupt",
    "reordered",
    "inconsistent-offset",
)
# One count for each consumer group.
GROUP_ANOMALIES = (
    "unseen",
    "redelivered",
    "poll-skip",
    "nonmonotonic-poll",
    "commit-ahead",
    "unassigned-delivery",
)
ANOMALIES = RUN_ANOMALIES + GROUP_ANOMALIES

Cause = Literal["acks-0", "deposed-leader", "leader-restarted", "unclean-election", "unexplained"]
CAUSES: tuple[Cause, ...] = get_args(Cause)

NOOP = "noop"  # the fault that does nothing, and has nothing to prove
# Faults that take along what a broker has not synced to its disk yet: more than the end of its process does.
UNSYNCED_DATA_FAULTS = frozenset({"power-loss"})


def proven(fault: str, bit: bool, effective_ns: int | None) -> bool:
    """Whether a fault is shown to have bitten: its probe says so, and from which moment on."""
    return bit and (effective_ns is not None or fault == NOOP)
