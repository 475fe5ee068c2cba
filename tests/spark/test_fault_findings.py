"""What a fault did and how long it took, and the causes of losses, on histories written by hand."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fakes.histories import History, at
from fakes.in_process import InProcess
from kaput.analysis.pipeline import analyse
from kaput.errors import EvidenceError
from kaput.evidence.findings import Findings
from kaput.evidence.reading import check


def _times(ms: float, after: float = 1) -> dict[str, int]:
    return {"attempt_ns": at(ms), "done_ns": at(ms + after)}


def _failover(acks: object = 1, unclean: bool = False, **topic: object) -> History:
    """Broker 1 acknowledges messages 1 and 2 alone and is killed at 100 ms; broker 2 leads from 600 ms on."""
    history = History(
        producers=[{"topic": "orders", "acks": acks}],
        topics=[{"name": "orders", "replication-factor": 3, **topic}],
    )
    history.acked(0, 0, 0, **_times(10)).sent(0, 1, 1, **_times(50)).sent(0, 2, 2, **_times(90))
    history.sent(0, 3, None, "unknown", **_times(200, 400))
    history.acked(0, 4, 1, leader_epoch=1, **_times(300, 500)).acked(0, 5, 2, leader_epoch=1, **_times(900))
    history.led(1, 0, 0, [1, 2, 3] if not unclean else [1]).led(2, 1, 600, [2] if unclean else [2, 3])
    history.led(2, 1, 1500, [1, 2, 3], kind="isr")
    return history.fault(1, 100, 1200).read_to_end()


def _analyse(history: History, path: Path, played: InProcess) -> Findings:
    return analyse(check(history.write(path)), played)


def test_times_of_a_failover(tmp_path: Path, played: InProcess) -> None:
    """Election, first acknowledgement, silence, losses and recovery are those of the history, to the ms."""
    fault = _analyse(_failover(), tmp_path, played).faults[0]
    assert (fault.election_ms, fault.first_ack_after_ms, fault.isr_restored_ms) == (500, 700, 300)
    assert fault.unavailable_ms is None  # 700 ms without an acknowledgement are no silence
    assert (fault.lost, fault.loss_window_ms, fault.lost_share) == (2, 40, 1.0)
    # Nobody read.
    assert (fault.first_delivery_after_ms, fault.backlog_drained_ms) == (None, None)
    # Attempts at 200 (unknown) and 300 ms (acknowledged by the new leader) lie in the window.
    assert (fault.affected, fault.sent_in_window) == (2, 2)


def test_reader_catch_up_time_after_a_fault(tmp_path: Path, played: InProcess) -> None:
    """The first message of the new leader's that any group was handed; and the lag that it had before."""
    history = _failover()
    history.groups = {"early": False, "late": False}
    for group, ms in (("late", 1500), ("early", 950)):
        history.handed(0, 0, 0, 20, group=group).handed(1, 0, 4, ms, group=group)
    for group, lags in (("early", [(50, 3), (550, 9), (1050, 3)]), ("late", [(50, 1), (550, 5), (1550, 0)])):
        for ms, lag in lags:
            row = {"name": "lag", "value": float(lag), "labels": [("group", group)]}
            history.add("samples", at_ns=at(ms), source="history", **row)
    fault = _analyse(history, tmp_path, played).faults[0]
    assert (fault.first_delivery_after_ms, fault.backlog_drained_ms) == (850, 1450)


def test_loss_by_a_deposed_leader_is_permitted_with_acks_one(tmp_path: Path, played: InProcess) -> None:
    """acks=1: both losses are laid to the deposed leader, and permitted."""
    findings = _analyse(_failover(1), tmp_path, played)
    lost = findings.anomaly("lost")[0]
    assert (lost.count, lost.permitted, lost.causes) == (2, 2, {"deposed-leader": 2})
    assert findings.anomaly("inconsistent-offset")[0].permitted == 2
    assert findings.verdict == "held", findings.reasons


def test_loss_with_acks_all_is_a_violation(tmp_path: Path, played: InProcess) -> None:
    """acks=all: the same losses break the promise."""
    findings = _analyse(_failover("all"), tmp_path, played)
    assert (findings.verdict, findings.anomaly("lost")[0].permitted) == ("violated", 0)


def test_unclean_election_that_is_not_enabled_is_a_violation(tmp_path: Path, played: InProcess) -> None:
    """acks=all and a leader from outside the ISR, although that is not enabled: a violation."""
    findings = _analyse(_failover("all", unclean=True), tmp_path, played)
    assert findings.anomaly("lost")[0].causes == {"unclean-election": 2}
    assert findings.verdict == "violated"


def test_an_isr_of_one_explains_no_loss(tmp_path: Path, played: InProcess) -> None:
    """An eligible replica took over from an ISR of one that was never destroyed: it had everything."""
    history = _failover("all", unclean=True)
    history.rows["cluster_events"][0]["elr"] = [2]
    findings = _analyse(history, tmp_path, played)
    lost = findings.anomaly("lost")[0]
    assert (lost.permitted, lost.causes) == (0, {"deposed-leader": 2})
    assert findings.verdict == "violated", findings.reasons


