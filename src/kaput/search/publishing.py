"""Publishes a find: a scenario that anyone can run, the report of a run that shows it, and a bug report in
Markdown for an issue tracker.

Not here: confirming it (searching.py).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import yaml

from kaput.api.judging import keep_report
from kaput.core import SECOND, plural
from kaput.errors import KaputError
from kaput.evidence.findings import Findings
from kaput.evidence.findings_file import read_findings
from kaput.evidence.folder import RunFolder, replace_text
from kaput.evidence.reading import check
from kaput.scenario.loader import validated
from kaput.search.space import Space, time_in_words
from kaput.search.store import Find, SearchStore
from kaput.search.symptoms import name_of

SCENARIO, REPORT, TEXT = "scenario.yaml", "report.html", "bug-report.md"


def publish(space: Space, store: SearchStore, find: Find) -> str:
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


def _shown_by(store: SearchStore, find: Find) -> RunFolder:
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


def find_folder(store: SearchStore, find: Find) -> Path:
    return store.folder / "finds" / find.name


_LOGGED = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[^]]*\] (?:WARN|ERROR|FATAL) ")
_MOST_LINES = 15  # of each broker's log
_MOST_EVENTS = 40
_LONGEST = 300


def bug_report(space: Space, find: Find, run: RunFolder, findings: Findings) -> str:
    """The Markdown text. `run`: a run that shows the find."""
    manifest = run.read_manifest()
    versions = ", ".join(f"{name} {value}" for name, value in manifest.versions.items() if value)
    data = space.scenario_data(find.choices)
    steps = [_step(number, step) for number, step in enumerate(find.choices.steps, 1)]
    setup = {key: data[key] for key in ("cluster", "clusters", "topics", "workload") if key in data}
    parts = [
        f"# {find.symptom} on Kafka {findings.run.kafka}",
        f"{space.file.title}.",
        f"## Versions\n\n{versions}\n\nHost: {manifest.host.get('system', 'unknown')}",
        "## Setup\n\n" + _code(yaml.safe_dump(setup, sort_keys=False, width=100), "yaml"),
        "## Steps\n\n" + ("\n".join(steps) or "No fault is needed."),
        f"To repeat: `kaput run scenario.yaml --seed {find.seed}`. "
        f"It reproduced in {find.rate.text} tries; it was found after {find.after} random experiments.",
        "## Result\n\n" + "\n".join(f"- {reason}" for reason in findings.reasons),
        "## Expected\n\n" + _code(yaml.safe_dump(data["expect"]), "yaml"),
        "## Evidence\n\n" + "\n".join(_evidence(find, findings)),
        "## What the cluster recorded\n\n" + _code("\n".join(_events(run, findings))),
        "## What brokers logged\n\n" + _code("\n".join(_logged(run, findings))),
    ]
    return "\n\n".join(parts) + "\n"


def _code(text: str, language: str = "") -> str:
    return f"```{language}\n{text.rstrip()}\n```"


def _step(number: int, step: dict[str, object]) -> str:
    rest = {key: value for key, value in step.items() if key not in ("at", "fault", "target", "for")}
    lasts = f", for {step['for']}" if "for" in step else ""
    options = f" ({', '.join(f'{key} {value}' for key, value in rest.items())})" if rest else ""
    target, at = step.get("target", "any"), time_in_words(step["at"])
    return f"{number}. At {at}: {step['fault']} {target}{options}{lasts}."


def _evidence(find: Find, findings: Findings) -> Iterator[str]:
    for fault in findings.faults:
        yield f"- {fault.id} on {fault.target}: {fault.proof}"
    name = name_of(find.symptom)
    for anomaly in findings.anomaly(name):
        group = f" in group {anomaly.group}" if anomaly.group else ""
        yield f"- {anomaly.count:,} {name}{group}, for example:"
        yield from (f"  - {example.story}" for example in anomaly.examples[:3])


def _events(run: RunFolder, findings: Findings) -> Iterator[str]:
    """Lines of cluster events, with seconds since the load began."""
    try:
        rows = sorted(check(run).rows("cluster_events"), key=lambda row: row["at_ns"])
    except KaputError:
        return
    own = [r for r in rows if r["at_ns"] > findings.run.started_ns and not str(r["topic"]).startswith("__")]
    for row in own[:_MOST_EVENTS]:
        at = (row["at_ns"] - findings.run.started_ns) / SECOND
        if row["topic"] is None:
            yield f"{at:8.3f} s  broker {row['broker']} {row['kind']}"
            continue
        elr = f", ELR {row['elr']}" if row.get("elr") else ""
        yield (
            f"{at:8.3f} s  {row['topic']}/{row['partition']}: leader {row['leader']}, "
            f"epoch {row['leader_epoch']}, ISR {row['isr']}{elr}"
        )
    if len(own) > _MOST_EVENTS:
        yield f"({len(own) - _MOST_EVENTS} more)"


def _logged(run: RunFolder, findings: Findings) -> Iterator[str]:
    since = min((fault.injected_ns for fault in findings.faults), default=findings.run.started_ns)
    start = datetime.fromtimestamp(since // SECOND, UTC).strftime("%Y-%m-%d %H:%M:%S")
    for log in sorted(run.brokers.glob("*/server.log")):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        kept = [line[:_LONGEST] for line in lines if (m := _LOGGED.match(line)) and m[1] >= start]
        yield f"broker {log.parent.name}: {len(kept)} warnings and errors"
        yield from kept[:_MOST_LINES]
