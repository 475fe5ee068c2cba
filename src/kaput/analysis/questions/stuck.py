"""stuck: acknowledged 5 s before a fault's heal, and not committed by a group at that heal.

A group that goes on reads and commits within that time; what it has not by then waits for the heal. How far
acknowledgements had come by then is found where sends are encoded; commits are few, and on the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from kaput.analysis.names import Place
from kaput.analysis.runs.encoding import Encoded
from kaput.analysis.runs.run import NULL
from kaput.analysis.sums import Sum

GRACE_NS = 5_000_000_000
ENDS = Sum(("at_ns", "place"), (), (), ("end",))


def ends_at(acked: Encoded, moments: Sequence[int]) -> pl.DataFrame:
    """(at_ns, place, end): the offset after the greatest that had been acknowledged by each moment."""
    none = pl.DataFrame(schema={"at_ns": pl.Int64, "place": pl.Int64, "end": pl.Int64})
    runs, dones = acked.runs, acked.rows["dones"]
    if not moments or not runs.height:
        return none
    first, n = runs["row"].to_numpy(), runs["n"].to_numpy()
    # Within a run offsets go up by one; where the client was told none, they are null throughout.
    offsets = np.arange(len(dones)) + np.repeat(runs["offset"].fill_null(0).to_numpy() - first, n)
    known = np.repeat((runs["offset"].is_not_null() & runs["place"].is_not_null()).to_numpy(), n)
    found = [none]
    for at_ns in moments:
        told = known & (dones != NULL) & (dones <= at_ns)
        ends = np.maximum.reduceat(np.where(told, offsets + 1, -1), first)
        rows = runs.select("place", end=pl.Series(ends, dtype=pl.Int64)).filter(pl.col("end") >= 0)
        found.append(ENDS.of(rows.with_columns(at_ns=pl.lit(at_ns, pl.Int64))).select(none.columns))
    return pl.concat(found)


def stuck(ends: Mapping[Place, int], commits: Iterable[Mapping[str, Any]], group: str, healed_ns: int) -> int:
    """How many a group's partitions had in all. `ends`: of what it reads, 5 s before; `commits`:
    group_events of any kind.
    """
    committed: dict[Place, tuple[int, int]] = {}
    for event in commits:
        place, offset = (event["topic"], event["partition"]), event["offset"]
        mine = (event["group"], event["kind"]) == (group, "committed")
        if mine and None not in (*place, offset) and event["at_ns"] <= healed_ns:
            committed[place] = max(committed.get(place, (0, 0)), (event["at_ns"], offset))
    return sum(max(0, end - committed.get(place, (0, 0))[1]) for place, end in ends.items())
