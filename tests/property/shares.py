"""Histories of share groups, made from a seed: records are handed out, and acknowledged, sound or not."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from fakes.histories import History
from kaput.evidence.schemas import SHARE_EVENT_KINDS

_MEMBERS = ("one", "two")
_ALL = {"topic": None, "partition": None}


class Queue:
    """One producer, one topic of two partitions; two share groups, one of which is not drained."""

    def __init__(self, seed: int, number: int) -> None:
        self.seed, self.number = seed, number
        topic = f"jobs{number}"
        self.topics = [{"name": topic, "partitions": 2}]
        self.producers: Sequence[dict[str, Any]] = [{"topic": topic, "acks": "all"}]
        self.ledger = [topic]
        self.groups = {"shop": True, "store": False}
        limit = {"share.delivery.count.limit": 3}
        self.blocks = {"shop": {"type": "share", "group-config": limit}, "store": {"type": "share"}}

    def play(self, history: History, first: int) -> None:
        random, topic = Random(f"{self.seed}/{self.number}"), self.topics[0]["name"]
        where = [{"topic": topic, "partition": partition} for partition in (0, 1)]
        for offset in range(random.randint(1, 5)):
            if random.randrange(5):
                history.acked(first, offset, offset, **where[0])
        history.acked(first, 9, 0, **where[1])
        # A group that the scenario does not have, and of which no limit is known.
        history.shared("acquired", 0, 0, 9, group="unheard", member=_name(self, random), **where[1])
        for _ in range(random.randint(0, 24)):
            who = {
                "group": random.choice(("shop", "shop", "store", "unheard")),
                "member": _name(self, random),
            }
            kind = random.choice(
                (*SHARE_EVENT_KINDS, "acquired", "acquired", "accepted", "accepted", "released")
            )
            count = random.choice((1, 1, 2, 3, 4, 6, None)) if kind == "acquired" else None
            at = (random.choice((0, 1, 1, 2, 3, 6)), random.randint(0, 8))
            history.shared(kind, *at, count, **who, **where[random.randrange(4) == 0])
        for place in where:
            rows = [r["offset"] for r in history.rows["log"] if place.items() <= r.items()]
            end = max(rows, default=-1) + 1
            history.add("end_offsets", **place, end_offset=end, drained_to=end)


class Depot(Queue):
    """A queue whose members are killed, and do not always record what they were delivered. Its group is its
    own: in a folder with others, their kills would otherwise be its group's as well.
    """

    def __init__(self, seed: int, number: int) -> None:
        super().__init__(seed, number)
        self.group = f"depot{number}"
        self.groups = {self.group: True}
        config = {"share.delivery.count.limit": 4, "share.record.lock.duration.ms": 3}
        self.blocks = {self.group: {"type": "share", "group-config": config}}
        self.subscriptions = {self.group: self.ledger}

    def play(self, history: History, first: int) -> None:
        random, where = Random(f"{self.seed}/{self.number}/depot"), {"topic": self.topics[0]["name"]}
        for offset in range(3):
            history.acked(first, offset, offset, **where, partition=0)
        for _ in range(random.randint(0, 12)):
            who = {"group": self.group, "member": _name(self, random)}
            kind = random.choice(("acquired", "acquired", "releasing", "released", "failed", "accepting"))
            count = random.choice((1, 2, 3, 3)) if kind == "acquired" else None
            history.shared(kind, random.randint(0, 2), random.randint(0, 8), count, **who, **where)
            if kind == "acquired" and random.randrange(3) == 0:
                history.rows["deliveries"].pop()
        for _ in range(random.randint(0, 3)):
            kind = random.choice(("killed", "killed", "left"))
            member = random.choice((_name(self, random), f"{self.number}-three"))
            history.event(kind, random.randint(0, 12), group=self.group, member=member, **_ALL)
        history.add("end_offsets", **where, partition=0, end_offset=3, drained_to=3)
        history.add("end_offsets", **where, partition=1, end_offset=0, drained_to=0)


def _name(queue: Queue, random: Random) -> str:
    return f"{queue.number}-{random.choice(_MEMBERS)}"
