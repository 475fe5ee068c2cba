"""Infers seeks of pipe members after uncommitted transactions, for older runs that did not record them.

After a transaction that is not committed, the member goes back to the group's committed offset and polls its
records again. Newer runs record this as `seek`; in older ones only the transaction tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kaput.evidence.columns import distinct
from kaput.evidence.reading import Evidence
from kaput.evidence.schemas import SEEK


def after_aborts(evidence: Evidence, events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of group_events, for each transaction of a pipe that is not known to be committed, for members
    without recorded seeks. Whether the member went back before or after the abort was confirmed is unknown,
    so there is one row at its begin and one at its end. Raises EvidenceError.
    """
    outcomes, groups = evidence.words["transactions", "outcome"], evidence.words["outputs", "group"]
    if outcomes <= {"committed"} or not groups:
        return []
    recorded = {(event["group"], event["member"]) for event in events if event["kind"] == SEEK}
    ended = distinct(evidence, "transactions", ("producer", "outcome", "begin_ns", "end_ns"))
    pipe_members = distinct(evidence, "outputs", ("producer", "group", "member"))
    return [
        {"group": group, "member": member, "kind": SEEK, "at_ns": at_ns}
        | dict.fromkeys(("topic", "partition", "offset"))
        for producer, group, member in sorted(pipe_members)
        if (group, member) not in recorded
        for transaction_producer, outcome, *times in sorted(ended, key=lambda one: one[:3])
        if transaction_producer == producer and outcome != "committed"
        for at_ns in times
        if at_ns is not None
    ]
