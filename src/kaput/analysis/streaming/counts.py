"""Counts and latencies of a living cluster: in windows of event time, and since the watch began.

A message belongs to the window of its attempt, a log record to that of its timestamp, a delivery to that of
its poll. The watermark is WAIT_NS behind the newest time; a window that it has passed is closed and returned
once. Later rows still count in the sums since the beginning.

Latencies are counted by grade (engine/steps.py): percentiles are within 2 % of the exact ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from kaput.analysis.engine import steps
from kaput.analysis.runs.columns import ACKED
from kaput.analysis.runs.run import whole_us
from kaput.core import SECOND

WINDOW_NS = 10 * SECOND
WAIT_NS = 30 * SECOND  # for late rows
_COUNT = ("place", "what", "n")
_GRADED = ("place", "what", "grade", "n")
_WHAT = pl.Enum(["sent", "acked", "failed", "unknown", "stored", "delivered"])
_KEPT = ("producer", "seq", "place", "at_ns")  # of sends and deliveries not matched yet


def _none(columns: tuple[str, ...]) -> pl.DataFrame:
    return pl.DataFrame(schema={name: _WHAT if name == "what" else pl.Int64() for name in columns})


@dataclass(frozen=True)
class WindowCounts:
    """`windows`: (window, place, what, n) of open windows; `latencies`: the same by grade. `sums` and
    `grades`: since the beginning. `newest_ns`: the newest time of any row. `waiting_sends`,
    `waiting_deliveries`: not matched yet, for end-to-end latencies.
    """

    windows: pl.DataFrame = field(default_factory=lambda: _none(("window", *_COUNT)))
    latencies: pl.DataFrame = field(default_factory=lambda: _none(("window", *_GRADED)))
    sums: pl.DataFrame = field(default_factory=lambda: _none(_COUNT))
    grades: pl.DataFrame = field(default_factory=lambda: _none(_GRADED))
    waiting_sends: pl.DataFrame = field(default_factory=lambda: _none(_KEPT))
    waiting_deliveries: pl.DataFrame = field(default_factory=lambda: _none(_KEPT))
    newest_ns: int = 0
    closed_ns: int = 0

    @property
    def watermark_ns(self) -> int:
        """Windows that end before this are closed."""
        return self.newest_ns - WAIT_NS

    def after(
        self, sends: pl.DataFrame | None, log: pl.DataFrame | None, deliveries: pl.DataFrame | None
    ) -> WindowCounts:
        """The counts after one more micro-batch. `log`: (place, at_ns, n), the number of records by time."""
        counted, graded = [], []
        sent, read = self.waiting_sends, self.waiting_deliveries
        if sends is not None:
            counted.append(_rows(sends, pl.lit("sent", _WHAT), "attempt_ns"))
            known = sends.filter(pl.col("outcome").cast(pl.String).is_in(["acked", "failed", "unknown"]))
            counted.append(_rows(known, pl.col("outcome").cast(pl.String).cast(_WHAT), "attempt_ns"))
            acked = sends.filter(ACKED).drop_nulls("done_ns")
            graded.append(_graded_durations(acked, "acked", acked["attempt_ns"], acked["done_ns"]))
            sent = pl.concat([sent, acked.select("producer", "seq", "place", at_ns="attempt_ns")])
        if log is not None:
            counted.append(log.select("at_ns", "place", pl.lit("stored", _WHAT).alias("what"), "n"))
        if deliveries is not None:
            counted.append(_rows(deliveries, pl.lit("delivered", _WHAT), "polled_ns"))
            named = deliveries.drop_nulls(["producer", "seq"])
            read = pl.concat([read, named.select("producer", "seq", "place", at_ns="polled_ns")])
        sent, read, end_to_end = _match(sent, read)
        graded.append(end_to_end)
        return self._added(counted, graded, sent, read)

    def _added(
        self, counted: list[pl.DataFrame], graded: list[pl.DataFrame], sent: pl.DataFrame, read: pl.DataFrame
    ) -> WindowCounts:
        rows = pl.concat([_none(("at_ns", *_COUNT)), *counted], how="vertical_relaxed")
        durations = pl.concat([_none(("at_ns", *_GRADED)), *graded], how="vertical_relaxed")
        newest = max(self.newest_ns, *(_newest(frame) for frame in (rows, durations)))
        old = newest - 10 * WAIT_NS  # older ones are no longer matched
        return replace(
            self,
            windows=_sum([self.windows, _in_windows(rows, self.closed_ns)], ("window", *_COUNT)),
            latencies=_sum([self.latencies, _in_windows(durations, self.closed_ns)], ("window", *_GRADED)),
            sums=_sum([self.sums, rows], _COUNT),
            grades=_sum([self.grades, durations], _GRADED),
            waiting_sends=sent.filter(pl.col("at_ns") > old),
            waiting_deliveries=read.filter(pl.col("at_ns") > old),
            newest_ns=newest,
        )

    def closed(self, every: bool = False) -> tuple[list[dict[str, object]], WindowCounts]:
        """The windows that the watermark has passed (`every`: all), and the remaining counts."""
        end = self.newest_ns + WINDOW_NS if every else self.watermark_ns - self.watermark_ns % WINDOW_NS
        done = pl.col("window") + WINDOW_NS <= end
        out = _documents(self.windows.filter(done), self.latencies.filter(done))
        rest = replace(
            self,
            windows=self.windows.filter(~done),
            latencies=self.latencies.filter(~done),
            closed_ns=max(self.closed_ns, end),
        )
        return out, rest

    def sum_of(self, what: str) -> Mapping[int, int]:
        """By place, the number since the beginning."""
        mine = self.sums.filter(pl.col("what") == what).drop_nulls("place")
        return dict(mine.select("place", "n").iter_rows())


def _newest(frame: pl.DataFrame) -> int:
    newest = frame["at_ns"].max()
    return newest if isinstance(newest, int) else 0


def _rows(frame: pl.DataFrame, what: pl.Expr, at: str) -> pl.DataFrame:
    rows = frame.drop_nulls(at).select(at_ns=at, place="place", what=what)
    return rows.group_by(pl.col("at_ns") // SECOND * SECOND, "place", "what").agg(n=pl.len().cast(pl.Int64))


def _graded_durations(rows: pl.DataFrame, what: str, begin: pl.Series, end: pl.Series) -> pl.DataFrame:
    """Durations by grade and by the second in which they ended."""
    frames = [_none(("at_ns", *_GRADED))]
    for (place,), mine in rows.with_columns(begin=begin, end=end).partition_by("place", as_dict=True).items():
        ends = mine["end"].to_numpy()
        graded, _ = steps.graded("acked", ends, whole_us(ends - mine["begin"].to_numpy()), SECOND)
        which = [pl.lit(place, pl.Int64).alias("place"), pl.lit(what, _WHAT).alias("what")]
        frames.append(graded.select("at_ns", *which, pl.col("grade").cast(pl.Int64), n="times"))
    return pl.concat(frames, how="vertical_relaxed")


def _match(sent: pl.DataFrame, read: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """The sends and deliveries that remain unmatched, and the end-to-end latencies of first deliveries."""
    if sent.is_empty() or read.is_empty():
        return sent, read, _none(("at_ns", *_GRADED))
    first = read.sort("at_ns").unique(["producer", "seq"], keep="first")
    key = ["producer", "seq"]
    both = first.join(sent.select(*key, begin="at_ns"), on=key)
    waiting = [frame.join(both.select(key), on=key, how="anti") for frame in (sent, read)]
    return waiting[0], waiting[1], _graded_durations(both, "delivered", both["begin"], both["at_ns"])


def _in_windows(rows: pl.DataFrame, closed_ns: int) -> pl.DataFrame:
    """The rows of windows that are not closed yet."""
    window = pl.col("at_ns") // WINDOW_NS * WINDOW_NS
    return rows.with_columns(window=window).filter(pl.col("window") >= closed_ns)


def _sum(frames: list[pl.DataFrame], columns: tuple[str, ...]) -> pl.DataFrame:
    rows = pl.concat([frame.select(columns) for frame in frames], how="vertical_relaxed")
    return rows.group_by(columns[:-1], maintain_order=True).agg(pl.col("n").sum())


def _documents(windows: pl.DataFrame, latencies: pl.DataFrame) -> list[dict[str, object]]:
    documents = []
    for (window, place), rows in windows.sort("window", "place").group_by(
        "window", "place", maintain_order=True
    ):
        counts = dict(rows.select(pl.col("what").cast(pl.String), "n").iter_rows())
        mine = latencies.filter(pl.col("window") == window, pl.col("place").eq_missing(pl.lit(place)))
        ms = {
            f"{name}_ms": percentiles(mine.filter(pl.col("what") == what))
            for name, what in (("ack", "acked"), ("end_to_end", "delivered"))
        }
        documents.append({"window_ns": window, "place": place, **counts, **ms})
    return documents


def percentiles(grades: pl.DataFrame) -> dict[str, float] | None:
    """p50, p99 and p99.9 in ms, of (grade, n); None without rows."""
    if grades.is_empty():
        return None
    by_grade = grades.group_by("grade").agg(pl.col("n").sum()).sort("grade")
    ends = by_grade["n"].cum_sum()
    total = int(ends[-1])
    values = steps.middle_us(by_grade["grade"].to_numpy())
    shown = {}
    for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999)):
        at = int(ends.search_sorted(int(np.floor(share * (total - 1))), side="right"))
        shown[name] = float(values[at]) / 1000
    return shown
