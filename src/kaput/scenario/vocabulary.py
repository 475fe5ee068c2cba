"""The words that every stage shares; docs/GLOSSARY.md says what each one means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

Verdict = Literal["held", "violated", "inconclusive"]
Outcome = Literal["acked", "failed", "unknown"]
Acks = Literal["0", "1", "all"]
Client = Literal["librdkafka", "java", "command"]
GroupType = Literal["classic", "consumer", "share"]
Isolation = Literal["read_committed", "read_uncommitted"]
Security = Literal["none", "scram-tls"]

OUTCOMES: tuple[Outcome, ...] = ("acked", "failed", "unknown")
TRANSACTION_OUTCOMES = ("committed", "aborted", "unknown")

# What one that is never permitted means, after its count; None where the configuration decides, or it is no
# error (verdict/judge.py). The first have one count for the whole run, the others one for each group.
TRANSACTION_ANOMALIES: Mapping[str, str | None] = {
    "torn-transaction": None,
    "lost-commit": None,
    "hanging-transaction": None,
}
RUN_ANOMALIES: Mapping[str, str | None] = {
    "lost": None,
    "duplicate": None,
    "recovered": None,
    "ghost": "messages are stored although their producer was told that they definitely are not",
    "phantom": "records are stored with an identity that was never sent",
    "corrupt": "records are damaged: their checksum does not match",
    "reordered": None,
    "inconsistent-offset": None,
    **TRANSACTION_ANOMALIES,
}
SHARE_ANOMALIES: Mapping[str, str] = {
    "double-accept": "records were accepted more than once, each time confirmed by a broker",
    "delivered-after-accept": "records were delivered although a broker had confirmed their accept",
    "over-delivered": "records were delivered with a delivery count beyond the group's limit",
    "lost-release": "records came back to the group, below its limit, and were never delivered again",
}
# Of groups that read transactions, and of pipes.
READING_ANOMALIES: Mapping[str, str] = {
    "aborted-read": "messages of transactions that never committed were delivered with read_committed",
    "processed-twice": "inputs have more than one output",
    "unprocessed": "inputs have no output",
}
GROUP_ANOMALIES: Mapping[str, str | None] = {
    "unseen": "stored messages were never delivered",
    "redelivered": None,
    "poll-skip": "polls jumped over stored records without a change of assignment",
    "nonmonotonic-poll": "polls went back without a change of assignment",
    "commit-ahead": "commits passed records that had not been delivered yet",
    "unassigned-delivery": "records were delivered to a member that did not own their partition",
    "vanished": None,
    **SHARE_ANOMALIES,
    **READING_ANOMALIES,
}
ANOMALIES = {**RUN_ANOMALIES, **GROUP_ANOMALIES}

# The order is that in which analysis/questions/causes.py numbers them.
Cause = Literal["acks-0", "deposed-leader", "leader-restarted", "unclean-election", "unexplained"]
CAUSES: tuple[Cause, ...] = get_args(Cause)

KAFKAS_TIMEOUT_MS = 60_000  # transaction.timeout.ms, of librdkafka and of the Java client

# On a cluster with security: the run's own user, and all users. `nobody` has no permissions.
CLIENT_USER = "kaput"
USERS = (CLIENT_USER, "nobody")

NOOP = "noop"  # the fault that does nothing, and has nothing to prove
# Faults that take along what a broker has not synced to its disk yet: more than the end of its process does.
UNSYNCED_DATA_FAULTS = frozenset({"power-loss"})


def proven(fault: str, bit: bool, effective_ns: int | None) -> bool:
    """Whether a fault's effect is confirmed: its probe shows it, and since when."""
    return bit and (effective_ns is not None or fault == NOOP)
