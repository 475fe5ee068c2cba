"""Transactions on a real broker: committed, aborted, and one whose producer stops in the middle of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from driving import Kaput, Result

_SENT = 1_200  # by each of two producers, ten a transaction
_PAYMENTS = f"""
version: 1
title: Two producers, of which one is paused for longer than its transactions may last
cluster:
  brokers: 1
  config: {{transaction.abort.timed.out.transaction.cleanup.interval.ms: 500}}
topics:
  - {{name: payments, partitions: 2, replication-factor: 1}}
workload:
  producers:
    - topic: payments
      count: 2
      messages: {_SENT}
      rate: 300
      partitioner: round-robin
      transactions: {{size: 10, abort: 20%}}
      config: {{transaction.timeout.ms: 3000}}
  groups:
    - {{id: ledger, topics: [payments], config: {{isolation.level: read_committed}}}}
    - {{id: probe, topics: [payments], config: {{isolation.level: read_uncommitted}}}}
faults:
  - {{at: 1500ms, fault: pause, target: producer 0, for: 6s}}
expect: {{verdict: held, aborted-read: 0, torn-transaction: 0, standstill: '>=1'}}
"""


def test_what_is_aborted_is_shown_to_nobody(kaput: Kaput, tmp_path: Path) -> None:
    """Each message is of one transaction; the careful reader is given what was committed, the other one all;
    the paused producer's transaction held the last stable offset back, and was aborted.
    """
    scenario = tmp_path / "payments.yaml"
    scenario.write_text(_PAYMENTS)
    result = kaput.run(str(scenario))
    found = result.findings
    assert found["verdict"] == "held", found["reasons"]
    transactions = result.rows("transactions")
    assert _messages(transactions) == {(producer, seq) for producer in (0, 1) for seq in range(_SENT)}
    told = found["transactions"]
    outcomes = [row["outcome"] for row in transactions]
    assert [told[word] for word in ("committed", "aborted", "unknown")] == [
        outcomes.count(word) for word in ("committed", "aborted", "unknown")
    ]
    # A fifth on purpose; beside these, what the pause ended.
    assert outcomes.count("aborted") >= 2 * _SENT // 10 // 5 - 2
    _readers_are_given_what_is_theirs(result)
    assert told["longest_standstill_ms"] >= 1_000
    (fault,) = found["faults"]
    assert (fault["bit"], fault["brokers"]) == (True, []), fault["proof"]
    # Whoever wakes up with an epoch that is over learns it, and goes on with another client.
    assert any(row["producer"] == 0 and row["error"] for row in transactions)


def _messages(transactions: list[dict[str, Any]]) -> set[tuple[int, int]]:
    """What they are of; none twice."""
    found = [(t["producer"], seq) for t in transactions for seq in range(t["first_seq"], t["last_seq"] + 1)]
    assert len(found) == len(set(found))
    return set(found)


def _readers_are_given_what_is_theirs(result: Result) -> None:
    """By the rows themselves: what is visible, and all of it."""
    log, deliveries = result.rows("log"), result.rows("deliveries")
    given = {
        group: {(row["partition"], row["offset"]) for row in deliveries if row["group"] == group}
        for group in ("ledger", "probe")
    }
    visible = {(row["partition"], row["offset"]) for row in log if row["visible"]}
    every = {(row["partition"], row["offset"]) for row in log}
    assert given == {"ledger": visible, "probe": every}
    assert 0 < len(visible) < len(every)
    assert all(group["drained"] for group in result.findings["groups"])
