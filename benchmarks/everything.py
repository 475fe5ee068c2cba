"""A peer that answers what `kaput analyze` answers, but for causes of losses and fault windows.

One process: Polars reads the Parquet files, batch by batch; numpy counts in arrays that have a place for
every message, by producer and seq, and for every record, by partition and offset (places.py). What needs
order (silences, steps of members, reordering) is asked of runs of consecutive rows, in Polars. records.py
asks the log and sends, members.py deliveries and the group's events, and here their answers meet.

It takes evidence as `kaput bench generate` makes it, and refuses any other: one topic and one group, every
partition read to its end; a row group of sends is one producer's, whose sequence numbers have no gaps, and a
file of deliveries is one member's, in the order of time. Run as: everything.py RUN_DIR
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from members import NEVER_NS, Deliveries, assignments, commits_ahead, read_deliveries, steps
from peers import OUTCOMES, files, named
from places import Histogram, Places, begun_s, heads, places
from records import Log, Oddities, Sends, read_log, read_sends

BLOCK = 2**18  # messages that are looked at in one go


def reordered(log: Log, where: Places) -> int:
    """Messages whose first copy in a partition stands behind a later message of their producer."""
    begin = heads(np.diff(log.holder) != 1)
    message = log.holder[begin].astype(np.int64)
    ours = (message >= 0) & (message < where.nobody)
    n = np.diff(np.append(begin, len(log.holder)))
    runs = pl.DataFrame({"message": message[ours], "n": n[ours], "position": begin[ours]}).with_columns(
        partition=pl.col("position") // where.stride,
        producer=pl.Series(np.searchsorted(where.begin, message[ours], side="right")),
        end=pl.col("message") + pl.col("n"),
    )
    top = (pl.col("end") - 1).cum_max().shift(1).over("partition", "producer")
    behind = runs.with_columns(top=top).filter(pl.col("message") < pl.col("top"))
    moved = pl.int_ranges(pl.min_horizontal("end", "top") - pl.col("message"))
    late = behind.with_columns(moved=moved).explode("moved").select(
        "partition", pl.col("message") + pl.col("moved"), pl.col("position") + pl.col("moved")
    )  # fmt: skip
    # Later copies in a partition are behind, too, but say nothing of order.
    several = np.flatnonzero(log.stored[log.holder] > 1)
    copies = pl.DataFrame(
        {"partition": several // where.stride, "message": log.holder[several], "position": several}
    )
    again = copies.filter(pl.col("position") > pl.col("position").min().over("partition", "message"))
    return late.join(again, on="position", how="anti")["message"].n_unique()


def fates(sends: Sends, log: Log, handed: Deliveries) -> dict[str, int]:
    """How many messages met each fate of the only group."""
    cells = sends.outcome * np.uint8(9)
    cells += np.minimum(log.stored, 2).astype(np.uint8) * np.uint8(3)
    cells += np.minimum(handed.delivered, 2).astype(np.uint8)
    counts = np.bincount(cells)[: 9 * len(OUTCOMES)].tolist()
    return named((OUTCOMES[c // 9], c // 3 % 3, c % 3, n) for c, n in enumerate(counts) if n)


def anomalies_of(cells: dict[str, int]) -> dict[str, int]:
    """The anomalies that are fates."""

    def count(outcomes: Iterable[str], stored: str, delivered: str = "01n") -> int:
        return sum(cells.get(f"{o}/{s}/{d}", 0) for o in outcomes for s in stored for d in delivered)

    return {
        "lost": count(["acked"], "0"),
        "duplicate": count(OUTCOMES, "n"),
        "recovered": count(["unknown"], "1n"),
        "ghost": count(["failed", "refused"], "1n"),
        "unseen": count(OUTCOMES, "1n", "0"),
        "vanished": count(OUTCOMES, "0", "1n"),
    }


def end_to_end(sends: Sends, handed: Deliveries, where: Places) -> Histogram:
    """From the attempt of each message to its first delivery, in microseconds."""
    found = Histogram()
    for low in range(0, where.nobody, BLOCK):
        stretch = slice(low, min(low + BLOCK, where.nobody))
        first = handed.delivered_ns[stretch]
        got = np.flatnonzero(first != NEVER_NS)
        found.add((first[got] - sends.attempt_ns[stretch][got]) // 1000)
    return found


def everything(run: Path) -> dict[str, Any]:
    """All answers."""
    where, odd = places(run), Oddities()
    events = pl.read_parquet(files(run, "group_events"))
    states = assignments(events, where)
    log = read_log(run, where, odd)
    sends = read_sends(run, where, log, odd)
    handed = read_deliveries(run, where, log, states, odd)
    cells = fates(sends, log, handed)
    anomalies = anomalies_of(cells) | steps(handed.runs, states, log) | {
        "phantom": log.phantoms,
        "corrupt": len(np.unique(np.concatenate(odd.damaged))),
        "reordered": reordered(log, where),
        "inconsistent-offset": odd.inconsistent(log, where.nobody),
        "redelivered": int(np.count_nonzero(handed.handed > 1)),
        "commit-ahead": commits_ahead(events, handed, log, where),
    }  # fmt: skip
    return {
        "fates": cells,
        "anomalies": anomalies,
        "latency_ms": {
            "ack": sends.latency.percentiles_ms(),
            "end_to_end": end_to_end(sends, handed, where).percentiles_ms(),
        },
        "unavailability": [
            {"producer": s // where.partitions, "partition": s % where.partitions, "longest_ms": ns / 1e6}
            for s, ns in sends.silences.iter_rows()
        ],
        "rates": rates(sends, begun_s(run)),
    }


def rates(sends: Sends, begun: int) -> list[dict[str, int]]:
    """Attempts and acknowledgements in each second with any."""
    both = zip_longest(sends.attempts.counts.tolist(), sends.acks.counts.tolist(), fillvalue=0)
    return [
        {"second": begun + s, "sent": sent, "acked": acked}
        for s, (sent, acked) in enumerate(both)
        if sent or acked
    ]


if __name__ == "__main__":
    print(json.dumps(everything(Path(sys.argv[1]))))
