"""Latencies, rates, tables and counts of recorded runs: another value of a field is called false.

That the right ones are not is in test_recorded_runs.py.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from second_opinion.counts import Counts
from second_opinion.judging import findings_of
from second_opinion.measures import Measures
from second_opinion.opinion import FALSE, Examiner
from second_opinion.raw import SECOND, Row

RECORDED = Path(__file__).parents[1] / "recorded"
_MADE = TemporaryDirectory(prefix="kaput-measures-")  # removed when the worker ends
Path_ = tuple[str | int, ...]


@cache
def judged(name: str) -> tuple[Examiner, Row]:
    """A copy of a recorded run, as the second opinion reads it, and its findings."""
    folder = Path(_MADE.name) / name
    shutil.copytree(RECORDED / name, folder)
    return Examiner(folder), findings_of(folder)


def called_false(name: str, found: Row, *parts: type[Measures] | type[Counts]) -> set[str]:
    examiner, _ = judged(name)
    examiner.findings = found
    every = (one for part in parts for one in part(examiner).all())
    return {one.claim for one in every if one.verdict == FALSE}


def _more(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + (1 if value < SECOND else SECOND)
    if isinstance(value, list):
        return value[:-1]
    return None if value is None else {} if isinstance(value, dict) else f"{value} or not"


# Fields of which every one is examined that has a value (`*`: the first row or key with one).
FIELDS: dict[tuple[str, type[Measures] | type[Counts]], tuple[str, ...]] = {
    ("unclean-election", Measures): (
        "latency_ms ack *", "latency_ms around_faults * ack *", "rates sent_per_s", "rates acked_per_s",
        "rates ordered_per_s", "rates means * seconds", "rates means * sent_per_s",
        "rates means * acked_per_s", "rates slumps * longest_s", "rates slumps * below_per_s",
        "availability * load_s", "availability * within_timeout_share", "partition_tables * at_ns",
        "partition_tables * partitions", "partition_tables * partitions * isr",
        "partition_tables * partitions * replicas", "partition_tables * partitions * leader_down",
        "partition_tables * partitions * created", "faults * target", "faults * brokers",
        "faults * effective_ns", "faults * healed_ns", "faults * injected_ns", "faults * proof",
        "faults * affected_share",
    ),
    ("unclean-election", Counts): (
        "fates * count", "totals unread", "totals unknown", "totals log_records", "totals stored_messages",
        "high_watermark_arithmetic end_offsets", "high_watermark_arithmetic difference",
        "high_watermark_arithmetic holes", "leader_changes * offsets_used_twice",
        "leader_changes * deposed_acks_after_election", "leader_changes * old_leader_in_sync", "run kafka",
        "run ended_ns", "features * levels *",
    ),
    ("zombie-member", Measures): (
        "latency_ms end_to_end *", "latency_ms around_faults * end_to_end *", "rates means * delivered_per_s",
        "groups * end_to_end_ms *", "groups * delivered_per_s", "groups * lag max", "groups * lag final",
        "groups * drained", "groups * isolation", "groups * type",
    ),
    ("zombie-member", Counts): (
        "groups * fates * count", "groups * redelivered_after_commit", "rebalances * redelivered",
        "rebalances * members",
    ),
    ("hanging-transaction", Counts): (
        "transactions longest_standstill_ms", "transactions standstill_topic",
        "client_errors * messages *", "totals uncommitted",
    ),
    ("dc1-dies-and-returns", Counts): ("plan groups * read_twice", "plan groups * skipped"),
}  # fmt: skip


def _places(value: Any, names: list[str], path: Path_ = ()) -> Iterator[Path_]:
    """Where the fields of a name are in a document."""
    if not names:
        yield path
        return
    keys = [*(value if isinstance(value, dict) else range(len(value)))] if names[0] == "*" else [names[0]]
    for key in keys:
        yield from _places(value[key], names[1:], (*path, key))


def _changed(found: Row, path: Path_) -> Row | None:
    """The findings with another value there; None if there is none."""
    changed: Any = copy.deepcopy(found)
    holder: Any = changed
    for key in path[:-1]:
        holder = holder[key]
    if holder[path[-1]] in (None, [], {}):
        return None
    holder[path[-1]] = _more(holder[path[-1]])
    return changed  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("name", "part", "field"), [(*of, field) for of, fields in FIELDS.items() for field in fields]
)
def test_another_value_is_called_false(name: str, part: type[Measures] | type[Counts], field: str) -> None:
    found = judged(name)[1]
    changed = next(one for path in _places(found, field.split()) if (one := _changed(found, path)))
    assert called_false(name, changed, part)


def test_rows_behind_counts_are_examined() -> None:
    """A lost message that was not, and a redelivery at another offset."""
    for name, anomaly, key in (
        ("unclean-election", "lost", "seq"),
        ("zombie-member", "redelivered", "offset"),
    ):
        found = copy.deepcopy(judged(name)[1])
        rows = (row for one in found["anomalies"] if one["name"] == anomaly for row in one["examples"])
        next(rows)[key] = 0
        assert called_false(name, found, Counts)
