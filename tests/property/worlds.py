"""Histories of anything that can go wrong, made from a seed, many of them in one folder.

A world is a small history with topics, producers and members of its own: judging a folder takes seconds
whatever its size, so that a world costs little. Its rows do not depend on the others in the folder.
Not here: failovers with known causes (failovers.py), and what must be found (agreement.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Protocol

from fakes.histories import History

GROUPS = {"audit": False, "billing": True, "ledger": True}  # and whether their drains finished
_OUTCOMES = ("acked", "acked", "acked", "failed", "unknown")
_KINDS = ("assigned", "assigned", "revoked", "lost", "left", "killed", "committed", "committed", "seek")


class Part(Protocol):
    """A history that can share a folder with others. `producers`: their specs, numbered from `first` on."""

    number: int
    topics: Sequence[dict[str, Any]]
    producers: Sequence[dict[str, Any]]
    ledger: Sequence[str]

    def play(self, history: History, first: int) -> None:
        """Adds this part's rows."""


def together(parts: Sequence[Part]) -> History:
    """One run folder's history of all parts."""
    blocks = {group: block for part in parts for group, block in getattr(part, "blocks", {}).items()}
    drained = {group: done for part in parts for group, done in getattr(part, "groups", {}).items()}
    history = History(
        producers=[{**spec, "messages": 1} for part in parts for spec in part.producers],
        topics=[topic for part in parts for topic in part.topics],
        groups={**GROUPS, **drained},
        subscriptions=_subscriptions(parts),
        blocks=blocks,
        stores={name: read for part in parts for name, read in getattr(part, "stores", {}).items()},
    )
    first = 0
    for part in parts:
        part.play(history, first)
        first += len(part.producers)
    # The same in every folder, so that a part is judged the same beside whichever others: a group has several
    # members, and so does it in a folder of its own.
    for group in sorted(
        {row["group"] for row in (*history.rows["deliveries"], *history.rows["group_events"])}
    ):
        history.event("joined", -5, group=group, member="another", topic=None, partition=None)
    return history.fault(1, 2, 5, fault="power-loss").fault(2, 4)


def _subscriptions(parts: Sequence[Part]) -> dict[str, list[str]]:
    """Of the groups that do not read every topic."""
    found: dict[str, list[str]] = {"ledger": [topic for part in parts for topic in part.ledger]}
    for part in parts:
        for group, topics in getattr(part, "subscriptions", {}).items():
            found.setdefault(group, []).extend(topics)
    return found


class World:
    """Two producers, two topics, two members in each group: what they do is drawn, sound or not."""

    def __init__(self, seed: int, number: int) -> None:
        self.seed, self.number = seed, number
        self.names = (f"orders{number}", f"bills{number}")
        self.topics = [{"name": name, "partitions": 2} for name in self.names]
        acks = Random(f"{seed}/{number}/acks").choice(("all", 1, 0))
        self.producers = [{"topic": self.names[0], "acks": acks}] * 2
        self.ledger = [self.names[1]]
        self.members = (f"{number}-one", f"{number}-two")

    def play(self, history: History, first: int) -> None:
        _Play(self, history, (first, first + 1)).all()


