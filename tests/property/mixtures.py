"""Histories in which everything meets, made from a seed: elections clean and unclean, power losses,
transactions, a pipe, groups that read through all that, one that begins at the end, a share group.

Mostly what Kafka would do; in one of five histories something is wrong that nothing explains (a poll goes
back, or passes a record; a record is accepted twice, or released and never handed out again), so that it must
be told from what follows from losses. The partitions are those of replicated.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from fakes.histories import History, at
from property.replicated import Partition, Record

_CAME_MS = 300.0  # when the group comes that begins at the end: in every history, since it is one group
_UNCOMMITTED = {"config": {"isolation.level": "read_uncommitted"}}
_MISTAKES = ("back", "passed", "accepted twice", "kept")


class Mixture:
    """One topic, and one for what the pipe makes of it; a plain producer, a transactional one and the pipe's.

    `wrong`: what is wrong with it, if anything.
    """

    def __init__(self, seed: int, number: int) -> None:
        self.seed, self.number = seed, number
        random = Random(f"{seed}/{number}/mixture")
        self.names = (f"mixed{number}", f"piped{number}")
        self.topics = [
            {
                "name": name,
                "partitions": partitions,
                "replication-factor": 3,
                "config": {"unclean.leader.election.enable": random.random() < 0.7},
            }
            for name, partitions in zip(self.names, (random.choice((1, 1, 2)), 1), strict=True)
        ]
        acks = random.choice((0, 1, 1, "all", "all"))
        plain = {"topic": self.names[0], "acks": acks, "idempotence": acks == "all" and random.random() < 0.5}
        self.producers: Sequence[dict[str, Any]] = [
            plain,
            {"topic": self.names[0], "acks": "all", "idempotence": True},
            {"topic": self.names[1], "acks": "all", "idempotence": True},
        ]
        self.ledger = list(self.names)
        self.groups = dict.fromkeys(("reset", "raw", "end", "piping", "shared"), True)
        self.subscriptions = {"piping": [self.names[0]]}
        self.blocks = {
            "reset": {},
            "raw": _UNCOMMITTED,
            "end": {"config": {"auto.offset.reset": "latest"}},
            "piping": {"produces": {"topic": self.names[1]}},
            "shared": {"type": "share", "group-config": {"share.auto.offset.reset": "earliest"}},
        }
        self.wrong = random.choice(_MISTAKES) if random.random() < 0.2 else None

    def play(self, history: History, first: int) -> None:
        """Adds its rows."""
        _Play(self, history, first).all()


class _Play:
    def __init__(self, of: Mixture, history: History, first: int) -> None:
        self.of, self.history, self.first = of, history, first
        self.random = Random(f"{of.seed}/{of.number}/mixed")
        self.ms = 10.0
        self.seqs = [0, 0, 0]
        self.transactions = 0
        self.partitions: list[Partition] = []
        for topic in of.topics:
            for number in range(topic["partitions"]):
                # No two histories of a folder share a broker.
                broker = 1_000 + 100 * of.number + 10 * len(self.partitions)
                self.partitions.append(Partition(history, topic["name"], number, broker, self.random))
        self.inputs = self.partitions[:-1]
        self.readers = [Reader(self, group, p) for group in ("reset", "raw", "end") for p in self.partitions]
        self.pipes = [Pipe(self, "piping", p) for p in self.inputs]
        self.queues = [Queue(self, p) for p in self.partitions]
        self.wrong = of.wrong

    def all(self) -> None:
        """One thing after the other; then everybody reads to the end."""
        for partition in self.partitions:
            partition.begin(self.ms)
        calm = self.random.random() < 0.3
        things: list[Callable[[], None]] = [self._send] * 5 + [self._transaction] * 2 + [self._read] * 7
        things += [] if calm else [self._cluster] * 3
        for _ in range(self.random.randint(20, 70)):
            self.ms += self.random.choice((1, 5, 10))
            self.random.choice(things)()
        self.ms = max(self.ms, _CAME_MS) + 10
        for reader in [*self.readers, *self.pipes, *self.queues]:
            for _ in range(60):
                self.ms += 1
                if not reader.turn(steady=True):
                    break
        for partition in self.partitions:
            partition.finish()
        if self.random.random() < 0.08:
            mine = [p.where["topic"] for p in self.partitions]
            events = self.history.rows["cluster_events"]
            events[:] = [row for row in events if row["topic"] not in mine]

    def _read(self) -> None:
        self.random.choice([*self.readers, *self.pipes, *self.queues, *self.queues]).turn()

    def _cluster(self) -> None:
        partition, ms = self.random.choice(self.partitions), self.ms
        if len(partition.isr) > 1 and self.random.random() < 0.5:
            partition.shrink(ms)
            return
        allowed = next(t["config"] for t in self.of.topics if t["name"] == partition.where["topic"])
        clean = len(partition.isr) > 1
        if self.random.random() < 0.25:
            self.ms += 3
            partition.lose_power(self.ms, self.random.random() < 0.5)
        elif clean or allowed["unclean.leader.election.enable"] or self.random.random() < 0.2:
            partition.elect(ms)
        else:
            partition.grow(ms)

    def send(
        self, number: int, partition: Partition, transaction: object = None
    ) -> tuple[int, Record | None]:
        """A message of the producer of that number: its seq, and its record if it was appended."""
        random, spec = self.random, self.of.producers[number]
        acks = spec["acks"]
        seq, self.seqs[number] = self.seqs[number], self.seqs[number] + 1
        outcome = random.choice(("acked",) * 8 + ("unknown", "failed"))
        if transaction is not None and outcome == "failed":
            outcome = "acked"
        chance = {"acked": 0.8 if acks == 0 else 1, "unknown": 0.6, "failed": 0}[outcome]
        record = None
        if random.random() < chance:
            everywhere = acks == "all" and outcome == "acked"
            who = {"producer": self.first + number, "seq": seq, "transaction": transaction}
            record = partition.append(everywhere, **who)
            if not spec["idempotence"] and acks != 0 and random.random() < 0.05:
                record = partition.append(everywhere, **who)
        offset = record.offset if record and outcome == "acked" and acks != 0 else None
        times = {"attempt_ns": at(self.ms), "done_ns": at(self.ms + 0.5)}
        self.history.sent(self.first + number, seq, offset, outcome, **times, **partition.where)
        return seq, record

    def _send(self) -> None:
        self.send(0, self.random.choice(self.inputs))

    def _transaction(self) -> None:
        self.in_transaction(1, [self.random.choice(self.inputs) for _ in range(self.random.randint(1, 3))])

    def in_transaction(self, number: int, partitions: list[Partition]) -> tuple[bool, list[int]]:
        """A message to each of these: whether their transaction commits, whatever its producer is told, and
        their seqs.
        """
        told = self.random.choice(("committed",) * 5 + ("aborted", "aborted", "unknown"))
        commits = told == "committed" or (told == "unknown" and self.random.random() < 0.5)
        self.transactions += 1
        key, began = object(), self.ms
        seqs = []
        for partition in partitions:
            seqs.append(self.send(number, partition, key)[0])
            self.ms += 1
        for partition in dict.fromkeys(partitions):
            partition.append(True, transaction=key, commits=commits)
        self.history.transaction(self.transactions, seqs[0], seqs[-1], told, self.first + number)
        self.history.rows["transactions"][-1].update(begin_ns=at(began), end_ns=at(self.ms))
        return commits, seqs

    def goes_wrong(self, how: str) -> bool:
        """Whether this is where the history's one mistake is made."""
        if self.wrong != how or self.random.random() < 0.5:
            return False
        self.wrong = None
        return True


