"""What can be planted, and what each plant does to every count: the definitions of anomalies, worked out.

A plant sits in a batch of its own, away from the batch's ends, so that no two of them touch. How it looks in
the tables is in slabs.py and deliveries.py; here stands what follows from it, written from the definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, auto
from typing import NamedTuple

import numpy as np

from kaput.bench.shape import Longs


class Kind(IntEnum):
    """What is planted; `m` is the message at the plant's position."""

    LOST_OVERWRITTEN = auto()  # m acknowledged at an offset that holds the next message
    LOST_AT_A_HOLE = auto()  # m acknowledged at an offset that holds nothing
    VANISHED = auto()  # the same, and the group was handed m there
    DUPLICATE = auto()  # m stored twice
    TRIPLICATE = auto()  # m stored three times
    RECOVERED = auto()  # m of unknown outcome, stored
    UNKNOWN = auto()  # m of unknown outcome, not stored: no anomaly
    GHOST = auto()  # m failed, stored
    FAILED = auto()  # m failed, not stored: no anomaly
    PHANTOM = auto()  # behind m a record that nobody sent
    DAMAGED_RECORD = auto()  # m's record is damaged in the log, and so delivered
    REORDERED = auto()  # m stands behind the next message
    MISCLAIMED = auto()  # m acknowledged at the offset of the next message
    UNSEEN = auto()  # m and the next message are not delivered to the group
    FOREIGN_SKIPPED = auto()  # behind m somebody else's record, which is not delivered to the group
    DAMAGED_DELIVERY = auto()  # m's record is whole in the log and damaged as delivered to the group
    MISREAD = auto()  # at m's offset the group is handed the message before m once more
    REDELIVERED = auto()  # m handed to the group twice in a row
    REDELIVERED_AFTER_REASSIGNMENT = auto()  # the same, with a change of assignment between
    SWAPPED_POLL = auto()  # m handed to the group after the next message
    COMMIT_AHEAD = auto()  # right after m the group commits two records more
    UNASSIGNED = auto()  # m handed to the member while the partition was not its own


class Fate(NamedTuple):
    """A message's fate, as delivered to the plant's own group and to other groups."""

    outcome: str
    stored: str
    here: str
    elsewhere: str


@dataclass(frozen=True)
class Effect:
    """What one plant does. `fates`: those of its messages that do not fare like all others.

    `run`, `group`: anomalies of the run and of the plant's group. `slots`: offsets more (or less) than
    messages. `owes`: it leaves a stored offset undelivered, so that every later commit there is ahead.
    `share`: how many of it for one of the others.
    """

    fates: tuple[Fate, ...] = ()
    run: Mapping[str, int] = field(default_factory=dict)
    group: Mapping[str, int] = field(default_factory=dict)
    slots: int = 0
    in_group: bool = False
    owes: bool = False
    share: float = 1.0


HOLES = (Kind.LOST_AT_A_HOLE, Kind.VANISHED)  # nothing stands where their message was acknowledged
PLAIN = Fate("acked", "1", "1", "1")
_GONE = Fate("acked", "0", "0", "0")
_VANISHED = Fate("acked", "0", "1", "0")
_NOT_HERE = Fate("acked", "1", "0", "1")
_TWICE_HERE = Fate("acked", "1", "n", "1")
_COPIED = Fate("acked", "n", "n", "n")

EFFECTS: Mapping[Kind, Effect] = {
    Kind.LOST_OVERWRITTEN: Effect((_GONE,), {"lost": 1, "inconsistent-offset": 1}, slots=-1, share=0.4),
    Kind.LOST_AT_A_HOLE: Effect((_GONE,), {"lost": 1}, share=0.4),
    Kind.VANISHED: Effect((_VANISHED,), {"lost": 1}, {"vanished": 1}, in_group=True, share=0.2),
    Kind.DUPLICATE: Effect((_COPIED,), {"duplicate": 1}, slots=1, share=0.8),
    Kind.TRIPLICATE: Effect((_COPIED,), {"duplicate": 1}, slots=2, share=0.2),
    Kind.RECOVERED: Effect((Fate("unknown", "1", "1", "1"),), {"recovered": 1}),
    Kind.UNKNOWN: Effect((Fate("unknown", "0", "0", "0"),), slots=-1, share=0.5),
    Kind.GHOST: Effect((Fate("failed", "1", "1", "1"),), {"ghost": 1}),
    Kind.FAILED: Effect((Fate("failed", "0", "0", "0"),), slots=-1, share=0.5),
    Kind.PHANTOM: Effect((), {"phantom": 1}, slots=1),
    Kind.DAMAGED_RECORD: Effect((_GONE,), {"corrupt": 1, "lost": 1}, share=0.5),
    Kind.REORDERED: Effect((), {"reordered": 1}),
    Kind.MISCLAIMED: Effect((), {"inconsistent-offset": 1}, share=0.5),
    Kind.UNSEEN: Effect(
        (_NOT_HERE, _NOT_HERE), {}, {"unseen": 2, "poll-skip": 1}, in_group=True, owes=True, share=0.5
    ),
    Kind.FOREIGN_SKIPPED: Effect((), {}, {"poll-skip": 1}, slots=1, in_group=True, owes=True, share=0.5),
    Kind.DAMAGED_DELIVERY: Effect((_NOT_HERE,), {"corrupt": 1}, {"unseen": 1}, in_group=True, share=0.5),
    Kind.MISREAD: Effect(
        (_NOT_HERE, _TWICE_HERE), {"inconsistent-offset": 1}, {"unseen": 1}, in_group=True, share=0.2
    ),
    Kind.REDELIVERED: Effect(
        (_TWICE_HERE,), {}, {"redelivered": 1, "nonmonotonic-poll": 1}, in_group=True, share=0.5
    ),
    Kind.REDELIVERED_AFTER_REASSIGNMENT: Effect(
        (_TWICE_HERE,), {}, {"redelivered": 1}, in_group=True, share=0.5
    ),
    Kind.SWAPPED_POLL: Effect((), {}, {"nonmonotonic-poll": 1, "poll-skip": 2}, in_group=True, share=0.5),
    Kind.COMMIT_AHEAD: Effect((), {}, {"commit-ahead": 1}, in_group=True),
    Kind.UNASSIGNED: Effect((), {}, {"unassigned-delivery": 1}, in_group=True),
}


def slots_more(kinds: Longs) -> Longs:
    """How many offsets each plant adds."""
    by_kind = np.zeros(len(Kind) + 1, np.int64)
    for kind, effect in EFFECTS.items():
        by_kind[kind] = effect.slots
    found: Longs = by_kind[kinds]
    return found
