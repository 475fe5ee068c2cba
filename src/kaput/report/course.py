"""The course of a run as a chart shows it: steps, bars and marks in seconds since the load began.

Read from RUN_DIR/analysis (timeline, events), findings.json and the manifest; nothing is judged or counted
here. Where the analysis is missing or an older one's, there is no course, and a report does without.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from kaput.evidence.findings import Findings
from kaput.evidence.folder import Manifest, RunFolder

MOST_STEPS = 2_000  # on a page: no finer than a screen shows
_OVERVIEW = 200  # steps that are told apart at a glance: more are but noise
_COUNTS = ("sent", "acked", "failed", "unknown", "lost", "delivered")
LATENCIES = tuple(f"{what}_{share}_ms" for what in ("ack", "end_to_end") for share in ("p50", "p99", "max"))
_DAY_S = 86_400.0


class Bar(NamedTuple):
    """Something that went on from `begin` to `end`, in seconds: on a row, of a kind, with a text."""

    row: str
    begin: float
    end: float
    kind: str
    text: str
    short: str = ""


class Mark(NamedTuple):
    """Something that happened at one moment, in seconds."""

    at: float
    kind: str
    text: str


class Steps(NamedTuple):
    """One row a step: `s`, its begin in seconds, counts and latencies."""

    width_s: float
    rows: Sequence[Mapping[str, float | None]]


@dataclass(frozen=True)
class Course:
    """Everything that the timeline shows. Steps without gaps: `fine` for a close look, `overview` for all of
    it, `table` to be read. `faults`, `leaders`, `isrs`, `owners`: bars.
    """

    began_ns: int
    end_s: float
    fine: Steps
    overview: Steps
    table: Steps
    faults: Sequence[Bar]
    leaders: Sequence[Bar]
    isrs: Sequence[Bar]
    owners: Sequence[Bar]
    marks: Sequence[Mark]

    @property
    def has_deliveries(self) -> bool:
        """Whether any group was handed anything."""
        return any(row["delivered"] for row in self.table.rows)

    def at(self, ns: int | None) -> float | None:
        """A moment in seconds since the load began."""
        return None if ns is None else (ns - self.began_ns) / 1e9


def read_course(folder: RunFolder, findings: Findings, manifest: Manifest | None) -> Course | None:
    """The course of a run that was judged, or None where its analysis holds none that can be read."""
    try:
        levels = {width: _steps(path) for width, path in _levels(folder.analysis / "timeline")}
        events: list[dict[str, Any]] = pq.read_table(folder.analysis / "events").to_pylist()
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
        width: Steps(width / 1e9, _seconds(_dense(levels[width], width), began_ns))
        for width in {fine, overview, widest}
    }
    end_s = _end_s(findings, began_ns, (shown[fine].rows[-1]["s"] or 0.0) + fine / 1e9)
    clock = _Clock(began_ns, end_s)
    return Course(
        began_ns=began_ns,
        end_s=end_s,
        fine=shown[fine],
        overview=shown[overview],
        table=shown[widest],
        faults=[*_faults(findings, clock), *_drain(manifest, clock)],
        leaders=list(_leaders(events, clock)),
        isrs=list(_isrs(events, clock)),
        owners=list(_owners(events, clock)),
        marks=list(_marks(events, clock)),
    )


def _levels(directory: Path) -> Iterator[tuple[int, Path]]:
    """(width in ns, directory), the finest first."""
    found = {int(path.name.removeprefix("step_ms=")): path for path in directory.glob("step_ms=*")}
    for width_ms in sorted(found):
        yield width_ms * 1_000_000, found[width_ms]


def _steps(directory: Path) -> list[dict[str, Any]]:
    names = ("at_ns", *_COUNTS, *LATENCIES)
    table = pa.concat_tables(pq.read_table(path, partitioning=None) for path in directory.glob("*.parquet"))
    rows: list[dict[str, Any]] = table.select(list(names)).to_pylist()
    return rows


def _span(width: int, rows: Sequence[Mapping[str, Any]]) -> int:
    return (rows[-1]["at_ns"] - rows[0]["at_ns"]) // width + 1 if rows else 0


def _dense(rows: Sequence[dict[str, Any]], width: int) -> Sequence[Mapping[str, Any]]:
    """With rows for steps in which nothing happened; not where damaged times would make far too many."""
    if not 0 < _span(width, rows) <= MOST_STEPS:
        return rows
    there = {row["at_ns"]: row for row in rows}
    nothing = dict.fromkeys(_COUNTS, 0) | dict.fromkeys(LATENCIES)
    every = range(rows[0]["at_ns"], rows[-1]["at_ns"] + width, width)
    return [there.get(at_ns, {"at_ns": at_ns, **nothing}) for at_ns in every]


def _seconds(rows: Iterable[Mapping[str, Any]], began_ns: int) -> list[dict[str, Any]]:
    return [{"s": round((row["at_ns"] - began_ns) / 1e9, 3)} | _rest(row) for row in rows]


def _rest(row: Mapping[str, Any]) -> dict[str, Any]:
    latencies = {name: None if row[name] is None else float(f"{row[name]:.4g}") for name in LATENCIES}
    return {name: row[name] for name in _COUNTS} | latencies


def _began_ns(findings: Findings, first_ns: int) -> int:
    """When the load began: as the run has it, unless that is not about these messages."""
    started = findings.run.started_ns
    return started if started and abs(first_ns - started) < _DAY_S * 1e9 else first_ns


def _end_s(findings: Findings, began_ns: int, last_s: float) -> float:
    ended = findings.run.ended_ns
    return max(last_s, (ended - began_ns) / 1e9) if ended and (ended - began_ns) / 1e9 < _DAY_S else last_s


class _Clock(NamedTuple):
    """Moments as seconds of the course."""

    began_ns: int
    end_s: float

    def s(self, ns: int) -> float:
        """Within the course: what came before the load began is at its begin."""
        return round(min(max((ns - self.began_ns) / 1e9, 0.0), self.end_s), 3)

    def within(self, ns: int) -> bool:
        """Whether a moment is part of the course."""
        return 0 <= (ns - self.began_ns) / 1e9 <= self.end_s


def _faults(findings: Findings, clock: _Clock) -> Iterator[Bar]:
    for fault in findings.faults:
        if fault.effective_ns is not None:
            who = (
                f"{fault.fault} broker {', '.join(map(str, fault.brokers))}" if fault.brokers else fault.fault
            )
            end = clock.end_s if fault.healed_ns is None else clock.s(fault.healed_ns)
            yield Bar(fault.id, clock.s(fault.effective_ns), end, "fault", who, fault.fault)
    for fault in findings.faults:
        first, last = fault.first_lost_ack_ns, fault.last_lost_ack_ns
        if first is not None and last is not None:
            text = f"{fault.lost:,} messages acknowledged that are lost"
            yield Bar("loss window", clock.s(first), clock.s(last), "loss", text, f"{fault.lost:,} lost")


def _drain(manifest: Manifest | None, clock: _Clock) -> Iterator[Bar]:
    took = manifest.phases.get("drain") if manifest else None
    if manifest and manifest.ended_ns and took and math.isfinite(took):
        end = clock.s(manifest.ended_ns)
        yield Bar("drain", max(0.0, round(end - took, 3)), end, "drain", "everything is read back")


def _changes(events: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """leader and isr events by partition, in the order of time."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in events:
        if row["kind"] in ("leader", "isr") and row["topic"] is not None:
            found.setdefault(f"{row['topic']}/{row['partition']}", []).append(row)
    return dict(sorted(found.items(), key=lambda pair: _by_number(pair[0])))


