"""What evidence costs: a producer and a group member beside the same loops that only count.

Every side is a process of its own on one cluster of kaput's own (3 brokers, replication factor 3, acks=all,
as fast as it goes), all in one run and in turns: evidence, counting, counting, evidence in each round. A
counting side is the same loop with the same codec, calls of the client and pauses; it has a callback (or a
loop over the messages) that counts, and records nothing. `of counting` is the median over the pairs of
neighbours, which a busy moment of the machine meets both.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Message

from kaput.cluster.admin import Admin
from kaput.cluster.distribution import resolve
from kaput.cluster.own_cluster import OwnCluster as Lab
from kaput.evidence.folder import RunFolder
from kaput.evidence.sealing import seal
from kaput.java import find_java
from kaput.processes.ownership import Owner
from kaput.scenario.model import Cluster, Group, Topic
from kaput.workload.client_spec import MemberSpec, ProducerSpec, write_spec
from kaput.workload.counters import Counters
from kaput.workload.librdkafka.client_setup import tune_garbage_collection
from kaput.workload.librdkafka.member import GroupMember
from kaput.workload.librdkafka.producer import Sender
from kaput.workload.supervision.launches import member_config

KAFKA = "4.4.0"
PAYLOAD_BYTES = 100
SIDE_TIMEOUT_S = 120
SIDES = ("evidence", "counting")
TURNS = (*SIDES, *reversed(SIDES))
READS = 3  # how many times as many messages a member reads: it is that much faster


class CountingSender(Sender):
    """Notes no attempt and keeps no report."""

    reported = 0

    def listener(self) -> Callable[[Any, Message], None]:
        """A delivery callback that counts."""

        def report(error: Any, _message: Message) -> None:
            if error is None:
                self.reported += 1

        return report

    def send(self, start: int, end: int) -> int:
        """Sender.send without the note of each attempt."""
        topic, encode, produce, time_ns = self.spec.topic, self.encode, self.client.produce, time.time_ns
        seq = start
        messages = zip(range(start, end), self.keys(start), self.partitions(start), strict=False)
        try:
            for seq, key, partition in messages:
                produce(topic, encode(seq, time_ns()), key, partition)
        except BufferError:
            self.serve(0.05)
            return seq
        return end

    def serve(self, timeout_s: float) -> None:
        """Lets the callbacks run."""
        self.client.poll(timeout_s)


class TimedMember(GroupMember):
    """A member that stops after `wanted` messages; its clock runs from the first delivery to the end."""

    def __init__(self, order: MemberSpec, wanted: int) -> None:
        super().__init__(order)
        self.wanted, self.seen = wanted, 0
        self.clock = clock()
        self.spent: dict[str, float] = {}

    def delivered(self, messages: list[Message], polled_ns: int) -> None:
        """Counts what it is handed, and hands it on."""
        if not self.seen:
            self.spent = self.clock.__enter__()
        self.handle(messages, polled_ns)
        if self.seen >= self.wanted:
            self.stopping.set()

    def handle(self, messages: list[Message], polled_ns: int) -> None:
        """The member with full evidence."""
        self.seen += len(messages)
        super().delivered(messages, polled_ns)


class CountingMember(TimedMember):
    """Counts the messages, one by one, and decodes, records and commits none."""

    def handle(self, messages: list[Message], polled_ns: int) -> None:
        """A loop that counts."""
        for message in messages:
            if message.error() is None:
                self.seen += 1


@contextmanager
def clock() -> Iterator[dict[str, float]]:
    """Seconds by the clock and of this process's CPU, and its greatest memory so far in MiB."""
    spent: dict[str, float] = {}
    used, start = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    yield spent
    spent["seconds"] = time.monotonic() - start
    now = resource.getrusage(resource.RUSAGE_SELF)
    spent["cpu_s"] = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    spent["peak_mib"] = _peak_mib()


