"""affected: what each fault did to attempts, until the end of each partition's own silence; and what was sent
and acknowledged in its loss window. Defined in docs/GLOSSARY.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from kaput.analysis.engine.question import Find, Question, Reported, SumPart, fault, findings
from kaput.analysis.engine.spells import DONE, PRODUCERS
from kaput.analysis.engine.sums import Sum
from kaput.analysis.facts.reach import Reach
from kaput.analysis.questions.likely_causes import held_up
from kaput.analysis.questions.losses import of_fault
from kaput.analysis.questions.silences import end_of_silence
from kaput.analysis.run import Run
from kaput.analysis.runs.columns import ACKED, looked_up
from kaput.analysis.runs.tables import Extents
from kaput.analysis.views.places import Places
from kaput.analysis.views.rows import Sends
from kaput.core import FOREVER_NS, cluster_and_topic
from kaput.evidence.findings_claims import Claim

_COUNTS = ("sent", "affected")
_LOSS_COUNTS = ("loss_sent", "loss_acked")
_KEYS = ("fault", "place")
UNKNOWN_PLACE = -1  # of a message whose partition the client did not tell


@dataclass(frozen=True)
class FaultWindow:
    """The windows of one fault: `ends`: by place that it hit, when the place's own silence ended (attempts
    count from `from_ns` on, before that end); [loss_from_ns, loss_to_ns] for losses, None without any.
    `topics`: the topics of these places, with the last of their ends.
    """

    fault: str
    from_ns: int = 0
    ends: Mapping[int, int] = field(default_factory=dict)
    topics: Mapping[int, int] = field(default_factory=dict)
    loss_from_ns: int | None = None
    loss_to_ns: int | None = None

    @property
    def span(self) -> tuple[int, int] | None:
        """From the effect to the last end; None without a window."""
        return (self.from_ns, max([*self.ends.values(), *self.topics.values()])) if self.ends else None

    def inside(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows attempted in the window of their place, with `end_ns`. Those without a known partition are
        in the window of their topic if they were not acknowledged.
        """
        end, of_topic = looked_up(pl.col("place"), self.ends), looked_up(pl.col("topic"), self.topics)
        nowhere = pl.col("place").is_null() & ~ACKED
        ended = rows.with_columns(end_ns=pl.when(nowhere).then(of_topic).otherwise(end))
        return ended.filter(
            (pl.col("attempt_ns") >= self.from_ns) & (pl.col("attempt_ns") < pl.col("end_ns"))
        )


@dataclass(frozen=True)
class FaultWindows(Question):
    """Counts for each fault that hit a partition or lost messages. `asked`: the stage sends is done."""

    windows: Sequence[FaultWindow] = ()
    asked: bool = False

    needs = {"places": ("contradicted_acks",)}
    sums = {
        "lost_by_fault": Sum(_KEYS, ("n",)),
        "fault_windows": Sum(_KEYS, _COUNTS),
        "loss_windows_sent": Sum(("fault",), _LOSS_COUNTS),
    }

    def before_places(self, run: Run) -> FaultWindows:
        return replace(self, windows=list(_windows(run, losses=False)))

    def of_places(self, places: Places) -> Iterator[Find]:
        """The number of lost messages that each fault affected, and that were acknowledged in time."""
        if places.lost.is_empty():
            return
        rows = [(w.fault, place, n) for w in self.windows for place, n in affected_by_loss(w, places.lost)]
        schema = {"fault": pl.String, "place": pl.Int64, "n": pl.Int64}
        yield SumPart("lost_by_fault", pl.DataFrame(rows, schema=schema, orient="row"))

    def before_sends(self, run: Run) -> FaultWindows | None:
        """Sets the windows with losses; asked only once."""
        windows = [] if self.asked else list(_windows(run, losses=True))
        return replace(self, windows=windows, asked=True) if windows else None

    def wants(self, extents: Extents) -> bool:
        """Whether a row group may have times within a window."""
        return any(
            extents.meets("attempt_ns", window.span or (None, None))
            or extents.meets("attempt_ns", (window.loss_from_ns, window.loss_to_ns))
            or extents.meets("done_ns", (window.loss_from_ns, window.loss_to_ns))
            for window in self.windows
        )

    def of_sends(self, sends: Sends) -> Iterator[Find]:
        yield SumPart("fault_windows", counts(sends.rows, self.windows))
        yield SumPart("loss_windows_sent", loss_counts(sends.rows, self.windows))

    def report(self, run: Run) -> Iterator[Reported]:
        lost = {(id_, place): n for id_, place, n in run.sums["lost_by_fault"].iter_rows()}
        known = {
            (id_, place): n
            for id_, place, *n in run.sums["fault_windows"].select(*_KEYS, *_COUNTS).iter_rows()
        }
        in_loss_windows = run.sums["loss_windows_sent"].select("fault", *_LOSS_COUNTS)
        losses = {id_: n for id_, *n in in_loss_windows.iter_rows()}
        for window in _windows(run, losses=True):
            of_place = {
                place: (sent, affected + lost.get((window.fault, place), 0))
                for (id_, place), (sent, affected) in known.items()
                if id_ == window.fault
            }
            sent, affected = (sum(n[i] for n in of_place.values()) for i in (0, 1))
            loss_sent, loss_acked = losses.get(window.fault, (0, 0))
            yield fault(
                window.fault,
                affected=affected,
                sent_in_window=sent,
                affected_share=affected / sent if sent else None,
                acked_in_loss_window=loss_acked,
                sent_in_loss_window=loss_sent,
                lost_share=of_fault(run, window.fault)[0] / loss_acked if loss_acked else None,
            )
            yield findings(claims=list(_claims(run, window, of_place)))


