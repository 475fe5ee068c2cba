"""Small runs written by hand, with something of everything that the analysis tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fakes.everything import everything
from fakes.histories import History, at, side_by_side
from fakes.runs_of_services import slow
from fakes.runs_with_faults import failover, outages
from spark.test_anomalies import CASES
from unit.analysis.test_consequences import BY_GROUPS, NEW, OLD, SHARE, accepted, handed, unclean


def resized() -> History:
    """A topic of one partition that gets a second one at 100 ms; messages have one of three keys, or their
    producer's. Another topic is resized, too, and has no keys.
    """
    history = History(
        producers=[
            {"topic": "orders", "acks": "all", "key": 3, "partitioner": "murmur2"},
            {"topic": "orders", "acks": "all", "key": "producer"},
            {"topic": "bills", "acks": "all"},
        ],
        topics=[{"name": "orders"}, {"name": "bills", "partitions": 2}],
        groups={"billing": True, "audit": True},
        blocks={"audit": {"config": {"auto.offset.reset": "latest"}}},
    )
    for number, (topic, size) in enumerate((("orders", 2), ("bills", 3)), 1):
        target = f"topic {topic}"
        history.faults.append({"at": "1s", "fault": "resize", "target": target, "partitions": size})
        grown = {
            "id": f"{number}-resize",
            "fault": "resize",
            "target": target,
            "proof": f"{size} instead of 1",
        }
        when = {"injected_ns": at(99), "effective_ns": at(100), "healed_ns": at(100)}
        history.add("faults", **grown, **when, brokers=[], bit=True)
    for seq in range(12):
        partition, offset = (1, seq // 2 - 2) if seq % 2 and seq > 4 else (0, seq - max(0, seq // 2 - 2))
        where = {"partition": partition, "attempt_ns": at(10 * seq), "done_ns": at(10 * seq + 2)}
        history.acked(0, seq, offset, **where)
        ms = 10 * seq + (3 if partition else 40)
        history.handed(offset, 0, seq, ms, partition=partition)
        if seq >= 8:
            history.handed(offset, 0, seq, ms + 9, partition=partition, group="audit", member="a1")
    for seq, (partition, offset) in enumerate([(0, 20), (1, 20), (0, 21)]):
        where = {"partition": partition, "attempt_ns": at(50 + seq), "done_ns": at(60 + seq)}
        history.acked(1, seq, offset, **where).handed(offset, 1, seq, 200 - 10 * seq, partition=partition)
    for seq in range(4):
        history.acked(2, seq, seq // 3, topic="bills", partition=seq % 3)
        history.handed(seq // 3, 2, seq, 90, topic="bills", partition=seq % 3)
    return history


def mishaps() -> History:
    """Several of each: damaged, phantom, ghost, recovered, duplicate and reordered ones, in two topics."""
    history = History(
        producers=[{"topic": "orders", "acks": "all", "count": 2}, {"topic": "bills", "acks": 1}],
        topics=[{"name": "orders", "partitions": 2}, {"name": "bills"}],
        groups={"billing": True},
    )
    history.event("joined", 0, topic=None, partition=None).event("assigned", 0, 0)
    for seq, offset in enumerate((0, 2, 1, 3)):
        history.acked(1, seq, offset, attempt_ns=at(40 + seq), done_ns=at(45 + seq))
    for seq, partition in ((0, 1), (1, 0), (2, 1)):
        history.acked(0, seq, 4 + seq, partition=partition).stored(10 + seq, 0, seq, partition=partition)
    history.stored(20, 0, 1).sent(0, 3, None, "failed", error="INVALID_RECORD").stored(21, 0, 3)
    history.sent(0, 4, None, "failed").sent(0, 5, None, "unknown", partition=None).stored(22, 0, 5)
    history.sent(0, 6, None, "unknown", error="_MSG_TIMED_OUT").sent(0, 7, 25).sent(0, 8, None)
    history.stored(23, 0, 77).stored(24, 5, 0).stored(25, None, None, intact=False).stored(26, None, None)
    history.sent(2, 0, 0, topic="bills").sent(2, 1, 1, topic="bills").stored(1, 2, 2, topic="bills")
    history.sent(2, 2, 0, topic="bills").sent(2, 3, 3, topic="bills", done_ns=None)
    for offset, producer, seq, ms in (
        (0, 1, 0, 50),
        (1, 1, 2, 51),
        (5, 0, 1, 60),
        (3, 1, 3, 70),
        (3, 1, 3, 80),
    ):
        history.handed(offset, producer, seq, ms)
    history.handed(25, None, None, 90, intact=False).handed(30, 0, 66, 91).handed(21, 0, 4, 92)
    return history.event("committed", 95, 22).event("committed", 96, 40).event("left", 100)


def elections() -> History:
    """What groups and share groups make of an election that took messages along, allowed or not; and
    transactions, and a pipe.
    """
    runs = [change(unclean(allowed=allowed)) for change, _ in BY_GROUPS.values() for allowed in (True, False)]
    for allowed in (True, False):
        share = accepted(unclean(allowed=allowed, group=SHARE), *OLD, ms=10)
        runs.append(accepted(accepted(share, (1, 1), *NEW, ms=300), NEW[1], ms=400, kind="released"))
    gone = handed(unclean().transaction(0, 2, 3, "unknown").event("assigned", 0, 0), *OLD, ms=10)
    torn = unclean().transaction(0, 0, 3).event("assigned", 0, 0)
    return side_by_side([*runs, handed(gone, *NEW, ms=300), torn, _pipe(unclean())])


def _pipe(history: History) -> History:
    """Outputs 2 and 3 are overwritten, a third one is gone from a partition where nothing explains it."""
    history.topics[0]["partitions"] = 2
    history.topics.append({"name": "paid", "replication-factor": 1})
    history.producers.append({"topic": "paid", "acks": "all"})
    history.groups, history.subscriptions = {"pipe": True}, {"pipe": ["paid"]}
    history.blocks, where = {"pipe": {}}, {"topic": "paid", "partition": 0}
    history.led(1, 0, 0, [1], partition=1).sent(0, 7, 0, partition=1)
    for seq, output in enumerate((0, 1, 2, 3, 7, 6)):
        history.acked(1, seq, seq, **where).handed(seq, 1, seq, 10 + seq, group="pipe", **where)
        history.output(0, output, seq - seq // 5, group="pipe", **where)
    return history


RUNS: Mapping[str, Callable[[], History]] = {
    "everything": everything,
    "failover": failover,
    "outages": outages,
    "slow": slow,
    "resized": resized,
    "mishaps": mishaps,
    "elections": elections,
    "anomalies": lambda: side_by_side([history() for history, _, _ in CASES.values()]),
}
