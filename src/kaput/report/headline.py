"""What stands at the top of a report: the verdict, the answer in one sentence, what was done and why it came
to that, the figures that matter. Times are seconds since the load began, as in the timeline.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kaput.evidence.findings import FaultFindings, Findings, LeaderChange
from kaput.report.layout import milliseconds, percent, plural
from kaput.report.sentences import not_proven, verdict_sentence

_FAULTS = 3
_DAY_NS = 86_400 * 10**9


class Figure(NamedTuple):
    """A number with its name, and what it is compared to. `word`: of words.py, where it is explained."""

    name: str
    value: str
    beside: str = ""
    word: str = ""
    bad: bool = False


class Headline(NamedTuple):
    """`verdict` in capitals, `answer` what follows in verdict_sentence; `summary` in a line what was done;
    `why` in a sentence or two, empty where nothing happened.
    """

    verdict: str
    answer: str
    summary: str
    why: str
    figures: list[Figure]


def headline(findings: Findings) -> Headline:
    """The top of the report."""
    verdict, _, answer = verdict_sentence(findings).partition(": ")
    began_ns = findings.run.started_ns
    done = "; ".join(done_to(fault, began_ns) for fault in findings.faults[:_FAULTS])
    more = len(findings.faults) - _FAULTS
    done += f"; and {plural(more, 'more fault')}" if more > 0 else ""
    kafka = f"Kafka {findings.run.kafka or 'of unknown version'} ({findings.run.mode})"
    summary = f"{done or 'no fault was injected'} · {kafka}"
    return Headline(verdict, answer, summary, " ".join(_why(findings)), list(_figures(findings)))


def done_to(fault: FaultFindings, began_ns: int) -> str:
    """`isolate of leader-of orders/0 (broker 1) at 15.0 s for 30.0 s: bit`."""
    when = _at(fault.effective_ns, began_ns, " at ")
    if when and fault.healed_ns is not None and fault.effective_ns is not None:
        when += f" for {(fault.healed_ns - fault.effective_ns) / 1e9:,.1f} s"
    bit = "bit" if fault.proven else not_proven(fault)
    return f"{fault.fault} of {hit_by(fault)}{when}: {bit}"


def hit_by(fault: FaultFindings) -> str:
    """`leader-of orders/0 (broker 1)`: the target, and whom that was."""
    who = f"{'broker' if len(fault.brokers) == 1 else 'brokers'} {', '.join(map(str, fault.brokers))}"
    return fault.target if not fault.brokers or who == fault.target else f"{fault.target} ({who})"


def _at(ns: int | None, began_ns: int, before: str = "") -> str:
    """`15.0 s`; nothing for what is not known, or is not about this load."""
    known = ns is not None and began_ns and abs(ns - began_ns) < _DAY_NS
    return f"{before}{(ns - began_ns) / 1e9:,.1f} s" if known and ns is not None else ""


def _why(findings: Findings) -> Iterator[str]:
    if findings.verdict != "held" and findings.reasons:
        yield findings.reasons[0]
    costly = [change for change in findings.leader_changes if change.lost]
    if costly:
        yield _overwritten(max(costly, key=lambda change: change.lost), findings)
        rest = sum(change.lost for change in costly) - max(change.lost for change in costly)
        if rest:
            yield f"{plural(len(costly) - 1, 'more change')} of leader lost {rest:,}."


def _overwritten(change: LeaderChange, findings: Findings) -> str:
    """How one change of leader lost what it did."""
    place, began_ns = f"{change.topic}/{change.partition}", findings.run.started_ns
    every = change.lost == findings.lost
    lost = "what is lost" if every else f"{change.lost:,} of the messages lost"
    if change.leader == change.old_leader:
        return f"Broker {change.leader} came back as leader of {place} without {lost}."
    old = "The old leader" if change.old_leader is None else f"Broker {change.old_leader}"
    last = _at(change.last_deposed_ack_ns, began_ns, ", until ")
    elected = _at(change.elected_ns, began_ns, " at ")
    return (
        f"{old} alone acknowledged {lost}, as leader of {place}{last}; broker {change.leader} was elected"
        f"{elected} without them, and its log is the one that counts."
    )


def _figures(findings: Findings) -> list[Figure]:
    totals = findings.totals
    lost = findings.lost
    twice = findings.duplicate
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
        figures.append(Figure("longest silence", milliseconds(silent), "without an ack", "unavailable_ms"))
    p99 = findings.latency_ms.ack.p99
    if p99 is not None:
        figures.append(Figure("ack latency p99", milliseconds(p99)))
    return figures
