"""Last stable offsets that stood still: which were too long, whose timeout counts, and when none does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakes.histories import History, at
from fakes.judging import judged
from kaput.evidence.findings import Findings
from kaput.scenario.producers import partition_of

TEN_SECONDS = {"transaction.timeout.ms": 10_000}


def paid(**transactional: Any) -> History:
    """A message of a transaction that was committed, and the first one of another, which is not."""
    spec = {"topic": "orders", "transactions": {"size": 2}} | transactional
    history = History(producers=[spec])
    return history.acked(0, 0, 0).transaction(0, 0, 0).hidden(0, 1, 2).transaction(1, 1, 1, "unknown")


def hanging(findings: Findings) -> tuple[int, int, str]:
    """How many there are, how many are permitted, and the verdict."""
    (found,) = findings.anomaly("hanging-transaction")
    assert len(found.examples) == found.count
    return found.count, found.permitted, findings.verdict


def test_non_transactional_producer_timeout_is_ignored(tmp_path: Path) -> None:
    """10 s is what the only transactional one asks for; the other one's minute is nobody's."""
    history = paid(config=TEN_SECONDS).stable(2, 5, 0).stable(2, 5, 50_000)
    history.producers.append({"topic": "orders"})
    assert hanging(judged(history, tmp_path)) == (1, 0, "violated")


def test_producer_with_recorded_transactions_is_transactional(tmp_path: Path) -> None:
    """Though the scenario does not say so, as that of a client of one's own may not."""
    history = paid(transactions=None, config=TEN_SECONDS).stable(2, 5, 0).stable(2, 5, 50_000)
    history.producers.append({"topic": "orders"})
    assert hanging(judged(history, tmp_path)) == (1, 0, "violated")


def test_a_pipe_has_a_timeout_as_well(tmp_path: Path) -> None:
    """Of a pipe and a plain producer the pipe's own is the longest that any transaction may take."""
    history = History(topics=[{"name": "orders"}, {"name": "bills"}], groups={"billing": True})
    history.blocks["billing"] = {"produces": {"topic": "bills", "config": TEN_SECONDS}}
    history.subscriptions["billing"] = ["orders"]
    history.stable(2, 5, 0, topic="bills").stable(2, 5, 50_000, topic="bills")
    assert hanging(judged(history.acked(0, 0, 0).handed(0, 0, 0, 5), tmp_path))[:2] == (1, 0)


@pytest.mark.parametrize("dip", [(2, 2), (2, 1), (1, 1)])
def test_high_watermark_dip_does_not_end_an_lso_stall(dip: tuple[int, int], tmp_path: Path) -> None:
    """A new leader knows of less at first, and the last stable offset is never above what it knows of."""
    history = paid().stable(2, 5, 0).stable(2, 5, 80_000).stable(*dip, 90_000)
    history.stable(2, 5, 100_000).stable(2, 5, 180_000).stable(6, 6, 181_000)
    findings = judged(history, tmp_path)
    assert hanging(findings) == (1, 0, "violated")
    assert findings.transactions is not None
    assert findings.transactions.longest_standstill_ms == 180_000


def test_longest_lso_stall_of_all_partitions_is_shown(tmp_path: Path) -> None:
    """Not that of the last partition."""
    history = paid().stable(2, 5, 0).stable(2, 5, 50_000)
    history.topics[0]["partitions"] = 2
    history.stable(2, 5, 0, partition="1").stable(2, 5, 20_000, partition="1")
    shown = judged(history, tmp_path).transactions
    assert shown is not None
    assert (shown.longest_standstill_ms, shown.standstill_topic, shown.standstill_partition) == (
        *(50_000, "orders"),
        0,
    )


def test_interrupted_lso_stall_is_one_stall(tmp_path: Path) -> None:
    """Neither of them would have been too long."""
    history = paid().stable(2, 5, 0).stable(2, 5, 40_000).stable(2, 2, 41_000).stable(2, 5, 80_000)
    assert hanging(judged(history, tmp_path)) == (1, 0, "violated")


def test_lso_seen_again_after_a_stale_sample_counts_once(tmp_path: Path) -> None:
    """A deposed leader may answer with what it knows."""
    history = paid().stable(2, 5, 0).stable(2, 5, 80_000).stable(1, 5, 90_000)
    history.stable(2, 5, 100_000).stable(2, 5, 190_000)
    assert hanging(judged(history, tmp_path)) == (1, 0, "violated")


