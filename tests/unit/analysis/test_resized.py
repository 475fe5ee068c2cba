"""Topics that got more partitions, on histories written by hand and drawn: keys, order, what was missed."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from fakes.histories import History, at
from fakes.judging import judged
from kaput.evidence.findings import Findings
from kaput.evidence.findings_parts import ResizedForGroup, ResizedTopic

LATEST = {"config": {"auto.offset.reset": "latest"}}
BLOCK = 65_536


def _history(key: Any = 2, **blocks: dict[str, Any]) -> History:
    """A topic of one partition, which gets a second one at 100 ms; messages have keys in turn."""
    history = History(
        producers=[{"topic": "orders", "acks": "all", "key": key, "partitioner": "murmur2"}],
        groups={"billing": True},
        blocks=blocks,
    )
    history.faults = [{"at": "1s", "fault": "resize", "target": "topic orders", "partitions": 2}]
    grown = {"id": "1-resize", "fault": "resize", "target": "topic orders", "effective_ns": at(100)}
    return history.add(
        "faults", **grown, brokers=[], injected_ns=at(99), healed_ns=at(100), bit=True, proof="2 instead of 1"
    )


def _resized(findings: Findings) -> tuple[ResizedTopic, ResizedForGroup]:
    (one,) = findings.resized
    (group,) = one.groups
    return one, group


def test_moved_key_is_delivered_out_of_order(tmp_path: Path) -> None:
    """Key 1 moves with message 3, which is read before message 1 is; key 0 stays, and in order."""
    history = _history()
    for seq, partition, offset, ms in ((0, 0, 0, 10), (1, 0, 1, 40), (2, 0, 2, 41), (3, 1, 0, 30)):
        history.acked(0, seq, offset, partition=partition).handed(offset, 0, seq, ms, partition=partition)
    findings = judged(history, tmp_path)
    one, group = _resized(findings)
    assert (one.partitions_before, one.partitions, one.partitions_written) == (1, 2, 2)
    assert (one.keys, one.keys_moved) == (2, 1)
    assert (group.partitions_read, group.out_of_order_by_key, group.stored_too_early) == (2, 1, 0)
    assert findings.verdict == "held", findings.reasons


def test_redelivery_is_not_out_of_order(tmp_path: Path) -> None:
    """Only the first delivery of each message counts."""
    history = _history().acked(0, 0, 0).acked(0, 2, 0, partition=1)
    history.handed(0, 0, 0, 10).handed(0, 0, 2, 20, partition=1).handed(0, 0, 0, 30)
    assert _resized(judged(history, tmp_path))[1].out_of_order_by_key == 0


def test_latest_group_misses_records_in_new_partitions(tmp_path: Path) -> None:
    """Two messages stood in the new partition before it looked: unseen, counted, and permitted."""
    history = _history(billing=LATEST).acked(0, 0, 0).handed(0, 0, 0, 10)
    for seq, offset in ((1, 0), (2, 1), (3, 2)):
        history.acked(0, seq, offset, partition=1)
    findings = judged(history.handed(2, 0, 3, 300, partition=1), tmp_path)
    unseen = findings.anomaly("unseen")[0]
    assert (unseen.count, unseen.permitted) == (2, 2)
    assert _resized(findings)[1].stored_too_early == 2
    assert findings.verdict == "held" and any("auto.offset.reset=latest" in r for r in findings.reasons)


@pytest.mark.parametrize("block", [{}, LATEST])
def test_gap_in_a_new_partition_is_a_violation(block: dict[str, Any], tmp_path: Path) -> None:
    """What it never saw behind its first delivery, and whatever a group from the start did not see."""
    history = _history(billing=block)
    for seq in range(3):
        history.acked(0, seq, seq)
    missed = (0, 1) if not block else (1,)
    for seq in {0, 1, 2} - set(missed):
        history.handed(seq, 0, seq, 10 + seq)
    findings = judged(history, tmp_path)
    assert findings.verdict == "violated"
    assert findings.anomaly("unseen")[0].permitted == 0


def test_resize_without_keys_has_no_key_figures(tmp_path: Path) -> None:
    """Null is not zero; the same where each message has a key of its own."""
    for key in ("none", "seq"):
        history = _history(key).acked(0, 0, 0).handed(0, 0, 0, 5)
        one, group = _resized(judged(history, tmp_path / key))
        assert (one.keys, one.keys_moved, group.out_of_order_by_key) == (None, None, None)


def test_run_without_a_resize_has_no_resize_block(tmp_path: Path) -> None:
    """Nothing is reported, also where the fault had no effect."""
    history = History().acked(0, 0, 0)
    assert judged(history, tmp_path / "none").resized == []
    history = _history().acked(0, 0, 0)
    history.rows["faults"][0] |= {"bit": False, "effective_ns": None}
    assert judged(history, tmp_path / "failed").resized == []


@pytest.mark.parametrize("seeds", [range(10), pytest.param(range(10, 25), marks=pytest.mark.long)])
def test_out_of_order_by_key_equals_the_definition(seeds: range, tmp_path: Path) -> None:
    """Against the definition, word for word; messages of several blocks, one or more producers."""
    for seed in seeds:
        history = drawn(seed)
        findings = judged(history, tmp_path / str(seed))
        one, group = _resized(findings)
        assert group.out_of_order_by_key == out_of_order(history), seed
        assert (one.keys, one.keys_moved) == keys(history), seed


def drawn(seed: int) -> History:
    """Messages around the borders of blocks, each delivered up to twice, at any time."""
    random = Random(seed)
    history = _history(random.choice([1, 2, 3, "producer"]))
    history.producers *= random.choice([1, 2])
    ends = [0, 0]
    for producer in range(len(history.producers)):
        near = [*range(4), *range(BLOCK - 3, BLOCK + 3), *range(3 * BLOCK, 3 * BLOCK + 3)]
        for seq in sorted(random.sample(near, random.randint(1, len(near)))):
            partition = random.randint(0, 1)
            offset, ends[partition] = ends[partition], ends[partition] + 1
            history.acked(producer, seq, offset, partition=partition)
            for _ in range(random.choice([0, 1, 1, 1, 2])):
                history.handed(offset, producer, seq, random.randint(200, 230), partition=partition)
    return history


def key_of(history: History, producer: int, seq: int) -> int:
    """The key of a message."""
    many = history.producers[producer]["key"]
    return producer if many == "producer" else seq % int(many)


def out_of_order(history: History) -> int:
    """Messages that were delivered for the first time after a later one of the same producer and key."""
    first: dict[tuple[int, int], int] = {}
    for row in history.rows["deliveries"]:
        message = (row["producer"], row["seq"])
        first[message] = min(row["polled_ns"], first.get(message, row["polled_ns"]))
    return sum(
        any(
            p == producer and s > seq and key_of(history, p, s) == key_of(history, p, seq) and later < mine
            for (p, s), later in first.items()
        )
        for (producer, seq), mine in first.items()
    )


def keys(history: History) -> tuple[int, int]:
    """How many keys there are in the log, and how many of them in both partitions."""
    places: dict[int, set[int]] = {}
    for row in history.rows["log"]:
        places.setdefault(key_of(history, row["producer"], row["seq"]), set()).add(row["partition"])
    return len(places), sum(len(where) > 1 for where in places.values())
