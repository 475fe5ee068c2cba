"""The fates of messages, with sums, and the anomalies."""

from __future__ import annotations

from collections.abc import Sequence

from kaput.core import plural
from kaput.evidence.findings import Anomaly, Findings
from kaput.report.document import Block, Cell, Paragraph, Section, Table, Term
from kaput.report.sections import JudgedRun
from kaput.report.sentences import arithmetic_sentence
from kaput.scenario.anomalies import ANOMALIES, Need
from kaput.scenario.model import pipes
from kaput.scenario.vocabulary import CLIENT_OUTCOMES, FATE_ANOMALIES, OUTCOMES

_STORED = {
    "0": "stored 0 times",
    "1": "once",
    "n": "several times",
    "unread": "not read back",
    "uncommitted": "not committed",
}
_IF_ANY = ("unread", "uncommitted")  # columns that are shown only if they have any messages


def fates(run: JudgedRun) -> Section:
    """The section: outcomes of sends by the number of times stored."""
    title = (Term("Fates", "fate"), ": every message has exactly one")
    total = sum(fate.count for fate in run.findings.fates)
    return Section(title, [fates_table(run.findings), adds_up(total, run.findings)], key="fates")


def fates_table(findings: Findings) -> Table:
    """A row for each outcome, a column for each number of times stored, with sums of both."""
    counts: dict[tuple[str, str], int] = {(f.outcome, f.stored): f.count for f in findings.fates}
    stored = [
        key for key in _STORED if key not in _IF_ANY or any(s == key and n for (_, s), n in counts.items())
    ]
    rows: list[list[str | Cell]] = [
        [
            Term(outcome),
            *(_cell(findings, outcome, key, counts.get((outcome, key), 0)) for key in stored),
            f"{sum(counts.get((outcome, key), 0) for key in stored):,}",
        ]
        for outcome in OUTCOMES
        if outcome in CLIENT_OUTCOMES or any(o == outcome and n for (o, _), n in counts.items())
    ]
    sums = [sum(counts.get((outcome, key), 0) for outcome in OUTCOMES) for key in stored]
    return Table(
        ["outcome of the send", *(_STORED[key] for key in stored), "sum"],
        rows,
        sums=["sum", *(f"{number:,}" for number in (*sums, sum(counts.values())))],
        stories=False,  # the section on anomalies has the same stories
    )


def _cell(findings: Findings, outcome: str, stored: str, count: int) -> Cell:
    names = (
        name for name, (outcomes, times) in FATE_ANOMALIES.items() if outcome in outcomes and stored in times
    )
    name = next(names, "")
    lost = findings.lost
    if name == "lost" and lost < count:
        removed = f"{count - lost:,} removed"
        return Cell(f"{count:,}", f"{lost:,} lost, {removed}" if lost else Term("removed"), lost > 0)
    if not count or not name:
        return Cell(f"{count:,}")
    # A duplicate's examples are of all outcomes together.
    stories = [example.story for a in findings.anomaly(name) for example in a.examples]
    return Cell(f"{count:,}", Term(name), name in ("lost", "ghost"), stories)


def adds_up(total: int, findings: Findings) -> Paragraph:
    """Whether the fates add up to the messages sent; if not, the analysis is broken."""
    sent = findings.totals.sent
    if total == sent:
        return Paragraph(f"The fates add up to the {sent:,} messages sent.", "fine")
    return Paragraph(
        f"The fates add up to {total:,}, NOT to the {sent:,} sent: this is a bug in kaput.", "note"
    )


def anomalies(run: JudgedRun) -> Section:
    """The anomalies that were found, with examples, and the names of those that were not."""
    found = [anomaly for anomaly in run.findings.anomalies if anomaly.count]
    header = ["anomaly", "count", Term("permitted"), "forbidden", "causes and examples"]
    blocks: list[Block] = [Table(header, [_row(a) for a in found], "lrrrl")] if found else []
    absent = dict.fromkeys(a.name for a in run.findings.anomalies if a.name not in {f.name for f in found})
    without: dict[Need | None, list[str]] = {}
    for name in absent:
        without.setdefault(_lacks(run, name), []).append(name)
    if looked := without.pop(None, []):
        blocks.append(Paragraph(("None found: ", *_terms(looked), "."), "fine"))
    if without:
        lists = [(*_terms(names), f" (no {need})") for need, names in without.items()]
        parts = [part for each in lists for part in (", ", *each)][1:]
        blocks.append(Paragraph(("Nothing to look for: ", *parts, "."), "fine"))
    arithmetic = Term("High-watermark arithmetic", "high-watermark arithmetic")
    blocks.append(Paragraph((arithmetic, f": {arithmetic_sentence(run.findings)}"), "fine"))
    return Section("Anomalies", blocks)


def _terms(names: Sequence[str]) -> list[str]:
    return [part for name in names for part in (", ", Term(name))][1:]


def _lacks(run: JudgedRun, anomaly: str) -> Need | None:
    """What the run does not have, and could have the anomaly only with; None if it could have it."""
    kind, found = ANOMALIES.get(anomaly), run.findings
    if kind is None:
        return None
    done, uncommitted = found.transactions, found.totals.uncommitted > 0
    has = {
        "store": found.kept is not None,
        "transaction": uncommitted or done is not None,
        "transaction of a producer": uncommitted
        or (done is not None and done.committed + done.aborted + done.unknown > 0),
        "mirror": bool(found.mirrors),
        "group": bool(found.groups),
        "share group": any(group.type == "share" for group in found.groups),
        # Without a scenario, a pipe is a group like others.
        "pipe": run.scenario is None or bool(pipes(run.scenario)),
    }
    needs: list[Need | None] = ["group" if kind.by == "group" else None, kind.needs]
    if kind.needs == "transaction of a producer":
        needs.insert(1, "transaction")
    return next((need for need in needs if need is not None and not has[need]), None)


def _row(anomaly: Anomaly) -> list[str | Cell]:
    parts = {**anomaly.causes, **anomaly.counts}
    causes = ", ".join(f"{part} {count:,}" for part, count in parts.items() if count)
    copies = plural(anomaly.extra_copies, "extra copy", "extra copies") if anomaly.extra_copies else ""
    unclear = f"{anomaly.unclear:,} not known to be permitted" if anomaly.unclear else ""
    text = "; ".join(part for part in (unclear, causes, copies) if part)
    stories = [example.story for example in anomaly.examples]
    if stories:
        examples = plural(len(stories), "example")
        text = f"{text} ({examples})" if text else examples
    name = Cell(Term(anomaly.name), f"in group {anomaly.group}" if anomaly.group else "")
    return [
        name,
        f"{anomaly.count:,}",
        f"{anomaly.permitted:,}",
        Cell(f"{anomaly.forbidden:,}", bad=anomaly.forbidden > 0),
        Cell(text, stories=stories),
    ]
