"""Reassignments applied, killed anywhere, resumed, turned round: on a cluster in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from fakes.reassigned import FakeCluster, Killed
from kaput.cluster.admin import PartitionState
from kaput.cluster.admin.reassignments import ClusterView
from kaput.cluster.admin.requests import THROTTLED_RATES as RATES
from kaput.cluster.admin.requests import THROTTLED_REPLICAS as REPLICAS
from kaput.cluster.placement import Goal
from kaput.core import TopicPartition
from kaput.errors import LabError, UsageError
from kaput.operate.reassign import applying
from kaput.operate.reassign import moves as planning
from kaput.operate.reassign.applying import MoveProgress, Outcome, apply, begin
from kaput.operate.reassign.journal import Folder, MoveJournal
from kaput.operate.reassign.moves import Move, read_kafka_json, to_kafka_json

ORDERS = {("orders", number): (1,) for number in range(4)}
RATE = 1000


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time does not pass here."""
    monkeypatch.setattr(applying, "POLL_S", 0)


def to_three(cluster: FakeCluster) -> list[Move]:
    """The plan for three replicas of everything."""
    view = cluster.view()
    return planning.plan_moves(view, cluster.sizes(view.partitions), None, Goal(factor=3))


def started(cluster: FakeCluster, folder: Folder, throttle: int | None = RATE, in_flight: int = 2) -> None:
    begin(cluster, folder, "cluster-1", to_three(cluster), throttle, in_flight)


def run(
    cluster: FakeCluster, folder: Folder, tell: Callable[[MoveProgress], None] = lambda progress: None
) -> Outcome:
    """What is in the journal, to its end."""
    journal = folder.read("cluster-1")
    assert journal is not None
    return apply(cluster, folder, journal, tell)


def test_all_partitions_get_three_replicas(tmp_path: Path) -> None:
    """Two at a time, under a throttle that is gone at the end, led by those who are to lead."""
    cluster, folder = FakeCluster(ORDERS), Folder(tmp_path)
    told: list[MoveProgress] = []
    started(cluster, folder)
    outcome = run(cluster, folder, told.append)
    assert {frozenset(each) for each in cluster.replicas.values()} == {frozenset((1, 2, 3))}
    assert (outcome.moved, cluster.copied) == (4, 800)
    assert cluster.most_at_a_time == 2 and cluster.unthrottled == []
    assert cluster.set == {"broker": {}, "topic": {}}
    assert sorted(cluster.leaders.values()) == sorted(each[0] for each in cluster.replicas.values())
    assert len(set(cluster.leaders.values())) == 3
    assert folder.read("cluster-1") is None
    copied = [progress.copied for progress in told]
    assert copied == sorted(copied) and copied[-1] == told[-1].of_bytes == 800


def test_throttle_is_removed_from_copied_partitions(tmp_path: Path) -> None:
    """A replica that is in sync must not wait for the copies of others."""
    cluster, folder = FakeCluster(ORDERS), Folder(tmp_path)
    started(cluster, folder)
    rounds = []

    def look(progress: MoveProgress) -> None:
        rounds.append(len(cluster.held()))
        assert cluster.held() <= set(ORDERS) and len(cluster.held()) <= 2
        if progress.partitions < progress.of_partitions:
            assert set(cluster.targets) <= cluster.held()

    run(cluster, folder, look)
    assert max(rounds) == 2 and cluster.held() == set()


