"""The plan of a generated run: what is planted where, and every count that its analysis must find.

Drawn from a seed before anything is written: the counts follow from the plan by the definitions of anomalies
(see PlantKind). Its shape is how much each producer sends to which partition. Not here: rows (slabs.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, auto
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kaput.core import SECOND
from kaput.errors import UsageError
from kaput.scenario.anomalies import ANOMALIES, GROUP_ANOMALIES, RUN_ANOMALIES
from kaput.scenario.vocabulary import OUTCOMES

Longs = npt.NDArray[np.int64]

TOPIC = "orders"
STORE = "store"
START_NS = 1_767_225_600_000_000_000  # 2026-01-01
_RATE_PER_S = 200_000  # of all producers together
_PAUSE_NS = 1_000_000_000  # between two slabs: longer than anything takes to arrive


@dataclass(frozen=True)
class Shape:
    """`counts`: messages by producer. `batch` divides `width`, the messages of a producer in one slab."""

    counts: tuple[int, ...]
    partitions: int
    groups: int
    seed: int
    batch: int
    width: int

    @property
    def messages(self) -> int:
        return sum(self.counts)

    @property
    def producers(self) -> int:
        return len(self.counts)

    @property
    def slabs(self) -> int:
        return -(-max(self.counts) // self.width)

    @property
    def members(self) -> int:
        """The number of members of each group; partition k belongs to member k modulo this."""
        return min(2, self.partitions)

    @property
    def interval_ns(self) -> int:
        """The time between two messages of one producer."""
        return self.producers * (SECOND // _RATE_PER_S)

    @property
    def ended_ns(self) -> int:
        return self.starts_ns(self.slabs)

    def starts_ns(self, slab: int) -> int:
        return START_NS + slab * (self.width * self.interval_ns + _PAUSE_NS)

    def group(self, number: int) -> str:
        return f"group-{number}"

    def member(self, group: int, number: int) -> str:
        return f"group-{group}-member-{number}"

    def partition(self, producer: Longs, number: Longs) -> Longs:
        return (producer + number) % self.partitions


class BatchTable:
    """The batches of a slab, producer after producer: `producer`, `number` (from 0), `size`, `partition`."""

    def __init__(self, shape: Shape, slab: int) -> None:
        counts = np.array(shape.counts, np.int64)
        self.first_number = slab * (shape.width // shape.batch)
        last = np.minimum(-(-counts // shape.batch), self.first_number + shape.width // shape.batch)
        each = np.maximum(last - self.first_number, 0)
        self.begins = np.concatenate([[0], np.cumsum(each)])  # of each producer's batches
        self.producer: Longs = np.repeat(np.arange(shape.producers), each)
        self.number: Longs = self.first_number + np.arange(self.begins[-1]) - self.begins[self.producer]
        self.size: Longs = np.minimum(shape.batch, counts[self.producer] - self.number * shape.batch)
        self.partition = shape.partition(self.producer, self.number)

    @cached_property
    def messages_before(self) -> Longs:
        """The number of the slab's messages before each batch, and in total."""
        return np.concatenate([[0], np.cumsum(self.size)])

    def index(self, producer: Longs, number: Longs) -> Longs:
        at: Longs = self.begins[producer] + number - self.first_number
        return at

    def among(self, chosen: Longs) -> Longs:
        """The positions in the slab of the messages of `chosen` batches, in the order of `chosen`."""
        return spread(self.messages_before[chosen], self.size[chosen])


def spread(begins: Longs, sizes: Longs) -> Longs:
    """For each pair the `size` numbers begin, begin + 1, ..., concatenated."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(begins - before, sizes) + np.arange(int(sizes.sum()))


def commits_in(batches: Longs) -> Longs:
    """The number of commits of a partition before the end of a slab, by its number of batches there."""
    return np.minimum(8, batches // 4)


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
    """The effect of one plant. `fates`: of those of its messages that differ from PLAIN. `run`, `group`:
    anomalies of the run and of the plant's group. `slots`: number of offsets minus number of messages.
    `owes`: it leaves a stored offset undelivered, so every later commit there is ahead. `share`: its relative
    frequency.
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
    more: Longs = np.array([EFFECTS[kind].slots for kind in PlantKind], np.int64)[kinds - 1]
    return more


