"""Judges a run folder in this process, and asks the second opinion about its findings."""

from __future__ import annotations

import html
import json
import re
import shutil
from pathlib import Path

from fakes.in_process import InProcess
from kaput.analysis.pipeline import analyse
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from kaput.report.run_report import scenario_of, to_html, to_text
from kaput.report.timeline.reading import TimelineData, read_timeline
from second_opinion.answers import Opinion
from second_opinion.opinion import Examiner
from second_opinion.raw import Row
from second_opinion.simulated import Simulation, World
from second_opinion.timeline import Timeline


def findings_of(run: Path) -> Row:
    """The findings of a folder, as JSON has them; the analysis writes into the folder."""
    found = analyse(check(RunFolder(run)), InProcess())  # type: ignore[arg-type]
    document: Row = json.loads(found.model_dump_json(by_alias=True))
    return document


def played(world: World, folder: Path) -> Path:
    """The run folder of a world."""
    return Simulation(world).play().write(folder).path


def examined(run: Path, scratch: Path) -> list[Opinion]:
    """The opinions of a copy of a folder."""
    copy = scratch / run.name
    shutil.copytree(run, copy)
    return opinions_of(copy)


def opinions_of(run: Path) -> list[Opinion]:
    """Of the findings of a folder, and of the timeline that pages show of it."""
    found, examiner = findings_of(run), Examiner(run)
    return [*examiner.opinions(found), *Timeline(examiner, timeline_of(run, found)).all()]


def timeline_of(run: Path, found: Row) -> TimelineData:
    """What the charts of a judged folder show."""
    shown = read_timeline(RunFolder(run), Findings.model_validate(found))
    assert shown is not None
    return shown


def reports_of(run: Path, found: Row) -> tuple[str, str]:
    """What reports of a folder say: in a terminal, and on the page."""
    folder, findings = RunFolder(run), Findings.model_validate(found)
    page = re.sub(r"(?s)<(script|style).*?</\1>", " ", to_html(folder, findings))
    terminal = to_text(findings, run, scenario_of(folder))
    return str(terminal), html.unescape(re.sub(r"<[^>]+>", "", page))