def test_kill_at_any_call_is_resumable(tmp_path: Path) -> None:
    """At every single call to the cluster: then nothing is copied twice, and nothing of it is left."""
    calm = FakeCluster(ORDERS)
    started(calm, Folder(tmp_path / "calm"))
    run(calm, Folder(tmp_path / "calm"))
    killed = 0
    for call in range(1, calm.calls + 1):
        cluster, folder = FakeCluster(ORDERS), Folder(tmp_path / str(call))
        cluster.set["topic"]["orders"] = {REPLICAS[0]: "9:9", "retention.ms": "5"}
        cluster.set["broker"]["2"] = {RATES[1]: "77"}
        before = json.dumps(cluster.set, sort_keys=True)
        cluster.kill_at = call
        try:
            started(cluster, folder)
            run(cluster, folder)
        except Killed:
            killed += 1
            if folder.read("cluster-1") is None and cluster.replicas != calm.replicas:
                started(cluster, folder)  # before anything was written down nothing was done
            if folder.read("cluster-1") is not None:
                run(cluster, folder)
        assert cluster.replicas == calm.replicas and cluster.leaders == calm.leaders, call
        assert json.dumps(cluster.set, sort_keys=True) == before, call
        assert (cluster.copied, cluster.targets, folder.read("cluster-1")) == (800, {}, None), call
    assert killed > 20


def test_nothing_is_applied_before_it_is_written_down(tmp_path: Path) -> None:
    """Neither a throttle nor a move."""
    cluster, folder = FakeCluster(ORDERS), Folder(tmp_path)
    started(cluster, folder)
    assert cluster.set == {"broker": {}, "topic": {}} and cluster.targets == {}
    journal = folder.read("cluster-1")
    assert journal is not None
    of, before = read_kafka_json(Path(journal.rollback))
    assert (of, before) == ("cluster-1", {place: [1] for place in ORDERS})


def test_without_a_throttle_none_is_set(tmp_path: Path) -> None:
    """Not even for a moment."""
    cluster, folder = FakeCluster(ORDERS), Folder(tmp_path)
    started(cluster, folder, throttle=None)
    run(cluster, folder)
    assert set(cluster.unthrottled) == set(ORDERS)


def test_rollback_restores_replicas_and_throttles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the end, and half-way: then what is under way turns round; the throttles of before are known."""
    monkeypatch.setattr(applying, "STALL_TIMEOUT_S", 2.0)
    for calls in (0, 12):
        cluster, folder = FakeCluster(ORDERS), Folder(tmp_path / str(calls))
        started(cluster, folder)
        journal = folder.read("cluster-1")
        assert journal is not None
        cluster.kill_at = cluster.calls + calls if calls else None
        with pytest.raises(Killed) if calls else nullcontext():
            run(cluster, folder)
        assert bool(cluster.targets and cluster.set["broker"]) is (calls > 0)
        cluster.stuck |= set(ORDERS)  # nothing of what it undoes is waited for
        of, wanted = read_kafka_json(Path(journal.rollback))
        moves = planning.rollback(cluster.view(), {}, wanted, of)
        begin(cluster, folder, "cluster-1", moves, RATE, 2)
        run(cluster, folder)
        assert cluster.replicas == ORDERS and cluster.set == {"broker": {}, "topic": {}}
        assert folder.read("cluster-1") is None


def test_partitions_changed_by_others_are_left_alone(tmp_path: Path) -> None:
    """And said: a topic that was deleted, a partition that another one moved."""
    cluster, folder = FakeCluster({**ORDERS, ("gone", 0): (1,)}), Folder(tmp_path)
    started(cluster, folder)
    del cluster.replicas[("gone", 0)]
    cluster.replicas[("orders", 3)] = (1, 4)
    outcome = run(cluster, folder)
    assert outcome.left_alone == [
        "gone/0 was deleted meanwhile",
        "orders/3 has replicas 1, 4, neither the old nor the planned ones: not changed",
    ]
    assert outcome.moved == 3 and cluster.replicas[("orders", 3)] == (1, 4)


def test_stalled_reassignment_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After five minutes without a byte; the journal stays."""
    monkeypatch.setattr(applying, "STALL_TIMEOUT_S", -1.0)
    cluster, folder = FakeCluster(ORDERS), Folder(tmp_path)
    started(cluster, folder)
    cluster.stuck |= set(ORDERS)
    with pytest.raises(LabError, match=r"4 partitions are left.*brokers to copy it to.*--resume continues"):
        run(cluster, folder)
    assert folder.read("cluster-1") is not None