def stood(history: History, ms: float = 90_000) -> History:
    """A last stable offset that stood still for so long, in the middle of which nothing else was seen."""
    return history.stable(2, 5, 0).stable(2, 5, ms)


def unfenced(history: History, ms: float) -> History:
    """Broker 1 has registered again."""
    return history.add("cluster_events", kind="unfenced", broker=1, at_ns=at(ms), source="history")


def test_coordinator_downtime_is_not_a_hang(tmp_path: Path) -> None:
    """The fault's target says whose coordinator it hit; what is left of the time is less than a minute."""
    target = "transaction-coordinator-of producer 0"
    history = stood(paid()).fault(1, 1_000, 71_000, target=target)
    assert hanging(judged(history, tmp_path / "down")) == (0, 0, "held")
    history = stood(paid(), 140_000).fault(1, 1_000, 71_000, target=target)
    assert hanging(judged(history, tmp_path / "up"))[:2] == (1, 1)
    history = unfenced(stood(paid(), 160_000).fault(1, 1_000, 71_000, target=target), 71_000)
    assert hanging(judged(history, tmp_path / "late")) == (1, 0, "violated")


def test_unknown_coordinator_may_have_been_down(tmp_path: Path) -> None:
    """Some broker was down for so long; whether it mattered nobody can tell."""
    findings = judged(stood(paid()).fault(1, 1_000, 71_000), tmp_path / "perhaps")
    assert hanging(findings) == (1, 0, "inconclusive")
    assert "whether it kept the transaction's coordinator down for so long is not known" in " ".join(
        findings.reasons
    )
    history = unfenced(stood(paid()).fault(1, 1_000, 11_000), 12_000)
    assert hanging(judged(history, tmp_path / "not for long")) == (1, 0, "violated")


def test_broker_that_is_not_known_to_be_back_may_be_down_until_the_end(tmp_path: Path) -> None:
    """A run that was interrupted has no record of the cluster: brokers were fenced for two minutes more."""
    findings = judged(stood(paid()).fault(1, 1_000, 11_000), tmp_path / "ended")
    assert hanging(findings) == (1, 0, "inconclusive")
    assert hanging(judged(stood(paid()).fault(1, 1_000, 11_000, fault="pause"), tmp_path / "frozen")) == (
        *(1, 0),
        "violated",
    )


@pytest.mark.parametrize("started", [True, False])
def test_each_broker_of_a_fault_is_back_once_it_is_unfenced(started: bool, tmp_path: Path) -> None:
    """Broker 1 registers before broker 2, the last one of the fault, is started."""
    history = stood(paid(), 110_000).fault(1, 1_000, 20_000)
    history.rows["faults"][0].update(brokers=[1, 2], heal_began_ns=at(17_000))
    for broker, started_ms, ms in ((1, 18_000, 19_000), (2, 20_000, 22_000)):
        row = {"broker": broker, "source": "history"}
        if started:
            history.add("cluster_events", kind="started", at_ns=at(started_ms), **row)
        history.add("cluster_events", kind="unfenced", at_ns=at(ms), **row)
    assert hanging(judged(history, tmp_path)) == (1, 0, "violated")


def test_other_producers_coordinator_may_be_shared(tmp_path: Path) -> None:
    """Two producers may have one coordinator or two."""
    history = paid()
    history.producers.append({"topic": "orders", "transactions": {"size": 2}})
    stood(history).fault(1, 1_000, 71_000, target="transaction-coordinator-of producer 1")
    assert hanging(judged(history, tmp_path)) == (1, 0, "inconclusive")


def state(history: History, leader: int, ms: float, isr: list[int] | None = None) -> History:
    """A leader event of the partition that keeps the state of producer 0's transactions."""
    partition = partition_of("t0", 50)
    row = {"topic": "__transaction_state", "partition": partition, "source": "history", "kind": "leader"}
    epoch = len(history.rows["cluster_events"])
    return history.add("cluster_events", leader=leader, leader_epoch=epoch, isr=isr, at_ns=at(ms), **row)


def test_a_coordinator_that_was_killed_is_down_until_it_is_unfenced(tmp_path: Path) -> None:
    """Its process is back after a second; it cannot register before its old session has timed out."""

    history = state(unfenced(stood(paid()), 71_000), 1, -10, [1, 2, 3]).fault(1, 1_000, 2_000)
    assert hanging(judged(history, tmp_path / "late")) == (0, 0, "held")
    history = state(unfenced(stood(paid()), 3_000), 1, -10, [1, 2, 3]).fault(1, 1_000, 2_000)
    assert hanging(judged(history, tmp_path / "soon")) == (1, 0, "violated")
    history = state(unfenced(stood(paid()), 71_000), 1, -10, [1, 2, 3]).fault(1, 1_000, 2_000, fault="pause")
    assert hanging(judged(history, tmp_path / "paused")) == (1, 0, "violated")


