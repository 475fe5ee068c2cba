"""The streaming ledger against the analysis: the same history, cut into random micro-batches, with late data
and restarts, has the same totals.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from fakes.histories import History
from fakes.in_process import InProcess
from kaput.analysis.pipeline import analyse
from kaput.analysis.runs.names import Names
from kaput.analysis.streaming import ledger as live
from kaput.analysis.streaming.arrivals import arrivals, frame
from kaput.analysis.streaming.ledger import Ledger, Totals
from kaput.evidence.findings import Findings
from kaput.evidence.reading import check
from kaput.evidence.schemas import TABLES as CONTRACT
from property.worlds import World, together

SEED = 20_264
TABLES = ("sends", "log", "deliveries")
Rows = list[dict[str, Any]]


def _history(numbers: range) -> History:
    """Worlds whose partitions were all read to their end."""
    history = together([World(SEED, number) for number in numbers])
    places = [(topic["name"], p) for topic in history.topics for p in range(topic.get("partitions", 1))]
    ends = dict.fromkeys(places, 0)
    for row in history.rows["log"]:
        place = (row["topic"], row["partition"])
        ends[place] = max(ends.get(place, 0), row["offset"] + 1)
    history.rows["end_offsets"] = [
        {"topic": t, "partition": p, "end_offset": end, "drained_to": end} for (t, p), end in ends.items()
    ]
    return history


def _cut(history: History, random: Random) -> Iterator[dict[str, Rows]]:
    """Micro-batches: each table in an order of its own, the log in that of its offsets; most rows come in
    their time, some much later.
    """
    left: dict[str, Rows] = {}
    for table in TABLES:
        rows = list(history.rows[table])
        if table == "log":
            rows.sort(key=lambda row: row["offset"])
        elif random.random() < 0.5:
            rows.sort(key=lambda row: random.random() * (3 if random.random() < 0.1 else 1))
        left[table] = rows
    while any(left.values()):
        batch: dict[str, Rows] = {}
        for table, rows in left.items():
            size = random.choice((0, 1, 5, 40, 400))
            batch[table], left[table] = rows[:size], rows[size:]
        yield batch


def _stream(history: History, names: Names, seed: int) -> Totals:
    random = Random(seed)
    ledger = Ledger.empty(names)
    for batch in _cut(history, random):
        frames = {
            table: frame(table, pa.Table.from_pylist(rows, schema=CONTRACT[table].schema), names)
            for table, rows in batch.items()
            if rows
        }
        ledger = ledger.after(arrivals(**frames))
        if random.random() < 0.2:  # killed, and gone on from what was kept
            ledger = pickle.loads(pickle.dumps(ledger))
        if random.random() < 0.2:  # to be asked changes nothing
            ledger.totals()
    return ledger.read_to_the_end({}).totals()


def _names(findings: Findings, history: History) -> Names:
    topics = sorted({row["topic"] for table in TABLES for row in history.rows[table]})
    return Names(topics, [group.group for group in findings.groups], ())


@pytest.mark.parametrize("fold", [10_000, 0])
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.long) for first in (40, 80))])
def test_streaming_totals_equal_the_analysis(
    first: int, fold: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fates, of groups as well, duplicates, phantoms; and the order, unless runs were folded."""
    monkeypatch.setattr(live, "FOLD_RUNS", fold)
    history = _history(range(first, first + 40))
    findings = analyse(check(history.write(tmp_path)), InProcess())
    counts = {a.name: a.count for a in findings.anomalies if a.group is None}
    assert min(counts[name] for name in ("lost", "duplicate", "phantom", "reordered")) > 0
    for seed in range(4):
        totals = _stream(history, _names(findings, history), seed)
        assert totals.fates == {(f.outcome, f.stored): f.count for f in findings.fates}
        assert totals.group_fates == {
            (g.group, f.outcome, f.stored, f.delivered): f.count for g in findings.groups for f in g.fates
        }
        assert totals.missing == counts["lost"]
        assert totals.duplicated == counts["duplicate"]
        assert totals.phantoms == counts["phantom"]
        if not fold:
            continue
        assert totals.reordered == counts["reordered"]
