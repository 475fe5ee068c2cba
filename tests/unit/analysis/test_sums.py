"""Sums of many tasks add up to those of the run, a few of them at a time."""

from __future__ import annotations

from typing import ClassVar

import polars as pl

from kaput.analysis.engine.sums import Sum, total

_MANY = 700_000  # rows: two such parts are more than wait to be added


class Watched(Sum):
    """A sum that tells how many rows it is made of, each time."""

    seen: ClassVar[list[int]] = []

    def of(self, frame: pl.DataFrame) -> pl.DataFrame:
        self.seen.append(frame.height)
        return super().of(frame)


BY_KEY = Watched(("key",), ("n",), ("first",), ("last",))


def _part(number: int) -> pl.DataFrame:
    """The same keys in each part."""
    rows = pl.DataFrame({"n": 1, "key": pl.int_range(_MANY, eager=True), "last": number, "first": number})
    return BY_KEY.of(rows)


def test_partial_sums_are_merged_incrementally() -> None:
    kinds = {"by_key": BY_KEY, "absent": Sum(("key",), ("n",))}
    found = total(({"by_key": _part(number)} for number in range(12)), kinds)
    assert max(Watched.seen) <= 4 * _MANY
    assert list(found) == ["by_key"]
    rows = found["by_key"]
    assert rows.height == _MANY
    assert rows.select("n", "first", "last").unique().rows() == [(12, 0, 11)]
