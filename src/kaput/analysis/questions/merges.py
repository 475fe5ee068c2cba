"""What merges where two clusters were written to without knowing of each other, and which keys conflict.

A message is *alone* if it has no visible copy in any other cluster than its home's. A visible mirrored copy
is *merged* if a message that is alone is before it in its partition: the source never had that message, and
the target had it first. A key conflicts if both are of that key: whoever keeps the last value of a key has it
from one side, and the other side's may be newer. No anomaly: each cluster keeps its promise. Order:
mirror_reordered.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Find, Part, Question, To
from kaput.analysis.engine.sums import Sum
from kaput.analysis.runs.columns import MESSAGE, RECORD
from kaput.analysis.runs.cutting import beyond
from kaput.analysis.runs.names import SHIFT
from kaput.analysis.views.homes import IS_MIRRORED

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.messages import Messages
    from kaput.analysis.views.places import Places

_ALONE = dict.fromkeys((*RECORD, "n"), pl.Int64)
_WAY = ("source", "target")
_NO_KEY = -1


@dataclass(frozen=True)
class Merges(Question):
    """`keys`: by producer that repeats keys, how many it goes through; 0: it has one only."""

    keys: Mapping[int, int] = field(default_factory=dict)

    sums = {"merged": Sum(_WAY, ("n",)), "conflicts": Sum(_WAY, ("keys", "own_last"))}
    passes = {"alone": _ALONE}

    def before_places(self, run: Run) -> Merges:
        """Who repeats keys."""
        return replace(self, keys={producer: n for producer, (_, n) in run.given.keyed.items()})

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Of several clusters, what is at home and nowhere else."""
        own = messages.copies.filter("home", "sent", "visible")
        if messages.known.homes is None:
            own = own.clear()
        away = messages.copies.filter(IS_MIRRORED).select("part").unique()
        yield To("alone", own.join(away, on="part", how="anti").select(list(_ALONE)))

    def of_places(self, places: Places) -> Iterator[Find]:
        """Of each place by itself."""
        copies = places.passed["mirrored_copies"].filter("mirrored").drop_nulls("first_place")
        cluster_of = places.known.names.cluster_of
        copies = copies.with_columns(
            source=cluster_of(pl.col("first_place") // SHIFT), target=cluster_of(pl.col("place") // SHIFT)
        )
        alone = places.passed["alone"]
        found = merged(copies, alone)
        yield Part("merged", found.select(*_WAY, "n"))
        yield Part("conflicts", conflicts(found, alone, self.keys))


def merged(copies: pl.DataFrame, alone: pl.DataFrame) -> pl.DataFrame:
    """The mirrored copies that are behind a message which is alone, cut there."""
    first = alone.group_by("place").agg(begin=pl.col("offset").min())
    return beyond(copies.join(first, on="place"), "offset", pl.col("begin"))


def conflicts(copies: pl.DataFrame, alone: pl.DataFrame, keys: Mapping[int, int]) -> pl.DataFrame:
    """(source, target, keys, own_last): keys with a message that is alone and a copy behind it, and those of
    them whose last message in the target is alone; of the others it is a copy.
    """
    here = ["place", "key"]
    lasts = _keyed(copies, keys, last=True).group_by(*here, *_WAY).agg(copied=pl.col("offset").max())
    firsts = _keyed(alone, keys, last=False).group_by(here).agg(begin=pl.col("offset").min())
    ends = _keyed(alone, keys, last=True).group_by(here).agg(end=pl.col("offset").max())
    both = lasts.join(firsts, on=here).filter(pl.col("copied") > pl.col("begin")).join(ends, on=here)
    return both.select(
        *_WAY, keys=pl.lit(1, pl.Int64), own_last=(pl.col("end") > pl.col("copied")).cast(pl.Int64)
    )


def _keyed(runs: pl.DataFrame, keys: Mapping[int, int], *, last: bool) -> pl.DataFrame:
    """A row for the first (or last) record of each key in each run: no more than a run has, or a producer has
    keys, which it goes through in turn.
    """
    many = pl.col("producer").replace_strict(keys, return_dtype=pl.Int64, default=_NO_KEY)
    mine = runs.with_columns(many=many).filter(pl.col("many") != _NO_KEY)
    shown = pl.min_horizontal("n", pl.col("many").clip(1))
    mine = mine.with_columns(
        at=pl.int_ranges(pl.col("n") - shown if last else pl.lit(0), "n" if last else shown)
    )
    rows = mine.explode("at").with_columns(pl.col(name) + pl.col("at") for name in (MESSAGE[1], "offset"))
    key = pl.when(pl.col("many") > 0).then(pl.col("seq") % pl.col("many").clip(1)).otherwise("producer")
    return rows.with_columns(key=key)
