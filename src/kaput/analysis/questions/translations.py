"""What lies on either side of the position at which a group began in another cluster, after it was moved.

The position is what the table mirror has as `translated`; the messages are those of which that partition has
a copy. Asked by translated_ahead.py and translated_behind.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.facts.mirrors import Translated
from kaput.analysis.questions.late_groups import owed
from kaput.analysis.runs.columns import MESSAGE, RECORD
from kaput.analysis.runs.cutting import MESSAGES, beyond, overlay, single

if TYPE_CHECKING:
    from kaput.analysis.views.messages import Messages

_COLUMNS = ("group", *RECORD, "n", "position", "at_ns", "move")
_NONE = dict.fromkeys(_COLUMNS, pl.Int64)


def never_given(messages: Messages, moves: Sequence[Translated], beginnings: pl.DataFrame) -> pl.DataFrame:
    """_COLUMNS (`move`: its number): what is below the positions and was never delivered to the group,
    anywhere, but for what a late group never had to read. `beginnings`: facts/beginnings.py.
    """
    late = set(beginnings["group"])
    found = []
    for number, move in enumerate(moves):
        below = _copies(messages, move).filter(pl.col("offset") < move.offset)
        below = below.with_columns(n=pl.min_horizontal("n", move.offset - pl.col("offset")))
        never = messages.stretches.filter(pl.col(f"delivered_{move.group}") == 0)
        if move.group in late:
            # What of them is for the group may end within a stretch.
            never = never.with_columns(group=pl.lit(move.group, pl.Int64))
            shown, others = never.filter(pl.col("stored") > 0), never.filter(pl.col("stored") == 0)
            mine = owed(shown, beginnings, messages.times).select(*MESSAGE, "n")
            mine = pl.concat([mine, others.select(*MESSAGE, "n")])
            below, never = overlay([below, mine], MESSAGES)
        found.append(_told(below.join(never.select("part"), on="part", how="semi"), move, number))
    return _once(found)


def given_before(messages: Messages, moves: Sequence[Translated]) -> pl.DataFrame:
    """_COLUMNS: what is at or above the positions, and had been delivered to the group before, anywhere."""
    found = []
    for number, move in enumerate(moves):
        above = beyond(_copies(messages, move), "offset", pl.lit(move.offset, pl.Int64))
        mine = messages.deliveries.filter(pl.col("group") == move.group)
        mine = single(mine.join(above.select("part").unique(), on="part", how="semi"))
        polled = pl.Series(messages.polls[mine["row"].to_numpy()], dtype=pl.Int64)
        had = mine.filter(polled < move.at_ns).select(MESSAGE).unique()
        found.append(_told(single(above).join(had, on=MESSAGE, how="semi"), move, number))
    return _once(found)


def _copies(messages: Messages, move: Translated) -> pl.DataFrame:
    copies = messages.copies.filter("sent", "visible", pl.col("place") == move.place)
    return copies.select("part", *RECORD, "n")


def _told(rows: pl.DataFrame, move: Translated, number: int) -> pl.DataFrame:
    numbers = {"group": move.group, "position": move.offset, "at_ns": move.at_ns, "move": number}
    return rows.with_columns(**{name: pl.lit(n, pl.Int64) for name, n in numbers.items()}).select(_COLUMNS)


def _once(found: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Each message of a group once, of its first move."""
    every = pl.concat([pl.DataFrame(schema=_NONE), *found])
    each = []
    for rows in every.partition_by("group", maintain_order=True):
        (parts,) = overlay([rows], MESSAGES)
        parts = parts.sort("at_ns", "offset", "place")
        each.append(parts.unique("part", keep="first", maintain_order=True).select(_COLUMNS))
    return pl.concat([every.clear(), *each])
