"""One name for a topic of a named cluster: `dc2:orders`. The topic of the only cluster keeps its name.

A topic's own name never has a colon, so that the two are apart again at the first one.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_BETWEEN = ":"


def qualified(cluster: str | None, topic: str) -> str:
    """The topic with its cluster, if that has a name."""
    return f"{cluster}{_BETWEEN}{topic}" if cluster else topic


def with_clusters(clusters: pa.ChunkedArray, topics: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same of whole columns: the names of topics with those of their clusters. Raises what Arrow does."""
    clusters, topics = (
        pa.nulls(len(column), pa.string()) if pa.types.is_null(column.type) else column.cast(pa.string())
        for column in (clusters, topics)
    )
    named = pc.and_kleene(pc.is_valid(clusters), pc.not_equal(clusters, ""))
    joined = pc.binary_join_element_wise(clusters, topics, _BETWEEN)
    return pc.if_else(named, joined, topics)


def parted(name: str) -> tuple[str | None, str]:
    """The cluster (None: the only one) and the topic's own name."""
    cluster, between, topic = name.partition(_BETWEEN)
    return (cluster, topic) if between else (None, name)
