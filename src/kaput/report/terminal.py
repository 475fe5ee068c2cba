"""Findings as text for people: the verdict in one sentence first, then everything that it rests on.

Renders, never judges. Long lines are the terminal's to wrap; tables are aligned, not boxed, so that the
same text is good in a pipe. Several runs: comparison.py and tables.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.text import Text

from kaput.evidence.findings import Anomaly, FaultFindings, Findings
from kaput.evidence.findings_parts import Percentiles
from kaput.printable import printable, printable_document
from kaput.report.groups import group_text, sum_of
from kaput.report.layout import columns, milliseconds, number, percent, plural, verdict_style
from kaput.report.leaders import leader_sentences
from kaput.report.partitions import partition_text
from kaput.report.published import compared_with_published
from kaput.report.rates import rates_text
from kaput.report.resized import resized_text
from kaput.report.sentences import arithmetic_sentence, not_proven, verdict_sentence
from kaput.report.transactions import transaction_sentences

_EXAMPLES = 3
_UNAVAILABLE = 3


def render(findings: Findings, folder: Path | str) -> Text:
    """One run. `folder` is named at the end, for whoever wants to look further."""
    findings = Findings.model_validate(printable_document(findings.model_dump(by_alias=True)))
    sections = [
        _head(findings),
        _section("Why", _bullets([*findings.reasons, *findings.notes])),
        _section("Faults", Text("\n").join(_fault(fault) for fault in findings.faults)),
        _section("Changes of leader", _bullets(leader_sentences(findings))),
        _section("Partitions", partition_text(findings)),
        _section("Resized topics", resized_text(findings)),
        _section("Fates: every message has exactly one", _fates(findings)),
        _section("Transactions", _bullets(transaction_sentences(findings))),
        _section("Anomalies", _anomalies(findings)),
        _section("Groups", Text("\n").join(group_text(g, findings) for g in findings.groups)),
        _section("Rates", rates_text(findings)),
        _section("Latency in ms", _latency(findings)),
        _section("Longest time without an acknowledgement", _unavailability(findings)),
        _section("High-watermark arithmetic", _bullets([arithmetic_sentence(findings)])),
        _section("Comparison with published results", _bullets(compared_with_published(findings))),
        Text(f"Run folder: {printable(str(folder))}\n"),
    ]
    return Text("\n").join(section for section in sections if section)


def _section(title: str, body: Text) -> Text:
    if not body:
        return Text()
    body.rstrip()
    return Text.assemble((f"{title}\n", "bold"), body, "\n")


def _bullets(sentences: list[str]) -> Text:
    return Text("".join(f"  - {sentence}\n" for sentence in sentences))


def _head(findings: Findings) -> Text:
    run = findings.run
    verdict, _, rest = verdict_sentence(findings).partition(":")
    kafka = f"Kafka {run.kafka or 'of unknown version'} ({run.mode})"
    about = f"{run.scenario}: {kafka}, seed {run.seed}, run {run.id}"
    title = f"{run.title}\n" if run.title else ""
    rates = findings.rates
    pace = f"{number(rates.sent_per_s)} sent and {number(rates.acked_per_s)} acknowledged a second"
    return Text.assemble(
        (verdict, verdict_style(findings.verdict)), f":{rest}\n", title, (f"{about}; {pace}\n", "dim")
    )


def _fault(fault: FaultFindings) -> Text:
    who = ", ".join(map(str, fault.brokers))
    brokers = f" ({'broker' if len(fault.brokers) == 1 else 'brokers'} {who})" if who else ""
    bit = ("bit", "green") if fault.proven else (not_proven(fault), "bold red")
    text = Text.assemble(f"  {fault.id}: {fault.fault} {fault.target}{brokers} ", bit, f": {fault.proof}")
    for line in _consequences(fault):
        text.append(f"\n      {line}")
    return text


def _consequences(fault: FaultFindings) -> Iterator[str]:
    times = {
        "election": fault.election_ms,
        "first acknowledgement after it": fault.first_ack_after_ms,
        "first delivery after it": fault.first_delivery_after_ms,
        "longest unavailability": fault.unavailable_ms,
        "backlog drained": fault.backlog_drained_ms,
        "full ISR after the heal": fault.isr_restored_ms,
    }
    known = [f"{name} {milliseconds(ms)}" for name, ms in times.items() if ms is not None]
    if known:
        yield ", ".join(known)
    if fault.lost:
        window = milliseconds(fault.loss_window_ms)
        yield (
            f"lost {fault.lost:,} in a window of {window}: {percent(fault.lost_share)} of the "
            f"{fault.acked_in_loss_window:,} acknowledged in it ({fault.sent_in_loss_window:,} sent)"
        )
    for group, count in fault.stuck.items():
        yield f"{count:,} stuck until the heal (acknowledged 5 s before, not committed by {group})"
    if fault.lost_after_heal:
        yield f"{fault.lost_after_heal:,} of the lost were acknowledged after the heal"
    if fault.sent_in_window:
        yield (
            f"affected {fault.affected:,} of {fault.sent_in_window:,} sent until the first acknowledgement "
            f"after it ({percent(fault.affected_share)})"
        )


def _fates(findings: Findings) -> Text:
    rows = [[fate.outcome, fate.stored, f"{fate.count:,}"] for fate in findings.fates if fate.count]
    total = sum(fate.count for fate in findings.fates)
    return columns(
        ["outcome", "times stored", "messages"], [*rows, [sum_of(total, findings), "", f"{total:,}"]], 2
    )


def _anomalies(findings: Findings) -> Text:
    found = [a for a in findings.anomalies if a.count]
    text = Text()
    for anomaly in found:
        text.append_text(_anomaly(anomaly))
    absent = list(dict.fromkeys(a.name for a in findings.anomalies if not a.count))
    absent = [name for name in absent if name not in {a.name for a in found}]
    if absent:
        text.append(f"  none: {', '.join(absent)}\n", style="dim")
    return text


def _anomaly(anomaly: Anomaly) -> Text:
    forbidden = anomaly.count - anomaly.permitted
    where = f" in group {anomaly.group}" if anomaly.group else ""
    judged = (f"{forbidden:,} forbidden", "bold red") if forbidden else ("permitted", "green")
    causes = ", ".join(f"{cause} {count:,}" for cause, count in anomaly.causes.items() if count)
    copies = f"; {plural(anomaly.extra_copies, 'extra copy', 'extra copies')}" if anomaly.extra_copies else ""
    text = Text.assemble(f"  {anomaly.name}{where}: {anomaly.count:,}, ", judged)
    text.append((f"; {causes}" if causes else "") + copies + "\n")
    for example in anomaly.examples[:_EXAMPLES]:
        text.append(f"      {example.story}\n", style="dim")
    return text


def _latency(findings: Findings) -> Text:
    measured = {
        "attempt to acknowledgement": findings.latency_ms.ack,
        "attempt to delivery": findings.latency_ms.end_to_end,
        **{
            f"attempt to delivery to {g.group}": g.end_to_end_ms
            for g in findings.groups
            if len(findings.groups) > 1
        },
    }
    rows = [[name, *_percentiles(found)] for name, found in measured.items() if found.max is not None]
    return columns(["", "p50", "p99", "p99.9", "max"], rows) if rows else Text()


def _percentiles(found: Percentiles) -> list[str]:
    return [number(value) for value in (found.p50, found.p99, found.p999, found.max)]


def _unavailability(findings: Findings) -> Text:
    longest = sorted(findings.unavailability, key=lambda u: -u.longest_ms)
    sentences = [
        f"producer {u.producer} on {u.topic}/{u.partition}: {milliseconds(u.longest_ms)}"
        for u in longest[:_UNAVAILABLE]
    ]
    return _bullets(sentences)
