"""Adds keys to the first examples, read again from their cluster, since offsets alone say little to users.

Records that retention has deleted since stay without a key. Not here: choosing the examples (rows).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kaput.cluster.existing import StandingCluster
from kaput.compare.answer import IDENTICAL, Row
from kaput.compare.reading import ReadRequest, read_records
from kaput.core import TopicPartition
from kaput.errors import LabError

_KEY_BYTES = 80
_TOPIC = "topic "


def with_keys(
    rows: Iterable[Row], source: StandingCluster, target: StandingCluster, names: Mapping[str, str]
) -> list[Row]:
    """The rows, with the record's `key` in examples of topics. `names`: source topic to target topic."""
    return [_with_keys(row, source, target, names) for row in rows]


def _with_keys(row: Row, source: StandingCluster, target: StandingCluster, names: Mapping[str, str]) -> Row:
    topic = row.what.removeprefix(_TOPIC)
    if row.status == IDENTICAL or not row.what.startswith(_TOPIC) or topic not in names:
        return row
    examples = []
    for example in row.examples:
        there = example.get("in") == "target"
        server, name = (target, names[topic]) if there else (source, topic)
        offset = example.get("source_offset", example.get("offset"))
        examples.append(_with_key(example, server, name, offset))
    return replace(row, examples=examples)


def _with_key(
    example: Mapping[str, Any], server: StandingCluster, topic: str, offset: int | None
) -> dict[str, Any]:
    if offset is None or "partition" not in example:
        return dict(example)
    place = TopicPartition(topic, example["partition"])
    try:
        found = list(read_records(ReadRequest(server, place, offset, offset + 1, Path())))
    except LabError:
        return dict(example)
    if not found:
        return dict(example)
    key = found[0].key
    shown = None if key is None else key[:_KEY_BYTES].decode("utf-8", errors="backslashreplace")
    return {**example, "key": shown}
