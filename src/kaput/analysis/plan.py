"""Plans the tasks of an analysis: which row groups to encode, and the numbers of parts."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kaput.analysis.engine import steps
from kaput.analysis.engine.pieces import Parts
from kaput.analysis.runs.tables import Unit, units
from kaput.evidence.reading import STORE_TABLES, Evidence

BIG = ("sends", "log", "deliveries", "share_events", "transactions", "outputs", *STORE_TABLES)
SMALL_ROWS = 500_000  # up to this, one task of each kind
TASK_ROWS = 4_000_000
_PART_MESSAGES = 3_000_000


@dataclass(frozen=True)
class Plan:
    """`tasks`: the row groups that each encodes; `parts`: their numbers; `step_ns`: the finest step of
    time.
    """

    tasks: Sequence[Sequence[Unit]]
    parts: Parts
    step_ns: int = steps.FINEST_NS


def plan(evidence: Evidence, cores: int | None = None) -> Plan:
    """Plans tasks of about equal size, at least one per core unless the run is small."""
    cores = cores or os.cpu_count() or 1
    rows = sum(evidence.tables[table].rows for table in BIG)
    every = [unit for table in BIG for unit in units(evidence, table)]
    run_ns = _length_ns(evidence)
    if rows <= SMALL_ROWS:
        return Plan([every], Parts(1, 1), steps.width_ns(run_ns, few=True))
    parts = max(cores, math.ceil(evidence.tables["sends"].rows / _PART_MESSAGES))
    tasks = list(_split(every, max(cores, math.ceil(rows / TASK_ROWS))))
    return Plan(tasks, Parts(parts, parts), steps.width_ns(run_ns, few=False))


def _length_ns(evidence: Evidence) -> int | None:
    """The run's duration by its manifest; None without a begin or an end."""
    manifest = evidence.manifest
    return manifest.ended_ns - manifest.started_ns if manifest.ended_ns and manifest.started_ns else None


def _split(every: Sequence[Unit], count: int) -> Iterator[list[Unit]]:
    """Splits units into about `count` tasks of consecutive units, so a file's row groups stay in order."""
    share = sum(unit.rows for unit in every) / count
    task: list[Unit] = []
    for unit in every:
        task.append(unit)
        if sum(one.rows for one in task) >= share:
            yield task
            task = []
    if task:
        yield task
