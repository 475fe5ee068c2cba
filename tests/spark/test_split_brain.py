"""Two leaders at once, on a history written by hand."""

from __future__ import annotations

from pathlib import Path

from fakes.histories import History, at
from fakes.in_process import InProcess
from kaput.analysis import pipeline
from kaput.evidence.findings import LeaderChange
from kaput.evidence.findings_parts import Learned
from kaput.evidence.reading import check
from kaput.report.sections import JudgedRun
from kaput.report.sections.leaders import leader_sentences


def _split() -> History:
    """Broker 1 is cut off from 100 to 1,000 ms, acknowledging until 1,101; broker 2 leads from 400 ms on."""
    history = History(
        producers=[{"topic": "orders", "acks": 1}, {"topic": "orders", "acks": 1}],
        topics=[{"name": "orders", "replication-factor": 3}],
    )
    history.acked(0, 0, 0, attempt_ns=at(10), done_ns=at(11))
    for seq, ms in ((1, 150), (2, 500), (3, 1100)):
        history.sent(0, seq, seq, attempt_ns=at(ms), done_ns=at(ms + 1))
    history.acked(1, 0, 1, leader_epoch=1, attempt_ns=at(600), done_ns=at(601))
    history.acked(1, 1, 2, leader_epoch=1, attempt_ns=at(1200), done_ns=at(1201))
    history.led(1, 0, 0, [1, 2, 3]).led(2, 1, 400, [2, 3])
    return history.fault(1, 100, 1000, fault="isolate").read_to_end()


def _replica(history: History, *seqs: int, epoch: int = 0) -> History:
    for seq in seqs:
        where = {"topic": "orders", "partition": 0, "offset": seq, "leader_epoch": epoch}
        history.add("replica_log", broker=1, producer=0, seq=seq, seen_ns=at(1000), **where)
    return history


def test_two_leaders_at_once(tmp_path: Path, played: InProcess) -> None:
    """Who acknowledged what, for how long both did, and what went on after the heal."""
    findings = pipeline.analyse(check(_split().write(tmp_path)), played)
    assert findings.leader_changes == [
        LeaderChange(
            topic="orders",
            partition=0,
            elected_ns=at(400),
            epoch=1,
            leader=2,
            old_leader=1,
            old_leader_in_sync=False,
            unclean=False,
            fault="1-kill",
            first_ack_ns=at(601),
            last_deposed_ack_ns=at(1101),
            two_leaders_ms=701,
            overlap_ms=500,
            deposed_acks=3,
            deposed_acks_after_election=2,
            lost=3,
            lost_after_heal=1,
            offsets_used_twice=2,
            learned=[Learned(client="librdkafka", producers=1, first_ms=201, last_ms=201, median_ms=201)],
        )
    ]
    assert (findings.faults[0].lost, findings.faults[0].lost_after_heal) == (3, 1)


def test_losses_seen_on_a_replica(tmp_path: Path, played: InProcess) -> None:
    """Two of three were seen under the old epoch. A copy under the new one is not the deposed leader's."""
    history = _replica(_replica(_split(), 1, 2), 3, epoch=1)
    (change,) = (found := pipeline.analyse(check(history.write(tmp_path)), played)).leader_changes
    assert (change.lost_seen, change.lost_unseen, change.lost_unseen_last_ms) == ({1: 2}, 1, 0)
    (sentence,) = leader_sentences(JudgedRun(found))
    assert "2 of the 3 lost messages were seen on broker 1's disk before its log was truncated" in sentence
    assert "1 lost message, acknowledged in the last 0 ms, on no broker's disk" in sentence
    assert "both acknowledged for 500 ms" in sentence


def test_leader_change_without_overwrite_has_zero_losses(tmp_path: Path, played: InProcess) -> None:
    """A change of leader that overwrote nothing has zeros, and no overlap."""
    history = _split()
    history.rows["sends"] = [row for row in history.rows["sends"] if (row["producer"], row["seq"]) < (0, 1)]
    history.rows["sends"] += [row for row in _split().rows["sends"] if row["producer"] == 1]
    findings = pipeline.analyse(check(history.write(tmp_path)), played)
    (change,) = findings.leader_changes
    assert (change.deposed_acks, change.lost, change.overlap_ms) == (0, 0, None)
    assert change.two_leaders_ms is None
    assert change.first_ack_ns == at(601)
    assert "acknowledged nothing that was overwritten" in leader_sentences(JudgedRun(findings))[0]
