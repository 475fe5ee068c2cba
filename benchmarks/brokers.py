"""Kaput's producer beside Kafka's own tools, and kaput's start of a broker beside a bare one.

Producing: three brokers of kaput's own (replication factor 3, acks=all), messages of 100 bytes as fast as it
goes, in turns: kaput's producer with full evidence, Kafka's VerifiableProducer (which writes a line of JSON
for each message; its values are numbers, and shorter) and its ProducerPerformance (which counts). Messages a
second are by each one's own clock; CPU is that of the whole process, its start included.

Starting: one combined node until it answers a client. Kaput's time is for all that it does, properties and
storage included; the bare broker is formatted by Kafka's tool beforehand and is told only what it must be.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from recording import KAFKA, PAYLOAD_BYTES, SIDE_TIMEOUT_S, Bench

from kaput.cluster.admin import Admin
from kaput.cluster.admin.requests import metadata
from kaput.cluster.distribution import Distribution, resolve
from kaput.cluster.mode import MAIN
from kaput.cluster.network.loopback import HOST, Ports
from kaput.cluster.own_cluster import OwnCluster
from kaput.cluster.storage import new_id, run_storage_tool
from kaput.cluster.wire import Endpoint, Unanswered, ask
from kaput.java import Java, find_java
from kaput.processes.ownership import Owner
from kaput.scenario.model import Cluster, Topic

RESULTS = Path(__file__).with_name("results")
READY_TIMEOUT_S = 60.0
POLL_S = 0.05  # as kaput itself looks
OURS, VERIFIABLE, PERFORMANCE = "kaput, with evidence", "VerifiableProducer", "ProducerPerformance"


@dataclass(frozen=True)
class Row:
    """One producer: medians over its rounds."""

    producer: str
    rounds: int
    messages_per_s: float
    cpu_us_per_message: float


@dataclass(frozen=True)
class Start:
    """One way to start a broker: seconds until it answers, the median over its rounds."""

    way: str
    rounds: int
    ready_s: float


class Tools:
    """Kafka's own producers on one cluster."""

    def __init__(
        self, owner: Owner, java: Java, jars: Distribution, lab: OwnCluster, admin: Admin, folder: Path
    ):
        self._owner, self._java, self._jars, self._lab = owner, java, jars, lab
        self._admin, self._folder, self._turns = admin, folder, 0

    def verifiable(self, messages: int) -> float:
        """Messages a second, as the tool says. Raises SystemExit where some were not acknowledged."""
        name = self._topic()
        where = ["--bootstrap-server", self._lab.bootstrap_servers, "--topic", name]
        said = self._run("VerifiableProducer", [*where, "--max-messages", str(messages), "--acks", "-1"])
        last = json.loads(said.splitlines()[-1])
        if last["acked"] != messages:
            raise SystemExit(f"VerifiableProducer: {last['acked']} of {messages} messages were acknowledged")
        return float(last["avg_throughput"])

    def performance(self, messages: int) -> float:
        """Messages a second, as the tool says."""
        size = ["--num-records", str(messages), "--record-size", str(PAYLOAD_BYTES), "--throughput", "-1"]
        where = ["--producer-props", f"bootstrap.servers={self._lab.bootstrap_servers}", "acks=all"]
        said = self._run("ProducerPerformance", ["--topic", self._topic(), *size, *where])
        last = re.search(rf"^{messages} records sent, ([\d.]+) records/sec", said, re.MULTILINE)
        if last is None:
            raise SystemExit(f"ProducerPerformance did not say that {messages} were sent:\n{said[-500:]}")
        return float(last[1])

    def _topic(self) -> str:
        self._turns += 1
        name = f"tool-{self._turns}"
        self._admin.create_topics([Topic(name=name)])
        return name

    def _run(self, tool: str, args: list[str]) -> str:
        """What a tool writes to stdout, started with the heap that Kafka's scripts give it."""
        said = self._folder / f"{tool}-{self._turns}"
        main = f"org.apache.kafka.tools.{tool}"
        command = [str(self._java.path), "-Xmx512M", "-cp", self._jars.classpath, main, *args]
        with said.open("wb") as out:
            process = self._owner.spawn(command, name=tool, stdout=out, stderr=out)
            if process.wait(SIDE_TIMEOUT_S) != 0:
                raise SystemExit(f"{tool}: status {process.returncode}\n{said.read_text()[-500:]}")
        return said.read_text()


