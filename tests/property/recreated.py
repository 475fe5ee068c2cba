"""Histories of topics that a step deletes, to create them again: offsets count from 0 once more. Made from a
seed; what a reader is handed, and where it commits, is drawn, sound or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from fakes.histories import History, at

_INJECTED, _GONE = 20, 25  # ms


class Recreated:
    """One producer, a topic of two partitions, and a group of one member that reads it."""

    def __init__(self, seed: int, number: int) -> None:
        self.seed, self.number = seed, number
        self.topic = f"anew{number}"
        self.topics = [{"name": self.topic, "partitions": 2}]
        random = Random(f"{seed}/{number}/acks")
        self.producers: Sequence[dict[str, Any]] = [{"topic": self.topic, "acks": random.choice((1, "all"))}]
        self.ledger = [self.topic]
        self.groups, self.subscriptions = {"again": True}, {"again": [self.topic]}

    def play(self, history: History, first: int) -> None:
        random = Random(f"{self.seed}/{self.number}/recreated")
        broker, ends = 1_000 + 10 * self.number, {}
        for partition in (0, 1):
            where = {"topic": self.topic, "partition": partition}
            history.led(broker, 0, -1, [broker, broker + 1], **where)
            if random.random() < 0.3:
                history.led(broker + 1, 1, 10, [broker + 1], **where)
            history.led(broker, 0, _GONE - 1, [broker], **where)  # of the new one
            history.event("assigned", 1, 0, group="again", member=self.topic, **where)
            old, ends[partition] = self._sent(history, first, partition, random)
            self._read(history, old, where, random)
        times = {"injected_ns": at(_INJECTED), "effective_ns": at(_GONE), "healed_ns": at(_GONE)}
        step = random.choice(("recreate",) * 5 + ("delete-topic",))
        history.deleted(self.topic, _GONE, fault=step, bit=random.random() < 0.9, **times)
        for partition, end in ends.items():
            where = {"topic": self.topic, "partition": partition, "start_offset": 0}
            read = end if random.random() < 0.8 else random.randrange(end)
            history.rows["log"] = [row for row in history.rows["log"] if self._is_read(row, partition, read)]
            history.add("end_offsets", **where, end_offset=end, drained_to=read)

    def _is_read(self, row: dict[str, Any], partition: int, read: int) -> bool:
        return (row["topic"], row["partition"]) != (self.topic, partition) or row["offset"] < read

    def _sent(
        self, history: History, first: int, partition: int, random: Random
    ) -> tuple[list[dict[str, Any]], int]:
        """What was in the old topic and what is in the new one, with its end."""
        where = {"topic": self.topic, "partition": partition}
        found: list[dict[str, Any]] = []
        for topic, begin in ((0, 2), (1, _GONE)):
            offset = 0
            for number in range(random.randint(1, 4)):
                seq = 100 * partition + 50 * topic + number
                outcome = random.choice(("acked", "acked", "acked", "unknown"))
                ms = begin + number * random.choice((1, 5)) - random.choice((0, 0, 1)) * topic
                times = {"attempt_ns": at(ms), "done_ns": at(ms + random.choice((0.5, 1, 20)))}
                stored = random.random() < 0.9
                acked = offset if outcome == "acked" else None
                history.sent(first, seq, acked, outcome, **times, **where)
                if topic and stored:
                    history.stored(offset, first, seq, **where)
                found.append({"offset": offset, "producer": first, "seq": seq, "new": topic, "kept": stored})
                offset += 1
        return found, offset

    def _read(
        self, history: History, records: list[dict[str, Any]], where: dict[str, Any], random: Random
    ) -> None:
        """Mostly in order, and the new topic from its beginning; a position in the old one may be late."""
        mine = {"group": "again", "member": self.topic, **where}
        ms = 3.0
        for record in records:
            if record["new"]:
                ms = max(ms, _GONE + random.choice((-1, 1, 5)))
            elif random.random() < 0.15:  # frozen meanwhile, it shows late what it had fetched
                ms = max(ms, _GONE + random.choice((1, 4)))
            for _ in range(random.choice((0, 1, 1, 1, 1, 2)) if record["kept"] else 0):
                ms += random.choice((0, 1, 2))
                history.handed(record["offset"], record["producer"], record["seq"], ms, **mine)
            if random.random() < 0.4:
                ms += random.choice((0, 1))
                committed = record["offset"] + random.choice((0, 1, 1, 2))
                history.event("committed", ms, committed, **mine)
        if random.random() < 0.2:
            history.event("committed", _GONE + random.choice((0, 1, 3)), random.randint(0, 4), **mine)
