"""What a group got only after a heal, though it was acknowledged 5 s before it; histories by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes.histories import History, at
from fakes.judging import judged
from kaput.evidence.findings import FaultFindings


def _judged(history: History, path: Path) -> FaultFindings:
    return judged(history, path).faults[0]


def _incident(healed_ms: float = 20_000, **config: str) -> History:
    """As R3 has it: 21 messages, one a second from 1 s on; 10 of them delivered; broker 1 is away."""
    history = History(producers=[{"topic": "orders", "acks": "all"}], groups={"billing": True})
    history.blocks = {"billing": {"config": config}} if config else {}
    for seq in range(21):
        ms = 100 * seq if seq < 10 else 1_000 + 100 * seq
        history.acked(0, seq, seq, attempt_ns=at(ms), done_ns=at(ms + 1))
        history.handed(seq, 0, seq, ms + 2 if seq < 10 else healed_ms + 1_000)
    history.event("committed", 900, 10)
    history.event("committed", healed_ms + 2_000, 21)
    return history.fault(1, 1_000, healed_ms)


def test_stuck_messages_of_the_published_incident(tmp_path: Path) -> None:
    """11 messages came only after the heal."""
    assert _judged(_incident(), tmp_path).stuck == {"billing": 11}


@pytest.mark.parametrize("commits", ["none", "late", "early"])
def test_commits_say_nothing_about_what_is_stuck(commits: str, tmp_path: Path) -> None:
    """Without any, with one long after the deliveries, or before them."""
    history = _incident()
    history.rows["group_events"].clear()
    if commits != "none":
        history.event("committed", 19_999 if commits == "early" else 100_000, 21)
    assert _judged(history, tmp_path / "late").stuck == {"billing": 11}
    for row in history.rows["deliveries"]:
        row["polled_ns"] = min(row["polled_ns"], at(10_000))
    assert _judged(history, tmp_path / "in time").stuck == {}


def test_first_deliveries_decide(tmp_path: Path) -> None:
    """Handed out once more after the heal, by another member; a delivery at the heal is not after it."""
    history = _incident()
    for seq in range(10, 20):
        history.handed(seq, 0, seq, 15_000 if seq < 19 else 20_000, member="m2")
    assert _judged(history, tmp_path).stuck == {"billing": 1}


def test_messages_acked_just_before_the_heal_are_not_stuck(tmp_path: Path) -> None:
    """Within 5 s a group that goes on may not have got to it: of messages 10 to 20, 10 to 14 are older."""
    assert _judged(_incident(healed_ms=7_401), tmp_path).stuck == {"billing": 5}
    assert _judged(_incident(healed_ms=7_400), tmp_path / "a ms less").stuck == {"billing": 4}


def test_fault_without_effect_leaves_nothing_stuck(tmp_path: Path) -> None:
    """Nor for one that was not healed."""
    history = _incident()
    history.rows["faults"][0]["bit"] = False
    assert _judged(history, tmp_path / "unproven").stuck == {}
    history = _incident()
    history.rows["faults"][0]["healed_ns"] = None
    assert _judged(history, tmp_path / "unhealed").stuck == {}


def test_lost_and_aborted_messages_are_not_stuck(tmp_path: Path) -> None:
    """Nor what was never delivered, and nothing is stored of: 3 of 11 remain."""
    history = _incident(**{"isolation.level": "read_uncommitted"})
    history.rows["log"] = [r for r in history.rows["log"] if r["seq"] not in (10, 11, 12)]
    history.rows["deliveries"] = [r for r in history.rows["deliveries"] if r["seq"] not in (12, 13, 14)]
    history.transaction(0, 15, 17, "aborted")
    for row in history.rows["log"]:
        row["visible"] = row["seq"] not in (15, 16, 17)
    assert _judged(history, tmp_path).stuck == {"billing": 3}


def test_what_was_not_read_back_may_be_stuck(tmp_path: Path) -> None:
    """It was delivered, so it was there; whether it is yet does not matter."""
    history = _incident()
    history.rows["log"] = [r for r in history.rows["log"] if r["seq"] < 15]
    history.add("end_offsets", topic="orders", partition=0, end_offset=21, drained_to=15)
    history.read_to_end = lambda: history  # type: ignore[method-assign]
    assert _judged(history, tmp_path).stuck == {"billing": 11}


def test_records_from_before_the_run_are_not_stuck(tmp_path: Path) -> None:
    """In an existing topic offsets begin at a million; 11 messages of the run are."""
    history = _incident()
    for table in ("sends", "log", "deliveries", "group_events"):
        history.rows[table] = [{**row, "offset": row["offset"] + 1_000_000} for row in history.rows[table]]
    assert _judged(history, tmp_path).stuck == {"billing": 11}


def test_records_before_a_late_group_are_not_stuck(tmp_path: Path) -> None:
    history = _incident(**{"auto.offset.reset": "latest"})
    history.rows["deliveries"].clear()
    history.rows["group_events"].clear()
    history.event("assigned", 4_000, 21)
    assert _judged(history, tmp_path).stuck == {}


def test_times_before_the_unix_epoch_are_valid(tmp_path: Path) -> None:
    """A negative time is before a heal at another."""
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


def test_acknowledgements_without_a_time_are_not_counted(tmp_path: Path) -> None:
    """Whether one was given 5 s before the heal is not known."""
    history = _incident()
    for row in history.rows["sends"]:
        row["done_ns"] = None
    assert _judged(history, tmp_path).stuck == {}


def test_commit_of_offset_minus_one_is_ignored(tmp_path: Path) -> None:
    """Kafka's word for it is -1: the whole log lags, as if it had said nothing."""
    history = _incident()
    for row in history.rows["group_events"]:
        row["offset"] = -1
    assert judged(history, tmp_path).groups[0].lag.final == 21


def test_two_acks_of_one_offset_are_stuck_once(tmp_path: Path) -> None:
    """The deposed leader had given it to another message, which is lost, and was delivered by nobody."""
    history = _incident().sent(0, 21, 20, attempt_ns=at(3_050), done_ns=at(3_051))
    assert _judged(history, tmp_path).stuck == {"billing": 11}
