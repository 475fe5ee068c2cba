"""Steps that wait for events of a real cluster: one run, in which a kill causes every one of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from driving import Kaput, Result, client
from streams import rows_so_far
from waiting import wait_for

_SCENARIO = """
version: 1
title: Steps at events
cluster:
  brokers: 3
  controllers: 1
  config:
    auto.leader.rebalance.enable: false
    broker.session.timeout.ms: 3000
    broker.heartbeat.interval.ms: 500
    group.min.session.timeout.ms: 1000
topics:
  - name: orders
    partitions: 1
    replication-factor: 3
    assignment: [[1, 2, 3]]
    config: {min.insync.replicas: 1}
workload:
  producers: [{topic: orders, acks: all, messages: 2500, rate: 250, transactions: {size: 25}}]
  groups:
    - id: billing
      topics: [orders]
      members: 2
      config: {session.timeout.ms: 2000, heartbeat.interval.ms: 500}
faults:
  - {at: {message: 100}, fault: kill, target: leader-of orders/0, for: 4s}
  - {at: {event: effect, of: 1-kill}, fault: kill, target: members of billing, for: 1s}
  - {at: {event: election, of: orders/0, after: 1%}, fault: noop, target: leader-of orders/0, for: 10ms}
  - {at: {event: isr-shrink}, fault: noop, target: broker 2}
  - {at: {event: isr-expand, of: orders}, fault: noop, target: broker 2, for: 10ms}
  - {at: {event: partitions-assigned, of: billing}, fault: noop, target: broker 2}
  - {at: {event: markers-pending, of: producer 0}, fault: noop, target: broker 2}
  - {at: {event: heal, of: 1-kill}, fault: noop, target: broker 2}
  - {at: {event: request, api: EndTxn, nth: 3}, fault: noop, target: broker 2}
  - {at: {event: election, nth: 9}, fault: noop, target: broker 2}
"""
_MS = 1_000_000
_LATE_MS = 60_000  # only what hangs is later, also on a busy machine


def test_each_step_begins_at_the_moment_of_its_event(kaput: Kaput, tmp_path: Path) -> None:
    """Its own time is that of the cluster's record, of members and of the other step; what never came is
    reported."""
    scenario = tmp_path / "at-events.yaml"
    scenario.write_text(_SCENARIO)
    result = _run_held_until_the_isr_is_whole(kaput, scenario)
    rows = {row["id"]: row for row in result.rows("faults")}
    steps = [rows[name] for name in sorted(rows, key=lambda name: int(name.partition("-")[0]))]
    assert [row["bit"] for row in steps] == [True] * 9 + [False], [row["proof"] for row in steps]
    killed, members, elected, shrunk, expanded, assigned, pending, healed, asked, never = steps

    assert killed["event"] is None and killed["noticed_ns"] is None
    assert members["event"] == "effect of 1-kill" and members["event_ns"] == killed["effective_ns"]
    assert healed["event"] == "heal of 1-kill" and healed["event_ns"] == killed["healed_ns"]
    assert elected["event"] == "election of orders/0 (leader 2, leader epoch 1)" and elected["brokers"] == [2]
    assert elected["event_ns"] in _changes(result, "leader", epoch=1)
    assert (
        shrunk["event"] == "isr-shrink of orders/0 (broker 1)" and shrunk["event_ns"] == elected["event_ns"]
    )
    assert expanded["event"] == "isr-expand of orders/0 (broker 1)"
    assert expanded["event_ns"] in _changes(result, "isr", epoch=1)
    assert assigned["event"].startswith("partitions-assigned of billing (")
    assert assigned["event_ns"] in [
        row["at_ns"] for row in result.rows("group_events") if row["kind"] == "assigned"
    ]
    assert pending["event"] in [
        f"markers-pending of producer 0 ({s})" for s in ("PrepareCommit", "PrepareAbort")
    ]
    assert asked["event"].startswith("request of EndTxn (broker ")
    assert never["proof"] == "the workload ended before its event occurred: election number 9"
    late = {row["id"]: row["noticed_ns"] - row["event_ns"] for row in steps if row["event_ns"] is not None}
    assert len(late) == 8 and all(-_MS <= ns < _LATE_MS * _MS for ns in late.values()), late

    (told,) = [each for each in result.findings["faults"] if each["id"] == elected["id"]]
    assert (told["event"], told["event_ns"]) == (elected["event"], elected["event_ns"])


def _run_held_until_the_isr_is_whole(kaput: Kaput, scenario: Path) -> Result:
    """Runs it. Its producer is stopped from the election on until the dead broker is back, however long that
    takes: a load that is over would end the steps that wait.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        running = pool.submit(kaput.run, str(scenario))

        def is_over(step: str) -> bool:
            tables = kaput.runs.glob("*/evidence/faults")
            return running.done() or step in {row["id"] for path in tables for row in rows_so_far(path)}

        wait_for(lambda: is_over("3-noop"), "the step at the election")
        producer = client(kaput.runs, "producer-0")
        assert producer is not None and not running.done(), running.result().stderr
        producer.suspend()
        try:
            wait_for(lambda: is_over("5-noop"), "the step at the whole ISR")
        finally:
            producer.resume()
        return running.result()


def _changes(result: Result, kind: str, epoch: int) -> list[Any]:
    """When partitions changed, as the run recorded it."""
    rows = result.rows("cluster_events")
    return [row["at_ns"] for row in rows if (row["kind"], row["leader_epoch"]) == (kind, epoch)]
