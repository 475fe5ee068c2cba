"""Sentences of a report: the verdict, which promise or expectation it concerns, high-watermark arithmetic."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kaput.core import first_few, plural
from kaput.evidence.findings import FaultFindings, Findings
from kaput.scenario.vocabulary import PROMISE

# The rulings' own sentences (verdict/judge.py): why what is lost is permitted.
_LOSS_PERMITTED = re.compile(r"[\d,]+ acknowledged messages? (?:are|is) lost, permitted: (.+)\.")
_UNCLEAR = "not known to be permitted"
_NAMED = 3  # partitions in a sentence
WITHOUT_RECORD = "markers of transactions, or what was removed"  # offsets without a record


def verdict_sentence(findings: Findings) -> str:
    """The result of a run in a sentence or two, starting with the verdict in capitals."""
    totals = findings.totals
    parts = [f"{totals.sent:,} sent", f"{totals.acked:,} acknowledged"]
    for outcome, words in (("failed", "failed"), ("unknown", "of unknown outcome")):
        if count := sum(fate.count for fate in findings.fates if fate.outcome == outcome):
            parts.append(f"{count:,} {words}")
    parts.append(_lost(findings))
    if removed := _removed_by_settings(findings):
        parts.append(f"{removed:,} removed as configured")
    if findings.kept is not None and findings.kept.kept:
        parts.append(findings.kept.words)
    parts += [f"{one.rpo_messages:,} not in {one.target}" for one in findings.mirrors if one.rpo_messages]
    if totals.refused:
        parts.append(f"{totals.refused:,} refused")
    if totals.unread:
        parts.append(f"{totals.unread:,} not read back")
    parts += [
        f"{count:,} {a.name}{f' in group {a.group}' if a.group else ''} {word}"
        for a in findings.anomalies
        for count, word in ((a.forbidden, "forbidden"), (a.unclear, _UNCLEAR))
        if count and a.name != "lost"
    ]
    blame = blame_sentence(findings)
    return f"{_verdict(findings)}: {f'{blame} ' if blame else ''}{', '.join(parts)}."


def _verdict(findings: Findings) -> str:
    """The verdict in capitals. A run that held with permitted loss must not read like one without loss."""
    if findings.verdict == "held":
        return "HELD, with permitted loss" if findings.lost else "HELD"
    return verdict_word(findings).replace(findings.verdict, findings.verdict.upper())


def verdict_word(findings: Findings) -> str:
    """`violated`, or `violated (expectation)` if only an expectation was violated."""
    of_expectation = findings.promise not in (None, findings.verdict)
    return f"{findings.verdict} (expectation)" if of_expectation else findings.verdict


def blame_sentence(findings: Findings) -> str:
    """Whether Kafka kept its promise, and which expectations were not met; empty if the run held, or if the
    findings do not distinguish the two.
    """
    promise = findings.promise
    if promise is None or findings.verdict == "held":
        return ""
    wanted = {one.wanted for one in findings.expectations if one.name == "verdict"}
    kept = (
        PROMISE[promise]
        if not _is_of_stores(findings)
        else "a store or its replay broke its promise, not Kafka"
    )
    kept += ", as you expected" if promise in wanted - {"held"} else ""
    # The expectation that Kafka keeps its promise is implied.
    unmet = [
        one.text
        for one in findings.expectations
        if one.met != "met" and (one.name, one.wanted) != ("verdict", "held")
    ]
    if not unmet:
        return f"{kept}."
    first, *others = unmet
    more = (f", nor was {text.replace(' was not met', '')}" for text in others)
    return f"{kept}; your expectation {first}{''.join(more)}."


def _is_of_stores(findings: Findings) -> bool:
    """Whether all that is forbidden was done by the stores of failed messages, or by their replays."""
    forbidden = [a for a in findings.anomalies if a.forbidden]
    return bool(forbidden) and all(
        a.name == "lost-in-store" or (a.name == "duplicate" and set(a.causes) == {"replay"})
        for a in forbidden
    )


def promise_reasons(findings: Findings) -> list[str]:
    """The reasons for the verdict, without those about expectations."""
    expected = {one.reason for one in findings.expectations}
    return [reason for reason in findings.reasons if reason not in expected]


def _lost(findings: Findings) -> str:
    lost = findings.lost
    forbidden = sum(a.forbidden for a in findings.anomaly("lost"))
    unclear = sum(a.unclear for a in findings.anomaly("lost"))
    if not lost:
        return "no acknowledged message lost"
    text = f"{plural(lost, 'acknowledged message')} lost"
    if forbidden or unclear:
        counts = ((forbidden, "forbidden"), (unclear, _UNCLEAR))
        return f"{text} ({', '.join(f'{count:,} {word}' for count, word in counts if count)})"
    rulings = [found[1] for reason in findings.reasons if (found := _LOSS_PERMITTED.fullmatch(reason))]
    why = f": {'; '.join(rulings)}" if rulings else ""
    return f"{text} (permitted{why})"


def confirmation(fault: FaultFindings) -> str:
    """Whether a fault is confirmed to have taken effect; if not, what is known about it."""
    if fault.proven:
        return "confirmed"
    if fault.bit:
        return "took effect at an unknown time"
    return "had no effect" if fault.effective_ns is None else "took effect, but is not fully proven"


def arithmetic_sentence(findings: Findings) -> str:
    """The loss by high-watermark arithmetic, the exact count, and what explains the difference."""
    sums = findings.high_watermark_arithmetic
    without = [f"{one.topic}/{one.partition}" for one in findings.unread_partitions if one.end_offset is None]
    if without:
        return f"not possible: no end offset of {first_few(without, _NAMED)} is recorded."
    mirrored = "" if sums.mirrored is None else f"{sums.mirrored:,} "
    copies = f" of all clusters (without {mirrored}mirrored copies)" if findings.mirrors else ""
    sentence = (
        f"{sums.acked:,} acknowledged minus {sums.end_offsets:,} in the end offsets{copies} gives "
        f"{sums.difference:,} lost; the exact count is {findings.lost:,}"
    )
    if findings.lost == sums.difference:
        return sentence + "."
    counted, elsewhere = _also_in_end_offsets(findings), _acked_elsewhere(findings)
    if sums.difference != findings.lost + sum(elsewhere.values()) - sum(counted.values()):
        return f"{sentence}: what else makes the difference is not known."
    parts = ["the end offsets also count " + _listed(counted)] if any(counted.values()) else []
    parts += [_listed(elsewhere)] if any(elsewhere.values()) else []
    return f"{sentence}: {'; '.join(parts)}."


def _listed(counts: dict[str, int]) -> str:
    """`3 recovered, 8 extra copies and 2 markers`. A name has the words for one and for several."""
    parts = []
    for name, count in counts.items():
        one, _, several = name.partition("|")
        parts += [f"{count:,} {several if several and count != 1 else one}"] if count else []
    return " and ".join([*([", ".join(parts[:-1])] if parts[1:] else []), *parts[-1:]])


def _also_in_end_offsets(findings: Findings) -> dict[str, int]:
    """Counts of offsets that are no acknowledged message of their own."""
    sums, totals = findings.high_watermark_arithmetic, findings.totals
    copies = sum(
        a.extra_copies if a.extra_copies is not None else a.count for a in findings.anomaly("duplicate")
    )
    kept = sum(f.count for f in findings.fates if f.outcome == "kept" and f.stored in ("1", "n"))
    phantoms, foreign = findings.total("phantom"), totals.foreign_records
    holes = max(0, sums.end_offsets - totals.log_records) if sums.holes is None else sums.holes
    read = sums.end_offsets - holes
    hidden = read - totals.stored_messages - copies - phantoms - foreign
    return {
        "recovered": findings.total("recovered"),
        "ghost": findings.total("ghost"),
        "phantom": phantoms,
        "kept": kept,
        "extra copy|extra copies": copies,
        "foreign record|foreign records": foreign,
        "record that readers are not given|records that readers are not given": hidden,
        **_holes(holes, sums.markers),
    }


def _holes(holes: int, markers: Mapping[str, int]) -> dict[str, int]:
    if not markers:
        without = f"without a record ({WITHOUT_RECORD})"
        return {f"offset {without}|offsets {without}": holes}
    where = {f" in {cluster}" if cluster else "": n for cluster, n in markers.items()}
    return {f"marker of a transaction{at}|markers of transactions{at}": n for at, n in where.items()}


def _acked_elsewhere(findings: Findings) -> dict[str, int]:
    """Counts of acknowledged messages that are neither stored nor lost."""
    counts = {
        stored: sum(f.count for f in findings.fates if (f.outcome, f.stored) == ("acked", stored))
        for stored in ("uncommitted", "unread")
    }
    return {
        "acknowledged message is of a transaction that was not committed"
        "|acknowledged messages are of transactions that were not committed": counts["uncommitted"],
        "was not read back|were not read back": counts["unread"],
        "was removed as configured|were removed as configured": _removed_by_settings(findings),
    }


def _removed_by_settings(findings: Findings) -> int:
    """What a step of the timeline removed is among the lost."""
    gone = sum(f.count for f in findings.fates if (f.outcome, f.stored) == ("acked", "0"))
    return gone - findings.lost
