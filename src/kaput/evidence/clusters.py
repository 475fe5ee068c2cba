"""Qualifies topic names with their clusters' names (core.py: qualified), in columns and in rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kaput.core import CLUSTER_SEPARATOR, qualified


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
