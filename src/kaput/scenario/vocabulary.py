"""Words that every stage uses; docs/GLOSSARY.md defines them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

Verdict = Literal["held", "violated", "inconclusive"]
# kept, refused: only of producers with stores (`on-failure`); other clients report the first three.
Outcome = Literal["acked", "failed", "unknown", "kept", "refused"]
Acks = Literal["0", "1", "all"]
Client = Literal["librdkafka", "java", "command"]
GroupType = Literal["classic", "consumer", "share"]
Isolation = Literal["read_committed", "read_uncommitted"]
Security = Literal["none", "scram-tls"]
LedgerRows = Literal["stretches", "messages", "none"]  # what each row of analysis/ledger is

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
CLIENT_OUTCOMES = OUTCOMES[:3]
GIVEN_UP: Sequence[Outcome] = ("failed", "refused")  # the message is definitely not stored
# Anomalies that follow from a message's fate alone: outcomes of its send, and how often it is stored.
FATE_ANOMALIES: Mapping[str, tuple[Sequence[Outcome], Sequence[str]]] = {
    "lost": (("acked",), ("0",)),
    "duplicate": (OUTCOMES, ("n",)),
    "recovered": (("unknown",), ("1", "n")),
    "ghost": (GIVEN_UP, ("1", "n")),
}
TRANSACTION_OUTCOMES = ("committed", "aborted", "unknown")

PROMISE: Mapping[str, str] = {
    "held": "Kafka kept its promise",
    "violated": "Kafka broke its promise",
    "inconclusive": "whether Kafka kept its promise is not known",
}

# In the order in which analysis/causes/attribution.py numbers them.
Cause = Literal["acks-0", "deposed-leader", "leader-restarted", "unclean-election", "unexplained"]
CAUSES: tuple[Cause, ...] = get_args(Cause)

KAFKAS_TIMEOUT_MS = 60_000  # default of transaction.timeout.ms in librdkafka and the Java client

# On a cluster with security: the run's own user, and all users. `nobody` has no permissions.
CLIENT_USER = "kaput"
APP_USER = "app"  # whose password a step may change: kaput itself is CLIENT_USER
USERS = (CLIENT_USER, APP_USER, "nobody")

NOOP = "noop"  # the fault that does nothing and needs no proof
# Faults that also destroy data that a broker has not synced to its disk; the end of its process does not.
UNSYNCED_DATA_FAULTS = frozenset({"power-loss"})
DISK_LOSS = "disk-loss"  # the fault that destroys all of a broker's data


def proven(fault: str, confirmed: bool, effective_ns: int | None) -> bool:
    """Whether a fault's effect is confirmed by its probe, with a time."""
    return confirmed and (effective_ns is not None or fault == NOOP)
