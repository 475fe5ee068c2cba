"""What waits for a heal: acknowledged 5 s before it and not committed at it; histories by hand."""

from __future__ import annotations

from pathlib import Path

from fakes.histories import History, at
from fakes.in_process import InProcess
from kaput.analysis.pipeline import analyse
from kaput.evidence.findings import FaultFindings
from kaput.evidence.reading import check


def _judged(history: History, path: Path) -> FaultFindings:
    found = analyse(check(history.read_to_end().write(path)), InProcess())  # type: ignore[arg-type]
    return found.faults[0]


def _incident(healed_ms: float = 20_000, committed_ms: float = 900) -> History:
    """As R3 has it: 21 messages, one a second from 1 s on; 10 of them committed; broker 1 is away."""
    history = History(producers=[{"topic": "orders", "acks": "all"}], groups={"billing": True})
    for seq in range(21):
        ms = 100 * seq if seq < 10 else 1_000 + 100 * seq
        history.acked(0, seq, seq, attempt_ns=at(ms), done_ns=at(ms + 1))
        history.handed(seq, 0, seq, ms + 2 if seq < 10 else healed_ms + 1_000)
    history.event("committed", committed_ms, 10)
    history.event("committed", healed_ms + 2_000, 21)
    return history.fault(1, 1_000, healed_ms)


def test_the_published_incident(tmp_path: Path) -> None:
    """Committed offset 10, log end 21: 11 messages are stuck."""
    assert _judged(_incident(), tmp_path).stuck == {"billing": 11}


def test_what_is_committed_in_time_is_not_stuck(tmp_path: Path) -> None:
    """The last commit by the heal counts."""
    history = _incident()
    history.event("committed", 19_999, 21)
    assert _judged(history, tmp_path).stuck == {}


def test_what_was_acknowledged_just_before_the_heal_is_not_stuck(tmp_path: Path) -> None:
    """Within 5 s a group that goes on may not have got to it: of messages 10 to 20, 10 to 14 are older."""
    assert _judged(_incident(healed_ms=7_450), tmp_path).stuck == {"billing": 5}


def test_nobody_waits_for_a_fault_that_did_not_bite(tmp_path: Path) -> None:
    """Nor for one that was not healed."""
    history = _incident()
    history.rows["faults"][0]["bit"] = False
    assert _judged(history, tmp_path / "unproven").stuck == {}
    history = _incident()
    history.rows["faults"][0]["healed_ns"] = None
    assert _judged(history, tmp_path / "unhealed").stuck == {}
