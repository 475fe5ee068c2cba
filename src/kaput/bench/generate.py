"""Writes a generated run, its slabs in threads, and the small files around it.

The manifest is written last, so an unfinished folder is not a run folder. Not here: the content (plan.py).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from kaput.bench.plan import START_NS, STORE, TOPIC, PlantingPlan, Shape
from kaput.bench.tables import write_slab
from kaput.core import MS, VERSION
from kaput.errors import AccountingError, UsageError
from kaput.evidence.folder import EVIDENCE_SCHEMA, GroupDrain, Manifest, RunFolder, StoreRead, replace_text
from kaput.evidence.schemas import TABLES
from kaput.evidence.sealing import parquet_writer
from kaput.scenario.model import Scenario

_SLAB_MESSAGES = 4_000_000  # maximum: a task needs about 180 bytes for each
_BIG, _OF_GROUPS = ("sends", "log", "kept", "left_in_store"), ("deliveries", "group_events")
_BROKERS = [1, 2, 3]

Progress = Callable[[int, int], None]


def shape_of(
    messages: int,
    producers: int,
    partitions: int,
    groups: int,
    seed: int,
    uneven: bool = False,
    slab_messages: int | None = None,
) -> Shape:
    """A shape with this many messages, evenly distributed or (`uneven`) increasing by producer."""
    weights = [number + 1 if uneven else 1 for number in range(producers)]
    bounds = [messages * sum(weights[:number]) // sum(weights) for number in range(producers + 1)]
    counts = tuple(high - low for low, high in pairwise(bounds))
    if min(counts) < 1:
        raise UsageError(f"{messages:,} messages are too few: each of {producers:,} producers must send some")
    batch = 32 if messages >= 100_000 else 8
    slabs = max(-(-messages // (slab_messages or _SLAB_MESSAGES)), 2 if messages > 2_000_000 else 1)
    width = -(-max(counts) // (slabs * batch)) * batch
    return Shape(counts, partitions, groups, seed, batch, width)


def generate(plan: PlantingPlan, path: Path, progress: Progress) -> dict[str, Any]:
    """Writes the run folder; returns what its analysis must find. `progress` gets slabs done and all."""
    folder, shape = RunFolder(path), plan.shape
    path.mkdir(parents=True, exist_ok=True)
    expected = plan.expected()
    try:
        for name in (*_BIG, *(_OF_GROUPS if shape.groups else ())):
            folder.table(name).mkdir(parents=True)
        written = _write_slabs(plan, path.resolve(), progress)
        _check(plan, written)
        _write_small_tables(plan, folder)
        replace_text(folder.scenario_path, yaml.safe_dump(_scenario(shape).dump(), sort_keys=False))
        replace_text(path / "expected.json", json.dumps(expected, indent=2) + "\n")
        folder.write_manifest(_manifest(plan))
    except BaseException:
        shutil.rmtree(path / "evidence", ignore_errors=True)
        raise
    return expected


def _write_slabs(plan: PlantingPlan, path: Path, progress: Progress) -> list[tuple[int, ...]]:
    """Returns the numbers of rows of each slab. After an error or an interrupt no further slab begins."""
    slabs = plan.shape.slabs
    with ThreadPoolExecutor(os.cpu_count(), "kaput-slab") as pool:
        try:
            writing = [pool.submit(write_slab, plan, number, path) for number in range(slabs)]
            for done, slab in enumerate(as_completed(writing), 1):
                slab.result()
                progress(done, slabs)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [slab.result() for slab in writing]


def _check(plan: PlantingPlan, written: list[tuple[int, ...]]) -> None:
    """Compares the numbers of rows written with the plan. Raises AccountingError."""
    sent = sum(rows[0] for rows in written)
    holes = int(plan.offsets[-1].sum()) - sum(rows[1] for rows in written)
    if sent != plan.shape.messages or holes != plan.holes:
        raise AccountingError(f"{sent} sends and {holes} holes were written, which was not the plan")


def _write_small_tables(plan: PlantingPlan, folder: RunFolder) -> None:
    ends = [
        {"topic": TOPIC, "partition": partition, "end_offset": int(end), "drained_to": int(end)}
        for partition, end in enumerate(plan.offsets[-1])
    ]
    leaders = [
        {
            "kind": "leader",
            "topic": TOPIC,
            "partition": partition,
            "leader": _BROKERS[partition % len(_BROKERS)],
            "leader_epoch": 0,
            "isr": _BROKERS,
            "at_ns": START_NS - 1000 * MS,
            "source": "kaput bench generate",
        }
        for partition in range(plan.shape.partitions)
    ]
    for name, rows in (("end_offsets", ends), ("cluster_events", leaders)):
        folder.table(name).mkdir()
        with parquet_writer(TABLES[name], folder.table(name) / "made.parquet") as writer:
            writer.write_table(pa.Table.from_pylist(rows, schema=TABLES[name].schema))


def _scenario(shape: Shape) -> Scenario:
    return Scenario.model_validate(
        {
            "version": 1,
            "title": f"Made evidence: {shape.messages:,} messages",
            "topics": [
                {
                    "name": TOPIC,
                    "partitions": shape.partitions,
                    "replication-factor": len(_BROKERS),
                    "config": {"min.insync.replicas": 2},
                }
            ],
            "workload": {
                "producers": [
                    {"count": len(list(same)), "topic": TOPIC, "acks": "all", "messages": messages}
                    for messages, same in groupby(shape.counts)
                ],
                "groups": [
                    {"id": shape.group(number), "topics": [TOPIC], "members": shape.members}
                    for number in range(shape.groups)
                ],
            },
        }
    )


def _manifest(plan: PlantingPlan) -> Manifest:
    shape = plan.shape
    return Manifest(
        schema_=EVIDENCE_SCHEMA,
        run_id=uuid.UUID(int=random.Random(shape.seed).getrandbits(128), version=4),
        scenario="bench-generate",
        seed=shape.seed,
        state="sealed",
        versions={"kaput": VERSION},
        started_ns=START_NS - 1000 * MS,
        ended_ns=shape.ended_ns,
        groups=[GroupDrain(group=shape.group(number), drained=True) for number in range(shape.groups)],
        stores=[StoreRead(store=STORE, kind="sqlite", read=True)] if len(plan.plants.kind) else [],
    )
