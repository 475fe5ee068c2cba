"""The bug report of a find, in Markdown for an issue tracker: versions, steps, result and evidence.

Lines of broker logs are warnings and errors from the first fault to the end of the load.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import yaml

from kaput.core import SECOND
from kaput.errors import KaputError
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from kaput.search.space import Space
from kaput.search.store import Find
from kaput.search.symptoms import name_of
from kaput.search.template import time_in_words

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