def test_unclean_election_is_named(tmp_path: Path, played: InProcess) -> None:
    """A leader from outside the ISR overwrote them, which the topic allows."""
    allowed = {"config": {"unclean.leader.election.enable": True}}
    findings = _analyse(_failover("all", unclean=True, **allowed), tmp_path, played)
    lost = findings.anomaly("lost")[0]
    assert (lost.permitted, lost.causes) == (2, {"unclean-election": 2})
    assert findings.verdict == "held", findings.reasons


def test_loss_with_acks_zero_belongs_to_the_fault_it_was_attempted_in(
    tmp_path: Path, played: InProcess
) -> None:
    """acks=0: any loss is permitted; only what was attempted while the fault lasted is laid to it."""
    history = _failover(0)
    for row in history.rows["sends"]:
        row["outcome"], row["offset"] = "acked", None
    findings = _analyse(history, tmp_path, played)
    assert findings.anomaly("lost")[0].causes == {"acks-0": 3}
    assert (findings.verdict, findings.faults[0].lost) == ("held", 1)


def test_loss_without_a_later_epoch_is_unexplained(tmp_path: Path, played: InProcess) -> None:
    """acks=1 without a change of leader: a hole in the log is a violation."""
    history = History(producers=[{"topic": "orders", "acks": 1}]).acked(0, 0, 0).sent(0, 1, 1).acked(0, 2, 2)
    findings = _analyse(history.led(1, 0, -10, [1]).read_to_end(), tmp_path, played)
    assert findings.anomaly("lost")[0].causes == {"unexplained": 1}
    assert findings.verdict == "violated"


def test_fault_without_election_has_no_election_times(tmp_path: Path, played: InProcess) -> None:
    """A pause below the session timeout: the silence until its heal is all there is."""
    history = History().acked(0, 0, 0, **_times(10)).acked(0, 1, 1, **_times(110, 1_300))
    history.led(1, 0, -10, [1]).fault(1, 100, 1_400, fault="pause")
    fault = _analyse(history.read_to_end(), tmp_path, played).faults[0]
    assert (fault.election_ms, fault.first_ack_after_ms, fault.unavailable_ms) == (None, None, 1_300)
    waits = [(wait.condition, wait.faults, wait.seconds) for wait in fault.unavailable_waited_for]
    assert waits == [("heal", ["1-kill"], 1.29), ("client", [], 0.01)]
    assert (fault.affected, fault.sent_in_window) == (1, 1)


def test_ledger_lost_and_window_tables_are_complete(tmp_path: Path, played: InProcess) -> None:
    """The ledger has a row a message; lost its causes and faults; windows the runs of losses."""
    folder = _failover().write(tmp_path)
    analyse(check(folder), played, ledger="messages")
    ledger = {row["seq"]: row for row in pq.read_table(folder.analysis / "ledger").to_pylist()}
    assert {seq: row["stored"] for seq, row in ledger.items()} == {0: 1, 1: 0, 2: 0, 3: 0, 4: 1, 5: 1}
    lost = {row["seq"]: row for row in pq.read_table(folder.analysis / "lost").to_pylist()}
    assert [(lost[s]["cause"], lost[s]["fault"]) for s in (1, 2)] == [("deposed-leader", "1-kill")] * 2
    windows = pq.read_table(folder.analysis / "windows").to_pylist()
    assert [(w["first_seq"], w["last_seq"], w["lost"]) for w in windows] == [(1, 2, 2)]
    rates = pq.read_table(folder.analysis / "rates").to_pylist()
    assert [(r["attempted"], r["acked"], r["unknown"]) for r in rates] == [(6, 5, 1)]


def test_duplicate_send_row_is_rejected(tmp_path: Path, played: InProcess) -> None:
    """Two rows for one message contradict each other: refused, and named."""
    with pytest.raises(EvidenceError, match="message 0 of producer 0 has more than one row"):
        _analyse(History().sent(0, 0, 0).sent(0, 0, 1).read_to_end(), tmp_path, played)


def test_duplicate_log_row_is_rejected(tmp_path: Path, played: InProcess) -> None:
    """The same record at the same offset twice would count as a duplicate that Kafka never made."""
    with pytest.raises(EvidenceError, match="orders/0 offset 0 is there 2 times"):
        _analyse(History().acked(0, 0, 0).stored(0, 0, 0).read_to_end(), tmp_path, played)


def test_damaged_parquet_page_is_rejected(tmp_path: Path, played: InProcess) -> None:
    """A file whose footer is whole and whose pages are not is refused by name, not judged."""
    history = History()
    for seq in range(200):
        history.acked(0, seq, seq)
    folder = history.read_to_end().write(tmp_path)
    path = folder.table("log") / "part-0.parquet"
    content = bytearray(path.read_bytes())
    content[4:400] = bytes(396)
    path.write_bytes(content)
    with pytest.raises(EvidenceError, match=r"part-0\.parquet"):
        analyse(check(folder), played)
