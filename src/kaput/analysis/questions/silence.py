"""Unavailability: the longest time without an acknowledgement.

For a stream (a producer and a partition, or a partition over all producers), from its first attempt to its
last known event. Acknowledgements are kept as spells (engine/spells.py). A silence of at least their width
always lies between two spells, so it is exact; if the longest is shorter, narrower spells are computed. The
width grows with the duration of the run, so that spells do not grow with messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from kaput.analysis.engine.question import Find, Question, Reported, SumPart, facts, fault, findings
from kaput.analysis.engine.spells import joined, ticks
from kaput.analysis.engine.sums import Sum
from kaput.analysis.facts.outage_ends import SHORTEST_NS, ended_by
from kaput.analysis.questions.standstills import moments
from kaput.analysis.runs import encoding
from kaput.analysis.runs.columns import ACKED
from kaput.analysis.runs.encoding import Encoded
from kaput.analysis.runs.run import NULL
from kaput.analysis.runs.tables import of_frame
from kaput.core import MS, TopicPartition
from kaput.evidence.findings import Unavailability
from kaput.evidence.findings_service import EndedBy

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.rows import Rows
    from kaput.analysis.views.sends import Sends

WIDTH_NS = 10_000_000
NARROWER = 10  # times; a stream without a silence of some width has few spells of a tenth of it
_MOST_SPELLS = 20_000  # of a stream, by the run's duration
EXACT_NS = 1  # every acknowledgement's time
STREAM = ("producer", "place")
_SPELLS = Sum((*STREAM, "first_ns"), (), (), ("last_ns",))


@dataclass(frozen=True)
class Silences(Question):
    """`streams`: those for which to compute narrower spells, of `width_ns`."""

    streams: pl.DataFrame | None = None
    width_ns: int | None = None

    sums = {"spells": _SPELLS, "narrow_spells": _SPELLS}

    def of_rows(self, rows: Rows) -> Iterator[Find]:
        """Spells of acknowledgements."""
        if rows.table == "sends":
            yield SumPart("spells", spells(rows.acked, rows.known.silence_ns))

    def before_sends(self, run: Run) -> Silences | None:
        """Repeats the stage as long as the longest silence may lie within a spell."""
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
        yield SumPart("narrow_spells", spells(acked, self.width_ns))

    def after_sends(self, run: Run) -> None:
        """Replaces the wider spells of these streams."""
        assert self.streams is not None, "before_sends has filled it in"
        wide = run.sums["spells"].join(self.streams, on=list(STREAM), how="anti")
        run.sums["spells"] = pl.concat([wide, run.sums["narrow_spells"].select(wide.columns)])

    def report(self, run: Run) -> Iterator[Reported]:
        """The longest silence of each producer and partition, and around each fault."""
        found = []
        for producer, code, from_ns, to_ns in _longest(run).select(*STREAM, "from_ns", "to_ns").iter_rows():
            place = run.names.located(code)
            last_ack = _last_ack_ns(run, producer=producer, place=code)
            found.append(
                Unavailability(
                    producer=producer,
                    topic=place.topic,
                    partition=place.partition,
                    longest_ms=(to_ns - from_ns) / MS,
                    from_ns=from_ns,
                    to_ns=to_ns,
                    ended_by=_ended_by(run, place, from_ns, to_ns, last_ack),
                )
            )
        yield findings(unavailability=sorted(found, key=lambda u: (u.producer, u.topic, u.partition)))
        by_fault = _by_fault(run)
        most = max((to_ns - from_ns for _, from_ns, to_ns in by_fault.values()), default=None)
        yield facts(unavailable_ms=None if most is None else most / MS)
        for fault_id, (code, from_ns, to_ns) in by_fault.items():
            ended_by = _ended_by(run, run.names.located(code), from_ns, to_ns, _last_ack_ns(run, place=code))
            ms = (to_ns - from_ns) / MS
            yield fault(fault_id, unavailable_ms=ms, unavailable_ended_by=ended_by)


def _last_ack_ns(run: Run, **stream: int) -> int | None:
    last = _spans(run).filter(**stream)["last_ack_ns"].max()
    return last if isinstance(last, int) else None


def _ended_by(
    run: Run, place: TopicPartition, from_ns: int, to_ns: int, last_ack_ns: int | None
) -> EndedBy | None:
    """What ended a silence; None if it is too short for a standstill, or ended with the load."""
    if to_ns - from_ns < SHORTEST_NS or last_ack_ns is None or to_ns > last_ack_ns:
        return None
    return ended_by(from_ns, to_ns, moments(run, place))


def _spans(run: Run) -> pl.DataFrame:
    """The first attempt and the last known event of each stream."""
    return run.sums["sent"].drop_nulls("place")


def _longest(run: Run) -> pl.DataFrame:
    return longest(silences(run.sums["spells"], _spans(run), STREAM), STREAM)


def _short(run: Run, width_ns: int) -> set[int]:
    """The places whose longest silence may lie within a spell."""
    found = _longest(run).filter(pl.col("to_ns") - pl.col("from_ns") < width_ns)
    longest_ns = {id_: to_ns - from_ns for id_, (_, from_ns, to_ns) in _by_fault(run).items()}
    reached = [reach for reach in run.reaches if longest_ns.get(reach.fault.id, width_ns) < width_ns]
    return {*found["place"], *(run.names.code(place) for reach in reached for place in reach.places)}


def _by_fault(run: Run) -> dict[str, tuple[int, int, int]]:
    """By fault: (place, from_ns, to_ns) of the longest time without an acknowledgement from a partition that
    it hit.
    """
    gaps = silences(run.sums["spells"], _spans(run), ["place"])
    found: dict[str, tuple[int, int, int]] = {}
    for reach in run.reaches:
        since, until = reach.fault.effective_ns, reach.restored_ns or run.given.ended_ns
        codes = [run.names.code(place) for place in reach.places]
        if since is None or not codes:
            continue
        here = gaps.filter(pl.col("place").is_in(codes), pl.col("to_ns") > since, pl.col("from_ns") < until)
        cut = here.with_columns(pl.col("from_ns").clip(lower_bound=since))
        if cut.height:
            found[reach.fault.id] = longest(cut, []).select("place", "from_ns", "to_ns").row(0)
    return found


def width_ns(run_ns: int | None) -> int:
    """The width of spells in a large run. `run_ns`: its duration, if known."""
    return max(WIDTH_NS, (run_ns or 0) // _MOST_SPELLS)


def spells(acked: Encoded, width_ns: int = WIDTH_NS) -> pl.DataFrame:
    """(producer, place, first_ns, last_ns): spells in which acknowledgements came less than `width_ns` apart,
    for messages with a known partition.
    """
    runs, rows = acked.where(pl.col("place").is_not_null())
    if runs.is_empty():
        return runs.select(*STREAM, first_ns="n", last_ns="n")
    n, at_ns = runs["n"].to_numpy(), rows["dones"]
    new = np.zeros(len(at_ns), bool)
    new[np.cumsum(n) - n] = True
    begin, first_ns, last_ns = ticks(new, at_ns, at_ns, width_ns)
    run = np.searchsorted(np.cumsum(n), begin, side="right")
    found = runs[run].select(*STREAM, first_ns=pl.Series(first_ns), last_ns=pl.Series(last_ns))
    # Rows without a time are in a tick of their own.
    return joined(found.filter(pl.col("first_ns") != NULL), STREAM, width_ns)


def silences(spells_: pl.DataFrame, spans_: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """(keys, from_ns, to_ns): all silences: between two spells, and at either end."""
    ends = spans_.group_by(keys).agg(pl.col("begin_ns").min(), pl.col("end_ns").max())
    edges = [ends.select(*keys, first_ns=name, last_ns=name) for name in ("begin_ns", "end_ns")]
    points = pl.concat([spells_.select(*keys, "first_ns", "last_ns"), *edges]).sort("first_ns", "last_ns")
    before = pl.col("last_ns").cum_max().shift(1).over(keys)
    return (
        points.select(*keys, from_ns=before, to_ns="first_ns")
        .drop_nulls("from_ns")
        .filter(pl.col("to_ns") >= pl.col("from_ns"))
    )


def longest(silences_: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """(keys, from_ns, to_ns): the longest per key (without keys: of all); of equal ones, the earliest."""
    length = pl.col("to_ns") - pl.col("from_ns")
    ordered = silences_.sort(-length, "from_ns", "place")
    return ordered.unique(keys, keep="first", maintain_order=True) if keys else ordered.head(1)
