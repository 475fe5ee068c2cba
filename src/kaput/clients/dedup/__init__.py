"""Three ways for a consumer to drop duplicates, and where each fails (docs/IDEMPOTENCE.md).

    EveryId         (1) remembers the id of every message
    HighWaterMark   (2) producers number their messages; remembers the last number of each producer
    OneProducer     (3) each partition has one producer at a time; remembers its epoch and the last number

A filter decides, a store keeps its state, and a consumer orders filter and effect (filters.py). Nothing here
imports the rest of kaput or needs Kafka; only streaming.py needs Spark. Not here: generated logs and scores
of the filters (benchmarks/dedup_scoring.py).
"""

from __future__ import annotations

from kaput.clients.dedup.filters import (
    Database,
    DiskIds,
    DiskMarks,
    Effect,
    EveryId,
    Filter,
    FilteringConsumer,
    HighWaterMark,
    MemoryMarks,
    NumberedRecord,
    OneProducer,
    Order,
    Scope,
    SortedIds,
)  # fmt: skip

__all__ = [
    "Database", "DiskIds", "DiskMarks", "Effect", "EveryId", "Filter", "FilteringConsumer", "HighWaterMark",
    "MemoryMarks", "NumberedRecord", "OneProducer", "Order", "Scope", "SortedIds",
]  # fmt: skip
