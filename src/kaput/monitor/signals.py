"""What can be observed of a live cluster: each signal's name, unit and labels, defined only here.

Alert rules, /metrics and the streaming ledger use them. Names and units follow Prometheus's conventions:
seconds, bytes and ratios; `_total` for counters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]
PLACE = ("topic", "partition")


@dataclass(frozen=True)
class Signal:
    """`labels`: the labels of each sample, whose values are few."""

    name: str
    help: str
    labels: Sequence[str] = ()

    @property
    def kind(self) -> Kind:
        if self.name.endswith("_total"):
            return "counter"
        return "histogram" if self.name.endswith("_latency_seconds") else "gauge"


@dataclass(frozen=True)
class Sample:
    """A signal's value at a time (ns); NaN: not observed. Of a histogram, one observation."""

    name: str
    value: float
    at_ns: int
    labels: Mapping[str, str] = field(default_factory=dict)


_MESSAGES = (
    Signal("kaput_messages_sent_total", "Messages that producers attempted.", PLACE),
    Signal("kaput_messages_acked_total", "Messages that were acknowledged.", PLACE),
    Signal("kaput_messages_failed_total", "Messages that were definitely not written.", PLACE),
    Signal("kaput_messages_received_total", "Messages that were read back.", PLACE),
    Signal(
        "kaput_messages_delivered_total",
        "Messages that were delivered to members of a group.",
        ("group", *PLACE),
    ),
    Signal(
        "kaput_messages_missing",
        "Messages that were acknowledged and have not been read back yet, although later ones have.",
        PLACE,
    ),
    Signal(
        "kaput_messages_lost_total",
        "Messages that were acknowledged and missing for longer than the wait for late messages.",
        PLACE,
    ),
    Signal("kaput_messages_late_total", "Messages that were missing and arrived later.", PLACE),
    Signal("kaput_messages_duplicated_total", "Messages that are stored more than once.", PLACE),
    Signal("kaput_messages_reordered_total", "Messages stored after a later one.", PLACE),
    Signal(
        "kaput_produce_latency_seconds",
        "From the first attempt to send a message to its acknowledgement.",
        ("broker",),
    ),
    Signal(
        "kaput_end_to_end_latency_seconds",
        "From the first attempt to send a message to its delivery.",
        ("broker",),
    ),
    Signal(
        "kaput_unacknowledged_seconds",
        "How long messages have been waiting with none acknowledged; 0 while acknowledgements arrive.",
        PLACE,
    ),
)
_GROUPS = (
    Signal(
        "kaput_consumer_lag_records",
        "Records between a group's committed position and the end of the partition; 0 if there are only "
        "markers and aborted records of transactions.",
        ("group", *PLACE),
    ),
    Signal(
        "kaput_consumer_lag_seconds",
        "Age of the oldest record that a group has not committed; 0 only if there is none.",
        ("group", *PLACE),
    ),
    Signal(
        "kaput_group_deleted_unread_records",
        "Records that were deleted before the group read them: those between its committed position and the "
        "start of the partition.",
        ("group", *PLACE),
    ),
    Signal(
        "kaput_group_stale_position",
        "1 while the group's committed position is not one of this topic: beyond its end, or committed "
        "before the topic was recreated.",
        ("group", *PLACE),
    ),
    Signal("kaput_group_rebalancing", "1 while the group is rebalancing, 0 otherwise.", ("group",)),
)
_CLUSTER = (
    Signal("kaput_broker_up", "1 while the broker is registered and not fenced.", ("broker",)),
    Signal("kaput_broker_answers", "1 while the broker answers the monitor's requests.", ("broker",)),
    Signal("kaput_active_controllers", "How many controllers are active: 1 in a healthy cluster."),
    Signal(
        "kaput_quorum_follower_lag_records",
        "Records of the metadata log that a voter has not fetched.",
        ("node",),
    ),
    Signal(
        "kaput_quorum_follower_lag_seconds", "Time since a voter last had all of the metadata log.", ("node",)
    ),
    Signal("kaput_offline_partitions", "Partitions without a leader."),
    Signal(
        "kaput_under_min_isr_partitions",
        "Partitions with fewer in-sync replicas than min.insync.replicas: they refuse acks=all.",
    ),
    Signal(
        "kaput_under_replicated_partitions",
        "Partitions led by this broker (-1: no leader) that have replicas that are not in sync.",
        ("broker",),
    ),
    Signal(
        "kaput_out_of_sync_replicas",
        "Replicas on this broker that are not in sync, except those that a reassignment adds.",
        ("broker",),
    ),
    Signal(
        "kaput_reassigning_partitions", "Partitions that are being reassigned: under-replicated by design."
    ),
    Signal("kaput_unclean_elections_total", "Elections of a replica that was not in sync."),
    Signal(
        "kaput_spare_replicas",
        "Replication factor minus min.insync.replicas; at 0, one broker that is down stops acks=all.",
        ("topic",),
    ),
    Signal("kaput_log_dirs_offline", "Log directories that the broker took offline.", ("broker",)),
    Signal(
        "kaput_log_dir_used_ratio",
        "Used fraction of the volume of the broker's fullest log directory.",
        ("broker",),
    ),
    Signal(
        "kaput_certificate_expiry_seconds",
        "Time until the certificate that the broker presents expires.",
        ("broker",),
    ),
    Signal("kaput_mirror_lag_seconds", "How far a mirror is behind its source.", ("mirror",)),
    Signal("kaput_fault_active", "1 while a fault that kaput injected is active.", ("fault",)),
)
_MONITOR = (
    Signal("kaput_cluster_reachable", "1 while any broker answers; while 0, all cluster state is unknown."),
    Signal("kaput_last_poll_age_seconds", "Age of the samples from polls."),
    Signal("kaput_poll_duration_seconds", "Duration of the last poll."),
    Signal("kaput_poll_requests", "Requests that the last poll made."),
    Signal(
        "kaput_samples_dropped_total",
        "Samples dropped because their signal already has the maximum number of series.",
        ("signal",),
    ),
)
SIGNALS: Mapping[str, Signal] = {
    signal.name: signal for signal in (*_MESSAGES, *_GROUPS, *_CLUSTER, *_MONITOR)
}
