"""What waits for a heal: acknowledged 5 s before it and not committed at it; histories by hand."""

from __future__ import annotations

from pathlib import Path

from fakes.histories import History, at
from fakes.judging import judged
from kaput.evidence.findings import FaultFindings


def _judged(history: History, path: Path) -> FaultFindings:
    return judged(history, path).faults[0]


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


def test_stuck_messages_of_the_published_incident(tmp_path: Path) -> None:
    """Committed offset 10, log end 21: 11 messages are stuck."""
    assert _judged(_incident(), tmp_path).stuck == {"billing": 11}


def test_messages_committed_by_the_heal_are_not_stuck(tmp_path: Path) -> None:
    """The last commit by the heal counts."""
    history = _incident()
    history.event("committed", 19_999, 21)
    assert _judged(history, tmp_path).stuck == {}


def test_messages_acked_just_before_the_heal_are_not_stuck(tmp_path: Path) -> None:
    """Within 5 s a group that goes on may not have got to it: of messages 10 to 20, 10 to 14 are older."""
    assert _judged(_incident(healed_ms=7_450), tmp_path).stuck == {"billing": 5}


def test_fault_without_effect_leaves_nothing_stuck(tmp_path: Path) -> None:
    """Nor for one that was not healed."""
    history = _incident()
    history.rows["faults"][0]["bit"] = False
    assert _judged(history, tmp_path / "unproven").stuck == {}
    history = _incident()
    history.rows["faults"][0]["healed_ns"] = None
    assert _judged(history, tmp_path / "unhealed").stuck == {}


def test_records_from_before_the_run_are_not_stuck(tmp_path: Path) -> None:
    """In an existing topic offsets begin at a million; 21 messages are the run's."""
    history = _moved(_incident(), 1_000_000)
    history.rows["group_events"].clear()
    assert _judged(history, tmp_path).stuck == {"billing": 21}


def _moved(history: History, offsets: int) -> History:
    for table in ("sends", "log", "deliveries", "group_events"):
        history.rows[table] = [{**row, "offset": row["offset"] + offsets} for row in history.rows[table]]
    return history


def test_records_before_a_late_group_are_not_stuck(tmp_path: Path) -> None:
    """Nor where its assignment does not say at which offset; what was sent later it waits for."""
    for offset, assigned_ms, stuck in ((21, 4_000, {}), (None, 4_000, {}), (None, 1_950, {"billing": 11})):
        history = _incident()
        history.blocks = {"billing": {"config": {"auto.offset.reset": "latest"}}}
        history.rows["deliveries"].clear()
        history.rows["group_events"].clear()
        history.event("assigned", assigned_ms, offset)
        assert _judged(history, tmp_path / f"{offset}-{assigned_ms}").stuck == stuck


def test_times_before_the_unix_epoch_are_valid(tmp_path: Path) -> None:
    """The commit of ten messages counts."""
    history = _incident()
    for table, names in (
        ("sends", ("attempt_ns", "done_ns")),
        ("deliveries", ("polled_ns",)),
        ("group_events", ("at_ns",)),
        ("faults", ("injected_ns", "effective_ns", "healed_ns")),
    ):
        for row in history.rows[table]:
            row |= {name: row[name] - at(100_000) for name in names}
    assert _judged(history, tmp_path).stuck == {"billing": 11}


def test_commit_of_offset_minus_one_is_ignored(tmp_path: Path) -> None:
    """Kafka's word for it is -1: ten messages wait and lag, as if it had said nothing."""
    history = _incident()
    for row in history.rows["group_events"]:
        row["offset"] = -1
    found = judged(history, tmp_path)
    assert found.faults[0].stuck == {"billing": 21}
    assert found.groups[0].lag.final == 21


def test_last_confirmed_commit_counts(tmp_path: Path) -> None:
    """10, then a retried 5: sixteen wait."""
    assert _judged(_incident().event("committed", 950, 5), tmp_path).stuck == {"billing": 16}


def test_two_acks_of_one_offset_are_stuck_once(tmp_path: Path) -> None:
    """The deposed leader had given it to another message, which is lost."""
    history = _incident().sent(0, 21, 20, attempt_ns=at(3_050), done_ns=at(3_051))
    assert _judged(history, tmp_path).stuck == {"billing": 11}