def _claims(run: Run, window: FaultWindow, of_place: Mapping[int, tuple[int, int]]) -> Iterator[Claim]:
    """A claim for each partition that the fault hit and whose acknowledgements it held up."""
    for place, end_ns in window.ends.items():
        where = run.names.located(place)
        sent, affected = of_place.get(place, (0, 0))
        yield Claim(
            kind="affected",
            cluster=cluster_and_topic(where.topic)[0],
            topic=where.topic,
            partition=where.partition,
            fault=window.fault,
            from_ns=window.from_ns,
            to_ns=end_ns,
            figures={"sent": sent, "affected": affected},
        )


def _windows(run: Run, losses: bool) -> Iterator[FaultWindow]:
    for reach in run.reaches:
        _, lost_from_ns, lost_to_ns = of_fault(run, reach.fault.id) if losses else (0, None, None)
        ends = _ends(run, reach)
        topics = _ends_of_topics(run, ends)
        if ends or lost_from_ns is not None:
            from_ns = reach.fault.effective_ns or 0
            yield FaultWindow(reach.fault.id, from_ns, ends, topics, lost_from_ns, lost_to_ns)


def _ends(run: Run, reach: Reach) -> dict[int, int]:
    """By place that a fault hit: the end of the silence that it held up; if there is none, and another leader
    was elected, the first acknowledgement under it (the deposed leader went on acknowledging).
    """
    since = reach.fault.effective_ns
    ends: dict[int, int] = {}
    for place in reach.hit if since is not None else ():
        assert since is not None
        code = run.names.code(place)
        mine = (one for one in run.silences.get(code, ()) if held_up(run, reach.fault, place, one))
        end_ns = end_of_silence(mine, since, reach.fault.healed_ns)
        if end_ns is None and reach.places.get(place) is not None:
            end_ns = run.first_acks.get((reach.fault.id, code))
        if end_ns is not None and end_ns > since:
            ends[code] = end_ns
    return ends


def _ends_of_topics(run: Run, ends: Mapping[int, int]) -> dict[int, int]:
    """By topic, the last of these ends; never, if a fault hit all of its partitions and none was acknowledged
    again: what was attempted later, without a partition, waited as well.
    """
    by_topic: dict[str, dict[int, int]] = {}
    for code, end_ns in ends.items():
        by_topic.setdefault(run.names.located(code).topic, {})[code] = end_ns
    done = run.sums["service_spells"].filter(group=PRODUCERS, kind=DONE)
    acked = dict(done.group_by("place").agg(pl.col("last_ns").max()).iter_rows())
    found: dict[int, int] = {}
    for topic, mine in by_topic.items():
        every = {run.names.code(place) for place in run.leader_history.changes if place.topic == topic}
        never = every == mine.keys() and all(acked.get(code, 0) < end_ns for code, end_ns in mine.items())
        found[run.names.topics.index(topic)] = FOREVER_NS if never else max(mine.values())
    return found


def affected_by_loss(window: FaultWindow, lost: pl.DataFrame) -> Iterator[tuple[int, int]]:
    """(place, number) of lost messages in the window, acknowledged before its end."""
    rows = window.inside(lost.with_columns(outcome=pl.lit("acked")))
    in_time = rows.filter(pl.col("done_ns") < pl.col("end_ns"))
    yield from in_time.group_by("place").agg(pl.len().cast(pl.Int64)).iter_rows()


def counts(sends: pl.DataFrame, windows: Sequence[FaultWindow]) -> pl.DataFrame:
    """(fault, place, _COUNTS) of sends; `affected` without messages acknowledged in time, then lost."""
    parts = [FaultWindows.sums["fault_windows"].empty()]
    for window in windows:
        if window.ends:
            rows = window.inside(sends).with_columns(pl.col("place").fill_null(UNKNOWN_PLACE))
            late = (pl.col("done_ns") >= pl.col("end_ns")).fill_null(False)
            each = rows.group_by("place").agg(sent=pl.len(), affected=(~ACKED | late).sum())
            parts.append(each.select(pl.lit(window.fault).alias("fault"), "place", *_COUNTS))
    return pl.concat(parts, how="vertical_relaxed")


def loss_counts(sends: pl.DataFrame, windows: Sequence[FaultWindow]) -> pl.DataFrame:
    """(fault, _LOSS_COUNTS) of rows of sends."""
    rows = [
        sends.select(
            pl.lit(window.fault).alias("fault"),
            loss_sent=_between("attempt_ns", window.loss_from_ns, window.loss_to_ns).sum(),
            loss_acked=(ACKED & _between("done_ns", window.loss_from_ns, window.loss_to_ns)).sum(),
        )
        for window in windows
    ]
    return pl.concat([FaultWindows.sums["loss_windows_sent"].empty(), *rows], how="vertical_relaxed")


def _between(name: str, from_ns: int | None, to_ns: int | None) -> pl.Expr:
    if from_ns is None or to_ns is None:
        return pl.col(name).is_null() & pl.col(name).is_not_null()  # false for all rows
    return pl.col(name).is_between(from_ns, to_ns).fill_null(False)
