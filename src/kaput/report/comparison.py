"""Figures of several runs as table columns: a line for each run, or for each variant with repetitions.

Columns that differ come first. This module makes the labels of runs, and the cells of columns, which are
chosen by name (`--columns`); comparison_report.py makes the table.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from kaput.errors import UsageError
from kaput.evidence.findings import FaultFindings, Findings
from kaput.evidence.findings_claims import Availability
from kaput.evidence.findings_parts import RebalanceFindings, ResizedForGroup
from kaput.report.document import NOTHING, number
from kaput.report.sentences import verdict_word
from kaput.report.statistics import Summary, summary_of
from kaput.scenario.anomalies import GROUP_ANOMALIES, RUN_ANOMALIES
from kaput.scenario.fault_kinds import RESIZE
from kaput.scenario.nearest import hint

_FAILED = "failed"  # the run failed in the lab, so there is no verdict


@dataclass(frozen=True)
class RunFigure:
    """One figure of a run: its name with the unit, and how to read it from findings (None: not measured)."""

    name: str
    of: Callable[[Findings], float | None]


@dataclass(frozen=True)
class Entry:
    """One run. `run`: its folder; `varied`: its settings; `findings`: None if the lab failed."""

    run: str
    variant: str
    scenario: str
    varied: Mapping[str, JsonValue]
    findings: Findings | None


def judged(entries: Iterable[Entry]) -> list[Findings]:
    """The findings of the runs that have some."""
    return [entry.findings for entry in entries if entry.findings is not None]


@dataclass(frozen=True)
class RunColumn:
    """`left`: left-aligned; `names`: identifies lines; `intervals`: confidence intervals of means."""

    name: str
    cells: Sequence[str]
    left: bool = False
    names: bool = False
    intervals: Sequence[str] = ()

    @property
    def differs(self) -> bool:
        return len(set(self.cells)) > 1


@dataclass(frozen=True)
class RunsTable:
    """A table of runs. `naming`: the columns that identify the lines, and their verdicts; `figures`: the
    columns of figures, those that differ first.
    """

    title: str
    naming: Sequence[RunColumn]
    figures: Sequence[RunColumn]


def _count(name: str) -> Callable[[Findings], float | None]:
    def count(findings: Findings) -> float | None:
        if name in GROUP_ANOMALIES and not findings.groups:
            return None
        return findings.total(name)

    return count


def longest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _rebalance_ms(rebalance: RebalanceFindings) -> float | None:
    return None if rebalance.took_ns is None else rebalance.took_ns / 1e6


def _resize_ms(fault: FaultFindings) -> float | None:
    """How long a resize took, from injected to effective; None for other faults."""
    if fault.fault != RESIZE or fault.effective_ns is None:
        return None
    return (fault.effective_ns - fault.injected_ns) / 1e6


def _groups_of_resized_topics(findings: Findings) -> Iterator[ResizedForGroup]:
    return (group for topic in findings.resized for group in topic.groups)


def _leader_known_ms(findings: Findings) -> float | None:
    """How long until the last producer knew a new leader, for runs that compare clients or client counts."""
    compared = any(key.endswith((".client", ".client-version", ".count")) for key in findings.run.varied)
    learned = [known for change in findings.leader_changes for known in change.learned]
    if not compared and all(known.client == "librdkafka" for known in learned):
        return None
    return longest(known.last_ms for known in learned)


def _service(findings: Findings) -> Iterator[Availability]:
    """The availability of acknowledgements over all partitions: one item, or none if it was not analyzed."""
    return (one for one in findings.availability if one.group is None and one.partition is None)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _kept(field: str) -> Callable[[Findings], float | None]:
    """A figure about messages kept by stores; None without stores."""
    return lambda findings: getattr(findings.kept, field, None)


FIGURES = (
    RunFigure("sent", lambda f: f.totals.sent),
    RunFigure("acked", lambda f: f.totals.acked),
    RunFigure("lost", _count("lost")),
    RunFigure("duplicate", _count("duplicate")),
    RunFigure("unseen", _count("unseen")),
    RunFigure("redelivered", _count("redelivered")),
    RunFigure("unavailable ms", lambda f: longest(fault.unavailable_ms for fault in f.faults)),
    RunFigure("standstill ms", lambda f: longest(one.longest_standstill_ms for one in _service(f))),
    RunFigure("acked in 1 s %", lambda f: longest(_percent(one.within_1s_share) for one in _service(f))),
    RunFigure("election ms", lambda f: longest(fault.election_ms for fault in f.faults)),
    RunFigure("loss window ms", lambda f: longest(fault.loss_window_ms for fault in f.faults)),
    RunFigure("ack p99 ms", lambda f: f.latency_ms.ack.p99),
    RunFigure("end-to-end p99 ms", lambda f: f.latency_ms.end_to_end.p99),
)
# Columns that are not figures; varied settings are further ones.
NAMING = ("scenario", "run", "verdict", "outage waited for", "runs")
# Shown if a group has several members in any run.
_MEMBER_FIGURES = (
    RunFigure("all members", lambda f: sum(len(group.members) for group in f.groups)),
    RunFigure("idle members", lambda f: sum(not m.delivered for group in f.groups for m in group.members)),
    RunFigure("delivered per s", lambda f: longest(group.delivered_per_s for group in f.groups)),
    RunFigure("greatest lag", lambda f: longest(group.lag.max for group in f.groups)),
    RunFigure("rebalances", lambda f: len(f.rebalances)),
    RunFigure("longest rebalance ms", lambda f: longest(map(_rebalance_ms, f.rebalances))),
    RunFigure("unowned partition-s", lambda f: sum(r.unowned_partition_seconds for r in f.rebalances)),
)
# Shown if a topic was resized in any run.
_RESIZE_FIGURES = (
    RunFigure("resize ms", lambda f: longest(_resize_ms(fault) for fault in f.faults)),
    RunFigure("keys moved", lambda f: _sum(topic.keys_moved for topic in f.resized)),
    RunFigure(
        "out of order by key", lambda f: _sum(g.out_of_order_by_key for g in _groups_of_resized_topics(f))
    ),
    RunFigure("stored too early", lambda f: _sum(g.stored_too_early for g in _groups_of_resized_topics(f))),
)
# Shown if nonzero in any run.
_RARE_FIGURES = (
    RunFigure("failed", lambda f: f.totals.failed),
    RunFigure("unknown", lambda f: f.totals.unknown),
    RunFigure("refused", lambda f: f.totals.refused),
    RunFigure("kept", _kept("kept")),
    RunFigure("delivered later", _kept("delivered_later")),
    RunFigure("waiting in store", _kept("waiting")),
    RunFigure("kept p50 s", _kept("kept_for_p50_s")),
    RunFigure("kept max s", _kept("kept_for_max_s")),
    RunFigure("leader known ms", _leader_known_ms),
    RunFigure("stuck", lambda f: longest(sum(fault.stuck.values()) for fault in f.faults)),
    *(
        RunFigure(name, _count(name))
        for name in (*RUN_ANOMALIES, *GROUP_ANOMALIES)
        if name not in {figure.name for figure in FIGURES}
    ),
)
# Shown if asked for by name.
_ASKED_FIGURES = (
    RunFigure("ack max ms", lambda f: f.latency_ms.ack.max),
    RunFigure("end-to-end max ms", lambda f: f.latency_ms.end_to_end.max),
)
EVERY_FIGURE = {
    figure.name: figure
    for figure in (*FIGURES, *_MEMBER_FIGURES, *_RESIZE_FIGURES, *_RARE_FIGURES, *_ASKED_FIGURES)
}


def compare(entries: Sequence[Entry], every: bool = False) -> RunsTable:
    """A line for each run, or each variant if any was repeated. `every`: all possible columns."""
    variants: dict[str, list[Entry]] = {}
    for entry in entries:
        variants.setdefault(entry.variant, []).append(entry)
    repeated = 1 < len(variants) < len(entries)
    lines = list(variants.values()) if repeated else [[entry] for entry in entries]
    naming = _naming(lines, repeated)
    figures = list(EVERY_FIGURE.values()) if every else figures_of(entries)
    others = [_column(figure, lines) for figure in figures]
    others += _other_naming(lines, naming) if every else []
    scenarios = {entry.scenario for entry in entries}
    of = f" of {min(scenarios)}" if len(scenarios) == 1 else ""
    means = ": means (minimum to maximum)" if repeated else ""
    return RunsTable(f"Runs{of}{means}", naming, sorted(others, key=lambda each: not each.differs))


def figures_of(entries: Sequence[Entry]) -> list[RunFigure]:
    """The figures to compare: those that are always shown, and the others that apply to any of these runs."""
    runs = judged(entries)
    shared = any(len(group.members) > 1 for findings in runs for group in findings.groups)
    resized = any(findings.resized for findings in runs)
    more = [*(_MEMBER_FIGURES if shared else ()), *(_RESIZE_FIGURES if resized else ())]
    rare = [figure for figure in _RARE_FIGURES if any(map(figure.of, runs))]
    return [*FIGURES, *more, *rare]


def _column(figure: RunFigure, lines: Sequence[Sequence[Entry]]) -> RunColumn:
    found = [summary_of(map(figure.of, judged(line))) for line in lines]
    cells = [_cell(summary, len(line)) for summary, line in zip(found, lines, strict=True)]
    return RunColumn(figure.name, cells, intervals=[one.interval if one else NOTHING for one in found])


def _cell(summary: Summary | None, runs: int) -> str:
    """The value; for several runs the mean, the minimum and maximum, and how many runs have it if not all."""
    if summary is None:
        return NOTHING
    about = []
    if summary.minimum < summary.maximum:
        about.append(f"{number(summary.minimum)} to {number(summary.maximum)}")
    if summary.n < runs:
        about.append(f"n={summary.n}")
    return number(summary.mean) + (f" ({', '.join(about)})" if about else "")


def _naming(lines: Sequence[Sequence[Entry]], repeated: bool) -> list[RunColumn]:
    first = [line[0] for line in lines]
    columns = []
    if len({entry.scenario for entry in first}) > 1:
        columns.append(RunColumn("scenario", [entry.scenario for entry in first], left=True, names=True))
    for key, short in _short_names(key for entry in first for key in entry.varied).items():
        values = [_value_of(entry.varied, key) for entry in first]
        columns.append(RunColumn(short, values, left=True, names=True))
    if not columns or len(set(zip(*(column.cells for column in columns), strict=True))) < len(lines):
        columns.append(RunColumn("run", [entry.run for entry in first], left=True, names=True))
    columns.append(RunColumn("verdict", [_verdicts(line) for line in lines], left=True))
    ends = [_ends_of_outages(line) for line in lines]
    if any(ends):
        columns.append(RunColumn("outage waited for", [end or NOTHING for end in ends], left=True))
    if repeated:
        columns.append(RunColumn("runs", [str(len(line)) for line in lines]))
    return columns


def _other_naming(lines: Sequence[Sequence[Entry]], naming: Sequence[RunColumn]) -> Iterator[RunColumn]:
    """The naming columns that `naming` lacks because they do not distinguish these lines."""
    of = {
        "scenario": RunColumn("scenario", [line[0].scenario for line in lines], left=True),
        "run": RunColumn("run", [line[0].run if len(line) == 1 else NOTHING for line in lines], left=True),
        "runs": RunColumn("runs", [str(len(line)) for line in lines]),
    }
    there = {column.name for column in naming}
    return (column for name, column in of.items() if name not in there)


def _verdicts(line: Sequence[Entry]) -> str:
    """`held`; for several runs the count of each verdict."""
    verdicts = [verdict_word(entry.findings) if entry.findings else _FAILED for entry in line]
    if len(line) == 1:
        return verdicts[0]
    return ", ".join(f"{count} {verdict}" for verdict, count in Counter(verdicts).items())


def _ends_of_outages(line: Sequence[Entry]) -> str:
    """What the longest silence of each run waited for: `election, heal`; for several runs with counts."""
    found: list[str] = []
    for entry in line:
        faults = [] if entry.findings is None else entry.findings.faults
        longest = max(faults, key=lambda one: one.unavailable_ms or 0.0, default=None)
        if longest is not None and longest.unavailable_ended_by is not None:
            waits = dict.fromkeys(one.condition for one in longest.unavailable_waited_for)
            by_client = longest.unavailable_ended_by == "client"
            met = [condition for condition in waits if condition not in ("client", "unknown")]
            found.append(", ".join(met) or ("client" if by_client else "not known"))
    if len(line) == 1:
        return "".join(found)
    return "; ".join(f"{count}: {waits}" for waits, count in Counter(found).items())


def labels(entries: Sequence[Entry]) -> list[str]:
    """A label for each run: its scenario, if several, and varied settings; only repetitions share it."""
    several = len({entry.scenario for entry in entries}) > 1
    short = _short_names(key for entry in entries for key in entry.varied)
    found: dict[str, str] = {}
    often: Counter[str] = Counter()
    for entry in entries:
        if entry.variant in found:
            continue
        words = [f"{short[key]} {_value_of(entry.varied, key)}" for key in entry.varied]
        label = ", ".join([*([entry.scenario] if several or not words else []), *words])
        often[label] += 1
        found[entry.variant] = f"{label} ({often[label]})" if often[label] > 1 else label
    return [found[entry.variant] for entry in entries]


def unique_labels(entries: Sequence[Entry]) -> list[str]:
    """Labels, with the name of the run's folder where several runs share a label."""
    named = labels(entries)
    often = Counter(named)
    return [
        f"{name}, {entry.run}" if often[name] > 1 else name
        for name, entry in zip(named, entries, strict=True)
    ]