class _Play:
    """One telling of a world: its rows as they are drawn."""

    def __init__(self, world: World, history: History, producers: tuple[int, int]) -> None:
        self.world, self.history, self.producers = world, history, producers
        self.random = Random(f"{world.seed}/{world.number}")
        self.readers = Random(f"{world.seed}/{world.number}/readers")
        self.taken: set[tuple[Any, ...]] = set()
        self.stored: list[dict[str, Any]] = []
        # Where all is read by one member from one partition, its steps and commits are many.
        self.narrow = self._once_in(3)

    def all(self) -> None:
        for producer in self.producers:
            for seq in range(self._upto(4)):
                self._send(producer, seq)
        for _ in range(self._upto(2)):
            strange = [(None, None, False), (None, None, True), (self.producers[0], 90, True)]
            self._store(*self.random.choice(strange), self._place(), None)
        for _ in range(self._upto(14 if self.narrow else 8)):
            self._hand()
        for _ in range(self.readers.choice((0, 0, 1, 3))):
            self._hand_sent()
        for _ in range(self._upto(5)):
            self._event()
        for _ in range(self.readers.choice((0, 0, 0, 1, 2))):
            self._pass_over()
        for _ in range(self.random.choice((0, 0, 1, 4))):
            self._lead()
        for topic in self.world.names:
            for partition in (0, 1):
                self._end(topic, partition)

    def _upto(self, most: int) -> int:
        return self.random.randint(0, most)

    def _ms(self) -> float:
        """A time; some are in the same ms and differ all the same."""
        return self._upto(8) + self.random.choice((0, 0, 0, 0.3))

    def _once_in(self, times: int) -> bool:
        return self.random.randrange(times) == 0

    def _place(self) -> dict[str, Any]:
        if self.narrow and not self._once_in(6):
            return {"topic": self.world.names[1], "partition": 0}
        return {"topic": self.random.choice(self.world.names), "partition": self._upto(1)}

    def _reader(self) -> dict[str, Any]:
        if self.narrow and not self._once_in(6):
            return {"group": "ledger", "member": self.world.members[0]}
        return {"group": self.random.choice(sorted(GROUPS)), "member": self.random.choice(self.world.members)}

    def _send(self, producer: int, seq: int) -> None:
        where, outcome = self._place(), self.random.choice(_OUTCOMES)
        offset = self._upto(5) if outcome == "acked" and not self._once_in(7) else None
        known = where | {"partition": None} if self._once_in(5) else where
        self.history.sent(producer, seq, offset, outcome, **known)
        for _ in range(self.random.choice((1, 1, 1, 0, 2))):
            self._store(producer, seq, True, self._place() if self._once_in(6) else where, offset)

    def _store(
        self, producer: int | None, seq: int | None, intact: bool, where: dict[str, Any], offset: int | None
    ) -> None:
        if offset is None or self._once_in(5):
            offset = self._upto(6)
        mark = (*where.values(), offset, producer, seq)
        if mark in self.taken:
            return
        self.taken.add(mark)
        epoch = self.random.choice((None, 0, 1, 2))
        self.history.stored(offset, producer, seq, intact=intact, leader_epoch=epoch, **where)
        self.stored.append(self.history.rows["log"][-1])

    def _hand(self) -> None:
        reader, ms = self._reader(), self._ms()
        if self.stored and not self._once_in(5):
            record = self.random.choice(self.stored)
            row = {key: record[key] for key in ("topic", "partition", "intact")}
            self.history.handed(record["offset"], record["producer"], record["seq"], ms, **reader, **row)
            return
        some = [(None, None), *((producer, seq) for producer in self.producers for seq in (0, 1))]
        producer, seq = self.random.choice(some)
        intact = producer is not None or self._once_in(2)
        self.history.handed(self._upto(6), producer, seq, ms, intact=intact, **reader, **self._place())

    def _hand_sent(self) -> None:
        """What a producer has sent, where it was sent to or elsewhere, whether or not it is stored now."""
        sends = [s for s in self.history.rows["sends"] if s["producer"] in self.producers]
        if not sends:
            return
        send = self.readers.choice(sends)
        known = send["partition"] is not None and self.readers.random() < 0.8
        where = (
            {"topic": send["topic"], "partition": send["partition"]}
            if known
            else {"topic": self.readers.choice(self.world.names), "partition": self.readers.randint(0, 1)}
        )
        offset = self.readers.randint(0, 6) if send["offset"] is None else send["offset"]
        reader = {
            "group": self.readers.choice(sorted(GROUPS)),
            "member": self.readers.choice(self.world.members),
        }
        ms = self.readers.randint(0, 8)
        self.history.handed(offset, send["producer"], send["seq"], ms, **reader, **where)

    def _event(self) -> None:
        reader, kind, ms = self._reader(), self.random.choice(_KINDS), self._ms()
        if kind in ("left", "killed"):
            self.history.event(kind, ms, **reader, topic=None, partition=None)
        elif kind == "committed":
            self.history.event(kind, ms, self._upto(7), **reader, **self._place())
        elif self._once_in(6):
            topic = self.random.choice((None, *self.world.names))
            self.history.event(kind, ms, **reader, topic=topic, partition=None)
        else:
            offset = self._upto(3) if kind == "assigned" and not self._once_in(5) else None
            self.history.event(kind, ms, offset, **reader, **self._place())

    def _pass_over(self) -> None:
        """A group is moved forward on purpose, and perhaps back; it may also commit where it is. It commits
        nothing at or below where it was: whether that was on its way depends on members in other histories.
        """
        pick = self.readers
        reader = {"group": pick.choice(sorted(GROUPS)), "member": pick.choice(self.world.members)}
        where = {"topic": pick.choice(self.world.names), "partition": pick.randint(0, 1)}
        ms, offset = pick.randint(0, 6), pick.randint(0, 3)
        until = offset + pick.randint(1, 4)
        events = self.history.rows["group_events"]
        here = [e for e in events if (e["group"], e["topic"]) == (reader["group"], where["topic"])]
        if any(e["kind"] == "skipped" or (e["offset"] is not None and e["offset"] <= offset) for e in here):
            return
        self.history.event("skipped", ms, offset, until=until, **reader, **where)
        for kind in pick.choice(((), ("committed",), ("committed", "seek"), ("seek", "committed"))):
            ms += pick.choice((0, 1, 1))
            position = pick.randint(0 if kind == "seek" else offset + 1, until + 1)
            self.history.event(kind, ms, position, **reader, **where)

    def _lead(self) -> None:
        isr = self.random.sample((1, 2, 3), k=self.random.randint(1, 3))
        kind, leader = self.random.choice(("leader", "leader", "isr")), self.random.choice((-1, 1, 2, 3))
        epoch = self.random.choice((None, 0, 1, 2))
        self.history.led(leader, epoch, self._upto(8), isr, kind=kind, **self._place())

    def _end(self, topic: str, partition: int) -> None:
        how = self.random.choice(("read", "read", "read", "read", "short", "unknown"))
        if how == "unknown":
            return
        offsets = [r["offset"] for r in self.stored if (r["topic"], r["partition"]) == (topic, partition)]
        end = max(offsets, default=-1) + 1
        drained = end - 1 if how == "short" else end
        self.history.add("end_offsets", topic=topic, partition=partition, end_offset=end, drained_to=drained)