NEVER = 2**62


@dataclass(frozen=True)
class Plants:
    """One entry per plant, by slab. `batch`: the number of its batch at the producer; `at`: the position of
    its message in that batch; `ordinal`: a unique number.
    """

    kind: Longs
    group: Longs
    ordinal: Longs
    producer: Longs
    batch: Longs
    at: Longs

    def only(self, chosen: Any) -> Plants:
        return Plants(**{name: column[chosen] for name, column in vars(self).items()})


class PlantingPlan:
    """The plan of the whole run. `offsets`, `batches`: numbers by slab (offsets: before it) and partition;
    `owes_from`: by group and partition, the first slab in which a stored record is not delivered to the group
    there. Raises UsageError if there is no room for all plants.
    """

    def __init__(self, shape: Shape, rate: float = 0.0) -> None:
        """`rate`: plants of a kind per message, at least one of each kind; 0: no plants."""
        self.shape = shape
        self.plants = _planted(shape, rate)
        self._slab_of = self.plants.batch * shape.batch // shape.width
        self._partition = shape.partition(self.plants.producer, self.plants.batch)
        self._count_slots()
        self._find_owed()

    def _count_slots(self) -> None:
        """Sets the numbers of offsets and batches by slab and partition."""
        shape = self.shape
        slots = np.zeros((shape.slabs + 1, shape.partitions), np.int64)
        self.batches = np.zeros((shape.slabs, shape.partitions), np.int64)
        np.add.at(slots, (self._slab_of + 1, self._partition), slots_more(self.plants.kind))
        for slab in range(shape.slabs):
            table = BatchTable(shape, slab)
            self.batches[slab] = np.bincount(table.partition, minlength=shape.partitions)
            slots[slab + 1] += np.bincount(table.partition, table.size, shape.partitions).astype(np.int64)
        self.offsets: Longs = np.cumsum(slots, axis=0)

    def _find_owed(self) -> None:
        owing = np.array([EFFECTS[PlantKind(k)].owes for k in self.plants.kind], bool)
        self.owes_from: Longs = np.full((self.shape.groups, self.shape.partitions), NEVER, np.int64)
        where = (self.plants.group[owing], self._partition[owing])
        np.minimum.at(self.owes_from, where, self._slab_of[owing])

    @property
    def holes(self) -> int:
        """The number of offsets without a record."""
        return int(np.isin(self.plants.kind, HOLES).sum())

    def plants_of(self, slab: int) -> Plants:
        return self.plants.only(slice(*np.searchsorted(self._slab_of, [slab, slab + 1])))

    def expected(self) -> dict[str, Any]:
        """The content of expected.json: group anomalies summed, and by group under `groups`."""
        kinds = Counter(PlantKind(k) for k in self.plants.kind)
        run: Counter[str] = Counter()
        fates: Counter[str] = Counter({_cell("acked", "1"): self.shape.messages})
        for kind, count in kinds.items():
            for fate in EFFECTS[kind].fates:
                fates[_cell("acked", "1")] -= count
                fates[_cell(fate.outcome, fate.stored)] += count
            for name, times in EFFECTS[kind].run.items():
                run[name] += times * count
        groups = {self.shape.group(g): self._expected_of(g, kinds) for g in range(self.shape.groups)}
        anomalies = {name: run[name] for name in RUN_ANOMALIES}
        for name in GROUP_ANOMALIES:
            anomalies[name] = sum(group["anomalies"][name] for group in groups.values())
        return {
            "sent": self.shape.messages,
            "fates": _in_order(fates),
            "anomalies": {name: anomalies[name] for name in ANOMALIES},
            "verdict": "violated" if kinds else "held",
            "groups": groups,
        }

    def _expected_of(self, group: int, kinds: Counter[PlantKind]) -> dict[str, Any]:
        own = Counter(PlantKind(k) for k in self.plants.kind[self.plants.group == group])
        fates: Counter[str] = Counter({_cell("acked", "1", "1"): self.shape.messages})
        expected: Counter[str] = Counter({"commit-ahead": self._commits_that_owe(group)})
        for kind, count in kinds.items():
            effect = EFFECTS[kind]
            mine = own[kind] if effect.in_group else count
            for fate in effect.fates:
                fates[_cell(PLAIN.outcome, PLAIN.stored, PLAIN.here)] -= count
                fates[_cell(fate.outcome, fate.stored, fate.here)] += mine
                fates[_cell(fate.outcome, fate.stored, fate.elsewhere)] += count - mine
            for name, times in effect.group.items():
                expected[name] += times * mine
        return {"fates": _in_order(fates), "anomalies": {name: expected[name] for name in GROUP_ANOMALIES}}

    def _commits_that_owe(self, group: int) -> int:
        """The number of regular commits above a record that was never delivered to the group (tables.py). In
        the slab of the first such record there is one commit, after it; later slabs have all commits.
        """
        first = self.owes_from[group]
        slab = np.arange(self.shape.slabs)[:, None]
        at_the_end = (self.batches > 0) & (slab >= first)
        before = np.where(slab > first, commits_in(self.batches), 0)
        return int(at_the_end.sum() + before.sum())