def _by_number(place: str) -> tuple[str, int]:
    topic, _, partition = place.rpartition("/")
    return topic, int(partition)


def _leaders(events: Iterable[Mapping[str, Any]], clock: _Clock) -> Iterator[Bar]:
    for place, rows in _changes(events).items():
        led = [row for row in rows if row["kind"] == "leader"]
        for row, end in zip(led, [*(later["at_ns"] for later in led[1:]), None], strict=True):
            leader = row["leader"]
            kind = "nobody" if leader is None or leader < 0 else f"broker {leader}"
            text = f"{kind}, epoch {row['leader_epoch']}"
            yield from _bar(place, row["at_ns"], end, kind, text, clock, short=kind.rpartition(" ")[2])


def _isrs(events: Iterable[Mapping[str, Any]], clock: _Clock) -> Iterator[Bar]:
    for place, rows in _changes(events).items():
        told = [row for row in rows if row["isr"] is not None]
        for row, end in zip(told, [*(later["at_ns"] for later in told[1:]), None], strict=True):
            members = ", ".join(map(str, sorted(row["isr"])))
            yield from _bar(place, row["at_ns"], end, str(len(row["isr"])), members or "nobody", clock)


def _bar(
    row: str, begin_ns: int, end_ns: int | None, kind: str, text: str, clock: _Clock, short: str = ""
) -> Iterator[Bar]:
    end = clock.end_s if end_ns is None else clock.s(end_ns)
    begin = clock.s(begin_ns)
    if begin < end:
        yield Bar(row, begin, end, kind, text, short)


def _owners(events: Iterable[Mapping[str, Any]], clock: _Clock) -> Iterator[Bar]:
    """Which member had which partition, for each group."""
    held: dict[tuple[str, str], tuple[str, int]] = {}
    found: list[Bar] = []
    for row in events:
        group, member, kind, at_ns = row["group"], row["member"], row["kind"], row["at_ns"]
        if kind == "assigned" and row["partition"] is not None:
            held[group, f"{row['topic']}/{row['partition']}"] = member, at_ns
        elif kind in ("revoked", "lost", "left", "killed"):
            named = f"{row['topic']}/{row['partition']}"
            whole = kind in ("left", "killed") or row["partition"] is None
            for key in [k for k, (who, _) in held.items() if k[0] == group and who == member]:
                if whole or key[1] == named:
                    who, since = held.pop(key)
                    found += _bar(f"{group}: {key[1]}", since, at_ns, who, who, clock)
    for (group, place), (who, since) in held.items():
        found += _bar(f"{group}: {place}", since, None, who, who, clock)
    return iter(sorted(found, key=lambda bar: (_by_number(bar.row), bar.begin)))


def _marks(events: Iterable[Mapping[str, Any]], clock: _Clock) -> Iterator[Mark]:
    """Elections (a leader after another), ISR changes, and brokers that came and went."""
    led: dict[tuple[str, int], int] = {}
    for row in events:
        place, kind = (row["topic"], row["partition"]), row["kind"]
        text = None
        if kind == "leader":
            leader = row["leader"]
            if place in led and led[place] != leader:
                who = "nobody leads" if leader is None or leader < 0 else f"broker {leader} leads"
                text = f"{who} {place[0]}/{place[1]} (epoch {row['leader_epoch']})"
            led[place] = leader
        elif kind == "isr":
            text = f"ISR of {place[0]}/{place[1]}: {', '.join(map(str, row['isr'] or []))}"
        elif kind in ("fenced", "unfenced", "started", "stopped"):
            text = f"broker {row['broker']} {kind}"
        if text is not None and clock.within(row["at_ns"]):
            name = {"leader": "election", "isr": "ISR change"}.get(kind, kind)
            yield Mark(clock.s(row["at_ns"]), name, text)
