"""Unavailability: the longest time without an acknowledgement.

Of a stream (a producer and a partition, or a partition over all producers) from its first attempt to the
last that is known of it. Acknowledgements are kept as spells: the first and the last of each time in which
they came less than a width after one another. A silence of that width or more is always between two spells,
so it is exact; where the longest is shorter, the spells are taken again, narrower. The width grows with the
run, so that spells do not grow with messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from kaput.analysis.engine.question import Find, Part, Question, Section, fault, findings
from kaput.analysis.engine.sums import Sum
from kaput.analysis.runs import encoding
from kaput.analysis.runs.columns import ACKED
from kaput.analysis.runs.encoding import Encoded
from kaput.analysis.runs.run import NULL
from kaput.analysis.runs.tables import of_frame
from kaput.core import MS
from kaput.evidence.findings import Unavailability

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.rows import Rows
    from kaput.analysis.views.sends import Sends

WIDTH_NS = 10_000_000
NARROWER = 10  # times: of a stream without a silence of some width, there are few spells of a tenth of it
_MOST_SPELLS = 20_000  # of a stream, in a run as long as its manifest says
EXACT_NS = 1  # every acknowledgement's time
STREAM = ("producer", "place")
_SPELLS = Sum((*STREAM, "first_ns"), (), (), ("last_ns",))


@dataclass(frozen=True)
class Silences(Question):
    """`streams`: those that are taken again, by spells of `width_ns`."""

    streams: pl.DataFrame | None = None
    width_ns: int | None = None

    sums = {"spells": _SPELLS, "narrow_spells": _SPELLS}

    def of_rows(self, rows: Rows) -> Iterator[Find]:
        """Spells of acknowledgements."""
        if rows.table == "sends":
            yield Part("spells", spells(rows.acked, rows.known.silence_ns))

    def before_sends(self, run: Run) -> Silences | None:
        """Again, as long as a silence may lie within a spell."""
        width_ns = run.work.width_ns if self.width_ns is None else self.width_ns
        short = _short(run, width_ns) if width_ns > EXACT_NS else ()
        if not short:
            return None
        streams = _spans(run).filter(pl.col("place").is_in(sorted(short))).select(STREAM).unique()
        return replace(self, streams=streams, width_ns=max(EXACT_NS, width_ns // NARROWER))

    def of_sends(self, sends: Sends) -> Iterator[Find]:
        """Narrower spells of those streams."""
        assert self.streams is not None and self.width_ns is not None, "before_sends has filled them in"
        rows = sends.rows.join(self.streams, on=list(STREAM), how="semi")
        acked = encoding.sends(of_frame(rows)).where(ACKED)
        yield Part("narrow_spells", spells(acked, self.width_ns))

    def after_sends(self, run: Run) -> None:
        """They take the place of the wider ones."""
        assert self.streams is not None, "before_sends has filled it in"
        wide = run.sums["spells"].join(self.streams, on=list(STREAM), how="anti")
        run.sums["spells"] = pl.concat([wide, run.sums["narrow_spells"].select(wide.columns)])

    def report(self, run: Run) -> Iterator[Section]:
        """The longest of each producer and partition, and around each fault."""
        found = []
        for producer, code, from_ns, to_ns in _longest(run).select(*STREAM, "from_ns", "to_ns").iter_rows():
            topic, partition = run.names.located(code)
            found.append(
                Unavailability(
                    producer=producer,
                    topic=topic,
                    partition=partition,
                    longest_ms=(to_ns - from_ns) / MS,
                    from_ns=from_ns,
                    to_ns=to_ns,
                )
            )
        yield findings(unavailability=sorted(found, key=lambda u: (u.producer, u.topic, u.partition)))
        for fault_id, longest_ns in _by_fault(run).items():
            yield fault(fault_id, unavailable_ms=longest_ns / MS)


def _spans(run: Run) -> pl.DataFrame:
    """From the first attempt to the last that is known of each stream."""
    return run.sums["sent"].drop_nulls("place")


def _longest(run: Run) -> pl.DataFrame:
    return longest(silences(run.sums["spells"], _spans(run), STREAM), STREAM)


def _short(run: Run, width_ns: int) -> set[int]:
    """The places whose longest silence may lie within a spell."""
    found = _longest(run).filter(pl.col("to_ns") - pl.col("from_ns") < width_ns)
    quiet = _by_fault(run)
    reached = [reach for reach in run.reaches if quiet.get(reach.fault.id, width_ns) < width_ns]
    return {*found["place"], *(run.names.code(place) for reach in reached for place in reach.places)}


def _by_fault(run: Run) -> dict[str, int]:
    """By fault: the longest time in ns without an acknowledgement from a partition that it reached."""
    gaps = silences(run.sums["spells"], _spans(run), ["place"])
    found: dict[str, int] = {}
    for reach in run.reaches:
        since, until = reach.fault.effective_ns, reach.restored_ns or run.given.ended_ns
        codes = [run.names.code(place) for place in reach.places]
        if since is None or not codes:
            continue
        here = gaps.filter(pl.col("place").is_in(codes), pl.col("to_ns") > since, pl.col("from_ns") < until)
        most = here.select((pl.col("to_ns") - pl.col("from_ns").clip(lower_bound=since)).max()).item()
        if most is not None:
            found[reach.fault.id] = most
    return found


def width_ns(run_ns: int | None) -> int:
    """How wide the spells of a large run are. `run_ns`: how long it took, where that is known."""
    return max(WIDTH_NS, (run_ns or 0) // _MOST_SPELLS)


def spells(acked: Encoded, width_ns: int = WIDTH_NS) -> pl.DataFrame:
    """(producer, place, first_ns, last_ns): times within which acknowledgements came less than `width_ns`
    after one another, of what was `acked` and whose partition is known.
    """
    runs, rows = acked.where(pl.col("place").is_not_null())
    if runs.is_empty():
        return runs.select(*STREAM, first_ns="n", last_ns="n")
    n, at_ns = runs["n"].to_numpy(), rows["dones"]
    new = np.zeros(len(at_ns), bool)
    new[np.cumsum(n) - n] = True
    tick = at_ns // width_ns
    new[1:] |= tick[1:] != tick[:-1]
    begin = np.flatnonzero(new)
    run = np.searchsorted(np.cumsum(n), begin, side="right")
    ticks = runs[run].select(
        *STREAM,
        first_ns=pl.Series(np.minimum.reduceat(at_ns, begin)),
        last_ns=pl.Series(np.maximum.reduceat(at_ns, begin)),
    )
    # Those without a time are in a tick of their own.
    return _joined(ticks.filter(pl.col("first_ns") != NULL), width_ns)


def _joined(ticks: pl.DataFrame, width_ns: int) -> pl.DataFrame:
    """Ticks of a stream that come less than `width_ns` after one another, as one."""
    ordered = ticks.sort(*STREAM, "first_ns")
    before = pl.col("last_ns").cum_max().shift(1).over(STREAM)
    new = (pl.col("first_ns") >= before + width_ns).fill_null(True)
    return (
        ordered.with_columns(new=new.cum_sum())
        .group_by(*STREAM, "new")
        .agg(pl.col("first_ns").min(), pl.col("last_ns").max())
        .drop("new")
    )


def silences(spells_: pl.DataFrame, spans_: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """(keys, from_ns, to_ns): every time without an acknowledgement between two spells, and at either end."""
    ends = spans_.group_by(keys).agg(pl.col("begin_ns").min(), pl.col("end_ns").max())
    border = [ends.select(*keys, first_ns=name, last_ns=name) for name in ("begin_ns", "end_ns")]
    points = pl.concat([spells_.select(*keys, "first_ns", "last_ns"), *border]).sort("first_ns", "last_ns")
    before = pl.col("last_ns").cum_max().shift(1).over(keys)
    return (
        points.select(*keys, from_ns=before, to_ns="first_ns")
        .drop_nulls("from_ns")
        .filter(pl.col("to_ns") >= pl.col("from_ns"))
    )


def longest(silences_: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """(keys, from_ns, to_ns): the longest of each, the earliest of several."""
    ordered = silences_.sort(pl.col("to_ns") - pl.col("from_ns"), -pl.col("from_ns"), descending=True)
    return ordered.unique(keys, keep="first", maintain_order=True)
