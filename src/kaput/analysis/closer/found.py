"""Records at some offsets, as the second look found them, and examples in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.dense.pile import Pile
from kaput.analysis.dense.split import grouped
from kaput.analysis.names import Names

SHOWN = 10
_LAST = 2**63 - 1


class Records:
    """Who stands at an offset of the log, among the offsets that were asked for."""

    def __init__(self, log: Pile) -> None:
        self._places: dict[int, tuple[Ints, Ints, Ints]] = {}
        nobody = log["producer"] == NULL
        producer = np.where(nobody, _LAST, log["producer"])
        seq = np.where(nobody, _LAST, log["seq"])
        for (place,), rows in grouped(log["place"]):
            offset = log["offset"][rows]
            order = np.lexsort((seq[rows], producer[rows], offset))
            offset, first = np.unique(offset[order], return_index=True)
            self._places[place] = offset, producer[rows][order][first], seq[rows][order][first]

    def at(self, place: int, offsets: Ints) -> tuple[npt.NDArray[np.bool_], Ints, Ints]:
        """For each offset: is there a record, and whose is it (producer, seq; NULL for nobody's)?"""
        known, producer, seq = self._places.get(place, (np.empty(0, np.int64),) * 3)
        if len(known) == 0:
            nobody = np.full(len(offsets), NULL, np.int64)
            return np.zeros(len(offsets), bool), nobody, nobody
        where = np.minimum(np.searchsorted(known, offsets), len(known) - 1)
        taken = known[where] == offsets
        named = taken & (producer[where] != _LAST)
        return taken, np.where(named, producer[where], NULL), np.where(named, seq[where], NULL)

    def offsets(self, place: int) -> Ints:
        """The offsets of the place that have a record, in order."""
        return self._places.get(place, (np.empty(0, np.int64),))[0]


def first(columns: Mapping[str, Ints], order: Sequence[str]) -> list[dict[str, Any]]:
    """The first few rows in the order of some columns, as dictionaries; nulls come first, and are None."""
    rows = np.lexsort([columns[name] for name in reversed(order)])[:SHOWN]
    found = {name: column[rows].tolist() for name, column in columns.items()}
    return [
        {name: None if values[i] == NULL else values[i] for name, values in found.items()}
        for i in range(len(rows))
    ]


def named(row: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """A row with names in the place of numbers."""
    topic = None if row.get("topic") is None else names.topics[row["topic"]]
    where = names.place(row.get("place")) or (topic, None)
    member = None if row.get("member") is None else names.members[row["member"]]
    return {"grp": None, **row, "topic": where[0], "partition": where[1], "member": member}
