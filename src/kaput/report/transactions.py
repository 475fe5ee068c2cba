"""Transactions in sentences: how they ended, and how long one held readers up."""

from __future__ import annotations

from kaput.evidence.findings import Findings
from kaput.report.layout import milliseconds, plural


def transaction_sentences(findings: Findings) -> list[str]:
    """Nothing where there were none."""
    told = findings.transactions
    if told is None:
        return []
    total = told.committed + told.aborted + told.unknown
    said = []
    if total:
        said.append(
            f"{plural(total, 'transaction')} of {plural(told.messages, 'message')}: {told.committed:,} "
            f"committed, {told.aborted:,} aborted, {told.unknown:,} of unknown outcome; "
            f"{plural(findings.totals.uncommitted, 'message')} not committed"
        )
    if told.longest_standstill_ms is not None:
        said.append(
            f"readers with read_committed were held up for {milliseconds(told.longest_standstill_ms)} "
            f"at most, in {told.standstill_topic}/{told.standstill_partition} (sampled)"
        )
    return said
