"""Lag of groups, in records and in seconds: exact where it can be read, no false zero where it cannot."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from types import SimpleNamespace as Answer
from typing import Any

import pytest

from fakes import segments
from kaput.cluster.admin import requests
from kaput.cluster.admin.cluster_admin import PartitionState
from kaput.cluster.admin.groups import OFFSETS
from kaput.cluster.wire import Endpoint, Unanswered
from kaput.core import TopicPartition
from kaput.monitor.sources.answers import PolledView
from kaput.monitor.sources.groups import GroupLags, coordinator, offsets_job, offsets_of_logs
from kaput.monitor.sources.nodes import NodeJob

SECOND = 1_000_000_000
NOW = 1_700_000_000 * SECOND
ORDERS = TopicPartition("orders", 0)
RECORDS, SECONDS = "kaput_consumer_lag_records", "kaput_consumer_lag_seconds"


def batch(offset: int, ages_s: list[float], control: bool = False, transactional: bool = False) -> bytes:
    """A batch of records that were written so long before NOW."""
    times_ms = [int((NOW / 1e9 - age_s) * 1000) for age_s in ages_s]
    values = [b"v"] * len(ages_s)
    return segments.batch(offset, values, control=control, times_ms=times_ms, transactional=transactional)


class Broker:
    """Answers what a broker would: of `logs` it leads all, of `committed` it coordinates all."""

    def __init__(self) -> None:
        self.committed: dict[str, dict[TopicPartition, int]] = {}
        self.state = "Stable"
        self.batches: list[bytes] = []
        self.start, self.end = 0, 0
        self.leads = True
        self.aborted: list[Any] = []
        self.stable: int | None = None  # the last stable offset, if a transaction is open
        self.asked: list[str] = []

    def __call__(self, request: Any) -> Any:
        name = type(request).__name__
        self.asked.append(name)
        return getattr(self, name)(request)

    def ListGroupsRequest(self, request: Any) -> Any:
        groups = [
            Answer(group_id=group, protocol_type="consumer", group_state=self.state)
            for group in self.committed
        ]
        return Answer(error_code=0, groups=groups)

    def OffsetFetchRequest(self, request: Any) -> Any:
        def topics(group: str) -> list[Any]:
            return [
                Answer(
                    name=place.topic,
                    partitions=[
                        Answer(partition_index=place.partition, committed_offset=offset, error_code=0)
                    ],
                )
                for place, offset in self.committed[group].items()
            ]

        found = [
            Answer(group_id=each.group_id, error_code=0, topics=topics(each.group_id))
            for each in request.groups
        ]
        return Answer(groups=found)

    def ListOffsetsRequest(self, request: Any) -> Any:
        (topic,) = request.topics
        offset = self.end if topic.partitions[0].timestamp == -1 else self.start
        error = 0 if self.leads else 6
        return Answer(
            topics=[
                Answer(name="orders", partitions=[Answer(partition_index=0, error_code=error, offset=offset)])
            ]
        )

    def FetchRequest(self, request: Any) -> Any:
        wanted = request.topics[0].partitions[0]
        error = 0 if wanted.fetch_offset >= self.start else 1
        found = [
            each
            for each in self.batches
            if int.from_bytes(each[:8], "big") + int.from_bytes(each[23:27], "big") >= wanted.fetch_offset
        ]
        if request.isolation_level and self.stable is not None:
            found = [each for each in found if int.from_bytes(each[:8], "big") < self.stable]
        fits = [each for each in found if len(each) <= wanted.partition_max_bytes][:1]
        data = b"".join(fits) if not error else b""
        aborted = self.aborted if request.isolation_level else None
        partition = Answer(partition_index=0, error_code=error, records=data, aborted_transactions=aborted)
        return Answer(responses=[Answer(topic="orders", partitions=[partition])])


class OneNode:
    """Nodes with one broker, which may be away."""

    def __init__(self, broker: Broker) -> None:
        self.broker, self.away = broker, False

    def run(self, jobs: Mapping[Hashable, NodeJob]) -> dict[Hashable, Any]:
        found = {}
        for key, job in jobs.items():
            try:
                found[key] = self._asked(job)
            except Unanswered:
                continue
        return found

    def _asked(self, job: NodeJob) -> Any:
        if self.away:
            raise Unanswered("away")
        return job.work(self.broker)


class Cluster:
    """A broker, and what one poll of its groups finds."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.nodes = OneNode(self.broker)
        self.groups = GroupLags(self.nodes)  # type: ignore[arg-type]
        self.leader: int | None = 1
        self.topics = {ORDERS, TopicPartition(OFFSETS, 0)}
        self.topic_id = "first"

    def poll(self, at_ns: int = NOW) -> dict[tuple[str, ...], float]:
        states = {place: PartitionState(self.leader, [1], [1], 5) for place in self.topics}
        view = PolledView({1: Endpoint("h", 1)}, frozenset({1}), states, None, {"orders": self.topic_id})
        listed = self.nodes.run(
            {1: NodeJob(Endpoint("h", 1), lambda ask: self.broker.ListGroupsRequest(None))}
        )
        coordinated = self.groups.take_listing(view, listed)  # type: ignore[arg-type]
        jobs = {broker: offsets_job(view, broker, names) for broker, names in coordinated.items()}
        for broker, answer in self.nodes.run(jobs).items():  # type: ignore[arg-type]
            self.groups.take_offsets(coordinated[broker], answer)  # type: ignore[index]
        places = self.groups.places()
        ends = offsets_of_logs(self.nodes, view, places, requests.watermarks)  # type: ignore[arg-type]
        samples = list(self.groups.samples(view, ends, at_ns))
        return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


