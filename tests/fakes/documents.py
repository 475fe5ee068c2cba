"""What the analysis tells of small runs, to the last number and word: on record in unit/analysis/documents, a
file for each aspect, so that a new field changes one of them.

`python -m fakes.documents`, from the directory `tests`, writes those records anew: read what has changed
before it is committed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from fakes.histories import START_NS, History
from fakes.in_process import InProcess
from fakes.small_runs import RUNS
from kaput.analysis.document import findings
from kaput.analysis.engine.pieces import Parts
from kaput.analysis.engine.question import Check, Question, Reported
from kaput.analysis.facts import inputs
from kaput.analysis.pipeline import count
from kaput.analysis.questions import questions
from kaput.analysis.run import BIG, Plan, Run, plan
from kaput.analysis.runs.tables import units
from kaput.evidence.reading import Evidence, check
from kaput.scenario.vocabulary import LedgerRows

STRETCHES = "ledger of stretches"
DOCUMENTS = Path(__file__).parent.parent / "unit" / "analysis" / "documents"
# Which part of a document is in which file; what is not named is in the last one.
ASPECTS: Mapping[str, tuple[str, ...]] = {
    "anomalies": ("anomalies",),
    "claims": ("claims",),
    "groups": ("groups", "rebalances"),
    "leaders": ("faults", "leader_changes", "partition_tables"),
    "silences": ("standstills", "standstills_left_out", "suspects", "unavailability", "availability"),
    "tables": ("tables",),
    "facts": ("facts", "checks"),
    "totals": (),
}


def in_many_tasks(evidence: Evidence) -> Plan:
    """As a large run is judged: a task for each table, several parts."""
    tasks = [[unit] for table in BIG for unit in units(evidence, table)]
    return Plan(tasks, Parts(3, 4), plan(evidence).step_ns)


def document(
    history: History, path: Path, work: Callable[[Evidence], Plan] = plan, ledger: LedgerRows = "messages"
) -> dict[str, Any]:
    """What the analysis tells of it: the findings without what is as it always is, its tables, a line a row,
    the facts of the verdict, and what must agree. Moments are in ms after the start of the run.
    """
    folder = history.read_to_end().write(path / "run")
    given = inputs.read(check(folder))
    run, asked = count(InProcess(), given, work(given.evidence), ledger), questions()  # type: ignore[arg-type]
    _check_types_of_sums(run, asked)
    told = findings(run, asked).model_dump(mode="json", exclude_defaults=True)
    told["anomalies"] = [a for a in told["anomalies"] if a["count"]]
    whole = {
        **told,
        "tables": {_named(p.name, ledger): _lines(p) for p in sorted(folder.analysis.iterdir())},
        "facts": sorted(_facts(run, asked)),
        "checks": sorted(
            f"{c.what}: {c.one} by {c.how[0]}, {c.other} by {c.how[1]}" for c in _checks(run, asked)
        ),
    }
    found: dict[str, Any] = _readable(whole)
    return found


def _check_types_of_sums(run: Run, asked: Sequence[Question]) -> None:
    """Tasks return each sum with the types that its declaration gives to a sum without any part."""
    for name, kind in ((name, kind) for question in asked for name, kind in question.sums.items()):
        schema, declared = run.sums[name].schema, kind.empty().schema
        assert dict(schema) == dict(declared), f"sum {name}: {schema} instead of {declared}"


def _facts(run: Run, asked: Sequence[Question]) -> Iterator[str]:
    reported = (part for question in asked for part in question.report(run))
    for section, key, fields in (part for part in reported if isinstance(part, Reported)):
        if isinstance(key, tuple) and any(fields.get("excused", {}).values()):
            yield f"group {key[1]}: {key[0]} excused: {fields['excused']}"
        for name, value in fields.items() if section in ("facts", "group_facts") else ():
            whose = "" if key is None else f"group {key}: "
            several = sorted(map(str, value)) if isinstance(value, list) else [str(value)]
            yield from (f"{whose}{name}: {each}" for each in several)


def _checks(run: Run, asked: Sequence[Question]) -> list[Check]:
    return [part for question in asked for part in question.report(run) if isinstance(part, Check)]


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


# The one in C, where there is one, reads a megabyte in a second.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Dumper(yaml.SafeDumper):
    """A line for each row, and for each sentence."""


def _sequence(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.Node:
    lines = bool(items) and all(isinstance(item, str) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=False if lines else None)


_Dumper.add_representer(list, _sequence)


def aspect_of(part: str) -> str:
    """The file that holds this part of a document."""
    return next((aspect for aspect, parts in ASPECTS.items() if part in parts), "totals")


def recorded() -> dict[str, dict[str, Any]]:
    """The documents on record, by run."""
    runs: dict[str, dict[str, Any]] = {}
    for aspect in ASPECTS:
        for run, parts in yaml.load((DOCUMENTS / f"{aspect}.yaml").read_bytes(), _Loader).items():
            runs.setdefault(run, {}).update(parts)
    return runs


def record(documents: Mapping[str, dict[str, Any]]) -> None:
    """Puts documents on record, by run."""
    for aspect in ASPECTS:
        cut = {
            run: {part: value for part, value in document.items() if aspect_of(part) == aspect}
            for run, document in documents.items()
        }
        text = yaml.dump(
            cut, Dumper=_Dumper, sort_keys=False, width=160, default_flow_style=None, allow_unicode=True
        )
        (DOCUMENTS / f"{aspect}.yaml").write_text(text)


def _whole(run: str) -> dict[str, Any]:
    """A run's document, with its ledger in both forms."""
    with tempfile.TemporaryDirectory() as scratch:
        whole = document(RUNS[run](), Path(scratch))
        stretches = document(RUNS[run](), Path(scratch) / "again", ledger="stretches")
    whole["tables"] |= {STRETCHES: stretches["tables"][STRETCHES]}
    return whole


if __name__ == "__main__":
    record({run: _whole(run) for run in RUNS})
