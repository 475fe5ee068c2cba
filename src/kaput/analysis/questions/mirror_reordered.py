"""mirror-reordered: among the first visible copies of one source partition's records in a partition of
another cluster, in offset order there, one whose offset in the source is below the highest before it. Counted
as messages, for each such partition.

The offset in the source is that of the message's first copy at home. A mirror copies each partition in order,
also after a restart: second copies come after the first ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Cases, Find, Question, SumPart, To
from kaput.analysis.engine.sums import Sum
from kaput.analysis.engine.words import at, message
from kaput.analysis.questions.order import reordered
from kaput.analysis.runs.columns import MESSAGE, RECORD
from kaput.analysis.runs.cutting import PLACES, overlay
from kaput.analysis.runs.empty import once_if_empty
from kaput.analysis.runs.names import SHIFT
from kaput.analysis.views.homes import IS_MIRRORED

if TYPE_CHECKING:
    from kaput.analysis.views.messages import Messages
    from kaput.analysis.views.places import Places

MIRRORED = {**dict.fromkeys((*RECORD, "n", "first_place", "first_offset"), pl.Int64), "mirrored": pl.Boolean}


class MirrorOrder(Question):
    """Passes on mirrored copies, and checks their order in each place of a target."""

    sums = {"mirror_reordered": Sum(("source", "target"), ("n",)), "away": Sum(("looped",), ("n",))}
    passes = {"mirrored_copies": MIRRORED}
    stories = {
        "mirror-reordered": lambda r: (
            f"{message(r)} is at {at(r)}, copied from offset {r['first_offset']:,} of the source, "
            f"after the copy of offset {r['behind']:,}"
        )
    }
    shown_by = RECORD

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Passes on copies that are not at home, with the place and offset of the first copy at home."""
        copies = messages.copies.filter(~pl.col("home")).with_columns(mirrored=IS_MIRRORED)
        yield SumPart("away", copies.select("looped", "n"))
        first = messages.stretches.select("part", "first_place", "first_offset")
        yield To("mirrored_copies", copies.join(first, on="part", how="left").select(list(MIRRORED)))

    def of_places(self, places: Places) -> Iterator[Find]:
        """Finds cases like reordered messages (order.py), with source offsets instead of seqs."""
        late = late_copies(places.passed["mirrored_copies"].filter("mirrored"))
        yield Cases("mirror-reordered", late)
        places_of = {"source": "first_place", "target": "place"}
        cluster_of = places.known.names.cluster_of
        clusters = {name: cluster_of(pl.col(place) // SHIFT) for name, place in places_of.items()}
        yield SumPart("mirror_reordered", late.select(**clusters, n="n"))


@once_if_empty("mirrored")
def late_copies(mirrored: pl.DataFrame) -> pl.DataFrame:
    """(producer, seq, place, offset, n, first_place, first_offset, behind): the late copies, and the highest
    offset of their source partition before them.
    """
    known = mirrored.drop_nulls(["first_place", "first_offset"])
    in_source = known.select(
        "place", "offset", "n", producer="first_place", seq="first_offset", epoch=pl.lit(None, pl.Int64)
    )
    late = reordered(in_source).select(
        "place", "offset", "n", first_place="producer", first_offset="seq", behind="top"
    )
    parts, copies = overlay([late, known.select(*RECORD, "n")], PLACES)
    found = parts.join(copies.select("part", *MESSAGE), on="part")
    return found.select(*RECORD, "n", "first_place", "first_offset", "behind")