@pytest.fixture
def cluster() -> Cluster:
    """A log of ten records, the oldest 100 s old, then one each second."""
    found = Cluster()
    found.broker.batches = [batch(0, [100, 99, 98, 97, 96]), batch(5, [95, 94, 93, 92, 91])]
    found.broker.end = 10
    found.broker.committed = {"billing": {ORDERS: 7}}
    return found


def lag(found: dict[tuple[str, ...], float], group: str = "billing") -> tuple[float, float]:
    place = (group, "orders", "0")
    return found[RECORDS, *place], found[SECONDS, *place]


def unknown(found: dict[tuple[str, ...], float]) -> bool:
    return all(math.isnan(value) for value in lag(found))


def test_lag_seconds_is_age_of_first_uncommitted_record(cluster: Cluster) -> None:
    assert lag(cluster.poll()) == (3, pytest.approx(93))


def test_stalled_group_lag_grows_without_fetch_requests(cluster: Cluster) -> None:
    cluster.poll()
    cluster.broker.asked.clear()
    assert lag(cluster.poll(NOW + 60 * SECOND)) == (3, pytest.approx(153))
    assert "FetchRequest" not in cluster.broker.asked


def test_caught_up_group_has_zero_lag(cluster: Cluster) -> None:
    cluster.broker.committed["billing"][ORDERS] = 10
    assert lag(cluster.poll()) == (0, 0)
    assert "FetchRequest" not in cluster.broker.asked


def test_unreadable_log_end_offset_makes_lag_unknown(cluster: Cluster) -> None:
    """The leader changes, or there is none: the lag is unknown, also of a group that had none."""
    cluster.broker.committed["billing"][ORDERS] = 10
    assert lag(cluster.poll()) == (0, 0)
    cluster.broker.leads = False
    assert unknown(cluster.poll())
    cluster.broker.leads, cluster.leader = True, None
    assert unknown(cluster.poll())


def test_unreachable_coordinator_makes_lag_unknown(cluster: Cluster) -> None:
    """The group keeps its series, without values, until somebody knows it again."""
    cluster.poll()
    cluster.nodes.away = True
    found = cluster.poll()
    assert unknown(found) and math.isnan(found["kaput_group_rebalancing", "billing"])
    cluster.nodes.away = False
    assert lag(cluster.poll()) == (3, pytest.approx(93))


def test_unreadable_record_makes_lag_seconds_unknown(cluster: Cluster) -> None:
    cluster.broker.batches = []
    records, seconds = lag(cluster.poll())
    assert records == 3 and math.isnan(seconds)


def test_log_end_below_committed_offset_makes_lag_unknown(cluster: Cluster) -> None:
    """The log was truncated, or the topic was made anew."""
    cluster.broker.end = 5
    assert unknown(cluster.poll())


def test_deleted_records_are_not_counted_as_lag(cluster: Cluster) -> None:
    cluster.broker.committed["billing"][ORDERS] = 2
    cluster.broker.start = 5
    assert lag(cluster.poll()) == (5, pytest.approx(95))
    cluster.broker.start = 7
    assert lag(cluster.poll()) == (3, pytest.approx(93)), "the beginning moves on"
    cluster.broker.start = 10
    assert lag(cluster.poll()) == (0, 0)


def deleted(found: dict[tuple[str, ...], float]) -> float:
    return found["kaput_group_deleted_unread_records", "billing", "orders", "0"]


def stale(found: dict[tuple[str, ...], float]) -> float:
    return found["kaput_group_stale_position", "billing", "orders", "0"]


