"""Where `everything.py` lays messages and records, and how it reads them: in batches, by the files' footers.

Evidence that is not as `kaput bench generate` makes it is refused: see there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
from peers import files

Ints = np.ndarray[Any, np.dtype[Any]]
SECOND_NS = 1_000_000_000
LONGEST = 2**25  # greatest number in a histogram: half a minute, in microseconds
SHARES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


@dataclass(frozen=True)
class Places:
    """A number for every message, and a position for every offset.

    A free number or position stands between producers and between partitions: none follows on another's last.
    `sent` and `begin` end with the entry of whoever is no producer of the run: -1 finds it, too.
    """

    sent: Ints  # how many messages each producer sent
    begin: Ints  # the number of its first
    partitions: int
    stride: int

    @property
    def nobody(self) -> int:
        """The number of all records that are no message of the run; above those of messages."""
        return int(self.begin[-1])

    @property
    def positions(self) -> int:
        """How many there are."""
        return self.partitions * self.stride

    def messages(self, producer: Ints, seq: Ints) -> tuple[Ints, Ints]:
        """The message of each row, and which rows are nobody's; without an identity both are -1."""
        producer = np.minimum(producer, len(self.sent) - 1)
        # As an unsigned number -1 is above all others.
        strange = np.flatnonzero(seq.view(np.uint64) >= self.sent[producer])
        number = self.begin[producer] + seq
        number[strange] = self.nobody
        return number, strange


class Histogram:
    """How often each number, from 0 on, was added."""

    def __init__(self) -> None:
        self.counts = np.zeros(1, np.int64)

    def add(self, numbers: Ints) -> None:
        """Counts them."""
        if not len(numbers):
            return
        if int(numbers.view(np.uint64).max()) > LONGEST:
            raise SystemExit(f"times that are not made: a number is not within 0 to {LONGEST:,}")
        found = np.bincount(numbers, minlength=len(self.counts))
        found[: len(self.counts)] += self.counts
        self.counts = found

    def percentiles_ms(self) -> dict[str, float]:
        """Those of SHARES, linear between neighbours, and the longest, of microseconds."""
        ends = np.cumsum(self.counts)

        def at(share: float) -> float:
            rank = share * (ends[-1] - 1)
            low, high = (int(np.searchsorted(ends, r, side="right")) for r in (np.floor(rank), np.ceil(rank)))
            return low + (high - low) * float(rank % 1)

        found = {name: at(share) / 1000 for name, share in SHARES.items()}
        return found | {"max": (len(self.counts) - 1) / 1000}


def extremes(path: str) -> Iterator[tuple[int, dict[str, tuple[Any, Any]]]]:
    """How many rows each row group has, and the least and greatest value of each column."""
    footer = pq.read_metadata(path)
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        columns = (group.column(c) for c in range(group.num_columns))
        known = {c.path_in_schema: c.statistics for c in columns if c.statistics and c.statistics.has_min_max}
        yield group.num_rows, {name: (found.min, found.max) for name, found in known.items()}


def places(run: Path) -> Places:
    """Numbers for all there is, from the footers alone. Raises SystemExit where it is not as it is made."""
    words: dict[str, set[str]] = {"topic": set(), "group": set()}
    sent: dict[int, int] = {}
    rows, partition, offset = 0, 0, 0
    for table in ("sends", "log", "deliveries", "group_events", "end_offsets"):
        for height, found in (group for path in files(run, table) for group in extremes(path)):
            for name in words.keys() & found.keys():
                words[name] |= set(found[name])
            partition = max(partition, found["partition"][1])
            offset = max(offset, *(found[name][1] for name in ("offset", "end_offset") if name in found))
            if table == "sends":
                rows += height
                first, last = found["producer"]
                refuse(first != last, "a row group of sends is of several producers")
                sent[last] = max(sent.get(last, 0), found["seq"][1] + 1)
    ends = pl.read_parquet(files(run, "end_offsets"))
    (group,) = json.loads((run / "manifest.json").read_text())["groups"]
    refuse(len(words["topic"]) != 1 or words["group"] != {group["group"]}, "not one topic and one group")
    whole = ends["partition"].n_unique() == partition + 1 and ends["end_offset"].equals(ends["drained_to"])
    refuse(not whole or not group["drained"], "not everything was read to its end")
    refuse(sum(sent.values()) != rows, "sequence numbers of sends have gaps")
    counts = np.array([sent.get(producer, 0) for producer in range(max(sent) + 1)] + [0])
    begin = np.concatenate([[0], np.cumsum(counts[:-1] + 1)])
    return Places(counts.astype(np.uint64), begin, partition + 1, offset + 2)


def by_member(run: Path) -> dict[str, list[str]]:
    """The files of deliveries of each member."""
    found: dict[str, list[str]] = {}
    for path in files(run, "deliveries"):
        members = {name for _, columns in extremes(path) for name in columns["member"]}
        refuse(len(members) != 1, "a file of deliveries is of several members")
        found.setdefault(members.pop(), []).append(path)
    return found


def begun_s(run: Path) -> int:
    """The second in which the run began."""
    return int(json.loads((run / "manifest.json").read_text())["started_ns"]) // SECOND_NS


def refuse(wrong: bool, why: str) -> None:
    """Ends the process where evidence is not as `kaput bench generate` makes it."""
    if wrong:
        raise SystemExit(f"not as kaput bench generate makes it: {why}")


def batches(paths: list[str], *columns: str | pl.Expr) -> Iterator[pl.DataFrame]:
    """The rows in order, some hundred thousand at a time."""
    query = pl.scan_parquet(paths).select(*columns)
    for batch in query.collect_batches(maintain_order=True, engine="streaming"):
        if batch.height:
            yield batch


def identified(where: Places) -> list[str | pl.Expr]:
    """Columns of the log and of deliveries: the position, and whose record it is, -1 without an identity."""
    producer = pl.when("intact").then("producer").fill_null(-1)
    return [position(where), producer.alias("producer"), pl.col("seq").fill_null(-1), "intact"]


def position(where: Places) -> pl.Expr:
    """Of (partition, offset)."""
    return (pl.col("partition").cast(pl.Int64) * where.stride + pl.col("offset")).alias("position")


def arrays(frame: pl.DataFrame, *names: str) -> list[Ints]:
    """Columns as numpy has them."""
    return [frame[name].to_numpy() for name in names]


def heads(breaks: Ints) -> Ints:
    """Where runs of rows begin; `breaks`: for all rows but the first, whether one does."""
    return np.concatenate([[0], np.flatnonzero(breaks) + 1])
