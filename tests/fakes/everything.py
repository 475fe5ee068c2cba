"""A history that has a row or more in every table, and something to find in most."""

from __future__ import annotations

from fakes.histories import History, Row, at


def everything() -> History:
    """A row or more in every table, with words of all sorts, and losses that a replica was seen to hold."""
    history = History(
        producers=[{"topic": "orders", "acks": 1, "count": 3}],
        topics=[{"name": name, "partitions": 2} for name in ("orders", "bills.v2")],
        groups={"billing": True, "ärger 'n' \\ \"quotes\"": False, "queue": True},
        blocks={"queue": {"type": "share"}},
    )
    history.acked(0, 0, 0, attempt_ns=at(10), done_ns=at(11))
    for seq, ms in ((1, 150), (2, 500), (3, 1100)):
        history.sent(0, seq, seq, attempt_ns=at(ms), done_ns=at(ms + 1))
    history.acked(1, 0, 1, leader_epoch=1, attempt_ns=at(600), done_ns=at(601))
    history.acked(1, 1, 2, leader_epoch=1, attempt_ns=at(1200), done_ns=at(1201))
    for seq, error in enumerate(["TIMED_OUT", "purged: größer", None, "TIMED_OUT"]):
        outcome = "failed" if seq == 1 else "unknown"
        history.sent(2, seq, None, outcome, topic="bills.v2", partition=seq % 2, error=error)
    history.stored(0, 2, 0, topic="bills.v2").stored(1, None, None, topic="bills.v2", intact=False)
    for group in list(history.groups)[:2]:
        for member in ("m1", "m2-\N{SNOWMAN}"):
            who: Row = {"group": group, "member": member}
            history.event("joined", 1, **who, topic=None, partition=None).event("assigned", 2, 0, **who)
            history.handed(0, 0, 0, 20, **who).handed(2, 1, 1, 1300, **who)
            history.event("committed", 1400, 3, **who).event("revoked", 1500, **who)
    for offset, kind in ((0, "accepted"), (1, "rejected"), (2, "released")):
        reader: Row = {"group": "queue", "member": "s-\N{SNOWMAN}"}
        history.shared("acquired", offset, 30, 1, **reader).shared(kind, offset, 31, **reader)
    history.led(1, 0, 0, [1, 2, 3]).led(2, 1, 400, [2, 3])
    history.add("cluster_events", kind="fenced", broker=1, at_ns=at(390), source="metadata log")
    for seq in (1, 2):
        where = {"topic": "orders", "partition": 0, "offset": seq, "leader_epoch": 0}
        history.add("replica_log", broker=1, producer=0, seq=seq, seen_ns=at(1000), **where)
    for labels in ([("node", "1")], []):
        history.add("samples", at_ns=at(5), source="lab", name="x", labels=labels, value=1.5)
    return history.fault(1, 100, 1000, fault="isolate").read_to_end()