class Reader:
    """A group in one partition: one member at a time, and where it stands."""

    def __init__(self, play: _Play, group: str, partition: Partition) -> None:
        self.play, self.group, self.partition = play, group, partition
        self.random = play.random
        self.incarnation, self.position, self.committed = 0, 0, -1
        self.since: float | None = None  # when it polled last
        self.raw, self.late = group == "raw", group == "end"

    def turn(self, steady: bool = False) -> bool:
        """It does something, once it has come: whether there was anything to read."""
        if self.late and self.play.ms < _CAME_MS:
            return False
        if self.since is None:
            self._begin()
        if not steady and self.random.random() < 0.2:
            self._change()
        if not steady and self.random.random() < 0.35:
            self.committed = self.position
            self._event("committed", self.position)
            self.play.ms += 1
        self._look()
        records = self._next()
        if self.play.goes_wrong("passed") and len(records) > 1:
            del records[0]
        if self.play.goes_wrong("back") and self.position > 1:
            self.position -= self.random.randint(1, self.position)
            records = self._next()
        self._deliver(records[: self.random.randint(1, 5)])
        return bool(records)

    @property
    def _who(self) -> dict[str, Any]:
        member = f"{self.play.of.number}-{self.partition.where['partition']}-{self.incarnation}"
        return {"group": self.group, "member": member}

    def _event(self, kind: str, offset: int | None = None) -> None:
        self.play.history.event(kind, self.play.ms, offset, **self._who, **self.partition.where)

    def _begin(self) -> None:
        if self.late:
            # Every history's members of this group come at one moment.
            who = {"group": self.group, "member": "watch", "topic": None, "partition": None}
            self.play.history.event("joined", _CAME_MS, **who)
        self.position = self._reset()
        self.since = self.play.ms
        self._event("assigned", self.position if self.random.random() < 0.7 else None)
        self.play.ms += 1

    def _reset(self) -> int:
        return self.partition.watermark if self.late else 0

    def _change(self) -> None:
        """Another member takes over, from what was committed."""
        self._event("revoked")
        self.play.ms += 1
        self.incarnation += 1
        self.position = self.committed if self.committed >= 0 else self._reset()
        if self.position > self.partition.end:
            self.position = self._reset()
        self._event("assigned", self.position if self.random.random() < 0.7 else None)
        self.play.ms += 1

    def _look(self) -> None:
        """Where the log was cut since it polled last it goes to the cut, begins anew or goes on."""
        cut = [length for ms, length in self.partition.cuts if self.since is not None and ms >= self.since]
        way = self.random.random()
        if cut and way < 0.5:
            self.position = min(self.position, *cut)
        elif self.position > self.partition.end or (cut and way < 0.75 and self.position > min(cut)):
            # It was beyond the end, if only until more was written.
            self.position = self._reset() if self.random.random() < 0.5 else self.partition.watermark
        self.since = self.play.ms

    def _next(self) -> list[Record]:
        found = []
        for record in self.partition.log[self.position : self.partition.watermark]:
            if (self.raw and record.producer is not None) or self.partition.is_visible(record):
                found.append(record)
        return found

    def _deliver(self, records: list[Record]) -> None:
        for r in records:
            where = {**self._who, **self.partition.where}
            self.play.history.handed(r.offset, r.producer, r.seq, self.play.ms, **where)
        self.position = records[-1].offset + 1 if records else max(self.position, self.partition.watermark)


