"""Histories with transactions, made from a seed: committed or aborted, shown or hidden, read and piped."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from fakes.histories import History

_OUTCOMES = ("committed", "committed", "aborted", "unknown")
_SHOWN = {"committed": (True, True, True, True, None, False), "aborted": (False, False, False, False, True)}


class Exchange:
    """Two producers, of which the second is a pipe's; one topic of two partitions, and another that is not
    always read to its end; groups of each isolation,
    and one of unknown isolation.
    """

    def __init__(self, seed: int, number: int) -> None:
        self.seed, self.number = seed, number
        self.names = (f"paid{number}", f"made{number}")
        self.topics = [{"name": name, "partitions": 2} for name in self.names]
        spec = {"topic": self.names[0], "acks": "all", "idempotence": True}
        self.producers: Sequence[dict[str, Any]] = [spec, spec]
        self.ledger = [self.names[1]]
        self.groups = {"careful": True, "dirty": True, "pipe": True, "slow": False}
        dirty = {"config": {"isolation.level": "read_uncommitted"}}
        pipe = {"produces": {"topic": self.names[1]}}
        self.blocks = {"dirty": dirty, "slow": dirty, "careful": {}, "pipe": pipe}

    def play(self, history: History, first: int) -> None:
        _Play(self, history, first).all()


class _Play:
    def __init__(self, of: Exchange, history: History, first: int) -> None:
        self.of, self.history, self.first = of, history, first
        self.random = Random(f"{of.seed}/{of.number}/exchange")
        self.ends: dict[tuple[str, int], int] = {}
        self.stored: list[dict[str, Any]] = []

    def all(self) -> None:
        """Sends, transactions, records, readers, outputs and samples."""
        for producer in (self.first, self.first + 1):
            self._transactions(producer, self.random.randint(0, 8))
        stranger = {"group": "unheard", "member": f"{self.of.number}-one", "topic": None, "partition": None}
        self.history.event("joined", 1, **stranger)
        for _ in range(self.random.randint(0, 10)):
            self._read()
        for _ in range(self.random.randint(0, 4)):
            self._commit()
        self._pipe()
        for topic in self.of.names:
            for partition in (0, 1):
                end = self.ends.get((topic, partition), 0)
                short = self.random.randrange(5) == 0
                self.history.add(
                    "end_offsets", topic=topic, partition=partition, end_offset=end + short, drained_to=end
                )
        self._stand()

    def _transactions(self, producer: int, messages: int) -> None:
        seq = number = 0
        while seq < messages:
            last = min(messages - 1, seq + self.random.randint(0, 3))
            outcome = self.random.choice((*_OUTCOMES, None))
            if outcome is not None:
                self.history.transaction(number, seq, last, outcome, producer)
            for one in range(seq, last + 1):
                self._send(producer, one, outcome)
            seq, number = last + 1, number + 1

    def _send(self, producer: int, seq: int, outcome: str | None) -> None:
        random, topic = self.random, self.of.names[producer != self.first]
        where = {"topic": topic, "partition": random.randrange(2)}
        copies = random.choice((0, 1, 1, 1, 1, 1, 1, 2))
        offsets = [self._store(producer, seq, outcome, where) for _ in range(copies)]
        told = random.choice(("acked", "acked", "acked", "acked", "unknown", "failed"))
        offset = random.choice([*offsets, None]) if told == "acked" else None
        self.history.sent(producer, seq, offset, told, **where)

    def _store(self, producer: int, seq: int, outcome: str | None, where: dict[str, Any]) -> int:
        at = (where["topic"], where["partition"])
        offset = self.ends.get(at, 0) + self.random.choice((0, 0, 0, 1))
        self.ends[at] = offset + 1 + self.random.choice((0, 0, 1))
        shown = self.random.choice(_SHOWN.get(outcome or "", (True, None, False)))
        self.history.stored(offset, producer, seq, visible=shown, **where)
        self.stored.append(self.history.rows["log"][-1])
        return offset

    def _read(self) -> None:
        if self.stored:
            record, group = self.random.choice(self.stored), self._group()
            who = {"group": group, "member": f"{self.of.number}-{self.random.choice(('one', 'two'))}"}
            where = {name: record[name] for name in ("topic", "partition")}
            who_sent = (record["producer"], record["seq"])
            self.history.handed(record["offset"], *who_sent, self.random.randint(10, 20), **who, **where)

    def _commit(self) -> None:
        where = {"topic": self.random.choice(self.of.names), "partition": self.random.randrange(2)}
        who = {"group": self._group(), "member": f"{self.of.number}-one"}
        kind, ms = self.random.choice(("committed", "committed", "seek")), self.random.randint(8, 25)
        self.history.event(kind, ms, self.random.randint(0, 8), **who, **where)

    def _group(self) -> str:
        return self.random.choice(("careful", "careful", "dirty", "dirty", "slow", "unheard", "unheard"))

    def _pipe(self) -> None:
        inputs = [r for r in self.stored if r["producer"] == self.first]
        for seq in range(self.random.randint(0, 9)):
            of = self.random.choice(inputs[:3]) if inputs else {"partition": 0, "offset": 0}
            offset, where = of["offset"], {"topic": self.of.names[0], "partition": of["partition"]}
            who = {
                "group": self.random.choice(("pipe", "pipe", "pipe", "unheard")),
                "member": f"{self.of.number}-one",
            }
            self.history.output(self.first + 1, seq, offset, **who, **where)

    def _stand(self) -> None:
        for step in range(self.random.choice((0, 0, 3, 6))):
            stable, watermark = self.random.choice((1, 1, 1, 2, 3)), self.random.choice((3, 3, 3, 1))
            self.history.stable(stable, watermark, 40_000 * step, topic=self.of.names[0], partition="0")