def test_coordinator_is_the_leader_of_its_state_partition(tmp_path: Path) -> None:
    """A coordinator that moved off the dead broker is up again; another broker's death is no excuse."""
    history = state(stood(paid()), 1, -10, [1, 2, 3]).fault(1, 1_000, 71_000)
    assert hanging(judged(history, tmp_path / "stayed")) == (0, 0, "held")
    history = state(stood(paid()), 2, -10, [1, 2, 3]).fault(1, 1_000, 71_000)
    assert hanging(judged(history, tmp_path / "elsewhere")) == (1, 0, "violated")
    target = "transaction-coordinator-of producer 0"
    history = state(stood(paid()), 1, -10, [1, 2, 3]).fault(1, 1_000, 71_000, target=target)
    assert hanging(judged(state(history, 2, 10_000, [2, 3]), tmp_path / "moved")) == (1, 0, "violated")
    history = state(stood(paid()), 1, -10, [1]).fault(1, 1_000, 71_000)
    history = state(history, -1, 2_000, [1])
    assert hanging(judged(history, tmp_path / "leaderless")) == (0, 0, "held")


def test_state_partition_count_is_taken_from_the_record(tmp_path: Path) -> None:
    """kaput's own clusters have three, where Kafka would make fifty."""
    for leader, outcome in ((1, (0, 0, "held")), (2, (1, 0, "violated"))):
        history = stood(paid()).fault(1, 1_000, 71_000)
        for partition in range(3):
            mine = partition == partition_of("t0", 3)
            state(history, leader if mine else 3, -10)
            history.rows["cluster_events"][-1]["partition"] = partition
        assert hanging(judged(history, tmp_path / str(leader))) == outcome


def test_coordinator_below_min_isr_counts_as_down(tmp_path: Path) -> None:
    """It leads, and may not write down what it decides: two of three replicas must be in sync."""
    history = state(stood(paid()), 1, -10, [1, 2, 3])
    history.fault(2, 1_000, 71_000).fault(3, 1_000, 71_000)
    assert hanging(judged(state(history, 1, 2_000, [1]), tmp_path)) == (0, 0, "held")


def test_where_all_brokers_are_down_so_is_the_coordinator(tmp_path: Path) -> None:
    """Whichever it is."""
    history = stood(paid())
    for broker in (1, 2, 3):
        history.fault(broker, 1_000 + broker, 71_000)
    assert hanging(judged(history, tmp_path)) == (0, 0, "held")


def test_unproven_fault_does_not_excuse_a_hang(tmp_path: Path) -> None:
    """Nor one that takes no broker down."""
    target = "transaction-coordinator-of producer 0"
    history = stood(paid()).fault(1, 1_000, 71_000, target=target, bit=False)
    assert hanging(judged(history, tmp_path / "unproven")) == (1, 0, "violated")
    history = stood(paid()).fault(1, 1_000, 71_000, target=target, fault="noop")
    assert hanging(judged(history, tmp_path / "noop")) == (1, 0, "violated")


@pytest.mark.parametrize(("first", "expected"), [(1001, (0, 0, "held")), (1, (1, 0, "inconclusive"))])
def test_only_the_brokers_of_its_own_cluster_excuse_a_hang(
    first: int, expected: tuple[int, int, str], tmp_path: Path
) -> None:
    """All brokers of dc2 are down, or all of dc1; the producer is in dc2."""
    there = {"cluster": "dc2"}
    spec = {"topic": "orders", "transactions": {"size": 2}} | there
    history = History(producers=[spec], topics=[{"name": "orders"} | there], clusters={"dc1": {}, "dc2": {}})
    history.sent(0, 0, 0, **there).stored(0, 0, 0, **there).transaction(0, 0, 0)
    history.sent(0, 1, 2, **there).stored(2, 0, 1, visible=False, **there).transaction(1, 1, 1, "unknown")
    for broker in range(first, first + 3):
        history.fault(broker, 1_000 + broker, 71_000)
    for ms in (0, 90_000):
        history.stable(2, 5, ms, topic="dc2:orders")
    findings = judged(history, tmp_path)
    assert hanging(findings) == expected
