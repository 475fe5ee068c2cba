"""Events that the cluster itself recorded about leaders, in-sync replicas and brokers; the same for both
modes.

Its place: metadata_log.py (KRaft) and zookeeper/event_log.py make these rows, runner/cluster_events.py
those of a cluster whose records cannot be read; run writes them.
"""

from __future__ import annotations

from typing import NamedTuple

METADATA_LOG = "metadata-log"
METADATA_SNAPSHOT = "metadata-snapshot"
CONTROLLER_LOG = "controller-log"
STATE_CHANGE_LOG = "state-change-log"
POLLING = "polling"


class ClusterEvent(NamedTuple):
    """A row of the cluster_events table, in column order; fields that do not apply are None."""

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
    within_ns: int | None = None  # it may have happened up to so much before at_ns; None: at_ns is exact


class CollectedEvents(NamedTuple):
    """The events of a cluster in order, and sentences about missing parts."""

    events: list[ClusterEvent]
    troubles: list[str]
