"""Several runs on one page: their table, each figure as a strip of points, their timelines on one clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from altair.utils import schemapi

from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.report.aligning import aligned
from kaput.report.charts import what_was_done
from kaput.report.comparison import Comparison, Entry, compare, labels
from kaput.report.course import Course, read_course
from kaput.report.curves import PEAK, Row, Scales, latency, rates, scales
from kaput.report.document import SIGNS, rendered, run_drawn
from kaput.report.drawing import without_seconds
from kaput.report.headline import done_to
from kaput.report.layout import NOTHING, plural
from kaput.report.manifest import manifest_of
from kaput.report.sentences import verdict_sentence
from kaput.report.strips import strips

MOST_TIMELINES = 8
_WORST = ("violated", "inconclusive", "held")


class Timeline(NamedTuple):
    """One run among others. `label`: what tells it apart."""

    label: str
    verdict: str
    sign: str
    said: str
    done: str
    rows: list[Row]


def to_html(runs: Sequence[tuple[RunFolder, Findings]], entries: Sequence[Entry]) -> str:
    """The whole document. `entries`: the same runs as a comparison has them."""
    comparison = compare(entries)
    found = timelines(runs, entries)
    drawn = strips(entries)
    context = {
        "title": comparison.title,
        "counted": _counted([findings.verdict for _, findings in runs]),
        "verdict": _worst([findings for _, findings in runs]),
        "naming": [column.name for column in comparison.naming],
        "figures": [column.name for column in comparison.figures if column.differs],
        "lines": _lines(comparison),
        "same": [
            f"{c.name} {c.cells[0]}" for c in comparison.figures if not c.differs and c.cells[0] != NOTHING
        ],
        "strips": drawn,
        "timelines": [timeline for _, timeline in found],
        "cut": PEAK if found else None,
        "left_out": max(0, len(runs) - MOST_TIMELINES),
        "folders": [str(folder.path) for folder, _ in runs],
    }
    return rendered("comparison.html.j2", _drawn(found, {s.name: s.chart for s in drawn}), context)


def timelines(
    runs: Sequence[tuple[RunFolder, Findings]], entries: Sequence[Entry]
) -> list[tuple[Course, Timeline]]:
    """Those of the first runs that have one, aligned at the first fault."""
    names = _told_apart(entries)
    there: list[tuple[Course, Findings, str]] = []
    for (folder, findings), name in zip(runs, names, strict=True):
        course = read_course(folder, findings, manifest_of(folder)) if len(there) < MOST_TIMELINES else None
        there += [(course, findings, name)] if course else []
    courses = aligned([course for course, _, _ in there])
    heights = scales(courses) if courses else Scales(None, {})
    if len(courses) == 1:
        heights = heights._replace(rate=None)
    return [
        (course, _timeline(course, findings, name, heights))
        for course, (_, findings, name) in zip(courses, there, strict=True)
    ]


def _timeline(course: Course, findings: Findings, label: str, heights: Scales) -> Timeline:
    with schemapi.debug_mode(False):
        above = (what_was_done(course), rates(course, heights))
        rows = [replace(row, chart=without_seconds(row.chart)) for row in above]
        rows.append(latency(course, "ack", heights))
    return Timeline(
        label,
        findings.verdict,
        SIGNS.get(findings.verdict, "?"),
        verdict_sentence(findings),
        "; ".join(done_to(fault, findings.run.started_ns) for fault in findings.faults[:3]),
        rows,
    )


def _told_apart(entries: Sequence[Entry]) -> list[str]:
    """Labels, with the run's folder where several have the same."""
    named = labels(entries)
    often = Counter(named)
    return [
        f"{name}, {entry.run}" if often[name] > 1 else name
        for name, entry in zip(named, entries, strict=True)
    ]


def _worst(runs: Sequence[Findings]) -> str:
    """The worst verdict, or `loss` where all held and some of them lost messages."""
    word = next(word for word in _WORST if any(findings.verdict == word for findings in runs))
    lost = any(findings.lost for findings in runs)
    return "loss" if word == "held" and lost else word


def _counted(verdicts: Sequence[str]) -> str:
    counts = Counter(verdicts)
    said = ", ".join(f"{counts[word]} {word}" for word in reversed(_WORST) if counts[word])
    return f"{plural(len(verdicts), 'run')}: {said}"


def _lines(comparison: Comparison) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The cells of each line: those that name it, and its figures."""
    naming = zip(*(column.cells for column in comparison.naming), strict=True)
    differing = [column.cells for column in comparison.figures if column.differs]
    count = len(comparison.naming[0].cells)
    figures = zip(*differing, strict=True) if differing else ((),) * count
    return list(zip(naming, figures, strict=True))


def _drawn(found: Sequence[tuple[Course, Timeline]], others: dict[str, Any]) -> dict[str, Any] | None:
    specs = {name: chart.to_dict(validate=False) for name, chart in others.items()}
    if not found:
        return {"begin": 0, "end": 1, "runs": [], "others": specs} if specs else None
    first = found[0][0]
    runs = [run_drawn(course, timeline.rows, timeline.label) for course, timeline in found]
    return {"begin": first.begin_s, "end": first.end_s, "runs": runs, "others": specs}
