"""Where topics were resized: the same tasks as those of messages, once more, for what became of keys.

Twice where a producer has more than one block of messages: what is out of order within a block shows at once,
and across blocks when it is known when each key was delivered first in all later ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from kaput.analysis.questions import keys
from kaput.analysis.runs.run import unpacked
from kaput.analysis.stages.encode import DELIVERED, no_rows
from kaput.analysis.stages.pieces import Piece, gathered
from kaput.analysis.sums import Sum

_BLOCKS = dict.fromkeys(("group", "producer", "key", "block"), pl.Int64)
SUMS: Mapping[str, Sum] = {
    "stored": Sum(("place", "key"), ("n",)),
    "earliest": Sum(tuple(_BLOCKS), (), ("at_ns",)),
    "out_of_order": Sum(("group", "producer"), ("n",)),
}


@dataclass(frozen=True)
class KeyContext:
    """`keys`: see questions/keys.py; `after`: what is known of later blocks."""

    keys: Mapping[int, int]
    after: pl.DataFrame

    @staticmethod
    def first(found: Mapping[int, int]) -> KeyContext:
        """Of later blocks nothing is known yet."""
        return KeyContext(found, pl.DataFrame(schema={**_BLOCKS, "later_ns": pl.Int64}))


def examine(pieces: Iterable[Piece], context: KeyContext) -> dict[str, pl.DataFrame]:
    """One task's sums."""
    none = no_rows()
    empty = {"log": none["log"].runs, "deliveries": none["deliveries"].packed().select(DELIVERED)}
    tables = gathered(pieces, empty)
    deliveries, polls = unpacked(tables["deliveries"], ("polls",))
    first = keys.first_deliveries(deliveries, polls["polls"], context.keys)
    return {
        "stored": keys.stored(tables["log"], context.keys),
        "earliest": keys.earliest(first),
        "out_of_order": keys.out_of_order(first, context.after),
    }
