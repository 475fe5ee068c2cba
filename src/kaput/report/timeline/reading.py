"""Reads the timeline of a run for charts: steps, bars and marks, in seconds since the load began.

Reads RUN_DIR/analysis (timeline, lag, events), the findings and the manifest (bars.py); judges and
counts nothing. If the analysis is missing, there is no timeline, and the report omits
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from kaput.errors import KaputError
from kaput.evidence.findings import Findings
from kaput.evidence.folder import Manifest, RunFolder
from kaput.report.timeline import bars
from kaput.report.timeline.bars import Bar, Mark, TimelineClock

MOST_STEPS = 2_000  # on a page: more would be finer than a screen shows
_MOST_SAMPLES = 600  # of lag
_OVERVIEW = 200  # steps in the overview: more are only noise
COUNTS = ("sent", "acked", "failed", "unknown", "lost", "delivered")
LATENCIES = tuple(f"{what}_{share}_ms" for what in ("ack", "end_to_end") for share in ("p50", "p99", "max"))
_DAY_S = 86_400.0


class StepFigures(NamedTuple):
    """Steps of width `width_s`, a row each: `s` (its begin in seconds), counts and latencies."""

    width_s: float
    rows: Sequence[Mapping[str, float | None]]


class InStores(NamedTuple):
    """The number of messages in stores at a moment, in seconds."""

    at: float
    messages: int


class LagPoint(NamedTuple):
    """The lag of a group at a moment, in seconds."""

    at: float
    group: str
    lag: int


@dataclass(frozen=True)
class TimelineData:
    """All data of the timeline, from `begin_s` to `end_s`. Steps without gaps: `fine` for zooming in,
    `overview` for the whole run, `table` for the text table. Bars: `faults` (with loss windows, rebalances
    and the drain), `leaders`, `isrs`, `owners`, `moves` (of clients to another cluster). `mirror_lag`: the
    `group` is the name of a mirror. `key`: the prefix of the names of its data sets.
    """

    began_ns: int
    begin_s: float
    end_s: float
    fine: StepFigures
    overview: StepFigures
    table: StepFigures
    faults: Sequence[Bar] = ()
    leaders: Sequence[Bar] = ()
    isrs: Sequence[Bar] = ()
    owners: Sequence[Bar] = ()
    lag: Sequence[LagPoint] = ()
    in_stores: Sequence[InStores] = ()
    moves: Sequence[Bar] = ()
    mirror_lag: Sequence[LagPoint] = ()
    marks: Sequence[Mark] = ()
    key: str = ""

    @property
    def has_deliveries(self) -> bool:
        return any(row["delivered"] for row in self.table.rows)


def manifest_of(folder: RunFolder) -> Manifest | None:
    """The manifest; None if it cannot be read, since findings can be shown without it."""
    try:
        return folder.read_manifest()
    except KaputError:
        return None


def read_timeline(folder: RunFolder, findings: Findings) -> TimelineData | None:
    """The timeline of a judged run; None if its analysis has no readable timeline."""
    try:
        paths = (folder.analysis / "timeline").glob("step_ms=*")
        widths = {int(path.name.removeprefix("step_ms=")) * 1_000_000: path for path in paths}
        levels = {width: _steps(path) for width, path in sorted(widths.items())}  # the finest first
        events: list[dict[str, Any]] = pq.read_table(folder.analysis / "events").to_pylist()
        lag = pq.read_table(folder.analysis / "lag").to_pylist()
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return None
    if not levels or not any(levels.values()):
        return None
    first_ns = min(int(rows[0]["at_ns"]) for rows in levels.values() if rows)
    began_ns = _began_ns(findings, first_ns)
    widest = max(levels)
    fine = next((width for width, rows in levels.items() if _span(width, rows) <= MOST_STEPS), widest)
    overview = next((width for width, rows in levels.items() if _span(width, rows) <= _OVERVIEW), widest)
    shown = {
        width: StepFigures(width / 1e9, [_in_seconds(row, began_ns) for row in _dense(levels[width], width)])
        for width in {fine, overview, widest}
    }
    end_s = _end_s(findings, began_ns, (shown[fine].rows[-1]["s"] or 0.0) + fine / 1e9)
    clock, mirrors = TimelineClock(began_ns, end_s), folder.analysis / "mirror_lag"
    return TimelineData(
        began_ns=began_ns,
        begin_s=0.0,
        end_s=end_s,
        fine=shown[fine],
        overview=shown[overview],
        table=shown[widest],
        faults=[
            *bars.faults(findings, clock),
            *bars.rebalances(findings, clock),
            *bars.drain(manifest_of(folder), clock),
        ],
        leaders=list(bars.leaders(events, findings, clock)),
        isrs=list(bars.isrs(events, clock)),
        owners=list(bars.owners(events, clock)),
        lag=_lag(lag, "group", clock),
        in_stores=_in_stores(folder.analysis / "stores", clock),
        moves=list(bars.moves(findings, clock)),
        mirror_lag=_lag(pq.read_table(mirrors).to_pylist() if mirrors.exists() else [], "mirror", clock),
        marks=sorted([*bars.event_marks(events, clock), *bars.rebalance_marks(findings, clock)]),
    )


def _steps(directory: Path) -> list[dict[str, Any]]:
    names = ("at_ns", *COUNTS, *LATENCIES)
    table = pa.concat_tables(pq.read_table(path, partitioning=None) for path in directory.glob("*.parquet"))
    rows: list[dict[str, Any]] = table.select(list(names)).to_pylist()
    return rows


def _span(width: int, rows: Sequence[Mapping[str, Any]]) -> int:
    return (rows[-1]["at_ns"] - rows[0]["at_ns"]) // width + 1 if rows else 0


def _dense(rows: Sequence[dict[str, Any]], width: int) -> Sequence[Mapping[str, Any]]:
    """Adds rows for empty steps, unless damaged timestamps would make far too many."""
    if not 0 < _span(width, rows) <= MOST_STEPS:
        return rows
    known = {row["at_ns"]: row for row in rows}
    nothing = dict.fromkeys(COUNTS, 0) | dict.fromkeys(LATENCIES)
    every = range(rows[0]["at_ns"], rows[-1]["at_ns"] + width, width)
    return [known.get(at_ns, {"at_ns": at_ns, **nothing}) for at_ns in every]


def _in_seconds(row: Mapping[str, Any], began_ns: int) -> dict[str, Any]:
    latencies = {name: None if row[name] is None else float(f"{row[name]:.4g}") for name in LATENCIES}
    counts = {name: row[name] for name in COUNTS}
    return {"s": round((row["at_ns"] - began_ns) / 1e9, 3), **counts, **latencies}


def _began_ns(findings: Findings, first_ns: int) -> int:
    """When the load began: as recorded, unless that is a day or more away from the first message."""
    started = findings.run.started_ns
    return started if started and abs(first_ns - started) < _DAY_S * 1e9 else first_ns


def _end_s(findings: Findings, began_ns: int, last_s: float) -> float:
    ended = findings.run.ended_ns
    return max(last_s, (ended - began_ns) / 1e9) if ended and (ended - began_ns) / 1e9 < _DAY_S else last_s


def _in_stores(directory: Path, clock: TimelineClock) -> list[InStores]:
    """At most _MOST_SAMPLES samples: the last one of each interval. Empty without stores."""
    try:
        rows: list[dict[str, Any]] = pq.read_table(directory).to_pylist()
    except (OSError, ValueError, pa.ArrowException):
        return []
    width = max(clock.end_s / _MOST_SAMPLES, 0.001)
    found: dict[int, InStores] = {}
    for row in rows:
        if clock.within(row["at_ns"]):
            one = InStores(clock.s(row["at_ns"]), row["messages"])
            found[int(one.at / width)] = one
    last = [InStores(clock.end_s, one.messages) for one in list(found.values())[-1:]]
    return [*found.values(), *last]


def _lag(rows: Sequence[Mapping[str, Any]], of: str, clock: TimelineClock) -> list[LagPoint]:
    """At most _MOST_SAMPLES samples of each group, or mirror (`of`): the greatest lag of each interval."""
    width = max(clock.end_s / _MOST_SAMPLES, 0.001)
    found: dict[tuple[str, int], LagPoint] = {}
    for row in rows:
        if clock.within(row["at_ns"]):
            one = LagPoint(clock.s(row["at_ns"]), row[of], row["lag"])
            key = one.group, int(one.at / width)
            if key not in found or one.lag > found[key].lag:
                found[key] = one
    return sorted(found.values())


_MOMENTS = {"begin", "end", "at"}  # fields of bars, marks and samples that hold seconds


def aligned(timelines: Sequence[TimelineData]) -> list[TimelineData]:
    """The timelines with a common range, from the earliest begin to the latest end, in which 0 is when the
    first fault of each run took effect. A run without a fault is not shifted.
    """
    zeros = [_first_fault(timeline) for timeline in timelines]
    both = list(zip(timelines, zeros, strict=True))
    begin = min((timeline.begin_s - zero for timeline, zero in both), default=0.0)
    end = max((timeline.end_s - zero for timeline, zero in both), default=1.0)
    return [_shifted(*each, begin, end, f"{number}-") for number, each in enumerate(both)]


def _first_fault(timeline: TimelineData) -> float:
    return min((bar.begin for bar in timeline.faults if bar.kind == "fault"), default=0.0)


def _shifted(timeline: TimelineData, zero: float, begin: float, end: float, key: str) -> TimelineData:
    shifted = {name: _earlier(value, zero) for name, value in vars(timeline).items()}
    began_ns = timeline.began_ns + round(zero * 1e9)
    return TimelineData(
        **{**shifted, "key": key, "began_ns": began_ns, "begin_s": round(begin, 3), "end_s": round(end, 3)}
    )


def _earlier(value: Any, by: float) -> Any:
    """Steps, bars, marks or samples shifted earlier by `by` seconds; other values unchanged."""
    if isinstance(value, StepFigures):
        return value._replace(rows=[{**row, "s": round((row["s"] or 0.0) - by, 3)} for row in value.rows])
    if isinstance(value, list):
        return [
            one._replace(**{n: round(getattr(one, n) - by, 3) for n in _MOMENTS & {*one._fields}})
            for one in value
        ]
    return value