def produce(rounds: int, messages: int) -> list[Row]:
    """Every producer in turns, after one of kaput's that warms the brokers up."""
    java = find_java()
    jars = resolve(KAFKA, java, lambda _done, _total: None)
    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as name, Owner() as owner:
        folder = Path(name)
        with (
            OwnCluster(owner, Cluster(brokers=3), jars, java, folder / "brokers") as lab,
            Admin(lab) as admin,
        ):
            bench = Bench(lab, admin, folder, messages)
            tools = Tools(owner, java, jars, lab, admin, folder)
            ways: dict[str, Callable[[], float]] = {
                OURS: lambda: messages / bench.produce("evidence")["seconds"],
                VERIFIABLE: lambda: tools.verifiable(messages),
                PERFORMANCE: lambda: tools.performance(messages),
            }
            bench.produce("counting")
            for turn in range(rounds):
                for way in ways if turn % 2 == 0 else reversed(ways):
                    before = _children_cpu_s()
                    rate = ways[way]()
                    found.setdefault(way, []).append((rate, _children_cpu_s() - before))
    return [
        Row(
            way,
            len(rows),
            statistics.median(rate for rate, _ in rows),
            statistics.median(cpu_s for _, cpu_s in rows) / messages * 1e6,
        )
        for way, rows in found.items()
    ]


def _children_cpu_s() -> float:
    """CPU seconds of the processes that have ended; the brokers run on."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def start(rounds: int) -> list[Start]:
    """Both ways to start a broker, in turns; each is started once before, so that its files are in memory."""
    java = find_java()
    jars = resolve(KAFKA, java, lambda _done, _total: None)
    ways = {"kaput": _kaput_ready, "bare": _bare_ready}
    times: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(rounds + 1):
        for way, ready in ways.items():
            with tempfile.TemporaryDirectory() as name, Owner() as owner:
                seconds = ready(owner, java, jars, Path(name))
            if turn:
                times[way].append(seconds)
    return [Start(way, rounds, statistics.median(taken)) for way, taken in times.items()]


def _kaput_ready(owner: Owner, java: Java, jars: Distribution, folder: Path) -> float:
    begun = time.monotonic()
    with OwnCluster(owner, Cluster(brokers=1), jars, java, folder):
        return time.monotonic() - begun


def _bare_ready(owner: Owner, java: Java, jars: Distribution, folder: Path) -> float:
    ports = Ports()
    client, quorum = ports.reserve(2)
    properties = folder / "server.properties"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"controller.quorum.voters=1@{HOST}:{quorum}\n"
        f"listeners=PLAINTEXT://{HOST}:{client},CONTROLLER://{HOST}:{quorum}\n"
        f"log.dirs={folder / 'data'}\n"
    )
    run_storage_tool(properties, new_id(), jars, java)
    begun = time.monotonic()
    command = [str(java.path), "-cp", jars.classpath, MAIN, str(properties)]
    broker = owner.spawn(command, name="bare broker", cwd=folder)
    try:
        while not _answers(Endpoint(HOST, client)):
            if not broker.running or time.monotonic() - begun > READY_TIMEOUT_S:
                raise SystemExit(f"the bare broker did not answer within {READY_TIMEOUT_S:.0f} s")
            time.sleep(POLL_S)
        return time.monotonic() - begun
    finally:
        broker.kill()
        ports.close()


def _answers(endpoint: Endpoint) -> bool:
    try:
        return bool(ask(endpoint, metadata(), 1.0).brokers)
    except Unanswered:
        return False


def tables(rows: list[Row], starts: list[Start]) -> str:
    """Both in Markdown; ratios are kaput's figure by that in the line."""
    ours, kaput = rows[0], starts[0]
    lines = [
        "| producer | rounds | messages/s | CPU us/message | kaput: messages/s | CPU |",
        "| --- |" + " ---: |" * 5,
    ]
    for row in rows:
        rate, cpu = ours.messages_per_s / row.messages_per_s, ours.cpu_us_per_message / row.cpu_us_per_message
        lines.append(
            f"| {row.producer} | {row.rounds} | {row.messages_per_s:,.0f} | {row.cpu_us_per_message:.1f} "
            f"| {rate:.2f} x | {cpu:.2f} x |"
        )
    lines += ["", "| one broker, until it answers | rounds | s | kaput |", "| --- |" + " ---: |" * 3]
    for way in starts:
        ratio = kaput.ready_s / way.ready_s
        lines.append(f"| {way.way} | {way.rounds} | {way.ready_s:.2f} | {ratio:.2f} x |")
    return "\n".join(lines)


def main() -> None:
    """Measures, prints both tables and writes them to benchmarks/results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="one round of each, fewer messages, half a minute"
    )
    parser.add_argument("--messages", type=int, help="of each producer in each round")
    given = parser.parse_args()
    rounds = 1 if given.quick else 3
    messages = given.messages or (200_000 if given.quick else 1_000_000)
    rows, starts = produce(rounds, messages), start(rounds)
    RESULTS.mkdir(exist_ok=True)
    text = f"Kafka {KAFKA}, Java {find_java().text}, {messages:,} messages\n\n{tables(rows, starts)}\n"
    (RESULTS / "brokers.md").write_text(text)
    document = {"producers": [asdict(row) for row in rows], "starts": [asdict(way) for way in starts]}
    (RESULTS / "brokers.json").write_text(json.dumps(document, indent=2) + "\n")
    print(text)


if __name__ == "__main__":
    main()
