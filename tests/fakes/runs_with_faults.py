"""Small runs written by hand in which faults take effect: a failover, and outages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fakes.histories import START_NS, History, Row, at


def failover() -> History:
    """Twelve seconds at ten messages a second. Broker 1 is killed at 3,050 ms, broker 2 leads orders/0 from
    4,300 ms on; broker 3, which leads orders/1, is paused from 8,000 to 9,500 ms. Member m2 is killed at 5 s.
    """
    history = History(
        producers=[
            {"topic": "orders", "acks": 1, "rate": 10},
            {
                "topic": "orders",
                "acks": "all",
                "rate": 2,
                "client": "java",
                "config": {"delivery.timeout.ms": 900},
            },
            {"topic": "bills", "acks": 0, "rate": 1},
        ],
        topics=[
            {
                "name": "orders",
                "partitions": 2,
                "replication-factor": 3,
                "assignment": [[1, 2, 3], [3, 1, 2]],
            },
            {"name": "bills"},
        ],
        groups={"billing": True, "audit": False},
        subscriptions={"billing": ["orders"], "audit": ["orders", "bills"]},
        blocks={"audit": {"config": {"auto.offset.reset": "latest"}}},
    )
    history.led(1, 0, -50, [1, 2, 3]).led(3, 0, -40, [3, 1, 2], partition=1).led(
        2, 0, -30, [2], topic="bills"
    )
    history.led(2, 1, 4_300, [2, 3]).led(2, 1, 7_200, [1, 2, 3], kind="isr")
    history.fault(9, 500, 600, id="0-noop", fault="noop", bit=True, proof="")
    history.fault(1, 3_050, 6_100, effective_ns=at(3_060)).fault(3, 8_000, 9_500, fault="pause", id="2-pause")
    for kind, broker, ms in (("fenced", 1, 4_250), ("unfenced", 1, 6_900)):
        history.add("cluster_events", kind=kind, broker=broker, at_ns=at(ms), source="metadata log")
    ends = _orders(history)
    for seq in range(8):
        history.sent(2, seq, None, topic="bills", attempt_ns=at(1_000 * seq), done_ns=at(1_000 * seq + 1))
        if seq not in (3, 4):
            history.stored(seq - 2 * (seq > 4), 2, seq, topic="bills")
    _billing(history)
    _audit(history)
    for offset, seq in ((ends[0], 31), (ends[0] + 1, 33)):
        where = {"topic": "orders", "partition": 0, "offset": offset, "leader_epoch": 0}
        history.add("replica_log", broker=1, producer=0, seq=seq, seen_ns=at(6_500), **where)
    return history


def _orders(history: History) -> dict[int, int]:
    """The messages of producers 0 and 1; by partition, the first offset that was used twice."""
    ends = {0: 0, 1: 0}
    twice: dict[int, int] = {}
    sends = [(100 * seq, 0, seq) for seq in range(120)] + [(500 * seq + 7, 1, seq) for seq in range(24)]
    for ms, producer, seq in sorted(sends):
        partition = (seq // 3) % 2
        times: Row = {"partition": partition, "attempt_ns": at(ms), "done_ns": at(ms + 3 + seq % 5)}
        if partition == 0 and 3_060 <= ms < 3_300:  # acknowledged by the leader that was deposed
            twice.setdefault(0, ends[0])
            history.sent(producer, seq, ends[0] + seq % 3, **times)
            continue
        if partition == 0 and 3_300 <= ms < 4_000:
            history.sent(producer, seq, None, "unknown" if seq % 2 else "failed", **times, error="TIMED_OUT")
            continue
        if partition == 0 and 4_000 <= ms < 4_300:
            times["done_ns"] = at(4_400 + seq % 7)
        if partition == 1 and 8_000 <= ms < 9_500:
            times["done_ns"] = at(9_510 + seq % 7)
        epoch = {"leader_epoch": int(partition == 0 and ms >= 4_000)}
        history.acked(producer, seq, ends[partition], **times, **epoch)
        ends[partition] += 1
    return twice


def _stored(history: History, partition: int) -> list[dict[str, Any]]:
    return [r for r in history.rows["log"] if (r["topic"], r["partition"]) == ("orders", partition)]


def _done_ms(history: History, record: Mapping[str, Any]) -> float:
    (send,) = (
        r for r in history.rows["sends"] if (r["producer"], r["seq"]) == (record["producer"], record["seq"])
    )
    return float((send["done_ns"] - START_NS) / 1e6)


def _billing(history: History) -> None:
    """m1 reads orders/0, m2 orders/1 until it is killed at 5 s; m1 has both from 5,600 ms on, and is handed
    three again; m2 comes back and takes orders/1 at 9 s.
    """
    nowhere = {"topic": None, "partition": None}
    history.event("joined", -20, **nowhere).event("joined", -10, member="m2", **nowhere)
    history.event("assigned", 0, 0).event("assigned", 0, 0, member="m2", partition=1)
    history.event("killed", 5_000, member="m2", **nowhere)
    history.event("revoked", 5_500).event("assigned", 5_600).event("assigned", 5_600, partition=1)
    history.event("joined", 8_900, member="m2", **nowhere).event("revoked", 8_950, partition=1)
    history.event("assigned", 9_000, member="m2", partition=1)
    history.event("refused", 5_010, 12, partition=1, error="REBALANCE_IN_PROGRESS")
    for partition in (0, 1):
        for record in _stored(history, partition):
            ms = _done_ms(history, record) + 20
            member = "m2" if partition == 1 and (ms < 5_000 or ms >= 9_000) else "m1"
            if 5_000 <= ms < 5_600:
                ms = 5_610 + record["offset"] / 10
            who = {"member": member, "partition": partition}
            history.handed(record["offset"], record["producer"], record["seq"], ms, **who)
            if record["offset"] % 10 == 9:
                history.event("committed", ms + 5, record["offset"] + 1, **who)
    last = [r for r in _stored(history, 1) if _done_ms(history, r) + 20 < 5_000][-3:]
    for record in last:
        history.handed(record["offset"], record["producer"], record["seq"], 5_605, member="m1", partition=1)
    for ms, lag in ((500, 1), (3_000, 2), (4_500, 30), (5_500, 41), (6_500, 3), (9_400, 12), (10_500, 1)):
        labels = [("group", "billing")]
        history.add("samples", at_ns=at(ms), source="lab", name="lag", value=float(lag), labels=labels)
    history.event("left", 13_000, **nowhere).event("left", 13_010, member="m2", **nowhere)


def _audit(history: History) -> None:
    """One member, which begins at the end at 2 s, and reads nothing after 10 s."""
    who: Row = {"group": "audit", "member": "a1"}
    history.event("joined", 1_900, topic=None, partition=None, **who)
    for partition in (0, 1):
        mine = [r for r in _stored(history, partition) if 2_000 <= _done_ms(history, r) < 10_000]
        history.event("assigned", 2_000, mine[0]["offset"], partition=partition, **who)
        for record in mine:
            ms = _done_ms(history, record) + 50 + record["offset"] % 4
            history.handed(
                record["offset"], record["producer"], record["seq"], ms, partition=partition, **who
            )
        history.event("committed", 10_100, mine[-1]["offset"] + 1, partition=partition, **who)
    history.event("assigned", 2_000, 2, topic="bills", **who)
    history.handed(2, 2, 2, 2_100, topic="bills", **who)
    for ms, lag in ((2_500, 2), (10_500, 20), (12_000, 31)):
        labels = [("group", "audit")]
        history.add("samples", at_ns=at(ms), source="lab", name="lag", value=float(lag), labels=labels)


def outages() -> History:
    """Twelve seconds in which both partitions stand still, one does, a group does, and messages fail.
    Producer 1 is a program of the user's own, and has acknowledgements that no broker can have given.
    """
    history = History(
        producers=[
            {"topic": "orders", "acks": "all", "rate": 10, "config": {"message.timeout.ms": 800}},
            {"topic": "orders", "acks": "all", "rate": 5, "client": "command", "command": "own"},
        ],
        topics=[{"name": "orders", "partitions": 2, "replication-factor": 3}],
        groups={"billing": True},
    )
    for partition in (0, 1):
        history.led(1, 3, -50, [1, 2], partition=partition).led(
            2, 4, 4_500 + 300 * partition, [2], partition=partition
        )
        history.led(2, 4, 4_850, [1, 2, 3], kind="isr", partition=partition)
    history.led(2, 4, 9_150, [2, 3], kind="isr", partition=1).led(
        2, 4, 9_600, [1, 2, 3], kind="isr", partition=1
    )
    history.fault(3, 1_000, 1_500, id="0-none", bit=False, effective_ns=None)
    history.fault(3, 2_000, 2_100, id="1-noop", fault="noop").fault(1, 3_000, 4_900, id="2-kill")
    history.fault(0, 6_000, 7_290, id="3-member", target="member m1 of billing")
    history.rows["faults"][-1]["brokers"] = []
    who: Row = {"member": "m1", "topic": None, "partition": None}
    history.event("joined", -20, **who).event("killed", 6_000, **who).event(
        "joined", 6_880, member="m2", topic=None, partition=None
    )
    for partition in (0, 1):
        history.event("assigned", -10, 0, partition=partition)
        history.event("assigned", 6_900 + 300 * partition, member="m2", partition=partition)
    offsets = [0, 0]
    for seq in range(120):
        ms, partition = 100 * seq, seq % 2
        _out(history, seq, ms, partition, offsets)
    for seq, (ms, done, offset) in enumerate(
        [(3_050, 3_100, None), (3_100, 3_110, None), (4_400, 4_600, None), (5_000, 5_010, 90)]
    ):
        times: Row = {"attempt_ns": at(ms), "done_ns": at(done)}
        history.sent(1, seq, offset, **times)
        if seq == 1:
            history.stored(80, 1, seq)
    history.sent(1, 4, None, "unknown", partition=None, attempt_ns=at(5_500), done_ns=None)
    for ms, lag in (
        (500, 1),
        (2_900, 2),
        (4_400, 9),
        (4_990, 1),
        (5_900, 1),
        (6_600, 7),
        (7_250, 14),
        (8_000, 3),
    ):
        labels = [("group", "billing")]
        history.add("samples", at_ns=at(ms), source="lab", name="lag", value=float(lag), labels=labels)
    return history


def _out(history: History, seq: int, ms: int, partition: int, offsets: list[int]) -> None:
    times = {"partition": partition, "attempt_ns": at(ms), "done_ns": at(ms + 4)}
    if 3_000 <= ms < 4_800 and (partition or ms < 4_500):
        times["done_ns"] = at(4_510 + 300 * partition + seq % 3)
    if 8_000 <= ms < 9_200 and partition:
        times["done_ns"] = at(9_203)
    if 9_500 <= ms < 10_700 and not partition:
        history.sent(0, seq, None, "failed" if seq % 4 else "unknown", **times, error="NOT_ENOUGH_REPLICAS")
        return
    offset = offsets[partition]
    offsets[partition] += 1
    history.acked(0, seq, offset, **times, leader_epoch=4 if ms >= 3_000 else 3)
    polled = (times["done_ns"] - START_NS) / 1e6 + 6
    if 6_000 <= polled < 7_310:
        polled = 7_310
    history.handed(offset, 0, seq, polled, partition=partition, member="m1" if polled < 6_000 else "m2")
    if seq % 20 == 19:
        history.event(
            "committed", polled + 1, offset + 1, partition=partition, member="m1" if polled < 6_000 else "m2"
        )
