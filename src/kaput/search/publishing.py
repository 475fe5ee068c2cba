"""Publishes a find: a scenario that anybody can run, the report of a run that shows it, and a bug report.

Not here: confirming it (confirmation.py).
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import yaml

from kaput.api.judging import keep_report
from kaput.core import plural
from kaput.evidence.findings import Findings
from kaput.evidence.findings_file import read_findings
from kaput.evidence.folder import RunFolder, replace_text
from kaput.scenario.loader import validated
from kaput.search.bug_report import bug_report
from kaput.search.space import Space
from kaput.search.store import Find, Store

SCENARIO, REPORT, TEXT = "scenario.yaml", "report.html", "bug-report.md"


def publish(space: Space, store: Store, find: Find) -> str:
    """Writes finds/NAME/ in the search's folder and returns NAME. Raises OSError."""
    name = f"{find.id}-{re.sub('[^a-z0-9]+', '-', find.symptom)}"
    folder = store.folder / "finds" / name
    folder.mkdir(parents=True, exist_ok=True)
    run = _shown_by(store, find)
    findings = read_findings(run.findings_path)
    replace_text(folder / SCENARIO, _scenario(space, find, findings))
    keep_report(run, findings)
    if (page := run.path / "report.html").is_file():
        shutil.copyfile(page, folder / REPORT)
    replace_text(folder / TEXT, bug_report(space, find, run, findings))
    return name


def _shown_by(store: Store, find: Find) -> RunFolder:
    """The latest run with the find's choices that shows it."""
    runs = [
        each.folder
        for each in store.experiments("probe", "final")
        if each.find == find.id and each.choices.key == find.choices.key
        if each.folder and find.symptom in each.symptoms
    ]
    return RunFolder(store.folder / "runs" / runs[-1])


def _scenario(space: Space, find: Find, findings: Findings) -> str:
    """A scenario file for `kaput run`; comments at the top say how it was found."""
    data = space.scenario_data(find.choices)
    data["title"] = f"{find.symptom}: found in the space {space.name}"
    data["description"] = (
        f"{space.file.title}. With {plural(len(find.choices.steps), 'fault')} it reproduced in "
        f"{find.rate.text} tries with seed {find.seed}. No published results."
    )
    assert validated(data)[0] is not None
    return (
        f"# Found by kaput search on Kafka {findings.run.kafka}. Reproduces in {find.rate.text} tries.\n"
        f"# kaput run {SCENARIO} --seed {find.seed}\n"
        + yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)
    )


def find_folder(store: Store, find: Find) -> Path:
    """The folder of a published find."""
    return store.folder / "finds" / find.name
