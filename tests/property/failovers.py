"""Failovers played on a small model of a replicated partition, so that the cause of each loss is known.

The model has a leader and followers that lag: what they lack is gone when another broker, or the leader
itself without its newest records, begins an epoch. Each epoch begins with a message of the producer's that
stays: so it is known in which epoch each later acknowledgement was given.
"""

from __future__ import annotations

from random import Random
from typing import Any

from fakes.histories import History, at

_BROKERS = (1, 2, 3)


class Failovers:
    """One topic of one partition, one producer; `causes`: of its lost messages, by seq, once played."""

    def __init__(self, seed: int, number: int) -> None:
        self.seed, self.number = seed, number
        self.topic = f"moved{number}"
        acks = Random(f"{seed}/{number}").choice((0, 1, 1, "all"))
        self.acks = acks
        self.topics = [{"name": self.topic, "partitions": 1}]
        self.producers = [{"topic": self.topic, "acks": acks}]
        self.ledger = [self.topic]
        self.causes: dict[int, str] = {}

    def play(self, history: History, first: int) -> None:
        self.causes = _Model(self, history, first).run()


class _Model:
    def __init__(self, of: Failovers, history: History, producer: int) -> None:
        self.of, self.history, self.producer = of, history, producer
        self.random = Random(f"{of.seed}/{of.number}")
        self.readers = Random(f"{of.seed}/{of.number}/readers")
        self.ms, self.seq, self.epoch = 10.0, 0, 0
        self.leader, self.isr = 1, list(_BROKERS)
        self.log: list[tuple[int, int]] = []  # (seq, epoch) of what the leader has
        self.synced = 0  # how many of these everybody has
        self.begun = 0  # where the epoch begins
        self.kinds: dict[int, str] = {}  # of the epochs but the first
        self.acks: dict[int, tuple[int, int]] = {}  # by seq: the epoch and the offset

    def run(self) -> dict[int, str]:
        """Plays everything and adds the rows; the causes of the lost messages by seq."""
        self._lead(self.leader)
        for _ in range(self.random.randint(1, 4)):
            for _ in range(self.random.randint(0, 4)):
                self._send()
            if self.random.random() < 0.7:
                self._change()
        self._finish()
        stored = {seq for seq, _ in self.log}
        return {seq: self._cause(seq) for seq in self.acks if seq not in stored}

    def _cause(self, seq: int) -> str:
        """By the first epoch that begins at or below the offset, or any unclean one (docs/GLOSSARY.md)."""
        if self.of.acks == 0:
            return "acks-0"
        own, offset = self.acks[seq]
        starts = {epoch: at for at, (_, epoch) in reversed(list(enumerate(self.log)))}
        kinds = [kind for epoch, kind in self.kinds.items() if epoch > own and starts[epoch] <= offset]
        return "unclean-election" if "unclean-election" in kinds else kinds[0]

    def _row(self) -> dict[str, Any]:
        return {"topic": self.of.topic, "partition": 0}

    def _lead(self, leader: int) -> None:
        self.leader = leader
        self.history.led(leader, self.epoch, self.ms, list(self.isr), **self._row())
        self.ms += 10
        self._send(sure=True)

    def _send(self, sure: bool = False) -> None:
        """A message. `sure`: acknowledged, and everybody has it and all before it."""
        seq, self.seq = self.seq, self.seq + 1
        outcome = "acked" if sure else self.random.choice(("acked", "acked", "acked", "unknown", "failed"))
        appended = sure or outcome == "acked" or (outcome == "unknown" and self.random.random() < 0.5)
        if self.of.acks == 0 and outcome == "acked" and not sure and self.random.random() < 0.3:
            appended = False
        offset = len(self.log) if outcome == "acked" and self.of.acks != 0 else None
        times = {"attempt_ns": at(self.ms), "done_ns": at(self.ms + 1)}
        self.history.sent(self.producer, seq, offset, outcome, **times, **self._row())
        self.ms += 10
        if outcome == "acked":
            self.acks[seq] = self.epoch, len(self.log)
        if appended:
            self.log.append((seq, self.epoch))
            self._read()
        if sure or self.of.acks == "all" or self.random.random() < 0.3:
            self.synced = len(self.log)

    def _read(self) -> None:
        """A reader now and then is handed what the leader has, also what is gone later."""
        for group in ("audit", "billing", "ledger"):
            if self.readers.random() < 0.2:
                offset, (seq, _) = len(self.log) - 1, self.log[-1]
                reader = {"group": group, "member": f"{self.of.topic}-reader"}
                ms = self.ms - self.readers.choice((1, 9, 10))
                self.history.handed(offset, self.producer, seq, ms, **reader, **self._row())

    def _change(self) -> None:
        """A new epoch: of another broker, in or outside the ISR, or of the same one with less than it had."""
        kind = self.random.choice(("deposed-leader", "leader-restarted", "unclean-election"))
        others = [broker for broker in _BROKERS if broker != self.leader]
        leader = self.leader if kind == "leader-restarted" else self.random.choice(others)
        if kind == "unclean-election":
            self._in_sync([self.leader])
            # Who was outside the ISR may lack even what was there to stay.
            self.synced = self.random.randint(self.begun + 1, self.synced)
        elif len(self.isr) < len(_BROKERS):
            self.synced = len(self.log)
            self._in_sync(list(_BROKERS))
        del self.log[self.synced :]
        self.isr = self.isr if kind != "unclean-election" else [leader]
        self.epoch, self.begun = self.epoch + 1, len(self.log)
        self.kinds[self.epoch] = kind
        self._lead(leader)

    def _in_sync(self, brokers: list[int]) -> None:
        self.isr = brokers
        self.history.led(self.leader, self.epoch, self.ms, list(brokers), kind="isr", **self._row())
        self.ms += 10

    def _finish(self) -> None:
        for offset, (seq, epoch) in enumerate(self.log):
            self.history.stored(offset, self.producer, seq, leader_epoch=epoch, **self._row())
        end = len(self.log)
        self.history.add("end_offsets", **self._row(), end_offset=end, drained_to=end)
