"""Histories of producers with stores, made from a seed: messages that stores took and replays sent once,
twice or not at all, and stores that lost them or could not be listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from fakes.histories import History, at

# The same in every part, so that what is unclear in one is not known from another.
STORES = {"far": True, "local": True, "down": False}
_OUTCOMES = ("acked",) * 4 + ("kept",) * 5 + ("unknown", "failed", "refused")
_TABLES = ("kept", "replayed", "left")
_Copy = tuple[int, int, int]  # partition, producer, seq


class Keeper:
    """Two idempotent producers of one topic with two partitions."""

    def __init__(self, seed: int, number: int) -> None:
        self.seed, self.number = seed, number
        self.topic = f"kept{number}"
        self.topics = [{"name": self.topic, "partitions": 2}]
        self.producers: Sequence[dict[str, Any]] = [
            {"topic": self.topic, "acks": "all", "idempotence": True}
        ] * 2
        self.ledger = [self.topic]
        self.stores = STORES

    def play(self, history: History, first: int) -> None:
        random = Random(f"{self.seed}/{self.number}/kept")
        stored: list[_Copy] = []
        late: list[_Copy] = []  # what replays send
        for seq in range(random.randint(1, 9)):
            for producer in (first, first + 1):
                copies = self._send(history, producer, seq, random)
                (late if random.random() < 0.6 else stored).extend(copies)
        if random.random() < 0.3:
            random.shuffle(late)
        ends = [0, 0]
        for partition, producer, seq in stored + late:
            where, visible = self._at(partition), random.random() < 0.9
            history.stored(ends[partition], producer, seq, **where, visible=visible)
            ends[partition] += 1
        for partition, end in enumerate(ends):
            drained = end if random.random() < 0.9 else end - 1
            history.add("end_offsets", **self._at(partition), end_offset=end, drained_to=drained)

    def _send(self, history: History, producer: int, seq: int, random: Random) -> list[_Copy]:
        """Its rows, but for those of the log: its copies."""
        outcome, partition = random.choice(_OUTCOMES), random.randint(0, 1)
        known = partition if outcome == "acked" or random.random() < 0.5 else None
        history.sent(producer, seq, None, outcome, topic=self.topic, partition=known)
        if outcome == "kept" or random.random() < 0.15:
            for store in random.sample(sorted(STORES), random.choice((0, 1, 1, 1, 2))):
                self._in_store(history, producer, seq, store, random)
        often = random.choice((0, 1, 1, 1, 1, 2) if outcome in ("acked", "kept") else (0, 0, 1))
        return [(random.choice((partition, partition, 1 - partition)), producer, seq) for _ in range(often)]

    def _in_store(self, history: History, producer: int, seq: int, store: str, random: Random) -> None:
        tables = [table for table in _TABLES if random.random() < 0.6] or ["kept"]
        if "kept" in tables:
            history.kept(producer, seq, store, in_doubt=random.random() < 0.3, at_ns=at(random.randint(1, 9)))
        for replay in range(random.choice((1, 1, 2)) if "replayed" in tables else 0):
            history.replayed(producer, seq, random.randint(12, 20), store, **self._at(0), replay=replay + 1)
        if "left" in tables and store != "down":
            history.add("left_in_store", producer=producer, seq=seq, store=store)

    def _at(self, partition: int) -> dict[str, Any]:
        return {"topic": self.topic, "partition": partition}
