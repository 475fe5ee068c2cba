"""Judges a run folder in this process, and asks the second opinion about its findings."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from fakes.in_process import InProcess
from kaput.analysis.pipeline import analyse
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from second_opinion.answers import Opinion
from second_opinion.opinion import opinions
from second_opinion.raw import Row
from second_opinion.simulated import Simulation, World


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
    return opinions(copy, findings_of(copy))
