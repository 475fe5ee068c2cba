"""The list of runs: right, quick for a thousand, and read again where something was written."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import psutil
import pytest

from fakes.run_folders import STARTED, judged, made
from kaput.dashboard.listing import Line, Listing, filtered
from kaput.dashboard.safe_files import Runs
from kaput.evidence.recording import NAME, hold_to_record


def _lines(runs: Path) -> dict[str, Line]:
    return {line.name: line for line in Listing(Runs(runs)).lines()}


def test_each_run_has_its_state_and_what_it_lost(tmp_path: Path) -> None:
    """Judged or not; what is no run folder is not in the list."""
    judged(tmp_path, "a", "held", varied={"x.acks": "all"})
    judged(tmp_path, "b", "violated", lost=7)
    made(tmp_path, "c", "sealed")
    with hold_to_record(made(tmp_path, "d", "recording").path, "kaput run"):
        (tmp_path / "nothing").mkdir()
        (tmp_path / "file").write_text("")
        found = _lines(tmp_path)
    assert {name: (line.state, line.lost) for name, line in found.items()} == {
        "a": ("held", 0),
        "b": ("violated", 7),
        "c": ("not judged", None),
        "d": ("recording", None),
    }
    assert found["a"].varied == "x.acks=all" and found["a"].when == "2023-11-14 22:13:20"


def test_unmet_expectation_is_distinguished_from_a_broken_promise(tmp_path: Path) -> None:
    """In the line of the run; one that Kafka broke has nothing to add."""
    for name, promise in (("a", "held"), ("b", "violated")):
        path = judged(tmp_path, name, "violated").findings_path
        path.write_text(json.dumps(json.loads(path.read_text()) | {"promise": promise}))
    found = _lines(tmp_path)
    assert found["a"].message == "Kafka kept its promise; an expectation was not met"
    assert found["b"].message == ""


def test_the_newest_run_comes_first(tmp_path: Path) -> None:
    """By when it began, whatever its folder is called."""
    for name, at in (("a", 2), ("b", 3), ("c", 1)):
        judged(tmp_path, name, started_ns=STARTED + at)
    assert [line.name for line in Listing(Runs(tmp_path)).lines()] == ["b", "a", "c"]


@pytest.mark.parametrize(
    "what", ["", "{", '{"verdict": 3}', "[]", '{"verdict": "won", "anomalies": []}', "\x00"]
)
def test_damaged_findings_are_listed_as_unreadable(tmp_path: Path, what: str) -> None:
    """The line of the damaged one says so."""
    judged(tmp_path, "good")
    judged(tmp_path, "bad").findings_path.write_text(what)
    found = _lines(tmp_path)
    assert found["good"].state == "held"
    assert found["bad"].state == "unreadable"


def test_run_with_a_dead_recorder_is_marked(tmp_path: Path) -> None:
    """Nobody has that pid, or a process that is younger than the record."""
    folder = made(tmp_path, "d", "recording")
    host = os.uname().nodename
    mark = folder.path / NAME
    free = max(psutil.pids()) + 100_000
    mark.write_text(f"{free} {host} 2026-01-01T00:00:00Z kaput run\n")
    assert _lines(tmp_path)["d"].state == "recorder dead"
    mark.write_text(f"{os.getpid()} {host} 2001-01-01T00:00:00Z kaput run\n")
    assert _lines(tmp_path)["d"].state == "recorder dead"
    mark.write_text(f"{free} elsewhere 2026-01-01T00:00:00Z kaput run\n")
    assert _lines(tmp_path)["d"].state == "recording"


def test_changes_on_disk_appear_in_the_list(tmp_path: Path) -> None:
    """The same list, asked again."""
    made(tmp_path, "a")
    listing = Listing(Runs(tmp_path))
    assert [line.state for line in listing.lines()] == ["not judged"]
    judged(tmp_path / "elsewhere", "a", "inconclusive").findings_path.rename(tmp_path / "a" / "findings.json")
    judged(tmp_path, "b")
    assert {line.name: line.state for line in listing.lines()} == {"a": "inconclusive", "b": "held"}


def test_a_thousand_runs_are_listed_within_a_second(tmp_path: Path) -> None:
    """With findings as large as those of ten faults; in processor time, since tests share a machine."""
    for number in range(1000):
        path = judged(tmp_path, f"run-{number}", lost=number).findings_path
        padding = ", ".join(f'"story {n}": "message {n} was acknowledged and is gone"' for n in range(600))
        path.write_text(path.read_text().replace('"verdict"', f'"more": {{{padding}}}, "verdict"'))
    listing = Listing(Runs(tmp_path))
    began = time.process_time()
    assert len(listing.lines()) == 1000
    first = time.process_time() - began
    began = time.process_time()
    assert len(listing.lines()) == 1000
    assert first < 1 and time.process_time() - began < 0.5


def test_runs_are_chosen_by_words_and_state() -> None:
    """Every word somewhere, in any case."""
    lines = [
        Line("1-a", "leader-kill", state="held", lost=0),
        Line("2-b", "leader-isolated", "acks=1", state="violated", lost=3),
    ]
    assert filtered(lines) == lines
    assert filtered(lines, "LEADER acks=1") == lines[1:]
    assert filtered(lines, state="held") == lines[:1]
    assert filtered(lines, "2-b", "held") == []
