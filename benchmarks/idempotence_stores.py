"""One filter, one store, N messages in a process of its own: how fast, how much memory, how much disk.

    python benchmarks/idempotence_stores.py disk-random 1000000 FOLDER

prints one line of JSON. Called by idempotence.py, a process for each line of its table.
"""

from __future__ import annotations

import argparse
import gc
import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil

from kaput.clients.dedup import (
    Database,
    DiskIds,
    DiskMarks,
    EveryId,
    Filter,
    HighWaterMark,
    NumberedRecord,
    OneProducer,
    SortedIds,
)

PRODUCERS, MANY, PARTITIONS = 10, 100_000, 3
_ODD = 0x9E3779B97F4A7C15


def ordered(index: int) -> int:
    """Ids of 63 bits that go up, as those that begin with a clock."""
    return 2**62 + index


def random(index: int) -> int:
    """Ids of 63 bits in no order."""
    return index * _ODD % 2**63


def uuid4(index: int) -> bytes:
    """Ids of 16 bytes in no order."""
    return (index * _ODD * _ODD % 2**128).to_bytes(16, "big")


class Nothing:
    """No filter: what reading costs alone."""

    def is_new(self, record: NumberedRecord) -> bool:
        """Always."""
        return True

    def mark(self, record: NumberedRecord) -> None:
        """Nothing."""

    def commit(self) -> None:
        """Nothing."""


Made = tuple[Callable[[Path], Filter], Callable[[int], int | bytes]]


def on_disk(of: Callable[[Database], Filter]) -> Callable[[Path], Filter]:
    """A filter in FOLDER/filter.db."""
    return lambda folder: of(Database(folder / "filter.db"))


WAYS: dict[str, Made] = {
    "none": (lambda folder: Nothing(), random),
    "memory-ordered": (lambda folder: EveryId(SortedIds()), ordered),
    "memory-random": (lambda folder: EveryId(SortedIds()), random),
    "disk-ordered": (on_disk(lambda database: EveryId(DiskIds(database))), ordered),
    "disk-random": (on_disk(lambda database: EveryId(DiskIds(database))), random),
    "disk-uuid4": (on_disk(lambda database: EveryId(DiskIds(database))), uuid4),
    "marks-memory": (lambda folder: HighWaterMark(), ordered),
    "marks-disk": (on_disk(lambda database: HighWaterMark(marks=DiskMarks(database))), ordered),
    "marks-disk-many": (on_disk(lambda database: HighWaterMark(marks=DiskMarks(database))), ordered),
    "one-producer-disk": (on_disk(lambda database: OneProducer(DiskMarks(database))), ordered),
}


def records(
    count: int, id_of: Callable[[int], int | bytes], batch: int, producers: int = PRODUCERS
) -> Iterator[list[NumberedRecord]]:
    """In batches; each producer writes its messages in order to three partitions."""
    for begin in range(0, count, batch):
        yield [
            NumberedRecord(
                "orders", i // producers % PARTITIONS, i, id_of(i), i % producers, i // producers, 0, i
            )
            for i in range(begin, min(begin + batch, count))
        ]


def fill(accepts: Filter, batches: Iterator[list[NumberedRecord]]) -> float:
    """Reads all records through the filter; in seconds."""
    start = time.perf_counter()
    for batch in batches:
        for record in batch:
            if accepts.is_new(record):
                accepts.mark(record)
        accepts.commit()
    return time.perf_counter() - start


def disk_bytes(path: Path) -> int:
    """Of a database, all of it in its file."""
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


def main() -> None:
    """Measures, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("count", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batch", type=int, default=1000, help="records for each commit")
    given = parser.parse_args()
    made, id_of = WAYS[given.way]
    process = psutil.Process()
    accepts = made(given.folder)
    gc.collect()
    before, written = process.memory_info().rss, process.io_counters().write_bytes
    producers = MANY if given.way.endswith("many") else PRODUCERS
    seconds = fill(accepts, records(given.count, id_of, given.batch, producers))
    grown, written = process.memory_info().rss - before, process.io_counters().write_bytes - written
    disk = disk_bytes(given.folder / "filter.db")
    last = next(records(1, id_of, 1, producers))[0]
    read = process.io_counters().read_chars
    start = time.perf_counter()
    restarted = made(given.folder)
    knows = not restarted.is_new(last)
    restart_s = time.perf_counter() - start
    print(
        json.dumps(
            {
                "way": given.way,
                "count": given.count,
                "batch": given.batch,
                "seconds": seconds,
                "cpu_s": sum(process.cpu_times()[:2]),
                "memory_bytes": grown,
                "disk_bytes": disk,
                "written_bytes": written,
                "restart_s": restart_s,
                "restart_read_bytes": process.io_counters().read_chars - read,
                "remembers": knows,
            }
        )
    )


if __name__ == "__main__":
    main()
