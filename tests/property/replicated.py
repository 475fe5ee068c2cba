"""A small model of one replicated partition: replicas that lag, elections clean and unclean, power losses.

What the leader has is the log; an election cuts it down to what the new leader has. Everything that it does
is added to a history as the cluster would record it. Not here: who writes and who reads (mixtures.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from fakes.histories import History


@dataclass(frozen=True)
class Record:
    """A message in the log, or the marker that ends a transaction there (`producer` None)."""

    offset: int
    epoch: int
    producer: int | None = None
    seq: int | None = None
    transaction: object = None
    commits: bool = False


class Partition:
    """Three brokers of its own, so that what happens to them happens to nothing else in the folder."""

    def __init__(self, history: History, topic: str, number: int, first_broker: int, random: Random) -> None:
        self.history, self.random = history, random
        self.where = {"topic": topic, "partition": number}
        self.brokers = [first_broker, first_broker + 1, first_broker + 2]
        self.leader, self.epoch, self.isr = first_broker, -1, list(self.brokers)
        self.log: list[Record] = []
        self.has = dict.fromkeys(self.brokers, 0)  # how many records each has
        self.cuts: list[tuple[float, int]] = []  # when the log was cut down, and to which length

    def begin(self, ms: float) -> None:
        self._lead(self.leader, ms)

    @property
    def end(self) -> int:
        """The offset after the last."""
        return len(self.log)

    @property
    def watermark(self) -> int:
        """Up to where consumers are given records."""
        return min(self.has[broker] for broker in self.isr)

    def append(self, by_all: bool, **record: Any) -> Record:
        """One more record. `by_all`: everybody in the ISR has it at once, else sooner or later."""
        self.log.append(Record(self.end, self.epoch, **record))
        self.has[self.leader] = self.end
        for broker in self.isr:
            if by_all or self.random.random() < 0.6:
                self.has[broker] = self.end
        return self.log[-1]

    def is_open(self, record: Record) -> bool:
        """Whether its transaction has no end here yet."""
        return record.transaction is not None and self._marker(record) is None

    def is_visible(self, record: Record) -> bool:
        """Whether a reader with read_committed is given it."""
        if record.producer is None:
            return False
        marker = self._marker(record)
        return record.transaction is None or (marker is not None and marker.commits)

    def _marker(self, record: Record) -> Record | None:
        ends = [r for r in self.log if r.producer is None and r.transaction is record.transaction]
        return ends[0] if ends else None

    def shrink(self, ms: float) -> None:
        """The leader is alone in the ISR: the others lag from here on."""
        self._in_sync([self.leader], ms)

    def grow(self, ms: float) -> None:
        """All have everything, and are in the ISR."""
        self.has = dict.fromkeys(self.brokers, self.end)
        self._in_sync(list(self.brokers), ms)

    def elect(self, ms: float) -> None:
        """A new leader: from the ISR, or if there is no other in it, one that lacks what it missed."""
        others = [broker for broker in self.brokers if broker != self.leader]
        clean = [broker for broker in self.isr if broker != self.leader]
        leader = self.random.choice(clean or others)
        self.isr = [broker for broker in clean or [leader] if self.has[broker] >= self.has[leader]]
        self._cut(self.has[leader], ms)
        self._lead(leader, ms)

    def lose_power(self, ms: float, everybody: bool) -> None:
        """The leader's machine, or all of them, lose what was not synced, or their disks; the leader comes
        back and leads.
        """
        hit = [self.leader, *(broker for broker in self.isr if broker != self.leader and everybody)]
        fault = f"{self.where['topic']}-{self.where['partition']}-{ms}"
        for broker in hit:
            name = self.random.choice(("power-loss", "power-loss", "disk-loss"))
            self.history.fault(broker, ms - 1.5, ms - 0.2, fault=name, id=f"{fault}-{broker}")
            kept_count = 0 if name == "disk-loss" else self.has[broker] - self.random.randint(0, 3)
            self.has[broker] = max(0, kept_count)
        kept = [broker for broker in self.isr if broker not in hit]
        leader = self.random.choice(kept or [max(hit, key=lambda broker: self.has[broker])])
        self.isr = kept or [leader]
        self._cut(self.has[leader], ms)
        self._lead(leader, ms)

    def _cut(self, length: int, ms: float) -> None:
        if length < self.end:
            self.cuts.append((ms, length))
        del self.log[length:]
        self.has = {broker: min(n, length) for broker, n in self.has.items()}

    def _lead(self, leader: int, ms: float) -> None:
        self.epoch += 1
        self.leader = leader
        self.history.led(leader, self.epoch, ms, list(self.isr), **self.where)

    def _in_sync(self, brokers: list[int], ms: float) -> None:
        self.isr = brokers
        self.history.led(self.leader, self.epoch, ms, list(brokers), kind="isr", **self.where)

    def finish(self) -> None:
        """The log as the drain reads it, now and then not to its end."""
        for r in self.log:
            if r.producer is not None:
                visible = None if r.transaction is None else self.is_visible(r)
                self.history.stored(
                    r.offset, r.producer, r.seq, leader_epoch=r.epoch, visible=visible, **self.where
                )
        short = self.random.randrange(12) == 0
        end = self.end + short
        self.history.add("end_offsets", **self.where, end_offset=end, drained_to=self.end)
