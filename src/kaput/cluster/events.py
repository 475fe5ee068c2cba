"""What the cluster itself recorded about its leaders, in-sync replicas and brokers: one form for both
modes.

Its place: metadata_log.py (KRaft) and zookeeper/event_log.py make these rows, runner/cluster_poller.py
those of a cluster whose records are out of reach; run writes them.
"""

from __future__ import annotations

from typing import NamedTuple

METADATA_LOG = "metadata-log"
METADATA_SNAPSHOT = "metadata-snapshot"
CONTROLLER_LOG = "controller-log"
STATE_CHANGE_LOG = "state-change-log"
POLLING = "polling"


class ClusterEvent(NamedTuple):
    """A row of the cluster_events table, in its column order; what does not apply is None."""

    kind: str  # leader, isr, fenced, unfenced
    broker: int | None
    topic: str | None
    partition: int | None
    leader: int | None  # -1 without a leader
    leader_epoch: int | None
    isr: list[int] | None
    at_ns: int
    source: str = METADATA_LOG
    elr: list[int] | None = None
    within_ns: int | None = None  # how much earlier than at_ns it may have been; None: it was then


class Collected(NamedTuple):
    """The events of a cluster in the order in which they happened, and sentences about what is missing."""

    events: list[ClusterEvent]
    troubles: list[str]