def test_rejected_move_is_not_retried_forever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a minute, and with what the controller has against it."""
    monkeypatch.setattr(applying, "REFUSED_TIMEOUT_S", -1.0)
    cluster, folder = FakeCluster(ORDERS), Folder(tmp_path)
    started(cluster, folder, in_flight=9)
    cluster.refuses |= dict.fromkeys(ORDERS, "PolicyViolationError")
    with pytest.raises(LabError, match=r"rejected: PolicyViolationError"):
        run(cluster, folder)


def test_journal_is_kept_while_a_throttled_broker_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its throttle can be taken off only when it is back; who will not wait can say so."""
    monkeypatch.setattr(applying, "VERIFY_TIMEOUT_S", -1.0)
    cluster, folder = FakeCluster(ORDERS), Folder(tmp_path)
    started(cluster, folder)

    def dies(progress: MoveProgress) -> None:
        if progress.partitions == progress.of_partitions:
            cluster.down = {3}

    with pytest.raises(LabError, match=r"broker 3 is down.*--allow-offline ignores it"):
        run(cluster, folder, dies)
    assert list(cluster.set["broker"]) == ["3"]
    cluster.down = set()
    run(cluster, folder)
    assert cluster.set == {"broker": {}, "topic": {}} and folder.read("cluster-1") is None


def test_stale_broker_metadata_is_waited_for(tmp_path: Path) -> None:
    """Metadata reach brokers one after the other: what one says last may be old."""
    cluster, folder = FakeCluster({("orders", 0): (1,)}), Folder(tmp_path)
    started(cluster, folder)

    def lags(progress: MoveProgress) -> None:
        cluster.stale_looks = 7 * (progress.partitions == progress.of_partitions)

    run(cluster, folder, lags)
    assert cluster.stale_looks == 0
    assert folder.read("cluster-1") is None


def test_concurrent_reassignment_is_refused(tmp_path: Path) -> None:
    """The second is told so; one after the other is fine."""
    folder = Folder(tmp_path)
    with folder.locked("cluster-1"):
        with (
            pytest.raises(UsageError, match="another kaput is reassigning"),
            Folder(tmp_path).locked("cluster-1"),
        ):
            pass
        with Folder(tmp_path).locked("cluster-2"):
            pass
    with folder.locked("cluster-1"):
        pass


def test_a_file_that_is_no_journal_is_named(tmp_path: Path) -> None:
    for text in ("", "[]", "{}", '{"schema": "kaput.reassignment/9"}', '{"schema": "kaput.reassignment/1"}'):
        (tmp_path / "c.json").write_text(text)
        with pytest.raises(UsageError, match=r"c\.json"):
            Folder(tmp_path).read("c")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"in_flight": "many"}, "in_flight: input should be a valid integer"),
        ({"later": 1}, "later: unknown"),
        (
            {"moves": [{"topic": "a", "partition": 0, "before": [1], "after": [2], "to": 3}]},
            "moves.0.to: unknown",
        ),
        ({"moves": [{"topic": "a", "partition": 0, "before": [1]}]}, "moves.0.after: field required"),
    ],
)
def test_a_journal_with_a_mistake_names_its_first(change: dict[str, Any], text: str, tmp_path: Path) -> None:
    """In one line; a key that this version does not know is one, too."""
    folder = Folder(tmp_path)
    folder.write(MoveJournal("c", [Move("a", 0, (1,), (2,))], None, 1, {}, {}, "old.json"))
    assert folder.read("c") is not None
    path = folder.path("c")
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(UsageError) as raised:
        folder.read("c")
    assert str(raised.value).startswith(f"{path}: not a journal of kaput reassign: {text}")
    assert "\n" not in str(raised.value) and "http" not in str(raised.value)


def down() -> ClusterView:
    """Broker 3 is not there, and no leader for orders/1."""
    return ClusterView(
        "cluster-1",
        {1: None, 2: None},
        {("orders", 0): PartitionState(1, (1, 3), (1,)), ("orders", 1): PartitionState(None, (3,), (3,))},
    )


