"""The words that every stage shares; docs/GLOSSARY.md says what each one means."""

from __future__ import annotations

from typing import Literal

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

CAUSES = ("deposed-leader", "unclean-election", "acks-0", "unexplained")