def _cell(*words: str) -> str:
    return "/".join(words)


def _in_order(fates: Counter[str]) -> dict[str, int]:
    rank = {word: number for number, word in enumerate((*OUTCOMES, "0", "1", "n"))}
    cells = sorted((c for c in fates if fates[c]), key=lambda c: [rank[word] for word in c.split("/")])
    return {cell: fates[cell] for cell in cells}


def _planted(shape: Shape, rate: float) -> Plants:
    """Draws the plants: each gets a full batch; those with `owes` get one in the last partitions."""
    rng = np.random.default_rng([shape.seed, 0])
    wanted = _wanted(shape, rate)
    owing = np.array([EFFECTS[PlantKind(k)].owes for k, _ in wanted], bool)
    chosen = np.empty(len(wanted), np.int64)
    whole = np.array(shape.counts, np.int64) // shape.batch
    begins = np.concatenate([[0], np.cumsum(whole)])
    free = np.ones(begins[-1], bool)
    # In most partitions everything is delivered to groups, so that most commits are regular.
    of = np.repeat(np.arange(shape.producers), whole)
    partitions = shape.partition(of, np.arange(begins[-1]) - begins[of])
    last = np.flatnonzero(partitions >= shape.partitions - max(1, shape.partitions // 4))
    for mask, room in ((owing, last), (~owing, None)):
        places = np.flatnonzero(free) if room is None else room
        count = int(mask.sum())
        if count > len(places):
            raise UsageError(
                f"{shape.messages:,} messages of {shape.producers} producers over {shape.partitions} "
                f"partitions have no room for {len(wanted):,} planted anomalies: send more messages, lower "
                "--anomaly-rate, or use --clean"
            )
        chosen[mask] = rng.choice(places, count, replace=False)
        free[chosen[mask]] = False
    producer = np.searchsorted(begins, chosen, side="right") - 1
    kind, group = np.array(wanted, np.int64).reshape(-1, 2).T
    plants = Plants(
        kind=kind,
        group=group,
        ordinal=np.arange(len(wanted)),
        producer=producer,
        batch=chosen - begins[producer],
        at=rng.integers(2, shape.batch - 3, len(wanted)),
    )
    return plants.only(np.lexsort((plants.producer, plants.batch)))


def _wanted(shape: Shape, rate: float) -> list[tuple[int, int]]:
    """(kind, group) of every plant; group -1 for plants without a group."""
    wanted: list[tuple[int, int]] = []
    for kind, effect in EFFECTS.items():
        count = max(1, round(shape.messages * rate * effect.share)) if rate else 0
        for group in range(shape.groups) if effect.in_group else (-1,):
            wanted += [(int(kind), group)] * count
    return wanted
