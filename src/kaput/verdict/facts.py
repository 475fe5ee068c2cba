"""What the verdict is drawn from: exact counts, broken down by whatever a contract may ask for.

The analysis fills it in; nothing here judges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kaput.evidence.folder import State


@dataclass(frozen=True)
class Loss:
    """Lost messages of one kind. `isr_of_one`: the ISR was the leader alone when they were acknowledged."""

    producer: int
    topic: str
    cause: str
    count: int
    epochs_known: bool = True
    isr_of_one: bool = False


@dataclass(frozen=True)
class Displaced:
    """Inconsistent offsets of one kind. `producer`: whose acknowledgement the log does not bear out."""

    topic: str
    producer: int | None
    cause: str
    count: int
    epochs_known: bool = True
    isr_of_one: bool = False


@dataclass(frozen=True)
class Reordered:
    """Reordered messages of one producer. `across_leaders`: the partition changed its leader meanwhile."""

    producer: int
    count: int
    across_leaders: bool = False


@dataclass(frozen=True)
class GroupFacts:
    """One consumer group. `counts` has its anomalies by name."""

    group: str
    drained: bool
    counts: Mapping[str, int] = field(default_factory=dict)
    redelivered_after_commit: int = 0


@dataclass(frozen=True)
class FaultFacts:
    """One injected fault and whether it is proven to have bitten."""

    id: str
    fault: str
    target: str
    bit: bool
    proof: str


@dataclass(frozen=True)
class Facts:
    """One run. `counts` has the run's own anomalies by name; times are ns since the epoch."""

    state: State
    sent: int
    acked: int
    counts: Mapping[str, int] = field(default_factory=dict)
    unread: int = 0
    losses: Sequence[Loss] = ()
    duplicates: Mapping[int, int] = field(default_factory=dict)
    reordered: Sequence[Reordered] = ()
    displaced: Sequence[Displaced] = ()
    groups: Sequence[GroupFacts] = ()
    faults: Sequence[FaultFacts] = ()
    deaths: Sequence[tuple[int, int]] = ()
    troubles: Sequence[str] = ()
    leader_changes: int = 0
    end_offsets: int = 0
    end_offsets_known: bool = False
