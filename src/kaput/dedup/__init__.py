"""Three ways for a consumer to drop duplicates, and where each fails (docs/IDEMPOTENCE.md).

    every_id.py     (1) remembers the id of every message
    high_water.py   (2) producers number their messages; remembers the last number of each producer
    one_producer.py (3) each partition has one producer at a time; remembers its epoch and the last number

A filter decides (filter.py), a store keeps its state (stores.py), a consumer orders filter and effect
(consumer.py). traffic.py generates logs with duplicates, scoring.py scores the filters. Nothing here imports
the rest of kaput or needs Kafka; only streaming/ needs Spark.
"""

from __future__ import annotations

from kaput.dedup.consumer import Consumer, Effect, Order
from kaput.dedup.every_id import EveryId
from kaput.dedup.filter import Filter, Record
from kaput.dedup.high_water import HighWaterMark, Scope
from kaput.dedup.one_producer import OneProducer
from kaput.dedup.stores import Database, DiskIds, DiskMarks, MemoryMarks, SortedIds

__all__ = [
    "Consumer",
    "Database",
    "DiskIds",
    "DiskMarks",
    "Effect",
    "EveryId",
    "Filter",
    "HighWaterMark",
    "MemoryMarks",
    "OneProducer",
    "Order",
    "Record",
    "Scope",
    "SortedIds",
]
