"""Messages that only their numbers tell of: whoever numbers messages has sent all up to the greatest number.

A number that others have passed is waited for, since partitions are not read in step: it is missing when
records are read that are newer, by WAIT_NS, than the first one with a greater number. Numbers below the least
one of the first WAIT_NS are from before the watch, and nothing is said of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl

from kaput.core import SECOND

WAIT_NS = 10 * SECOND
_MOMENT_NS = SECOND  # between two moments that are kept


@dataclass(frozen=True)
class Numbered:
    """By producer: `firsts`, the least number, `tops`, the greatest, `settled`, below which a gap is one.

    `moments`: the tops of the last WAIT_NS, each with the newest time of any record then (ns).
    """

    firsts: Mapping[int, int] = field(default_factory=dict)
    tops: Mapping[int, int] = field(default_factory=dict)
    settled: Mapping[int, int] = field(default_factory=dict)
    moments: tuple[tuple[int, Mapping[int, int]], ...] = ()

    def after(self, log: pl.DataFrame) -> Numbered:
        """With runs of the log that were read, with the time of their records (`at_ns`)."""
        if log.is_empty():
            return self
        firsts, tops, kept = dict(self.firsts), dict(self.tops), list(self.moments)
        settled = self.settled
        for at_ns, ends in _by_moment(log):
            now = max(at_ns, kept[-1][0]) if kept else at_ns
            for producer, first, top in ends:
                if producer not in settled:
                    firsts[producer] = min(first, firsts.get(producer, first))
                tops[producer] = max(top, tops.get(producer, top))
            if kept and now - kept[-1][0] < _MOMENT_NS:
                kept[-1] = (kept[-1][0], dict(tops))
            else:
                kept.append((now, dict(tops)))
            while kept[0][0] <= now - WAIT_NS:
                settled = kept.pop(0)[1]
        return Numbered(firsts, tops, settled, tuple(kept))

    def sends(self) -> pl.DataFrame:
        """A run for each producer: what it has sent, as far as its numbers tell."""
        rows = [
            (producer, first, self.tops[producer] - first) for producer, first in sorted(self.firsts.items())
        ]
        found = pl.DataFrame(rows, {"producer": pl.Int64, "seq": pl.Int64, "n": pl.Int64}, orient="row")
        unknown = {name: pl.lit(None, pl.Int64) for name in ("topic", "place", "offset")}
        return found.with_columns(outcome=pl.lit("acked"), **unknown)


def _by_moment(log: pl.DataFrame) -> Iterator[tuple[int, list[tuple[int, int, int]]]]:
    """By time, ascending: (producer, least number, greatest number + 1) of what was read."""
    ends = log.group_by(pl.col("at_ns") // _MOMENT_NS * _MOMENT_NS, "producer").agg(
        pl.col("seq").min(), top=(pl.col("seq") + pl.col("n")).max()
    )
    for (at_ns,), rows in ends.sort("at_ns", "producer").group_by("at_ns", maintain_order=True):
        yield int(str(at_ns)), list(rows.select("producer", "seq", "top").iter_rows())
