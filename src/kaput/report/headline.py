"""What stands at the top of a report: the verdict, the answer in one sentence, the figures that matter."""

from __future__ import annotations

from typing import NamedTuple

from kaput.evidence.findings import FaultFindings, Findings
from kaput.report.layout import milliseconds, percent
from kaput.report.sentences import not_proven, verdict_sentence


class Figure(NamedTuple):
    """A number with its name, and what it is compared to. `word`: of words.py, where it is explained."""

    name: str
    value: str
    beside: str = ""
    word: str = ""
    bad: bool = False


class Headline(NamedTuple):
    """`verdict` in capitals, `answer` what follows in verdict_sentence; `summary` in a line what was done."""

    verdict: str
    answer: str
    summary: str
    figures: list[Figure]


def headline(findings: Findings) -> Headline:
    """The top of the report."""
    verdict, _, answer = verdict_sentence(findings).partition(": ")
    done = "; ".join(done_to(fault) for fault in findings.faults) or "no fault was injected"
    kafka = f"Kafka {findings.run.kafka or 'of unknown version'} ({findings.run.mode})"
    return Headline(verdict, answer, f"{done} · {kafka}", list(_figures(findings)))


def done_to(fault: FaultFindings) -> str:
    """`isolate of leader-of orders/0 (broker 1): bit`."""
    who = ", ".join(map(str, fault.brokers))
    brokers = f" ({'broker' if len(fault.brokers) == 1 else 'brokers'} {who})" if who else ""
    return f"{fault.fault} of {fault.target}{brokers}: {'bit' if fault.proven else not_proven(fault)}"


def _figures(findings: Findings) -> list[Figure]:
    totals = findings.totals
    lost = sum(a.count for a in findings.anomaly("lost"))
    twice = sum(a.count for a in findings.anomaly("duplicate"))
    silent = max((f.unavailable_ms for f in findings.faults if f.unavailable_ms is not None), default=None)
    elected = max((f.election_ms for f in findings.faults if f.election_ms is not None), default=None)
    figures = [
        Figure("sent", f"{totals.sent:,}"),
        Figure("acknowledged", f"{totals.acked:,}", word="acked"),
        Figure(
            "acknowledged, then lost",
            f"{lost:,}",
            f"{percent(lost / totals.acked)} of the acknowledged" if lost and totals.acked else "",
            "lost",
            lost > 0,
        ),
        Figure("stored twice or more", f"{twice:,}", word="duplicate", bad=twice > 0),
    ]
    if totals.unread:
        figures.append(Figure("not read back", f"{totals.unread:,}", bad=True))
    if elected is not None:
        figures.append(Figure("until a new leader", milliseconds(elected), word="election_ms"))
    if silent is not None:
        figures.append(
            Figure("longest silence", milliseconds(silent), "no acknowledgement", "unavailable_ms")
        )
    p99 = findings.latency_ms.ack.p99
    if p99 is not None:
        figures.append(Figure("ack latency p99", milliseconds(p99)))
    return figures
