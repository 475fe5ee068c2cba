"""What makes a run inconclusive or its evidence malformed, on folders planted by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driving import Kaput
from fakes.histories import History, at, side_by_side, write_table
from fakes.in_process import InProcess
from kaput.analysis.pipeline import analyse
from kaput.errors import EvidenceError
from kaput.evidence.reading import check


def _five(**more: object) -> History:
    """Five messages, acknowledged and stored."""
    history = History(**more)
    for seq in range(5):
        history.acked(0, seq, seq)
    return history


def _end(history: History, end: int, drained: int, partition: int = 0, topic: str = "orders") -> History:
    return history.add("end_offsets", topic=topic, partition=partition, end_offset=end, drained_to=drained)


def _two_partitions() -> History:
    return _five(topics=[{"name": "orders", "partitions": 2}])


def _elsewhere(table: str) -> History:
    """A partition that the scenario does not have, named by one table alone."""
    history = _end(_five(), 5, 5)
    if table == "sends":
        return history.sent(0, 5, None, "failed", partition=7)
    return history.stored(0, None, None, partition=7)


UNREAD = {
    "a part of the log": (_end(_five(), 10, 5), "Not read to the end: orders/0 (read to 5 of 10)."),
    "no end_offsets at all": (_five(), "Not read to the end: orders/0 (no end offset)."),
    "another partition": (
        _end(_end(_two_partitions(), 5, 5), 10, 0, 1), "Not read to the end: orders/1 (read to 0 of 10)."
    ),
    "another partition without an end": (_end(_two_partitions(), 5, 5), "orders/1 (no end offset)"),
    "a partition that only a send names": (_elsewhere("sends"), "orders/7 (no end offset)"),
    "a partition that only the log names": (_elsewhere("log"), "orders/7 (no end offset)"),
    "a topic of nobody's": (_end(_end(_five(), 5, 5), 3, 2, 0, "bills"), "bills/0 (read to 2 of 3)"),
    "many partitions": (
        _end(_five(topics=[{"name": "orders", "partitions": 9}]), 5, 5),
        "orders/1 (no end offset), orders/2 (no end offset), orders/3 (no end offset), "
        "orders/4 (no end offset), orders/5 (no end offset) and 3 more.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREAD)
def test_an_unread_tail_is_inconclusive(name: str, tmp_path: Path, played: InProcess) -> None:
    """Though no message is missing: what else the rest of a partition holds is not known."""
    history, words = UNREAD[name]
    findings = analyse(check(history.write(tmp_path)), played)
    assert findings.verdict == "inconclusive"
    assert findings.anomaly("lost")[0].count == 0
    assert any(words in reason and "phantoms" in reason for reason in findings.reasons), findings.reasons


def test_every_unread_partition_is_named(tmp_path: Path, played: InProcess) -> None:
    """All the histories as one run: none of their partitions is forgotten among the others."""
    evidence = check(side_by_side([history for history, _ in UNREAD.values()]).write(tmp_path))
    found = analyse(evidence, played)
    assert len(found.unread_partitions) == 15


def test_a_violation_beats_an_unread_tail(tmp_path: Path, played: InProcess) -> None:
    """What is proven is proven; the rest is still reported."""
    findings = analyse(check(_end(_five().stored(5, 0, 99), 10, 6).write(tmp_path)), played)
    assert findings.verdict == "violated"
    assert any("orders/0 (read to 6 of 10)" in reason for reason in findings.reasons)


def test_ends_that_contradict_each_other_are_malformed(tmp_path: Path, played: InProcess) -> None:
    """Two different rows of one partition are refused by file and row; the same again says nothing."""
    history = _end(_end(_five(), 5, 5), 5, 5)
    analyse(check(history.write(tmp_path)), played)
    folder = _end(history, 10, 5).write(tmp_path)
    with pytest.raises(EvidenceError, match=r"end_offsets/part-0.parquet, row 3: .*orders/0.*5, 5"):
        analyse(check(folder), played)


def _group(assigned: bool = True) -> History:
    history = _five(groups={"billing": True})
    if assigned:
        history.event("assigned", 0, 0)
    for seq in range(5):
        history.handed(seq, 0, seq, 10 + seq)
    return history.read_to_end()


NOWHERE = {"topic": None, "partition": None}
EVENTS: dict[str, tuple[History, dict[str, int]]] = {
    "assigned nothing by name": (_group(False).event("assigned", 0, **NOWHERE), {}),
    "assigned a topic": (_group(False).event("assigned", 0, partition=None), {}),
    "another partition was assigned": (_group(False).event("assigned", 0, partition=1), {}),
    "the partition was assigned to another member": (
        _group(False).event("assigned", 0, member="m2"), {"unassigned-delivery": 5}
    ),
    "assigned in another group": (_group(False).event("assigned", 0, group="audit"), {}),
    "all revoked": (_group().event("revoked", 12.5, **NOWHERE), {"unassigned-delivery": 2}),
    "all of the topic lost": (_group().event("lost", 12.5, partition=None), {"unassigned-delivery": 2}),
    "all of another topic revoked": (_group().event("revoked", 12.5, topic="bills", partition=None), {}),
    "all of another member revoked": (_group().event("revoked", 12.5, member="m2", **NOWHERE), {}),
    "all revoked and assigned anew": (
        _group().event("revoked", 14.5, **NOWHERE).event("assigned", 14.6).handed(0, 0, 0, 15),
        {"redelivered": 1},
    ),
    "revoked and assigned at one moment": (_group().event("assigned", 12.5).event("revoked", 12.5), {}),
    "all revoked without a word of assignments": (
        _group(False).event("revoked", 14.5, **NOWHERE).handed(0, 0, 0, 15), {"redelivered": 1}
    ),
}  # fmt: skip


def test_assignment_events_apply_to_their_named_partitions(tmp_path: Path, played: InProcess) -> None:
    """Assigned is what is named; revoked or lost without a partition is all that the member has."""
    histories = [history for history, _ in EVENTS.values()]
    findings = analyse(check(side_by_side(histories).write(tmp_path)), played)
    for number, (name, (_, expected)) in enumerate(EVENTS.items()):
        found = {a.name: a.count for a in findings.anomalies if a.count and a.group == f"{number}-billing"}
        assert (name, found) == (name, expected)


def _step(fault: str) -> dict[str, object]:
    return {"at": "1s", "fault": fault, "target": "broker 1", "for": "1s"}


def test_duplicate_fault_rows_are_malformed(tmp_path: Path, played: InProcess) -> None:
    """Two rows of one id are refused by file and row, also where they stand in two files."""
    history = _five(faults=[_step("kill"), _step("kill")]).read_to_end()
    history.fault(1, 10, 20, id="1-kill")
    folder = history.write(tmp_path)
    write_table(folder, "faults", history.rows["faults"], "part-1")
    with pytest.raises(EvidenceError, match=r"part-1.parquet, row 1: fault '1-kill' .*part-0.parquet, row 1"):
        analyse(check(folder), played)


@pytest.mark.parametrize(
    ("steps", "rows", "words"),
    [
        (["kill", "kill"], ["kill"], "1 of the scenario's 2 faults was never injected: 1 kill."),
        (["kill", "pause"], ["kill", "kill"], "1 of the scenario's 2 faults was never injected: 1 pause."),
        (
            ["kill", "pause", "pause"],
            [],
            "3 of the scenario's 3 faults were never injected: 1 kill, 2 pause",
        ),
        (["kill"], ["pause", "kill"], ""),
        ([], ["kill"], ""),
    ],
)
def test_extra_fault_rows_do_not_stand_in_for_missing_steps(
    steps: list[str], rows: list[str], words: str, tmp_path: Path, played: InProcess
) -> None:
    """Rows beyond the scenario's steps do not stand for missing ones."""
    history = _five(faults=[_step(name) for name in steps]).read_to_end()
    for name in rows:
        history.fault(1, 10, 20, fault=name)
    findings = analyse(check(history.write(tmp_path)), played)
    assert findings.verdict == ("inconclusive" if words else "held"), findings.reasons
    assert any(words in reason for reason in findings.reasons)


