"""What the answers of a cluster's nodes show: which brokers are alive, the newest state of each partition,
and the signals that follow. All pure functions, but for the handshake at the end.
"""

from __future__ import annotations

import math
import socket
import ssl
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from cryptography import x509

from kaput.cluster.access import Access
from kaput.cluster.admin import requests
from kaput.cluster.admin.cluster_admin import PartitionState, newest
from kaput.cluster.wire import Endpoint, Unanswered
from kaput.core import TopicPartition
from kaput.monitor.signals import Sample
from kaput.monitor.sources.nodes import Ask, Unsupported


@dataclass(frozen=True)
class PolledView:
    """The cluster at one time. `alive`: brokers that are registered and not fenced; `named`: all brokers
    named anywhere, including dead ones that have replicas. A broker that was cut off still names brokers and
    topics that are gone, and old leaders: the majority of the answers decides what exists, the highest leader
    epoch its state.
    """

    alive: Mapping[int, Endpoint]
    named: frozenset[int]
    partitions: Mapping[TopicPartition, PartitionState]
    controller: int | None  # in ZooKeeper mode; in KRaft mode brokers name any broker
    topic_ids: Mapping[str, Any] = field(default_factory=dict)  # a recreated topic has another one


def view_of(answers: Mapping[Endpoint, Any], access: Access) -> PolledView:
    """The merged view of these metadata answers for all topics."""
    most = len(answers) / 2
    brokers = Counter((b.node_id, b.host, b.port) for answer in answers.values() for b in answer.brokers)
    topics = Counter(topic.name for answer in answers.values() for topic in answer.topics)
    controllers = Counter(answer.controller_id for answer in answers.values())
    alive = {
        node: Endpoint(host, port, access)
        for (node, host, port), times in sorted(brokers.items())
        if times > most
    }
    by_address = {(b.host, b.port): b.node_id for answer in answers.values() for b in answer.brokers}
    # By broker, if known: among states of the same epoch, the leader's own counts.
    views = {
        by_address.get(endpoint.address, -2 - n): each for n, (endpoint, each) in enumerate(answers.items())
    }
    partitions = {place: state for place, state in newest(views, []).items() if topics[place.topic] > most}
    named = {broker for state in partitions.values() for broker in state.replicas}
    ids = Counter((topic.name, topic.topic_id) for answer in answers.values() for topic in answer.topics)
    controller, times = controllers.most_common(1)[0]
    return PolledView(
        alive,
        frozenset(named | set(alive)),
        partitions,
        int(controller) if controller >= 0 and times > most else None,
        {name: topic_id for (name, topic_id), times in ids.items() if times > most},
    )


_NO_LEADER = -1
Reassigning = Mapping[TopicPartition, frozenset[int]]


def broker_samples(view: PolledView, known: Iterable[int], at_ns: int) -> Iterator[Sample]:
    """For each current or known broker, whether it is up."""
    for broker in sorted({*known, *view.named}):
        yield Sample("kaput_broker_up", float(broker in view.alive), at_ns, {"broker": str(broker)})


def partition_samples(
    view: PolledView, min_isrs: Mapping[str, int], moving: Reassigning | None, at_ns: int
) -> Iterator[Sample]:
    """`moving`: the replicas being added to reassigning partitions; None: unknown."""
    states = view.partitions
    yield Sample("kaput_offline_partitions", sum(one.leader is None for one in states.values()), at_ns)
    yield Sample("kaput_under_min_isr_partitions", _under_min_isr(states, min_isrs), at_ns)
    lagging = Counter(
        _NO_LEADER if state.leader is None else state.leader
        for place, state in states.items()
        if _out_of_sync(state, (moving or {}).get(place, frozenset()))
    )
    for broker in sorted({_NO_LEADER, *view.named, *lagging}):
        labels = {"broker": str(broker)}
        yield Sample("kaput_under_replicated_partitions", lagging[broker], at_ns, labels)
    out_of_sync = Counter(
        broker
        for place, state in states.items()
        for broker in _out_of_sync(state, (moving or {}).get(place, frozenset()))
    )
    for broker in sorted({*view.named, *out_of_sync}):
        yield Sample("kaput_out_of_sync_replicas", out_of_sync[broker], at_ns, {"broker": str(broker)})
    yield Sample("kaput_reassigning_partitions", math.nan if moving is None else len(moving), at_ns)
    yield from _spare_samples(states, min_isrs, at_ns)


def _out_of_sync(state: PartitionState, adding: frozenset[int]) -> set[int]:
    """The brokers whose replicas are not in sync, without those being added."""
    return set(state.replicas) - set(state.isr) - adding


def _under_min_isr(states: Mapping[TopicPartition, PartitionState], min_isrs: Mapping[str, int]) -> float:
    if any(place.topic not in min_isrs for place in states):
        return math.nan
    # Brokers require no more replicas than there are.
    required = {place: min(min_isrs[place.topic], len(state.replicas)) for place, state in states.items()}
    return sum(len(state.isr) < required[place] for place, state in states.items())


