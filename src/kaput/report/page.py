"""report.html: one run on a page of its own that asks nothing of the network."""

from __future__ import annotations

from typing import Any

from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.report import charts, consumers, details, ledger, provenance, rates, recovery
from kaput.report.bars import Bar
from kaput.report.course import Course, read_course
from kaput.report.curves import Row
from kaput.report.document import SIGNS, rendered, run_drawn
from kaput.report.headline import headline
from kaput.report.leaders import leader_sentences
from kaput.report.manifest import manifest_of, scenario_of
from kaput.report.published import compared_with_published
from kaput.report.sentences import arithmetic_sentence
from kaput.report.transactions import transaction_sentences

_MOST_EVENTS = 300


def to_html(folder: RunFolder, findings: Findings) -> str:
    """The whole document."""
    manifest, scenario = manifest_of(folder), scenario_of(folder)
    course = read_course(folder, findings, manifest)
    rows = charts.timeline(course) if course else []
    context = {
        "findings": findings,
        "run": findings.run,
        "head": headline(findings),
        "verdict": "loss" if findings.verdict == "held" and findings.lost else findings.verdict,
        "sign": SIGNS.get(findings.verdict, "?"),
        "rows": rows,
        "windows": _windows(course) if course else [],
        "table": details.course(course) if course else None,
        "events": course.marks[:_MOST_EVENTS] if course else [],
        "events_left_out": max(0, len(course.marks) - _MOST_EVENTS) if course else 0,
        "faults": details.faults(findings),
        "ledger": ledger.ledger(findings),
        "groups": consumers.groups(findings),
        "anomalies": ledger.anomalies(findings),
        "absent": ledger.absent(findings),
        "arithmetic": arithmetic_sentence(findings),
        "leaders": leader_sentences(findings),
        "places": details.places(findings),
        "transactions": transaction_sentences(findings),
        "slumps": rates.slumps(findings),
        "means": consumers.Table(rates.MEANS, rates.means(findings)),
        "latency": details.latencies(findings),
        "silences": details.silences(findings),
        "published": compared_with_published(findings),
        "configuration": provenance.configuration(scenario) if scenario else [],
        "again": provenance.again(findings, scenario),
        "about": provenance.about(findings, manifest),
    }
    return rendered("report.html.j2", _drawn(course, rows, findings), context)


def _drawn(course: Course | None, rows: list[Row], findings: Findings) -> dict[str, Any] | None:
    found = {f"recovery-{number}": recovery.recovery(fault) for number, fault in enumerate(findings.faults)}
    others = {name: chart.to_dict(validate=False) for name, chart in found.items() if chart is not None}
    if course is None:
        return {"begin": 0, "end": 1, "runs": [], "others": others} if others else None
    runs = [run_drawn(course, rows)]
    return {"begin": course.begin_s, "end": course.end_s, "runs": runs, "others": others}


def _windows(course: Course) -> list[Bar]:
    """What one may want to look at closely: each fault with what surrounds it."""
    found = []
    for bar in [bar for bar in course.faults if bar.kind == "fault"][:4]:
        margin = max(1.0, (bar.end - bar.begin) * 0.15)
        begin, end = max(0.0, bar.begin - margin), min(course.end_s, bar.end + margin)
        found.append(bar._replace(begin=round(begin, 3), end=round(end, 3)))
    return found
