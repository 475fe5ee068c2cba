"""report.html: one run on a page of its own that asks nothing of the network.

The template (templates/report.html.j2) escapes all that comes from data; what this module marks as safe is
the project's own script and style, the charts' bundle, and JSON in which no tag can end.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.report import charts, consumers, details, ledger, provenance, recovery
from kaput.report.bars import Bar
from kaput.report.course import Course, Steps, read_course
from kaput.report.drawing import MOST_BARS
from kaput.report.headline import headline
from kaput.report.leaders import leader_sentences
from kaput.report.manifest import manifest_of, scenario_of
from kaput.report.published import beside_published
from kaput.report.script import chart_script
from kaput.report.sentences import arithmetic_sentence
from kaput.report.words import WORDS

_SIGNS = {"held": "✓", "violated": "✗", "inconclusive": "?"}
_MOST_EVENTS = 300


def to_html(folder: RunFolder, findings: Findings) -> str:
    """The whole document."""
    manifest, scenario = manifest_of(folder), scenario_of(folder)
    course = read_course(folder, findings, manifest)
    rows = charts.timeline(course) if course else []
    specs = {row.name: _without_legends(row.chart.to_dict(validate=False)) for row in rows}
    faults = details.faults(findings)
    for number, fault in enumerate(findings.faults):
        chart = recovery.recovery(fault)
        if chart is not None:
            specs[f"recovery-{number}"] = chart.to_dict(validate=False)
    lost = any(a.count for a in findings.anomaly("lost"))
    context = {
        "findings": findings,
        "run": findings.run,
        "head": headline(findings),
        "verdict": "loss" if findings.verdict == "held" and lost else findings.verdict,
        "sign": _SIGNS.get(findings.verdict, "?"),
        "words": WORDS,
        "rows": rows,
        "windows": _windows(course) if course else [],
        "table": details.course(course) if course else None,
        "events": course.marks[:_MOST_EVENTS] if course else [],
        "events_left_out": max(0, len(course.marks) - _MOST_EVENTS) if course else 0,
        "faults": faults,
        "ledger": ledger.ledger(findings),
        "groups": consumers.groups(findings),
        "anomalies": ledger.anomalies(findings),
        "absent": ledger.absent(findings),
        "arithmetic": arithmetic_sentence(findings),
        "leaders": leader_sentences(findings),
        "places": details.places(findings),
        "latency": details.latencies(findings),
        "silences": details.silences(findings),
        "published": beside_published(findings),
        "configuration": provenance.configuration(scenario) if scenario else [],
        "again": provenance.again(findings, scenario),
        "about": provenance.about(findings, manifest),
        "specs": specs,
        "course_json": _as_script(_course(course, rows, specs)) if specs else "",
        "bundle": Markup(chart_script()) if specs else "",
        "style": Markup(_text("report.css")),
        "charts_script": Markup(_text("charts.js")),
        "words_script": Markup(_text("words.js")),
    }
    return _environment().from_string(_text("report.html.j2")).render(context)


def _without_legends(spec: dict[str, Any]) -> dict[str, Any]:
    """The page has legends of its own, which wrap and can be read aloud."""
    for layer in spec["layer"]:
        layer["encoding"].get("color", {})["legend"] = None
    return spec


def _environment() -> Environment:
    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


@cache
def _text(name: str) -> str:
    return (files("kaput.report") / "templates" / name).read_text(encoding="utf-8")


def _as_script(document: Any) -> Markup:
    """JSON that may stand between script tags: no `<` of its text can begin or end one."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _course(course: Course | None, rows: Sequence[charts.Row], specs: dict[str, Any]) -> dict[str, Any]:
    if course is None:
        return {"charts": specs, **_NO_COURSE}
    return {
        "charts": specs,
        "data": charts.data_of(course, rows),
        "end": course.end_s,
        "overview": _columns(course.overview, charts.steps(course)),
        "fine": _columns(course.fine, charts.fine_steps(course)),
        "faults": [bar._asdict() for bar in course.faults],
        "leaders": [bar._asdict() for bar in course.leaders[:MOST_BARS]],
    }


_NO_STEPS: dict[str, Any] = {"width": 1, "names": [], "columns": [], "s": []}
_NO_COURSE = {"data": {}, "end": 1, "overview": _NO_STEPS, "fine": _NO_STEPS, "faults": [], "leaders": []}


def _columns(steps: Steps, rows: Sequence[dict[str, float | None]]) -> dict[str, Any]:
    """The rows by column, which takes a third of the room."""
    names = list(rows[0])
    columns = [[row[name] for row in rows] for name in names]
    return {"width": steps.width_s, "names": names, "columns": columns, "s": columns[names.index("s")]}


def _windows(course: Course) -> list[Bar]:
    """What one may want to look at closely: each fault with what surrounds it."""
    found = []
    for bar in [bar for bar in course.faults if bar.kind == "fault"][:4]:
        margin = max(1.0, (bar.end - bar.begin) * 0.15)
        begin, end = max(0.0, bar.begin - margin), min(course.end_s, bar.end + margin)
        found.append(bar._replace(begin=round(begin, 3), end=round(end, 3)))
    return found
