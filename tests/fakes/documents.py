"""What the analysis tells of small runs, to the last number and word (on record in unit/analysis/documents).

`python -m fakes.documents`, from the directory `tests`, writes those records anew: read what has changed
before it is committed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from fakes.histories import START_NS, History
from fakes.in_process import InProcess
from fakes.small_runs import RUNS
from kaput.analysis.document import findings
from kaput.analysis.engine.pieces import Parts
from kaput.analysis.engine.question import Check, Question
from kaput.analysis.facts import inputs
from kaput.analysis.pipeline import count
from kaput.analysis.plan import BIG, Plan, plan
from kaput.analysis.questions import questions
from kaput.analysis.run import Run
from kaput.analysis.runs.tables import units
from kaput.evidence.folder import LedgerRows
from kaput.evidence.reading import Evidence, check

STRETCHES = "ledger of stretches"
DOCUMENTS = Path(__file__).parent.parent / "unit" / "analysis" / "documents"


def in_many_tasks(evidence: Evidence) -> Plan:
    """As a large run is judged: a task for each table, several parts."""
    tasks = [[unit] for table in BIG for unit in units(evidence, table)]
    return Plan(tasks, Parts(3, 4), plan(evidence).step_ns)


def document(
    history: History, path: Path, work: Callable[[Evidence], Plan] = plan, ledger: LedgerRows = "messages"
) -> dict[str, Any]:
    """What the analysis tells of it: the findings without what is as it always is, its tables, a line a row,
    what the verdict is told, and what must agree. Moments are in ms after the start of the run.
    """
    folder = history.read_to_end().write(path / "run")
    given = inputs.read(check(folder))
    run, asked = count(InProcess(), given, work(given.evidence), ledger), questions()  # type: ignore[arg-type]
    told = findings(run, asked).model_dump(mode="json", exclude_defaults=True)
    told["anomalies"] = [a for a in told["anomalies"] if a["count"]]
    whole = {
        "findings": told,
        "tables": {_named(p.name, ledger): _lines(p) for p in sorted(folder.analysis.iterdir())},
        "facts": sorted(_facts(run, asked)),
        "checks": sorted(
            f"{c.what}: {c.one} by {c.how[0]}, {c.other} by {c.how[1]}" for c in _checks(run, asked)
        ),
    }
    found: dict[str, Any] = _readable(whole)
    return found


def _facts(run: Run, asked: Sequence[Question]) -> Iterator[str]:
    for section, key, fields in (part for question in asked for part in question.report(run)):
        for name, value in fields.items() if section in ("facts", "group_facts") else ():
            whose = "" if key is None else f"group {key}: "
            several = sorted(map(str, value)) if isinstance(value, list) else [str(value)]
            yield from (f"{whose}{name}: {each}" for each in several)


def _checks(run: Run, asked: Sequence[Question]) -> list[Check]:
    return [each for question in asked for each in question.checks(run)]


def _named(table: str, ledger: LedgerRows) -> str:
    return f"ledger of {ledger}" if table == "ledger" else table


def _lines(table: Path) -> list[str]:
    rows = [_readable(row) for row in pq.read_table(table).to_pylist()]
    return [" | ".join(rows[0]), *(" | ".join(map(str, row.values())) for row in rows)] if rows else []


def _readable(value: Any) -> Any:
    """Times in place of numbers of nanoseconds since the epoch, at any depth."""
    if isinstance(value, dict):
        return {key: _readable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_readable(each) for each in value]
    if isinstance(value, int) and abs(value - START_NS) < 10**13:
        return f"{(value - START_NS) / 1e6:.6f}".rstrip("0").rstrip(".") + " ms"
    return value


class _Dumper(yaml.SafeDumper):
    """A line for each row, and for each sentence."""


def _sequence(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.Node:
    lines = bool(items) and all(isinstance(item, str) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=False if lines else None)


_Dumper.add_representer(list, _sequence)

if __name__ == "__main__":
    for name, run in RUNS.items():
        with tempfile.TemporaryDirectory() as scratch:
            told = document(run(), Path(scratch))
            stretches = document(run(), Path(scratch) / "again", ledger="stretches")
        told["tables"] |= {STRETCHES: stretches["tables"][STRETCHES]}
        as_read = {"sort_keys": False, "width": 160, "default_flow_style": None, "allow_unicode": True}
        (DOCUMENTS / f"{name}.yaml").write_text(yaml.dump(told, Dumper=_Dumper, **as_read))