def test_nothing_moves_while_a_broker_is_down() -> None:
    """Unless told; and what nobody leads is never moved, since nobody could be asked for it."""
    with pytest.raises(UsageError, match=r"broker 3 is down.*no leader for orders/1.*--allow-offline"):
        planning.refuse_offline(down())
    moves = planning.plan_moves(down(), {}, None, Goal(factor=2))
    assert [move.topic_partition for move in planning.without_leaderless(down(), moves)] == []
    assert planning.offline(FakeCluster(ORDERS).view()) == []


def test_unknown_topic_or_broker_is_named() -> None:
    view = FakeCluster(ORDERS).view()
    with pytest.raises(UsageError, match=r"no topic order; .*orders"):
        planning.plan_moves(view, {}, ["order"], Goal(factor=3))
    with pytest.raises(UsageError, match=r"no broker 9: brokers are 1, 2, 3"):
        planning.plan_moves(view, {}, None, Goal(away_from=frozenset({9})))


def test_a_file_of_another_cluster_is_refused() -> None:
    """And one that names what is not there."""
    view = FakeCluster(ORDERS).view()
    with pytest.raises(UsageError, match="the file is for cluster other, but this is cluster cluster-1"):
        planning.rollback(view, {}, {("orders", 0): [1]}, "other")
    with pytest.raises(UsageError, match="the file names bills/0, which does not exist"):
        planning.rollback(view, {}, {TopicPartition("bills", 0): [1]}, None)
    with pytest.raises(UsageError, match="replicas on broker 7"):
        planning.rollback(view, {}, {("orders", 0): [1, 7]}, None)
    assert planning.rollback(view, {}, {("orders", 0): [1]}, "cluster-1") == []


def test_kafka_reassignment_json_is_read_and_written(tmp_path: Path) -> None:
    """Also without our id; with a sentence about what it is not."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(to_kafka_json([(("orders", 0), (2, 1))], "c")))
    assert read_kafka_json(path) == ("c", {("orders", 0): [2, 1]})
    path.write_text(
        '{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1],"log_dirs":["any"]}]}'
    )
    assert read_kafka_json(path) == (None, {("a", 0): [1]})
    of_kafka = "not a file from kafka-reassign-partitions"
    for text, place in (
        ("", ":1:1"),
        ("[]", ""),
        ('{"partitions": [{"topic": "a"}]}', ""),
        ('{\n"a": ]', ":2:6"),
    ):
        path.write_text(text)
        with pytest.raises(UsageError, match=rf"plan\.json{place}: {of_kafka}"):
            read_kafka_json(path)
    path.write_text('{"partitions":[{"topic":"a","partition":0,"replicas":[1,1]}]}')
    with pytest.raises(UsageError, match="a/0 has no replicas, or the same one twice"):
        read_kafka_json(path)
    with pytest.raises(UsageError, match="no such file"):
        read_kafka_json(tmp_path / "nowhere")


def test_move_size_is_the_leaders_log_size() -> None:
    """Times the replicas that are copied."""
    view = ClusterView("c", dict.fromkeys((1, 2, 3)), {("orders", 0): PartitionState(2, (1, 2), (1, 2))})
    sizes = {(("orders", 0), 1): 50, (("orders", 0), 2): 70}
    (move,) = planning.plan_moves(view, sizes, None, Goal(factor=3))
    assert (move.adding, move.size, move.copied) == ((3,), 70, 70)


def test_running_reassignment_is_not_reported_as_interrupted(tmp_path: Path) -> None:
    """The journal is there in both cases; the lock tells."""
    folder = Folder(tmp_path)
    assert not folder.busy("cluster-1")
    started(FakeCluster(ORDERS), folder)
    with folder.locked("cluster-1"):
        assert folder.busy("cluster-1") and not folder.busy("cluster-2")
    assert not folder.busy("cluster-1") and folder.read("cluster-1") is not None
