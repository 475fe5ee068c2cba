"""The kinds of anomalies that can be planted, and the effect of each on every count, by the definitions.

Each plant is in its own batch, away from the batch's ends, so no two touch. Not here: what it looks like in
the tables (slabs.py, deliveries.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, auto
from typing import NamedTuple

import numpy as np

from kaput.bench.shape import Longs


class PlantKind(IntEnum):
    """The kind of a plant; `m` is the message at its position."""

    LOST_OVERWRITTEN = auto()  # m acknowledged at an offset that holds the next message
    LOST_AT_A_HOLE = auto()  # m acknowledged at an offset that holds nothing
    VANISHED = auto()  # the same, and m was delivered to the group there
    DUPLICATE = auto()  # m stored twice
    TRIPLICATE = auto()  # m stored three times
    RECOVERED = auto()  # m of unknown outcome, stored
    UNKNOWN = auto()  # m of unknown outcome, not stored: no anomaly
    GHOST = auto()  # m failed, stored
    FAILED = auto()  # m failed, not stored: no anomaly
    PHANTOM = auto()  # after m a record that no producer sent
    DAMAGED_RECORD = auto()  # m's record is damaged in the log and as delivered
    REORDERED = auto()  # m is stored after the next message
    MISCLAIMED = auto()  # m acknowledged at the offset of the next message
    UNSEEN = auto()  # m and the next message are not delivered to the group
    FOREIGN_SKIPPED = auto()  # after m a foreign record, which is not delivered to the group
    DAMAGED_DELIVERY = auto()  # m's record is intact in the log but damaged as delivered to the group
    MISREAD = auto()  # at m's offset the message before m is delivered to the group again
    REDELIVERED = auto()  # m delivered to the group twice in a row
    REDELIVERED_AFTER_REASSIGNMENT = auto()  # the same, with a change of assignment in between
    SWAPPED_POLL = auto()  # m delivered to the group after the next message
    COMMIT_AHEAD = auto()  # right after m the group commits two more records
    UNASSIGNED = auto()  # m delivered to the member while it did not own the partition
    KEPT = auto()  # m kept by a store, stored: no anomaly
    WAITING = auto()  # m kept by a store that still has it, not stored: no anomaly
    LOST_IN_STORE = auto()  # m kept by a store that does not have it any more, not stored
    REFUSED = auto()  # m refused, not stored: no anomaly


class PlantedFate(NamedTuple):
    """A message's fate. `here`, `elsewhere`: times delivered to the plant's own group and to other groups."""

    outcome: str
    stored: str
    here: str
    elsewhere: str


@dataclass(frozen=True)
class PlantEffect:
    """The effect of one plant. `fates`: of those of its messages that differ from PLAIN.

    `run`, `group`: anomalies of the run and of the plant's group. `slots`: number of offsets minus number of
    messages. `owes`: it leaves a stored offset undelivered, so every later commit there is ahead. `share`:
    its relative frequency.
    """

    fates: tuple[PlantedFate, ...] = ()
    run: Mapping[str, int] = field(default_factory=dict)
    group: Mapping[str, int] = field(default_factory=dict)
    slots: int = 0
    in_group: bool = False
    owes: bool = False
    share: float = 1.0


HOLES = (PlantKind.LOST_AT_A_HOLE, PlantKind.VANISHED)  # nothing is stored at the acknowledged offset
PLAIN = PlantedFate("acked", "1", "1", "1")
_GONE = PlantedFate("acked", "0", "0", "0")
_VANISHED = PlantedFate("acked", "0", "1", "0")
_NOT_HERE = PlantedFate("acked", "1", "0", "1")
_TWICE_HERE = PlantedFate("acked", "1", "n", "1")
_COPIED = PlantedFate("acked", "n", "n", "n")

EFFECTS: Mapping[PlantKind, PlantEffect] = {
    PlantKind.LOST_OVERWRITTEN: PlantEffect(
        (_GONE,), {"lost": 1, "inconsistent-offset": 1}, slots=-1, share=0.4
    ),
    PlantKind.LOST_AT_A_HOLE: PlantEffect((_GONE,), {"lost": 1}, share=0.4),
    PlantKind.VANISHED: PlantEffect((_VANISHED,), {"lost": 1}, {"vanished": 1}, in_group=True, share=0.2),
    PlantKind.DUPLICATE: PlantEffect((_COPIED,), {"duplicate": 1}, slots=1, share=0.8),
    PlantKind.TRIPLICATE: PlantEffect((_COPIED,), {"duplicate": 1}, slots=2, share=0.2),
    PlantKind.RECOVERED: PlantEffect((PlantedFate("unknown", "1", "1", "1"),), {"recovered": 1}),
    PlantKind.UNKNOWN: PlantEffect((PlantedFate("unknown", "0", "0", "0"),), slots=-1, share=0.5),
    PlantKind.GHOST: PlantEffect((PlantedFate("failed", "1", "1", "1"),), {"ghost": 1}),
    PlantKind.FAILED: PlantEffect((PlantedFate("failed", "0", "0", "0"),), slots=-1, share=0.5),
    PlantKind.PHANTOM: PlantEffect((), {"phantom": 1}, slots=1),
    PlantKind.DAMAGED_RECORD: PlantEffect((_GONE,), {"corrupt": 1, "lost": 1}, share=0.5),
    PlantKind.REORDERED: PlantEffect((), {"reordered": 1}),
    PlantKind.MISCLAIMED: PlantEffect((), {"inconsistent-offset": 1}, share=0.5),
    PlantKind.UNSEEN: PlantEffect(
        (_NOT_HERE, _NOT_HERE), {}, {"unseen": 2, "poll-skip": 1}, in_group=True, owes=True, share=0.5
    ),
    PlantKind.FOREIGN_SKIPPED: PlantEffect(
        (), {}, {"poll-skip": 1}, slots=1, in_group=True, owes=True, share=0.5
    ),
    PlantKind.DAMAGED_DELIVERY: PlantEffect(
        (_NOT_HERE,), {"corrupt": 1}, {"unseen": 1}, in_group=True, share=0.5
    ),
    PlantKind.MISREAD: PlantEffect(
        (_NOT_HERE, _TWICE_HERE), {"inconsistent-offset": 1}, {"unseen": 1}, in_group=True, share=0.2
    ),
    PlantKind.REDELIVERED: PlantEffect(
        (_TWICE_HERE,), {}, {"redelivered": 1, "nonmonotonic-poll": 1}, in_group=True, share=0.5
    ),
    PlantKind.REDELIVERED_AFTER_REASSIGNMENT: PlantEffect(
        (_TWICE_HERE,), {}, {"redelivered": 1}, in_group=True, share=0.5
    ),
    PlantKind.SWAPPED_POLL: PlantEffect(
        (), {}, {"nonmonotonic-poll": 1, "poll-skip": 2}, in_group=True, share=0.5
    ),
    PlantKind.COMMIT_AHEAD: PlantEffect((), {}, {"commit-ahead": 1}, in_group=True),
    PlantKind.UNASSIGNED: PlantEffect((), {}, {"unassigned-delivery": 1}, in_group=True),
    PlantKind.KEPT: PlantEffect((PlantedFate("kept", "1", "1", "1"),), share=0.5),
    PlantKind.WAITING: PlantEffect((PlantedFate("kept", "0", "0", "0"),), slots=-1, share=0.5),
    PlantKind.LOST_IN_STORE: PlantEffect(
        (PlantedFate("kept", "0", "0", "0"),), {"lost-in-store": 1}, slots=-1, share=0.5
    ),
    PlantKind.REFUSED: PlantEffect((PlantedFate("refused", "0", "0", "0"),), slots=-1, share=0.5),
}


def slots_more(kinds: Longs) -> Longs:
    """The number of offsets that each plant adds."""
    by_kind = np.zeros(len(PlantKind) + 1, np.int64)
    for kind, effect in EFFECTS.items():
        by_kind[kind] = effect.slots
    found: Longs = by_kind[kinds]
    return found