def _peak_mib() -> float:
    """This process's own; ru_maxrss would still hold that of the parent which it was forked from."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def produce(order: ProducerSpec, side: str) -> dict[str, float]:
    """From the first send to the last outcome, and its flush."""
    sender = CountingSender(order) if side == "counting" else Sender(order)
    sender.connect()
    with clock() as spent:
        sender.send_all()
        sender.finish()
    acked = sender.reported if isinstance(sender, CountingSender) else sender.counts[1]
    if acked != order.messages:
        raise SystemExit(f"{acked} of {order.messages} messages were acknowledged")
    return spent


def consume(order: MemberSpec, side: str, wanted: int) -> dict[str, float]:
    """From the first delivery to the last, its flush, and its commit."""
    member = CountingMember(order, wanted) if side == "counting" else TimedMember(order, wanted)
    member.run()
    member.clock.__exit__(None, None, None)
    return member.spent


@dataclass(frozen=True)
class Row:
    """One side of one role: medians over its turns."""

    role: str
    side: str
    turns: int
    messages_per_s: float
    cpu_us_per_message: float
    peak_mib: float
    bytes_per_message: float | None = None
    ratio: float | None = None


class Bench:
    """Runs sides on one cluster."""

    def __init__(self, lab: Lab, admin: Admin, folder: Path, messages: int) -> None:
        self._lab, self._admin, self._folder, self._messages = lab, admin, folder, messages
        self._run_id = str(uuid.uuid4())
        self._turns = 0

    def warm(self, topic: str) -> None:
        """Makes what the members read, which warms the brokers up."""
        self._admin.create_topics([Topic(name=topic)])
        self._produce("counting", topic, READS * self._messages)

    def produce(self, side: str) -> dict[str, float]:
        """A producer of one side, to a topic of its own."""
        topic = f"topic-{self._turns}"
        self._admin.create_topics([Topic(name=topic)])
        return self._produce(side, topic, self._messages)

    def _produce(self, side: str, topic: str, messages: int) -> dict[str, float]:
        folder = self._next_folder()
        Counters(folder / "counters", 1, create=True)
        order = ProducerSpec(
            folder=str(folder),
            run_id=self._run_id,
            producer=0,
            topic=topic,
            partitions=1,
            messages=messages,
            duration_ms=None,
            rate=0.0,
            payload_bytes=PAYLOAD_BYTES,
            key="none",
            round_robin=False,
            retries_disabled=False,
            config={"bootstrap.servers": self._lab.bootstrap_servers, "acks": "all"},
            counters=str(folder / "counters"),
            producers=1,
            thresholds=[],
        )
        return self._side("produce", side, folder, order, messages)

    def consume(self, side: str, topic: str) -> dict[str, float]:
        """A lone member of one side, in a group of its own, from the start of `topic`."""
        folder = self._next_folder()
        config = member_config(self._lab.bootstrap_servers, Group(id=folder.name, topics=[topic]), "member-1")
        order = MemberSpec(str(folder), self._run_id, folder.name, "member-1", [topic], config)
        return self._side("consume", side, folder, order, READS * self._messages)

    def _next_folder(self) -> Path:
        self._turns += 1
        folder = self._folder / f"turn-{self._turns}"
        folder.mkdir()
        return folder

    def _side(
        self, role: str, side: str, folder: Path, order: ProducerSpec | MemberSpec, messages: int
    ) -> dict[str, float]:
        path = folder / "order.json"
        write_spec(path, order)
        command = [sys.executable, __file__, "--side", role, side, str(path), str(messages)]
        told = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=SIDE_TIMEOUT_S).stdout
        spent: dict[str, float] = json.loads(told.splitlines()[-1])
        if side == "evidence":
            seal(RunFolder(folder))
            sealed = (folder / "evidence").glob("[sd]e[nl]*/*.parquet")  # sends and deliveries
            spent["bytes"] = sum(file.stat().st_size for file in sealed)
        return spent


def measure(rounds: int, messages: int) -> list[Row]:
    """Both sides of both roles, in turns, after a first producer that warms the brokers up."""
    java = find_java()
    jars = resolve(KAFKA, java, lambda _done, _total: None)
    spents: dict[tuple[str, str], list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as name, Owner() as owner:
        folder = Path(name)
        with Lab(owner, Cluster(brokers=3), jars, java, folder / "brokers") as lab, Admin(lab) as admin:
            bench = Bench(lab, admin, folder, messages)
            bench.warm("warm")
            for turn in range(rounds):
                for side in TURNS if turn % 2 == 0 else TURNS[::-1]:
                    spents.setdefault(("produce", side), []).append(bench.produce(side))
                for side in TURNS if turn % 2 == 0 else TURNS[::-1]:
                    spents.setdefault(("consume", side), []).append(bench.consume(side, "warm"))
    return [*_rows("produce", spents, messages), *_rows("consume", spents, READS * messages)]


def _rows(role: str, spents: dict[tuple[str, str], list[dict[str, float]]], messages: int) -> tuple[Row, Row]:
    def median(side: str, name: str) -> float:
        return statistics.median(spent[name] for spent in spents[(role, side)])

    evidence, counting = (
        Row(
            role,
            side,
            len(spents[(role, side)]),
            messages / median(side, "seconds"),
            median(side, "cpu_s") / messages * 1e6,
            median(side, "peak_mib"),
        )
        for side in SIDES
    )
    pairs = zip(*(spents[(role, side)] for side in SIDES), strict=True)
    ratio = statistics.median(counted["seconds"] / recorded["seconds"] for recorded, counted in pairs)
    size = median("evidence", "bytes") / messages
    return Row(**{**asdict(evidence), "ratio": ratio, "bytes_per_message": size}), counting


def table(rows: list[Row]) -> str:
    """The rows in Markdown."""
    lines = [
        "| role | side | turns | messages/s | of counting | CPU us/message | bytes/message | peak MiB |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        ratio = f"{row.ratio:.2f}" if row.ratio is not None else ""
        size = f"{row.bytes_per_message:.1f}" if row.bytes_per_message is not None else ""
        lines.append(
            f"| {row.role} | {row.side} | {row.turns} | {row.messages_per_s:,.0f} | {ratio} "
            f"| {row.cpu_us_per_message:.2f} | {size} | {row.peak_mib:.0f} |"
        )
    return "\n".join(lines)


def _be_a_side(role: str, side: str, order: str, messages: str) -> dict[str, float]:
    tune_garbage_collection()
    told = json.loads(Path(order).read_text())
    if role == "produce":
        return produce(ProducerSpec(**told), side)
    return consume(MemberSpec(**told), side, int(messages))


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round, about a minute")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=500_000, help="of each side in each round")
    parser.add_argument("--side", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.side:
        print(json.dumps(_be_a_side(*asked.side)))
        return
    print(table(measure(1 if asked.quick else asked.rounds, asked.messages)))


if __name__ == "__main__":
    main()