def _spare_samples(
    states: Mapping[TopicPartition, PartitionState], min_isrs: Mapping[str, int], at_ns: int
) -> Iterator[Sample]:
    """For each topic, by the partition with the fewest replicas."""
    factors: dict[str, int] = {}
    for (topic, _), state in states.items():
        factors[topic] = min(factors.get(topic, len(state.replicas)), len(state.replicas))
    for topic, factor in sorted(factors.items()):
        spare = max(factor - min_isrs[topic], 0) if topic in min_isrs else math.nan
        yield Sample("kaput_spare_replicas", spare, at_ns, {"topic": topic})


class Elections:
    """Counts unclean elections between two views. Seen from outside, an election was unclean if the new
    leader was not in the last seen ISR and no replica of that ISR is in sync now. Does not see what began and
    ended between two polls, nor an unclean election after which an old replica was back in the ISR by the
    next poll.
    """

    def __init__(self) -> None:
        self.unclean = 0
        self._seen: dict[TopicPartition, PartitionState] = {}

    def look(self, partitions: Mapping[TopicPartition, PartitionState]) -> None:
        """Compares with the last view of each partition; forgets partitions that are gone."""
        for place, state in partitions.items():
            before = self._seen.get(place)
            self.unclean += before is not None and _was_unclean(before, state)
        self._seen = {place: _not_stale(self._seen.get(place), state) for place, state in partitions.items()}


def _was_unclean(before: PartitionState, now: PartitionState) -> bool:
    return (
        now.leader_epoch > before.leader_epoch
        and now.leader is not None
        and now.leader in before.replicas
        and bool(before.isr)  # if the ISR was empty, electing an eligible leader (ELR) is clean
        and not set(before.isr) & {now.leader, *now.isr}
    )


def _not_stale(before: PartitionState | None, now: PartitionState) -> PartitionState:
    """Lagging brokers may have answered. A new topic of the same name begins at epoch 0."""
    if before is None or now.leader_epoch >= before.leader_epoch or now.leader_epoch == 0:
        return now
    return before


# The metadata quorum is taken from the answers of all controllers that consider themselves its leader. A
# broker forwards the request to the controller it knows, which may take half a minute to change after a
# controller was cut off; from Kafka 3.9 on the answer has the controllers' addresses, and they are queried
# too. If they are unreachable, two active controllers are seen only if brokers know different ones.


def describe_quorum(ask: Ask) -> Any:
    try:
        return ask(requests.describe_quorum(2))
    except Unsupported:
        return ask(requests.describe_quorum(1))


def quorum_controllers(answers: Iterable[Any], access: Access) -> dict[int, Endpoint]:
    """The controllers' endpoints by id, as far as the answers have them."""
    return {
        node.node_id: Endpoint(node.listeners[0].host, node.listeners[0].port, access)
        for answer in answers
        for node in getattr(answer, "nodes", None) or ()
        if node.listeners
    }


def quorum_leaders(answers: Iterable[Any]) -> dict[int, Any]:
    """By id, each active controller's view of the quorum."""
    by_broker: dict[int, Any] = {}
    for answer in answers:
        if answer.error_code or not answer.topics:
            continue
        state = answer.topics[0].partitions[0]
        if not state.error_code and state.leader_id >= 0:
            newer = (
                state.leader_id not in by_broker
                or state.leader_epoch >= by_broker[state.leader_id].leader_epoch
            )
            if newer:
                by_broker[state.leader_id] = state
    return by_broker


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


_STORAGE_ERROR = 56  # KAFKA_STORAGE_ERROR: the directory is offline


def volume_samples(broker: int, answer: Any | None, at_ns: int) -> Iterator[Sample]:
    """Signals of a broker's log directories, from DescribeLogDirs; None if the broker did not answer."""
    labels = {"broker": str(broker)}
    known = answer is not None and not answer.error_code
    dirs = list(answer.results) if answer is not None and known else []
    offline = sum(each.error_code == _STORAGE_ERROR for each in dirs)
    yield Sample("kaput_log_dirs_offline", offline if known else math.nan, at_ns, labels)
    ratios = [1 - d.usable_bytes / d.total_bytes for d in dirs if not d.error_code and d.total_bytes > 0]
    yield Sample("kaput_log_dir_used_ratio", max(ratios, default=math.nan), at_ns, labels)


def valid_until(endpoint: Endpoint, timeout_s: float) -> float:
    """When the certificate that a listener presents expires, in seconds since the epoch: a TLS handshake, and
    nothing after it. Does not verify it: one that has expired or is untrusted has an expiry date too. Raises
    Unanswered.
    """
    try:
        with closing(socket.create_connection(endpoint.address, timeout_s)) as opened:
            opened.settimeout(timeout_s)
            with _unchecked(endpoint).wrap_socket(opened, server_hostname=endpoint.host) as talking:
                data = talking.getpeercert(binary_form=True)
    except OSError as error:
        raise Unanswered(f"{endpoint.host}:{endpoint.port}: {error}") from None
    if data is None:
        raise Unanswered(f"{endpoint.host}:{endpoint.port}: it presents no certificate")
    return x509.load_der_x509_certificate(data).not_valid_after_utc.timestamp()


def _unchecked(endpoint: Endpoint) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    given = endpoint.access.properties.get
    if own := given("ssl.keystore.location"):
        context.load_cert_chain(own, password=given("ssl.key.password"))
    return context
