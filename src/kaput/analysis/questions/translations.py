"""The messages on either side of the position at which a group began in another cluster after a move.

The position is the row `translated` of the table mirror; the messages are those with a copy in that
partition. Used by translated_ahead.py and translated_behind.py.
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
_TYPES = dict.fromkeys(_COLUMNS, pl.Int64)


def never_given(messages: Messages, moves: Sequence[Translated], beginnings: pl.DataFrame) -> pl.DataFrame:
    """_COLUMNS (`move`: its index): messages below the positions that were never delivered to the group
    anywhere, except those stored too early for a late group. `beginnings`: facts/group_starts.py.
    """
    late = set(beginnings["group"])
    found = []
    for number, move in enumerate(moves):
        below = _copies(messages, move).filter(pl.col("offset") < move.offset)
        below = below.with_columns(n=pl.min_horizontal("n", move.offset - pl.col("offset")))
        never = messages.stretches.filter(pl.col(f"delivered_{move.group}") == 0)
        if move.group in late:
            # Only a part of a stretch may be for the group.
            never = never.with_columns(group=pl.lit(move.group, pl.Int64))
            shown, others = never.filter(pl.col("stored") > 0), never.filter(pl.col("stored") == 0)
            for_group = owed(shown, beginnings, messages.times).select(*MESSAGE, "n")
            for_group = pl.concat([for_group, others.select(*MESSAGE, "n")])
            below, never = overlay([below, for_group], MESSAGES)
        found.append(_with_move(below.join(never.select("part"), on="part", how="semi"), move, number))
    return _first_moves(found)


def given_before(messages: Messages, moves: Sequence[Translated]) -> pl.DataFrame:
    """_COLUMNS: messages at or above the positions that had been delivered to the group before, anywhere."""
    found = []
    for number, move in enumerate(moves):
        above = beyond(_copies(messages, move), "offset", pl.lit(move.offset, pl.Int64))
        for_group = messages.deliveries.filter(pl.col("group") == move.group)
        for_group = single(for_group.join(above.select("part").unique(), on="part", how="semi"))
        polled = pl.Series(messages.polls[for_group["row"].to_numpy()], dtype=pl.Int64)
        already_read = for_group.filter(polled < move.at_ns).select(MESSAGE).unique()
        found.append(_with_move(single(above).join(already_read, on=MESSAGE, how="semi"), move, number))
    return _first_moves(found)


def _copies(messages: Messages, move: Translated) -> pl.DataFrame:
    copies = messages.copies.filter("sent", "visible", pl.col("place") == move.place)
    return copies.select("part", *RECORD, "n")


def _with_move(rows: pl.DataFrame, move: Translated, number: int) -> pl.DataFrame:
    numbers = {"group": move.group, "position": move.offset, "at_ns": move.at_ns, "move": number}
    return rows.with_columns(**{name: pl.lit(n, pl.Int64) for name, n in numbers.items()}).select(_COLUMNS)


def _first_moves(found: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Each message of a group once, for its first move."""
    every = pl.concat([pl.DataFrame(schema=_TYPES), *found])
    each = []
    for rows in every.partition_by("group", maintain_order=True):
        (parts,) = overlay([rows], MESSAGES)
        parts = parts.sort("at_ns", "offset", "place")
        each.append(parts.unique("part", keep="first", maintain_order=True).select(_COLUMNS))
    return pl.concat([every.clear(), *each])