def _value_of(varied: Mapping[str, JsonValue], key: str) -> str:
    """The value of a varied setting; `-` if it was not varied in this run."""
    if key not in varied:
        return NOTHING
    value = varied[key]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short_names(keys: Iterable[str]) -> dict[str, str]:
    """The shortest distinct suffixes of setting keys; a name below `config` is not split."""
    ends = {key: _ends(key) for key in keys}
    found = {}
    for key, own in ends.items():
        others = [other for each, other in ends.items() if each != key]
        suffixes = (own[-n:] for n in range(1, len(own) + 1))
        distinct = (end for end in suffixes if not any(other[-len(end) :] == end for other in others))
        found[key] = next((short for end in distinct if (short := ".".join(end)) != "verdict"), key)
    return found


def _ends(key: str) -> list[str]:
    before, config, setting = key.partition(".config.")
    return [*before.split("."), "config", setting] if config else key.split(".")


def parse(text: str, varied: Iterable[str] = ()) -> list[str]:
    """`lost,ack-p99-ms` as column names, or those of `varied`. Raises UsageError for an unknown name."""
    short = _short_names(varied)
    known = {key_of(name): name for name in (*NAMING, *short.values(), *EVERY_FIGURE)}
    known |= {key_of(key): name for key, name in short.items() if key_of(key) not in known}
    names = []
    for word in text.split(","):
        if (name := known.get(key_of(word))) is None:
            near = hint(key_of(word), known)
            every = f" Valid are {', '.join(known)}" if near.endswith("?") else ""
            raise UsageError(f"--columns {word.strip()}: no such column; {near}{every}")
        names.append(name)
    return list(dict.fromkeys(names))


def chosen(comparison: RunsTable, names: Sequence[str]) -> list[RunColumn]:
    """The columns with these names, in this order, after those that identify the runs."""
    every = {column.name: column for column in (*comparison.naming, *comparison.figures)}
    naming = [column for column in comparison.naming if column.names]
    first = [] if any(column.name in names for column in naming) else naming
    nothing = [NOTHING] * len(comparison.naming[0].cells)
    return [*first, *(every.get(name) or RunColumn(name, nothing) for name in names)]


def key_of(name: str) -> str:
    """A column's name as it is written in --columns: `ack-p99-ms`."""
    return name.strip().lower().replace(" ", "-")