class Pipe(Reader):
    """The same, and what it makes of what it reads, in transactions; after one that aborts it goes back."""

    def _deliver(self, records: list[Record]) -> None:
        before = self.position
        super()._deliver(records)
        if not records:
            return
        out = self.play.partitions[-1]
        self.play.ms += 1
        commits, seqs = self.play.in_transaction(2, [out] * len(records))
        for seq, record in zip(seqs, records, strict=True):
            made = {**self._who, **self.partition.where}
            self.play.history.output(self.play.first + 2, seq, record.offset, **made)
        if commits:
            self.committed = self.position
            self._event("committed", self.position)
        else:
            self.position = before
            self._event("seek", before)
        self.since = self.play.ms
        self.play.ms += 1


class Queue:
    """A share group in one partition. What was accepted, by offset, outlives the records there or not."""

    def __init__(self, play: _Play, partition: Partition) -> None:
        self.play, self.partition = play, partition
        self.accepted: set[int] = set()
        self.counts: dict[int, int] = {}
        self.since = 0.0

    def turn(self, steady: bool = False) -> bool:
        """One record is handed out, and accepted or not: whether there was one."""
        play, random = self.play, self.play.random
        cut = [length for ms, length in self.partition.cuts if ms >= self.since]
        if cut and random.random() < 0.7:
            self.accepted = {offset for offset in self.accepted if offset < min(cut)}
            self.counts = {offset: n for offset, n in self.counts.items() if offset < min(cut)}
        elif cut:
            self.accepted |= {offset for offset in self.counts if offset >= min(cut)}
        self.since = play.ms
        log = self.partition.log[: self.partition.watermark]
        free = [r for r in log if r.producer is not None and r.offset not in self.accepted]
        again = [r for r in log if r.offset in self.accepted and r.producer is not None]
        if again and play.goes_wrong("accepted twice"):
            self._share(random.choice(again), "accepted")
            return True
        if not free:
            return False
        how = "accepted" if steady or random.random() < 0.7 else random.choice(("released", "rejected"))
        self._share(free[0] if random.random() < 0.7 else random.choice(free), how)
        return True

    def _share(self, record: Record, how: str) -> None:
        offset = record.offset
        count = self.counts[offset] = self.counts.get(offset, 0) + 1
        who = {"group": "shared", "member": f"{self.play.of.number}-s"}
        row = {**who, **self.partition.where, "offset": offset}
        ms = self.play.ms
        self.play.history.handed(offset, record.producer, record.seq, ms, **who, **self.partition.where)
        asking = {"accepted": "accepting", "released": "releasing", "rejected": "rejecting"}[how]
        for kind, later in (("acquired", 0.0), (asking, 0.3), (how, 0.6)):
            n = count if kind == "acquired" else None
            self.play.history.add("share_events", kind=kind, at_ns=at(ms + later), delivery_count=n, **row)
        self.play.ms += 2
        if how != "released" or self.play.goes_wrong("kept"):
            self.accepted.add(offset)
