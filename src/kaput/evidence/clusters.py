"""Qualifies topic names with their clusters' names (core.py: qualified), in columns and in rows; and when the
processes of brokers were gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


def downtimes(
    events: Iterable[Mapping[str, Any]],
) -> dict[tuple[str | None, int], list[tuple[int, int | None]]]:
    """By cluster and broker, from when to when its process was gone (ns); None: to the end. `events`: rows of
    cluster_events.
    """
    found: dict[tuple[str | None, int], list[tuple[int, int | None]]] = {}
    for row in sorted(events, key=lambda row: (row["at_ns"], row["kind"] != "stopped")):
        if row["kind"] not in ("stopped", "started") or row["broker"] is None:
            continue
        spans = found.setdefault((row.get("cluster"), row["broker"]), [])
        is_down = bool(spans) and spans[-1][1] is None
        if row["kind"] == "stopped" and not is_down:
            spans.append((row["at_ns"], None))
        elif row["kind"] == "started" and is_down:
            spans[-1] = (spans[-1][0], row["at_ns"])
    return found
