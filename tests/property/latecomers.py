"""Histories of groups that do not read what was stored before they began, made from a seed.

Groups are those of all parts, and each comes at the same moment in every part; so do those that have
assignments. Else what is unclear in one part would be known from another.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from fakes.histories import History, at

BLOCKS: dict[str, dict[str, Any]] = {
    "end": {"config": {"auto.offset.reset": "latest"}},
    "minute": {"config": {"auto.offset.reset": "by_duration:PT1M"}},
    "while": {"config": {"auto.offset.reset": "by_duration:pt0.004s"}},
    "tail": {"type": "share", "group-config": {"share.auto.offset.reset": "latest"}},
    "quiet": {"config": {"auto.offset.reset": "largest"}},
    "start": {},
}
CAME_MS = {"minute": 60_003}
UNASSIGNED = ("tail", "quiet")


class Latecomer:
    """One producer, a topic of three partitions, one of them empty; groups that start in different ways."""

    def __init__(self, seed: int, number: int) -> None:
        self.seed, self.number = seed, number
        self.topic = f"news{number}"
        self.topics = [{"name": self.topic, "partitions": 3}]
        self.producers: Sequence[dict[str, Any]] = [{"topic": self.topic, "acks": "all"}]
        self.ledger = [self.topic]
        self.groups, self.blocks = dict.fromkeys(BLOCKS, True), BLOCKS

    def play(self, history: History, first: int) -> None:
        random = Random(f"{self.seed}/{self.number}/late")
        stored = [self._sent(history, first, seq, random) for seq in range(random.randint(1, 7))]
        kept = [r for r in stored if r["kept"]]
        starts = [min((r["offset"] for r in kept if r["partition"] == n), default=0) for n in (0, 1, 2)]
        for group in self.groups:
            came_ms = CAME_MS.get(group, 3)
            history.event("joined", came_ms, group=group, member="m", topic=None, partition=None)
            if group not in UNASSIGNED:
                where = {"group": group, "member": "m", "topic": self.topic, "partition": 2}
                history.event("assigned", came_ms, **where)
            for _ in range(random.randint(0, 5)):
                ms = came_ms + random.choice((0, 0, 0.4)) + random.randint(0, 6)
                self._event(history, group, ms, random)
            for record in stored if random.random() < 0.6 else ():
                there = record["kept"] or record["offset"] < starts[record["partition"]]
                if there and random.random() < 0.4:
                    self._handed(history, group, record, came_ms + random.randint(0, 8), random)
        for partition in (0, 1, 2):
            offsets = [r["offset"] for r in kept if r["partition"] == partition]
            end = max(offsets, default=-1) + 1
            where = {"topic": self.topic, "partition": partition, "start_offset": starts[partition]}
            history.add("end_offsets", **where, end_offset=end, drained_to=end)

    def _sent(self, history: History, first: int, seq: int, random: Random) -> dict[str, Any]:
        """A message; `kept`: whether the log has it."""
        where = {"topic": self.topic, "partition": random.randint(0, 1)}
        outcome, ms = random.choice(("acked", "acked", "acked", "unknown")), seq + random.choice((0, 0, 0.6))
        times = {"attempt_ns": at(ms), "done_ns": at(ms + random.choice((0.1, 1, 3)))}
        offset = seq if outcome == "acked" else None
        history.sent(first, seq, offset, outcome, **where, **times)
        kept = random.random() > 0.2
        if kept:
            history.stored(seq, first, seq, **where)
        return {"offset": seq, "producer": first, "seq": seq, "kept": kept, **where}

    def _event(self, history: History, group: str, ms: float, random: Random) -> None:
        kinds = ("committed",) if group in UNASSIGNED else ("assigned", "assigned", "committed", "revoked")
        kind = random.choice(kinds)
        told = kind == "committed" or (kind == "assigned" and random.random() < 0.3)
        where = {"group": group, "member": "m", "topic": self.topic, "partition": random.randint(0, 1)}
        history.event(kind, ms, random.randint(0, 7) if told else None, **where)

    def _handed(
        self, history: History, group: str, record: dict[str, Any], ms: float, random: Random
    ) -> None:
        where = {"group": group, "member": "m", "topic": self.topic, "partition": record["partition"]}
        history.handed(record["offset"], record["producer"], record["seq"], ms, **where)
