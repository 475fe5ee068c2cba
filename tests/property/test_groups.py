"""What groups had to be delivered, what came within a second, and what was stuck, against the oracle."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from fakes.histories import History, at
from fakes.judging import judged
from fakes.oracle_groups import Groups
from kaput.evidence.findings import Findings

SEED = 44_031
HISTORIES = 40
_OUTCOMES = ("committed", "committed", "aborted", "unknown")


def _history(number: int) -> History:
    """Messages of a transactional producer and of a plain one, in two partitions; some are lost, aborted or
    never delivered, some come seconds late; a fault or two is healed meanwhile. One group begins late.
    """
    random = Random(f"{SEED}/{number}")
    history = History(
        producers=[{"topic": "orders", "acks": "all", "count": 2}],
        topics=[{"name": "orders", "partitions": 2}],
        groups={"billing": True, "audit": random.random() < 0.5},
        blocks={"audit": {"config": {"auto.offset.reset": random.choice(["latest", "earliest"])}}},
    )
    for _ in range(random.randrange(1, 3)):
        begin = random.randrange(0, 8_000, 500)
        healed = None if random.random() < 0.1 else begin + random.choice([1_000, 5_000, 9_000])
        history.fault(1, begin, healed)
        history.rows["faults"][-1]["bit"] = random.random() < 0.9
    offsets, began = [0, 0], random.randrange(0, 6_000, 500)
    for partition in range(2):
        history.event("assigned", began, group="audit", member="a1", partition=partition)
    for seq in range(random.randrange(10, 40)):
        _message(history, random, seq, offsets, began)
    for transaction, first in enumerate(range(0, 40, 4)):
        if random.random() < 0.6:
            history.transaction(transaction, first, first + 3, random.choice(_OUTCOMES))
    for group in history.groups:
        for ms in range(0, 20_000, 1_000):
            labels = [("group", group), ("topic", "orders"), ("partition", "0")]
            value = float(random.choice([0, 0, 1, 2, 9]))
            history.add("samples", at_ns=at(ms), source="kaput", name="lag", labels=labels, value=value)
    aborted = _not_visible(history)
    for record in history.rows["log"]:
        record["visible"] = (record["producer"], record["seq"]) not in aborted
    return history.read_to_end()


def _message(history: History, random: Random, seq: int, offsets: list[int], began: int) -> None:
    producer, partition, ms = random.randrange(2), random.randrange(2), 400 * seq
    done = ms + random.choice([1, 40, 999])
    outcome = random.choice(["acked"] * 8 + ["failed", "unknown"])
    offset, offsets[partition] = offsets[partition], offsets[partition] + 1
    where = {"partition": partition}
    times = {"attempt_ns": at(ms), "done_ns": None if random.random() < 0.1 else at(done)}
    history.sent(producer, seq, offset if outcome == "acked" else None, outcome, **where, **times)
    fate = random.choice(["stored"] * 6 + ["lost", "twice"])
    if fate != "lost":
        history.stored(offset, producer, seq, **where)
    if fate == "twice":
        history.stored(offsets[partition], producer, seq, **where)
        offsets[partition] += 1
    for group, from_ms in (("billing", 0), ("audit", began)):
        for _ in range(random.choice([0, 1, 1, 1, 2])):
            polled = done + random.choice([0, 30, 600, 1_001, 6_000, 9_000])
            if polled >= from_ms:
                history.handed(offset, producer, seq, polled, group=group, **where)


def _not_visible(history: History) -> set[tuple[int, int]]:
    return {
        (row["producer"], seq)
        for row in history.rows["transactions"]
        for seq in range(row["first_seq"], row["last_seq"] + 1)
        if row["outcome"] == "aborted" or (row["outcome"] == "unknown" and row["transaction"] % 2)
    }


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (10, 20, 30))])
def test_groups_equal_oracle(first: int, tmp_path: Path) -> None:
    for number in range(first, first + 10):
        history = _history(number)
        found = judged(history, tmp_path / str(number))
        oracle = Groups(history)
        assert _within_1s(found) == oracle.within_1s(), number
        assert {f.id: f.stuck for f in found.faults if f.stuck} == oracle.stuck(), number
        assert _drained(found) == _expected_drained(oracle), number


def _drained(found: Findings) -> dict[str, float]:
    return {f.id: f.backlog_drained_ms for f in found.faults if f.backlog_drained_ms is not None}


def _expected_drained(oracle: Groups) -> dict[str, float]:
    ends: dict[str, list[int | None]] = {}
    for (fault, _), (_, _, to_ns, _) in oracle.backlogs().items():
        ends.setdefault(fault, []).append(to_ns)
    since = {f["id"]: f["effective_ns"] for f in oracle.history.rows["faults"]}
    whole = {fault: [at_ns for at_ns in each if at_ns is not None] for fault, each in ends.items()}
    return {
        fault: (max(each) - since[fault]) / 1e6
        for fault, each in whole.items()
        if len(each) == len(ends[fault])
    }


def _within_1s(found: Findings) -> dict[tuple[str, tuple[str, int] | None], tuple[int, int]]:
    return {
        (a.group, None if a.topic is None or a.partition is None else (a.topic, a.partition)): (
            a.messages,
            a.within_1s,
        )
        for a in found.availability
        if a.group is not None and a.messages
    }


def test_histories_have_what_is_left_out() -> None:
    """Agreement on what never happens would mean nothing."""
    due = [
        (groups.due(group, send), groups.for_it(group, send), groups.first(group, send) is not None)
        for groups in map(Groups, map(_history, range(HISTORIES)))
        for group in groups.oracle.groups
        for send in groups.oracle.sends
    ]
    assert (
        min(due.count(kind) for kind in [(False, False, True), (True, False, False), (True, True, True)]) > 20
    )
    assert sum(bool(Groups(_history(number)).stuck()) for number in range(HISTORIES)) > HISTORIES // 4
