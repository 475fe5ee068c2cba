"""Reads the log of a kaput run, to test filters with duplicates that a real cluster stored."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from kaput.dedup.filter import Record
from kaput.dedup.traffic import Delivery

_COLUMNS = ("topic", "partition", "offset", "producer", "seq")


def read_run_log(run: Path) -> list[Delivery]:
    """The log table of a sealed run folder, by partition and offset, as read_committed readers see it.

    A message is identified by its producer and seq, which its id combines. Records of other programs are
    skipped.
    """
    table = pq.read_table(run / "evidence" / "log")
    visible = table["visible"].to_pylist() if "visible" in table.column_names else [None] * table.num_rows
    rows = zip(*(table[name].to_pylist() for name in _COLUMNS), visible, strict=True)
    found = []
    for topic, partition, offset, producer, seq, seen in sorted(rows, key=lambda row: row[:3]):
        if producer is not None and seen is not False:
            message = (producer << 40) + seq
            found.append(
                Delivery(Record(topic, partition, offset, message, producer, seq, number=seq), message)
            )
    return found
