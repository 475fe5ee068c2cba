"""Bounds and distinct values of columns, and topics qualified with their clusters' names (core.py:
qualified).

By row group, from statistics if possible, else from the values. Not here: whether statistics can be trusted
(parquet.py); reading the tables themselves, which the tasks do (analysis/runs/tables.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kaput.core import CLUSTER_SEPARATOR, qualified
from kaput.evidence.parquet import (
    DAMAGE,
    all_null,
    bounds,
    broken,
    footer_of,
    only_value,
    open_file,
    read_row_group,
    statistics_of,
    words_of,
)
from kaput.evidence.schemas import CLUSTER


def with_clusters(clusters: pa.ChunkedArray, topics: pa.ChunkedArray) -> pa.ChunkedArray:
    """Qualified names, from columns of cluster and topic names. Raises Arrow's errors."""
    clusters, topics = (
        pa.nulls(len(column), pa.string()) if pa.types.is_null(column.type) else column.cast(pa.string())
        for column in (clusters, topics)
    )
    named = pc.and_kleene(pc.is_valid(clusters), pc.not_equal(clusters, ""))
    joined = pc.binary_join_element_wise(clusters, topics, CLUSTER_SEPARATOR)
    return pc.if_else(named, joined, topics)


def qualify(row: dict[str, Any], cluster: str) -> None:
    """Qualifies the row's topic with the cluster's name, also in the labels of a sample."""
    if row.get("topic") is not None:
        row["topic"] = qualified(cluster, row["topic"])
    if row.get("labels"):
        row["labels"] = [(k, qualified(cluster, v) if k == "topic" and v else v) for k, v in row["labels"]]


def values(path: Path, index: int, name: str) -> pa.ChunkedArray:
    """A column of a row group; text dictionary-encoded if possible. Raises EvidenceError."""
    return read_row_group(open_file(path, [name]), path, index, [name]).column(0)


def bounds_of(path: Path, footer: pq.FileMetaData, index: int, name: str) -> tuple[int | None, int | None]:
    """A column's minimum and maximum in a row group, from statistics, else from the values."""
    group = footer.row_group(index)
    statistics = statistics_of(group, name)
    if all_null(statistics, group.num_rows):
        return None, None
    known = bounds(statistics)
    if known is not None:
        return known
    extremes = pc.min_max(values(path, index, name))
    return extremes["min"].as_py(), extremes["max"].as_py()


def distinct_words(files: Iterable[Path], column: str, by_cluster: bool = False) -> frozenset[str]:
    """The distinct texts of a column. Row groups with a single value are not read: statistics suffice.
    `by_cluster`: qualified with the cluster of the row. Raises EvidenceError.
    """
    words: set[str] = set()
    for path in files:
        footer = footer_of(path)
        for index in range(footer.num_row_groups):
            group = footer.row_group(index)
            if group.num_rows == 0:
                continue
            if by_cluster and not _without_cluster(group):
                words |= _with_cluster(path, index, column)
                continue
            only = only_value(statistics_of(group, column))
            if only is not None:
                words.add(str(only))
                continue
            column_values = values(path, index, column)
            words.update(word for word in words_of(path, column, column_values.unique()) if word is not None)
    return frozenset(words)


def _without_cluster(group: pq.RowGroupMetaData) -> bool:
    """Whether no row names a cluster, according to the footer."""
    names = [group.column(index).path_in_schema for index in range(group.num_columns)]
    return CLUSTER not in names or all_null(statistics_of(group, CLUSTER), group.num_rows)


def _with_cluster(path: Path, index: int, column: str) -> set[str]:
    rows = read_row_group(open_file(path, [column, CLUSTER]), path, index, [column, CLUSTER])
    try:
        qualified_words = with_clusters(rows[CLUSTER], rows[column]).unique()
    except DAMAGE as error:
        raise broken(path, f"column {column!r} or {CLUSTER!r} is not text: {error}") from None
    return {word for word in words_of(path, column, qualified_words) if word is not None}


def downtimes(
    events: Iterable[Mapping[str, Any]],
) -> dict[tuple[str | None, int], list[tuple[int, int | None]]]:
    """By cluster and broker, from when to when its process was gone (ns); None: to the end."""
    by_broker: dict[tuple[str | None, int], list[tuple[int, int | None]]] = {}
    for row in sorted(events, key=lambda row: (row["at_ns"], row["kind"] != "stopped")):
        if row["kind"] not in ("stopped", "started") or row["broker"] is None:
            continue
        spans = by_broker.setdefault((row.get("cluster"), row["broker"]), [])
        is_down = bool(spans) and spans[-1][1] is None
        if row["kind"] == "stopped" and not is_down:
            spans.append((row["at_ns"], None))
        elif row["kind"] == "started" and is_down:
            spans[-1] = (spans[-1][0], row["at_ns"])
    return by_broker
