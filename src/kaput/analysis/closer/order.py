"""Messages out of order, and whether a change of leader explains them. In SQL: reference/order.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kaput.analysis.closer.found import first
from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.dense.pile import Pile
from kaput.analysis.dense.split import grouped

_COLUMNS = ("place", "offset", "other_seq", "epoch", "other_epoch", "attempt_ns", "done_ns")


class ReorderedRow(NamedTuple):
    """Reordered messages of a producer; `across`: its partition changed its leader meanwhile."""

    producer: int
    across: bool
    messages: int


def reordered(pile: Pile) -> dict[str, Ints]:
    """One row a message: one that is out of order in two places counts once."""
    columns = {name: pile[name] for name in ("producer", "seq", *_COLUMNS)}
    rows = np.lexsort([columns[name] for name in ("offset", "place", "seq", "producer")])
    producer, seq = columns["producer"][rows], columns["seq"][rows]
    new = np.ones(len(rows), bool)
    new[1:] = (producer[1:] != producer[:-1]) | (seq[1:] != seq[:-1])
    return {name: column[rows[new]] for name, column in columns.items()}


def across_leaders(rows: Mapping[str, Ints], elections: Mapping[int, Sequence[int]]) -> list[ReorderedRow]:
    """By producer. `elections`: when each place got another leader, ns, in order."""
    across = (rows["epoch"] != rows["other_epoch"]) & (rows["epoch"] != NULL) & (rows["other_epoch"] != NULL)
    for (place,), here in grouped(rows["place"]):
        led = np.array(sorted(elections.get(place, ())), np.int64)
        done = rows["done_ns"][here]
        until = np.where(done == NULL, 2**63 - 1, done)
        since = rows["attempt_ns"][here]
        meanwhile = np.searchsorted(led, until, side="right") > np.searchsorted(led, since, side="right")
        across[here] |= meanwhile
    counts = Counter(zip(rows["producer"].tolist(), across.tolist(), strict=True))
    return [ReorderedRow(producer, over, messages) for (producer, over), messages in sorted(counts.items())]


def examples(rows: Mapping[str, Ints]) -> list[dict[str, object]]:
    """The first ones."""
    columns = {name: rows[name] for name in ("producer", "seq", "place", "offset", "other_seq")}
    return first(columns, ("producer", "seq"))
