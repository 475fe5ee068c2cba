"""A leader cut off from all other nodes while its clients still reach it: a minute, in 3,000 messages.

What a real run of leader-isolated-acks-1 looks like, written by hand, for whatever looks at a whole run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fakes.histories import History, Row, at
from fakes.in_process import InProcess
from kaput.analysis.pipeline import analyse
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check

MESSAGES = 3_000
_EVERY_MS = 20
CUT_MS, ELECTED_MS, HEALED_MS = 15_000, 24_000, 45_000
_KILLED_MS, _GIVEN_MS = 30_000, 33_000  # member m2, whose partition m1 gets
_DRAIN_MS, END_MS = 61_000, 66_000
LOST = (HEALED_MS - CUT_MS) // _EVERY_MS // 2  # of every other message


def isolation() -> History:
    """The evidence: orders/0 is led by the broker that is cut off, orders/1 by another."""
    history = History(
        producers=[{"topic": "orders", "acks": "1", "messages": MESSAGES}],
        topics=[{"name": "orders", "partitions": 2, "replication-factor": 3}],
        groups={"billing": True},
        cluster={"brokers": 3},
        faults=[{"at": "15s", "fault": "isolate", "target": "leader-of orders/0", "for": "30s"}],
    )
    history.fault(
        1,
        CUT_MS,
        HEALED_MS,
        id="1-isolate",
        fault="isolate",
        target="leader-of orders/0",
        proof="broker 1: no packet of another node arrived for 29,950 ms; 1,482 were dropped",
    )
    _cluster(history)
    _messages(history)
    _members(history)
    return history.read_to_end()


def _cluster(history: History) -> None:
    for partition, leader in ((0, 1), (1, 3)):
        history.led(leader, 0, -5_000, [1, 2, 3], partition=partition)
    history.led(2, 1, ELECTED_MS, [2, 3])
    for kind, ms in (("fenced", ELECTED_MS), ("unfenced", HEALED_MS + 800)):
        history.add("cluster_events", kind=kind, broker=1, at_ns=at(ms), source="history")
    for partition, ms, isr in ((1, ELECTED_MS, [2, 3]), (0, 47_500, [1, 2, 3]), (1, 47_900, [1, 2, 3])):
        history.add(
            "cluster_events",
            kind="isr",
            topic="orders",
            partition=partition,
            isr=isr,
            at_ns=at(ms),
            source="history",
        )


def _messages(history: History) -> None:
    """Every other one to orders/0, whose offsets from the cut on are used again after the heal."""
    offsets = [0, 0]
    again = None
    polled_ms = [0.0, 0.0]
    for seq in range(MESSAGES):
        ms, partition = seq * _EVERY_MS, seq % 2
        cut_off = partition == 0 and CUT_MS <= ms < HEALED_MS
        if cut_off and again is None:
            again = offsets[0]
        if partition == 0 and ms >= HEALED_MS and again is not None:
            offsets[0], again = again, None
        took = 2 + seq * 7 % 5 + (600 - (ms - HEALED_MS) / 2 if HEALED_MS <= ms < HEALED_MS + 1_000 else 0)
        times: Row = {"attempt_ns": at(ms), "done_ns": at(ms + took)}
        offset = offsets[partition]
        if cut_off:
            history.sent(0, seq, offset, partition=0, **times)
            for broker in (1,) if ms < HEALED_MS - 1_000 else ():
                history.add(
                    "replica_log",
                    broker=broker,
                    topic="orders",
                    partition=0,
                    offset=offset,
                    leader_epoch=0,
                    producer=0,
                    seq=seq,
                )
        else:
            epoch = 1 if partition == 0 and ms >= HEALED_MS else 0
            history.acked(0, seq, offset, partition=partition, leader_epoch=epoch, **times)
            polled_ms[partition] = _deliver(history, seq, offset, ms + took, polled_ms[partition])
        offsets[partition] += 1


def _deliver(history: History, seq: int, offset: int, stored_ms: float, last_ms: float) -> float:
    """When it was polled: in the order of offsets, by the member that had the partition."""
    partition = seq % 2
    waits = partition == 1 and _KILLED_MS - 100 <= stored_ms < _GIVEN_MS
    polled_ms = max(last_ms, _GIVEN_MS + 50 if waits else stored_ms + 8)
    member = "m2" if partition == 1 and polled_ms < _KILLED_MS else "m1"
    history.handed(offset, 0, seq, polled_ms, partition=partition, member=member)
    return polled_ms


def _members(history: History) -> None:
    for member, partition in (("m1", 0), ("m2", 1)):
        history.event("joined", -3_000, member=member, topic=None, partition=None)
        history.event("assigned", -2_000, member=member, partition=partition)
    history.event("killed", _KILLED_MS, member="m2", topic=None, partition=None)
    history.event("assigned", _GIVEN_MS, member="m1", partition=1)
    for row in _lags():
        history.add("samples", source="kaput", name="lag", **row)


def _lags() -> Iterator[dict[str, Any]]:
    for second in range(60):
        ms = second * 1_000
        waiting = 25 * max(0, second - _KILLED_MS // 1_000) if ms < _GIVEN_MS else 0
        for partition, value in ((0, 3), (1, 4 + waiting)):
            labels = [("group", "billing"), ("topic", "orders"), ("partition", str(partition))]
            yield {"at_ns": at(ms), "labels": labels, "value": float(value)}


def judged(path: Path, history: History | None = None) -> tuple[RunFolder, Findings]:
    """The run folder, judged, with findings.json."""
    folder = (history or isolation()).write(path)
    manifest = folder.read_manifest()
    folder.write_manifest(
        manifest.model_copy(
            update={
                "scenario": "leader-isolated",
                "ended_ns": at(END_MS),
                "phases": {"drain": (END_MS - _DRAIN_MS) / 1_000},
                "versions": {"kaput": "0.1.0", "kafka": "4.3.1", "python": "3.11.7"},
            }
        )
    )
    spark: Any = InProcess()
    findings = analyse(check(folder), spark)
    folder.findings_path.write_text(findings.to_json() + "\n", encoding="utf-8")
    return folder, findings
