"""What each fault of a judged run needed: somebody, or nobody. From its findings.

**What ends by itself needs nobody.** Findings say what ended an outage: an election (or a rebalance, or an
ISR change), or only the heal of the fault. In the second case a longer fault would have been a longer outage,
so somebody had to act. An alert that wakes somebody for the first kind wakes them for nothing.

writes   nothing was acknowledged until the heal, or acknowledged messages were lost
reads    a group fell behind until the heal, or messages were stuck for it
reserve  in-sync replicas were missing until the heal: no client was hurt, but the next failure would have
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kaput.core import SECOND
from kaput.evidence.findings import Findings
from kaput.evidence.findings_claims import needs_heal
from kaput.evidence.findings_faults import FaultFindings

Need = Literal["writes", "reads", "reserve"]
_SHORTEST_MS = 1000.0  # the shortest outage that counts
GRACE_NS = 60 * SECOND  # after a heal: alerts until then are still due to the fault
# What rules on these signals are meant to notice; all others: writes.
_READS = ("kaput_consumer_", "kaput_group_")
_RESERVE = (
    "kaput_broker_",
    "kaput_out_of_sync_replicas",
    "kaput_under_replicated_partitions",
    "kaput_reassigning_partitions",
    "kaput_spare_replicas",
    "kaput_quorum_",
    "kaput_log_dir",
    "kaput_certificate_",
    "kaput_mirror_",
)


@dataclass(frozen=True)
class Fault:
    """One fault that took effect. `until_ns`: its heal, or the end of the run."""

    id: str
    fault: str
    target: str
    from_ns: int
    until_ns: int
    needs: Sequence[Need]

    def may_cause(self, at_ns: int) -> bool:
        """Whether an alert at this time can be due to it."""
        return self.from_ns <= at_ns <= self.until_ns + GRACE_NS


# Signals that show any trouble of clients, or of the reserve: rules on these should fire for each. Others
# are about one cause (no controller, no leader), and silent for the rest.
_ANY_CAUSE = (
    "kaput_messages_",
    "kaput_unacknowledged_seconds",
    "kaput_consumer_lag_",
    "kaput_out_of_sync_replicas",
    "kaput_under_replicated_partitions",
)


def faults_of(findings: Findings, end_ns: int) -> list[Fault]:
    """Proven faults, without those that do nothing (noop)."""
    return [
        Fault(
            each.id,
            each.fault,
            each.target,
            each.effective_ns,
            end_ns if each.healed_ns is None else each.healed_ns,
            tuple(_needs(each)),
        )
        for each in findings.faults
        if each.effective_ns is not None and each.proven and each.fault != "noop"
    ]


def noticed_by(signal: str) -> Need:
    """What a rule on this signal is meant to notice."""
    if signal.startswith(_READS):
        return "reads"
    return "reserve" if signal.startswith(_RESERVE) else "writes"


def of_any_cause(signal: str) -> bool:
    """Whether a rule on this signal should fire whatever the cause."""
    return signal.startswith(_ANY_CAUSE)


def _needs(fault: FaultFindings) -> list[Need]:
    lasted = needs_heal(fault.unavailable_waited_for) or fault.unavailable_ended_by is None
    down = lasted and fault.unavailable_ms is not None and fault.unavailable_ms >= _SHORTEST_MS
    found: dict[Need, bool] = {
        "writes": down or fault.lost > 0,
        "reads": fault.lag_ended_by == "heal" or any(fault.stuck.values()),
        "reserve": fault.isr_ended_by == "heal",
    }
    return [need for need, is_so in found.items() if is_so]
