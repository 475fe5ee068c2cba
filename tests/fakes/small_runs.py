"""Small runs written by hand, of which every number and sentence that the analysis tells is on record
(unit/analysis/documents). `python -m fakes.small_runs`, from the directory `tests`, writes those records
anew: read what has changed before it is committed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from fakes.everything import everything
from fakes.histories import START_NS, History, at, side_by_side
from fakes.in_process import InProcess
from kaput.analysis.document import findings
from kaput.analysis.engine.question import Check, Question
from kaput.analysis.facts import inputs
from kaput.analysis.pipeline import count
from kaput.analysis.plan import plan
from kaput.analysis.questions import questions
from kaput.analysis.run import Run
from kaput.evidence.reading import check
from spark.test_anomalies import CASES
from unit.analysis.test_consequences import BY_GROUPS, NEW, OLD, SHARE, accepted, handed, unclean

DOCUMENTS = Path(__file__).parent.parent / "unit" / "analysis" / "documents"


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
    ends, twice = {0: 0, 1: 0}, {}
    sends = [(100 * seq, 0, seq) for seq in range(120)] + [(500 * seq + 7, 1, seq) for seq in range(24)]
    for ms, producer, seq in sorted(sends):
        partition = (seq // 3) % 2
        times = {"partition": partition, "attempt_ns": at(ms), "done_ns": at(ms + 3 + seq % 5)}
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
    """When its sender knew."""
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
    who = {"group": "audit", "member": "a1"}
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
    "resized": resized,
    "mishaps": mishaps,
    "elections": elections,
    "anomalies": lambda: side_by_side([history() for history, _, _ in CASES.values()]),
}


def document(history: History, path: Path) -> dict[str, Any]:
    """What the analysis tells of it: the findings without what is as it always is, its tables, a line a row,
    what the verdict is told, and what must agree. Moments are in ms after the start of the run.
    """
    folder = history.read_to_end().write(path / "run")
    given = inputs.read(check(folder))
    run, asked = count(InProcess(), given, plan(given.evidence), "messages"), questions()  # type: ignore[arg-type]
    told = findings(run, asked).model_dump(mode="json", exclude_defaults=True)
    told["anomalies"] = [a for a in told["anomalies"] if a["count"]]
    whole = {
        "findings": told,
        "tables": {p.name: _lines(p) for p in sorted(folder.analysis.iterdir())},
        "facts": sorted(_facts(run, asked)),
        "checks": sorted(
            f"{c.what}: {c.one} by {c.how[0]}, {c.other} by {c.how[1]}" for c in _checks(run, asked)
        ),
    }
    found: dict[str, Any] = _readable(whole)
    return found


def _facts(run: Run, asked: Sequence[Question]) -> Iterator[str]:
    for section, key, fields in (part for question in asked for part in question.report(run)):
        for name, value in fields.items() if section in ("facts", "group_facts") else ():
            whose = "" if key is None else f"group {key}: "
            several = sorted(map(str, value)) if isinstance(value, list) else [str(value)]
            yield from (f"{whose}{name}: {each}" for each in several)


def _checks(run: Run, asked: Sequence[Question]) -> list[Check]:
    return [each for question in asked for each in question.checks(run)]


def _lines(table: Path) -> list[str]:
    rows = [_readable(row) for row in pq.read_table(table).to_pylist()]
    return [" | ".join(rows[0]), *(" | ".join(map(str, row.values())) for row in rows)] if rows else []


def _readable(value: Any) -> Any:
    """Times in place of numbers of nanoseconds since the epoch, at any depth."""
    if isinstance(value, dict):
        return {key: _readable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_readable(each) for each in value]
    if isinstance(value, int) and abs(value - START_NS) < 10**13:
        return f"{(value - START_NS) / 1e6:.6f}".rstrip("0").rstrip(".") + " ms"
    return value


class _Dumper(yaml.SafeDumper):
    """A line for each row, and for each sentence."""


def _sequence(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.Node:
    lines = bool(items) and all(isinstance(item, str) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=False if lines else None)


_Dumper.add_representer(list, _sequence)

if __name__ == "__main__":
    for name, run in RUNS.items():
        with tempfile.TemporaryDirectory() as scratch:
            told = document(run(), Path(scratch))
        as_read = {"sort_keys": False, "width": 160, "default_flow_style": None, "allow_unicode": True}
        (DOCUMENTS / f"{name}.yaml").write_text(yaml.dump(told, Dumper=_Dumper, **as_read))
