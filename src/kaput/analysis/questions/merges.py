"""Messages that merged after two clusters were written to independently, and keys that conflict.

A message is *alone* if it has no visible copy in any other cluster than its home's. A visible mirrored copy
is *merged* if a message that is alone is before it in its partition: the source never had that message, and
the target had it first. A key conflicts if both have that key: the last value of the key is from one side,
but the other side's may be newer. No anomaly: each cluster keeps its promise. Not here: order
(mirror_reordered.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Find, Question, SumPart, To
from kaput.analysis.engine.sums import Sum
from kaput.analysis.runs.columns import MESSAGE, RECORD
from kaput.analysis.runs.cutting import beyond
from kaput.analysis.runs.empty import once_if_empty
from kaput.analysis.runs.names import SHIFT
from kaput.analysis.views.homes import IS_MIRRORED

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.messages import Messages
    from kaput.analysis.views.places import Places

_ALONE = dict.fromkeys((*RECORD, "n"), pl.Int64)
_DIRECTION = ("source", "target")
_NO_KEY = -1


@dataclass(frozen=True)
class Merges(Question):
    """`keys`: by producer that repeats keys, the number of keys; 0: a single one."""

    keys: Mapping[int, int] = field(default_factory=dict)

    sums = {"merged": Sum(_DIRECTION, ("n",)), "conflicts": Sum(_DIRECTION, ("keys", "own_last"))}
    passes = {"alone": _ALONE}

    def before_places(self, run: Run) -> Merges:
        """Sets the keys."""
        return replace(self, keys={producer: n for producer, (_, n) in run.given.keyed.items()})

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Passes on messages that are only in their home's cluster, if there are several clusters."""
        own = messages.copies.filter("home", "sent", "visible")
        if messages.known.homes is None:
            own = own.clear()
        away = messages.copies.filter(IS_MIRRORED).select("part").unique()
        yield To("alone", own.join(away, on="part", how="anti").select(list(_ALONE)))

    def of_places(self, places: Places) -> Iterator[Find]:
        """Merged copies and conflicting keys of each place."""
        copies = places.passed["mirrored_copies"].filter("mirrored").drop_nulls("first_place")
        cluster_of = places.known.names.cluster_of
        copies = copies.with_columns(
            source=cluster_of(pl.col("first_place") // SHIFT), target=cluster_of(pl.col("place") // SHIFT)
        )
        alone = places.passed["alone"]
        found = merged(copies, alone)
        yield SumPart("merged", found.select(*_DIRECTION, "n"))
        yield SumPart("conflicts", conflicts(found, alone, self.keys))


@once_if_empty("copies")
def merged(copies: pl.DataFrame, alone: pl.DataFrame) -> pl.DataFrame:
    """The parts of mirrored copies that are after a message which is alone."""
    first = alone.group_by("place").agg(begin=pl.col("offset").min())
    return beyond(copies.join(first, on="place"), "offset", pl.col("begin"))


@once_if_empty("copies")
def conflicts(copies: pl.DataFrame, alone: pl.DataFrame, keys: Mapping[int, int]) -> pl.DataFrame:
    """(source, target, keys, own_last): keys with a message that is alone and a copy after it, and those of
    them whose last message in the target is alone rather than a copy.
    """
    here = ["place", "key"]
    lasts = _keyed(copies, keys, last=True).group_by(*here, *_DIRECTION).agg(copied=pl.col("offset").max())
    firsts = _keyed(alone, keys, last=False).group_by(here).agg(begin=pl.col("offset").min())
    ends = _keyed(alone, keys, last=True).group_by(here).agg(end=pl.col("offset").max())
    both = lasts.join(firsts, on=here).filter(pl.col("copied") > pl.col("begin")).join(ends, on=here)
    return both.select(
        *_DIRECTION, keys=pl.lit(1, pl.Int64), own_last=(pl.col("end") > pl.col("copied")).cast(pl.Int64)
    )


def _keyed(runs: pl.DataFrame, keys: Mapping[int, int], *, last: bool) -> pl.DataFrame:
    """A row for the first (or last) record of each key in each run: as many as the producer has keys, which
    alternate, at most the length of the run.
    """
    key_count = pl.col("producer").replace_strict(keys, return_dtype=pl.Int64, default=_NO_KEY)
    mine = runs.with_columns(key_count=key_count).filter(pl.col("key_count") != _NO_KEY)
    rows_per_run = pl.min_horizontal("n", pl.col("key_count").clip(1))
    mine = mine.with_columns(
        at=pl.int_ranges(pl.col("n") - rows_per_run if last else pl.lit(0), "n" if last else rows_per_run)
    )
    rows = mine.explode("at").with_columns(pl.col(name) + pl.col("at") for name in (MESSAGE[1], "offset"))
    key = (
        pl.when(pl.col("key_count") > 0)
        .then(pl.col("seq") % pl.col("key_count").clip(1))
        .otherwise("producer")
    )
    return rows.with_columns(key=key)
