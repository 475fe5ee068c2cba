"""Infers what was sent from the numbers of messages: each producer has sent all up to its highest number.

Partitions are not read in step, so a skipped number is not missing at once, but when records are read that
are newer, by WAIT_NS, than the first one with a higher number; or at the end, when reading has gone on for
WAIT_NS after it (`judged`). Numbers below the lowest of the first WAIT_NS
are from before the watch and are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from kaput.core import SECOND

WAIT_NS = 10 * SECOND
_MOMENT_NS = SECOND  # between two kept moments


@dataclass(frozen=True)
class Numbered:
    """By producer: `firsts`, the lowest number; `tops`, the highest plus 1; `settled`, below which a gap
    counts as missing. `moments`: the tops of the last WAIT_NS, each with the newest time of any record then
    (ns).
    """

    firsts: Mapping[int, int] = field(default_factory=dict)
    tops: Mapping[int, int] = field(default_factory=dict)
    settled: Mapping[int, int] = field(default_factory=dict)
    moments: tuple[tuple[int, Mapping[int, int]], ...] = ()

    def after(self, log: pl.DataFrame) -> Numbered:
        """The numbers after more runs of the log, which have the time of their records (`at_ns`)."""
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

    def judged(self, tops: Mapping[int, int]) -> Numbered:
        """The same with a gap below these numbers counting as missing. `tops`: of an earlier moment."""
        settled = {producer: max(top, self.settled.get(producer, 0)) for producer, top in tops.items()}
        return replace(self, settled={**self.settled, **settled})

    def sends(self) -> pl.DataFrame:
        """One run per producer: what it has sent, according to its numbers."""
        rows = [
            (producer, first, self.tops[producer] - first) for producer, first in sorted(self.firsts.items())
        ]
        runs = pl.DataFrame(rows, {"producer": pl.Int64, "seq": pl.Int64, "n": pl.Int64}, orient="row")
        unknown = {name: pl.lit(None, pl.Int64) for name in ("topic", "place", "offset")}
        return runs.with_columns(outcome=pl.lit("acked"), **unknown)


def _by_moment(log: pl.DataFrame) -> Iterator[tuple[int, list[tuple[int, int, int]]]]:
    """By time, ascending: (producer, lowest number, highest number + 1) of these runs."""
    ends = log.group_by(pl.col("at_ns") // _MOMENT_NS * _MOMENT_NS, "producer").agg(
        pl.col("seq").min(), top=(pl.col("seq") + pl.col("n")).max()
    )
    for (at_ns,), rows in ends.sort("at_ns", "producer").group_by("at_ns", maintain_order=True):
        yield int(str(at_ns)), list(rows.select("producer", "seq", "top").iter_rows())
