"""Sums of many tasks add up to those of the run, a few of them at a time."""

from __future__ import annotations

from typing import ClassVar

import polars as pl

from kaput.analysis.engine.sums import Sum, total
from kaput.analysis.questions import silence

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


def test_number_of_spells_is_bounded_in_long_runs() -> None:
    """What lies between two spells is at least a width: in any run there are but so many of a stream."""
    hour_ns = 3_600 * 10**9
    for run_ns in (None, 10**9, hour_ns, 24 * hour_ns, 365 * 24 * hour_ns):
        width_ns = silence.width_ns(run_ns)
        assert width_ns >= silence.WIDTH_NS
        assert (run_ns or 0) / width_ns < 21_000
    assert silence.width_ns(100 * 10**9) == silence.WIDTH_NS
