"""A small run written by hand with more standstills than are shown."""

from __future__ import annotations

from fakes.histories import History, Row, at


def slow() -> History:
    """Sixty messages of each partition, one after the other, take a second and a bit each, and so do the
    deliveries of every tenth. Producer 1 gives up after 500 ms and 2 does not tell all times; groups `audit`
    and `stray`, which the scenario does not know, rebalance meanwhile.
    """
    history = History(
        producers=[
            {"topic": "orders", "acks": "all"},
            {"topic": "bills", "acks": "all", "config": {"message.timeout.ms": 500}},
            {"topic": "bills", "acks": "all", "client": "java"},
        ],
        topics=[{"name": "orders", "partitions": 2}, {"name": "bills", "partitions": 2}],
        groups={"billing": True, "audit": True},
        subscriptions={"billing": ["orders"], "audit": ["bills"]},
    )
    history.led(1, 0, -100, [1, 2, 3]).led(1, 0, -100, [1, 2, 3], partition=1)
    for number in range(25):
        isr = [1, 2, 3] if number % 2 else [1, 2]
        history.led(1, 0, 20_100 + 20 * number, isr, kind="isr", partition=0)
    history.event("joined", -10, topic=None, partition=None)
    history.event("assigned", -5, 0).event("assigned", -5, 0, partition=1)
    history.event("revoked", 31_000).event("assigned", 31_500)
    for group, member, ms in (("audit", "a1", 40_500), ("audit", "a2", 90_500), ("stray", "s1", 50_500)):
        who: Row = {"group": group, "member": member, "topic": "bills"}
        history.event("joined", ms - 10, **who | {"topic": None, "partition": None}).event(
            "assigned", ms, 0, **who
        )
    ms = 0
    for seq in range(120):
        partition, took = 1 - seq // 60, 1_001 + 10 * (seq % 7 == 3) + (999 if seq == 117 else 0)
        times = {"partition": partition, "attempt_ns": at(ms), "done_ns": at(ms + took)}
        history.acked(0, seq, seq % 60, **times)
        polled = ms + took + (1_500 if seq % 10 == 0 else 3)
        polled = max(polled, 31_600) if 25 <= seq < 32 else polled
        history.handed(seq % 60, 0, seq, polled, partition=partition)
        ms += took
    _bills(history, ms + 5_000)
    return history


def _bills(history: History, ms: float) -> None:
    """A message waits for 3 s; others come within it, two of them long after one another."""
    where = {"topic": "bills", "partition": 0}
    rows = [
        *((1, 0, 0, 50, 3_000), (2, 0, 1, 1_000, 1_200), (2, 1, 2, 1_050, 1_900), (1, 1, 3, 3_000, 3_700)),
        *((2, 2, 4, 5_000, 6_000), (2, 3, 5, 5_100, None), (2, 4, 6, 5_200, 5_300)),
    ]
    for producer, seq, offset, attempt, done in rows:
        done_ns = None if done is None else at(ms + done)
        history.acked(producer, seq, offset, **where, attempt_ns=at(ms + attempt), done_ns=done_ns)
        for group in ("audit", "stray"):
            late = {1: 1_210, 2: 1_910, 4: 6_000}.get(offset, (done or attempt) + 40)
            history.handed(offset, producer, seq, ms + late, **where, group=group, member=group[0] + "1")
    history.sent(
        1, 2, None, "unknown", topic="bills", partition=None, attempt_ns=at(ms + 60), done_ns=at(ms + 90)
    )