@pytest.mark.parametrize(("fault", "verdict"), [("kill", "inconclusive"), ("noop", "held")])
def test_a_fault_without_a_moment_is_no_proof(
    fault: str, verdict: str, tmp_path: Path, played: InProcess
) -> None:
    """`bit` is believed with the time of the effect alone; what does nothing has no effect to prove."""
    history = _five(faults=[_step(fault)]).read_to_end().fault(1, 10, 20, fault=fault, effective_ns=None)
    findings = analyse(check(history.write(tmp_path)), played)
    assert findings.verdict == verdict, findings.reasons
    assert any("taken effect, but not when" in r for r in findings.reasons) == (verdict == "inconclusive")


@pytest.mark.parametrize(
    ("fault", "at_ms", "verdict"),
    [
        ({}, 15, "held"),
        ({}, 25, "inconclusive"),
        ({}, 5, "inconclusive"),
        ({"fault": "noop"}, 15, "inconclusive"),
        ({"bit": False}, 15, "inconclusive"),
        ({"effective_ns": None}, 15, "inconclusive"),
    ],
)
def test_broker_death_is_excused_only_by_an_effective_fault(
    fault: dict[str, object], at_ms: float, verdict: str, tmp_path: Path, played: InProcess
) -> None:
    """Doing nothing, or what had no effect, ends no broker."""
    history = _five().read_to_end().fault(2, 10, 20, **fault)
    history.add("cluster_events", kind="stopped", broker=2, at_ns=at(at_ms), source="history")
    findings = analyse(check(history.write(tmp_path)), played)
    assert findings.verdict == verdict, findings.reasons
    assert any("Broker 2 stopped outside any fault" in r for r in findings.reasons) == (verdict != "held")


def test_exit_status_of_inconclusive_and_malformed_runs(tmp_path: Path) -> None:
    """3 for an unread tail, with the sentence; 2 for a fault with two rows, naming the row."""
    kaput = Kaput(tmp_path)
    _end(_five(), 10, 5).write(tmp_path / "unread")
    done = kaput.analyze(tmp_path / "unread", "--json")
    assert done.returncode == 3, done.stderr
    assert "orders/0 (read to 5 of 10)" in json.loads(done.stdout)["reasons"][0]
    history = _five().read_to_end().fault(1, 10, 20, id="a").fault(1, 30, 40, id="a")
    history.write(tmp_path / "twice")
    done = kaput.analyze(tmp_path / "twice", "--json")
    assert done.returncode == 2, done.stderr
    assert "row 2" in done.stderr and "'a'" in done.stderr
