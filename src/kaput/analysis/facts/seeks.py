"""Where members of pipes went back to what their group had committed, in runs that did not record it.

A transaction that is not committed takes its records back: the member polls them again. It records a `seek`
for that; before it did, the transaction alone tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kaput.evidence.columns import distinct
from kaput.evidence.reading import Evidence
from kaput.evidence.schemas import SEEK


def after_aborts(evidence: Evidence, events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of group_events: for each transaction of a pipe's that is not known to be committed, of members
    that have no `seek` on record. Whether it went back before or after the abort was confirmed is not known:
    one row for its begin and one for its end. Raises EvidenceError.
    """
    outcomes, groups = evidence.words["transactions", "outcome"], evidence.words["outputs", "group"]
    if outcomes <= {"committed"} or not groups:
        return []
    recorded = {(event["group"], event["member"]) for event in events if event["kind"] == SEEK}
    ended = distinct(evidence, "transactions", ("producer", "outcome", "begin_ns", "end_ns"))
    makers = distinct(evidence, "outputs", ("producer", "group", "member"))
    return [
        {"group": group, "member": member, "kind": SEEK, "at_ns": at_ns}
        | dict.fromkeys(("topic", "partition", "offset"))
        for producer, group, member in sorted(makers)
        if (group, member) not in recorded
        for whose, outcome, *times in sorted(ended, key=lambda one: one[:3])
        if whose == producer and outcome != "committed"
        for at_ns in times
        if at_ns is not None
    ]
