"""The transactions section: outcomes, and how long transactions delayed readers."""

from __future__ import annotations

from kaput.core import plural
from kaput.evidence.findings import Findings
from kaput.report.document import Bullets, Section, milliseconds
from kaput.report.sections import JudgedRun


def section(run: JudgedRun) -> Section | None:
    """The sentences as a section; None without transactions."""
    found = transaction_sentences(run.findings)
    return Section("Transactions", [Bullets(found)], detail=True) if found else None


def transaction_sentences(findings: Findings) -> list[str]:
    """Sentences on outcomes and delays; empty without transactions."""
    ended = findings.transactions
    if ended is None:
        return []
    sentences = []
    total = ended.committed + ended.aborted + ended.unknown
    if total:
        # Of a partition that was not read to its end it is not known what is there.
        known = ", as far as partitions were read" if findings.totals.unread else ""
        sentences.append(
            f"{plural(total, 'transaction')} of {plural(ended.messages, 'message')}: {ended.committed:,} "
            f"committed, {ended.aborted:,} aborted, {ended.unknown:,} of unknown outcome; "
            f"{plural(findings.totals.uncommitted, 'message')} not committed{known}"
        )
    if ended.longest_standstill_ms is not None:
        place = f"{ended.standstill_topic}/{ended.standstill_partition}"
        sentences.append(
            f"the last stable offset of {place} stood still for at least "
            f"{milliseconds(ended.longest_standstill_ms)} (sampled): read_committed readers got nothing newer"
        )
    return sentences
