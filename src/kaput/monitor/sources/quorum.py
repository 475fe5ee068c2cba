"""Signals of the metadata quorum, from the answers of all controllers that consider themselves its leader.

A broker forwards the request to the controller it knows, which may take half a minute to change after a
controller was cut off; from Kafka 3.9 on the answer has the controllers' addresses, and they are queried too.
If they are unreachable, two active controllers are seen only if brokers know different ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from kaput.cluster.access import Access
from kaput.cluster.admin import monitor_requests
from kaput.cluster.wire import Endpoint
from kaput.monitor.signals import Sample
from kaput.monitor.sources.nodes import Ask, Unsupported


def describe(ask: Ask) -> Any:
    """Sends DescribeQuorum to a broker or a controller."""
    try:
        return ask(monitor_requests.describe_quorum(2))
    except Unsupported:
        return ask(monitor_requests.describe_quorum(1))


def controllers(answers: Iterable[Any], access: Access) -> dict[int, Endpoint]:
    """The controllers' endpoints by id, as far as the answers have them."""
    return {
        node.node_id: Endpoint(node.listeners[0].host, node.listeners[0].port, access)
        for answer in answers
        for node in getattr(answer, "nodes", None) or ()
        if node.listeners
    }


def leaders(answers: Iterable[Any]) -> dict[int, Any]:
    """By id, each active controller's view of the quorum."""
    found: dict[int, Any] = {}
    for answer in answers:
        if answer.error_code or not answer.topics:
            continue
        state = answer.topics[0].partitions[0]
        if not state.error_code and state.leader_id >= 0:
            newer = state.leader_id not in found or state.leader_epoch >= found[state.leader_id].leader_epoch
            if newer:
                found[state.leader_id] = state
    return found


def quorum_samples(active: dict[int, Any], at_ns: int) -> Iterator[Sample]:
    """How far each voter is behind the newest leader. Times are by the controllers' clocks."""
    if not active:
        return
    state = max(active.values(), key=lambda each: each.leader_epoch)
    ends = {voter.replica_id: voter.log_end_offset for voter in state.current_voters}
    end = ends.get(state.leader_id, state.high_watermark)
    for voter in state.current_voters:
        labels = {"node": str(voter.replica_id)}
        leads = voter.replica_id == state.leader_id
        known = voter.log_end_offset >= 0
        records = 0 if leads else max(0, end - voter.log_end_offset) if known else math.nan
        yield Sample("kaput_quorum_follower_lag_records", records, at_ns, labels)
        caught_up_ms = voter.last_caught_up_timestamp
        age_s = max(0.0, at_ns / 1e9 - caught_up_ms / 1e3) if caught_up_ms > 0 else math.nan
        yield Sample("kaput_quorum_follower_lag_seconds", 0.0 if leads else age_s, at_ns, labels)
