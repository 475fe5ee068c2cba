"""`kaput analyze --profile`: what the CPU time of the tasks was spent on, by stage and question."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fakes import sample_run
from fakes.in_process import InProcess
from fakes.in_session import InSession
from kaput.analysis.engine import asking


def test_the_profile_adds_up_and_names_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines go to stderr, greatest first; without the option there are none."""
    folder = sample_run.write(tmp_path / "run").path
    kaput = InSession(InProcess(), monkeypatch, capsys)
    monkeypatch.setattr(asking, "CPU", asking.CpuTimes())
    plain = kaput("analyze", str(folder), "--no-page", "--json")
    asking.CPU.clear()
    profiled = kaput("analyze", str(folder), "--no-page", "--json", "--profile")
    assert profiled.stdout == plain.stdout and "CPU seconds" not in plain.stderr
    total, lines = profiled.stderr.partition("CPU seconds of all tasks: ")[2].split("\n", 1)
    found = re.findall(r"^ +(\d+\.\d\d)  (\w+) +(.+)$", lines, re.MULTILINE)
    seconds = [float(each[0]) for each in found]
    assert seconds == sorted(seconds, reverse=True)
    assert sum(seconds) == pytest.approx(float(total), abs=0.3)
    assert {"rows", "messages", "places"} <= {each[1] for each in found}
    assert {"reading Parquet", "encoding as runs", "matching runs", "Losses"} <= {each[2] for each in found}