def test_records_that_were_deleted_before_the_group_read_them(cluster: Cluster) -> None:
    """As many as retention took; not known while the leader does not answer."""
    cluster.broker.committed["billing"][ORDERS] = 2
    assert deleted(cluster.poll()) == 0
    cluster.broker.start = 5
    assert deleted(cluster.poll()) == 3
    cluster.broker.start = 10
    assert deleted(cluster.poll()) == 8
    cluster.broker.leads = False
    assert math.isnan(deleted(cluster.poll()))
    cluster.broker.leads, cluster.broker.committed = True, {"billing": {ORDERS: 10}}
    assert deleted(cluster.poll()) == 0


def test_position_of_an_earlier_topic_is_stale(cluster: Cluster) -> None:
    """Beyond the new topic's end, and after that, too; until the group commits in the new one."""
    assert stale(cluster.poll()) == 0
    cluster.topic_id, cluster.broker.end = "second", 5
    assert stale(cluster.poll()) == 1
    cluster.broker.end = 10
    assert stale(cluster.poll()) == 1
    cluster.broker.committed["billing"][ORDERS] = 8
    assert stale(cluster.poll()) == 0
    cluster.broker.leads = False
    assert math.isnan(stale(cluster.poll()))


def test_transaction_marker_adds_no_lag(cluster: Cluster) -> None:
    cluster.broker.batches.append(batch(10, [50], control=True))
    cluster.broker.end = 11
    cluster.broker.committed["billing"][ORDERS] = 10
    assert lag(cluster.poll()) == (0, 0), "nothing is left to read"
    cluster.broker.batches.append(batch(11, [40]))
    cluster.broker.end = 12
    cluster.broker.committed = {"other": {ORDERS: 10}}
    assert lag(cluster.poll(), "other") == (2, pytest.approx(40))


def test_records_of_an_aborted_transaction_add_no_lag(cluster: Cluster) -> None:
    """A client commits what it was handed, so its group stays before them for ever. While the transaction is
    open they count; what was committed after it does, too.
    """
    cluster.broker.batches.append(batch(10, [50, 49], transactional=True))
    cluster.broker.end, cluster.broker.stable = 12, 10
    cluster.broker.committed["billing"][ORDERS] = 10
    assert lag(cluster.poll()) == (2, pytest.approx(50))
    cluster.broker.batches.append(batch(12, [40], control=True))
    cluster.broker.end, cluster.broker.stable = 13, None
    cluster.broker.aborted = [Answer(first_offset=10, producer_id=-1)]  # of the batches here
    assert lag(cluster.poll()) == (0, 0)
    cluster.broker.batches.append(batch(13, [30]))
    cluster.broker.end = 14
    assert lag(cluster.poll()) == (4, pytest.approx(30))


def test_compacted_offset_lag_counts_from_next_record(cluster: Cluster) -> None:
    cluster.broker.batches = [batch(8, [20, 10])]
    assert lag(cluster.poll()) == (3, pytest.approx(20))


def test_future_record_timestamp_is_still_lag(cluster: Cluster) -> None:
    cluster.broker.batches = [batch(7, [-500, -500, -500])]
    records, seconds = lag(cluster.poll())
    assert records == 3 and 0 < seconds < 1


def test_two_groups_at_different_offsets_of_a_partition(cluster: Cluster) -> None:
    cluster.broker.committed["audit"] = {ORDERS: 1}
    found = cluster.poll()
    assert lag(found) == (3, pytest.approx(93)) and lag(found, "audit") == (9, pytest.approx(99))


def test_deleted_groups_and_topics_are_not_reported(cluster: Cluster) -> None:
    cluster.poll()
    cluster.topics.remove(ORDERS)
    assert set(cluster.poll()) == {("kaput_group_rebalancing", "billing")}
    cluster.broker.committed = {}
    assert cluster.poll() == {}


@pytest.mark.parametrize(
    ("state", "wanted"),
    [("Stable", 0), ("Empty", 0), ("PreparingRebalance", 1), ("CompletingRebalance", 1), ("Reconciling", 1)],
)
def test_group_rebalancing_by_group_state(cluster: Cluster, state: str, wanted: float) -> None:
    cluster.broker.state = state
    assert cluster.poll()["kaput_group_rebalancing", "billing"] == wanted


def test_coordinator_is_leader_of_the_offsets_partition() -> None:
    states = {TopicPartition(OFFSETS, n): PartitionState(n, [n], [n]) for n in range(50)}
    assert coordinator(states, "a") == 97 % 50
    states[TopicPartition(OFFSETS, 47)] = PartitionState(None, [1], [])
    assert coordinator(states, "a") == -1
    assert coordinator({}, "a") is None
