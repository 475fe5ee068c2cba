"""Histories in which everything meets, made from a seed: elections clean and unclean, power losses,
transactions, a pipe, groups that read through all that, one that begins at the end, a share group.

Mostly what Kafka would do; in one of five histories something is wrong that nothing explains (a poll goes
back, or passes a record; a record is accepted twice, or released and never handed out again), so that it must
be kept apart from what follows from losses. The partitions are those of replicated.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from fakes.histories import History, at
from property.readers import CAME_MS, Pipe, Queue, Reader
from property.replicated import Partition, Record

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
        Play(self, history, first).all()


class Play:
    """One telling of a mixture: its rows as they are drawn."""

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
        self.ms = max(self.ms, CAME_MS) + 10
        readers: list[Any] = [*self.readers, *self.pipes, *self.queues]
        for reader in readers:
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
        readers: list[Any] = [*self.readers, *self.pipes, *self.queues, *self.queues]
        self.random.choice(readers).turn()

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
        """A message to each of these: whether their transaction commits, whatever its producer gets, and
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
