"""`python -m fuzz.fuzz_inputs --count 10000 --seed 1`: people's files with bytes and lines changed at random.

Each file is read as its verb reads it. Allowed are a result and an error that names the file; a traceback is
a failure, and so is a wrong silence: a line that is neither counted nor reported, a misspelled key of a
scenario that is accepted, settings that are not read the same the second time. A failure is printed with its
case's number: `--first NUMBER --count 1`. `make fuzz` runs it too.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from fakes.histories import History
from kaput.cli.settings import read_settings
from kaput.cluster.access import Access
from kaput.errors import UsageError
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from kaput.monitor.alerts import rules
from kaput.runner.folder_setup import resolved
from kaput.scenario.builtin import builtin_names, builtin_text
from kaput.scenario.cluster_files.reading import read_cluster
from kaput.scenario.loader import load_file
from kaput.sequence.checking import Checker
from kaput.sequence.parsing import TextFormat
from kaput.sequence.reading import blocks

_PROPERTIES = """# ours
security.protocol=SASL_SSL
sasl.mechanism : SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
  username="alice" \\
  password='p;=#\\u0041';
request.timeout.ms 20000
"""
_SERVER = """broker.id=1
min.insync.replicas=2
default.replication.factor = 3
log.dirs=/a,/b
broker.rack=r1
"""
_SETTINGS = """runs = "build/kaput"
kafka = "4.3.1"
network = "namespaces"
cluster = "mine"
page = false
"""
_COMPOSE = """x-broker: &broker
  image: apache/kafka:4.1.0
  environment: {KAFKA_MIN_INSYNC_REPLICAS: 2, KAFKA_BROKER_RACK: a}
services: {one: *broker, two: *broker, three: *broker}
"""
_COMPOSE_OF_OTHERS = """services:
  zookeeper: {image: confluentinc/cp-zookeeper:7.6.0}
  kafka:
    image: confluentinc/cp-kafka:${TAG:-7.6.0}
    deploy: {replicas: 3}
    environment:
      - KAFKA_ZOOKEEPER_CONNECT=zookeeper:2181
      - KAFKA_LOG_RETENTION_MS=${RETENTION-1000}
      - KAFKA_SASL_JAAS_CONFIG=secret
  init:
    image: confluentinc/cp-kafka:7.6.0
    command: >
      bash -c "kafka-topics --create --topic orders --partitions 6 --config retention.ms=1000
      --bootstrap-server kafka:9092"
"""
_STRIMZI = """apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {name: ours}
spec: {kafka: {version: 4.1.0, replicas: 3, config: {min.insync.replicas: 2}}}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaTopic
metadata: {name: orders}
spec: {partitions: 6, replicas: 3, config: {retention.ms: 1000}}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {name: both, labels: {strimzi.io/cluster: ours}}
spec: {replicas: 3, roles: [controller, broker], storage: {type: jbod, volumes: [{id: 0}, {id: 1}]}}
"""
_HEADERS = {
    "jtl": "timeStamp,elapsed,label,success\n",
    "csv": "producer,seq,topic,partition,attempt,outcome,offset\n",
}
_LOGS = {
    "txt": "{n} 17953498301{n:02} web\n",
    "console": "CreateTime:17953498301{n:02}\tPartition:0\tkey\t{n}\n",
    "kcat": '{{"topic":"t","ts":17953498301{n:02},"payload":"{n}"}}\n',
    "jtl": '17953498301{n:02},5,"send {n}",true\n',
    "k6": '{{"type":"Point","metric":"http_reqs","data":{{"time":"2026-11-27T10:00:00Z",'
    '"tags":{{"number":"{n}"}}}}}}\n',
    "xml": '<httpSample t="5" ts="17953498301{n:02}" s="true" lb="send {n}" rc="200"/>\n',
    "verifiable": '{{"timestamp":17953498301{n:02},"name":"producer_send_success","key":null,"value":"{n}",'
    '"offset":{n}}}\n',
    "dump": "| offset: {n} CreateTime: 17953498301{n:02} keySize: -1 valueSize: 1 sequence: -1 "
    "headerKeys: [] payload: {n}\n",
}
_SENDS = {
    "csv": "web,{n},orders,0,17000000{n:02},acked,{n}\n",
    "jsonl": '{{"producer":"web","seq":{n},"topic":"orders","partition":0,'
    '"attempt":"2026-11-27T10:00:{n:02}Z","outcome":"acked","offset":{n}}}\n',
}
_JUNK = [
    "\0", "\ufeff", "\r", "\\", '"', "'", "{", "}", "[", ",", ";", ":", "=", "#", "-1", "9" * 25, "1e999",
    "1e999999999", "NaN", "null", "\\u12", "\t", " ", "\n", "&a", "*a", "!!python/none x", "\N{SNOWMAN}",
    "\N{SUPERSCRIPT TWO}",    "2026-13-45T99:99:99Z", "<<: *broker\n", "x" * 5000,
]  # fmt: skip


def mutated(data: bytes, random: Random) -> bytes:
    """The same with one to four changes of bytes or lines."""
    for _ in range(random.randint(1, 4)):
        at, how = random.randrange(len(data) + 1), random.randrange(7)
        lines = data.splitlines(keepends=True) or [b""]
        line = random.randrange(len(lines))
        if how == 0:
            data = data[:at] + random.choice(_JUNK).encode() + data[at:]
        elif how == 1:
            data = data[:at] + data[at + random.randint(1, 8) :]
        elif how == 2:
            data = data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
        elif how == 3:
            data = b"".join([*lines[:line], *lines[line + 1 :]])
        elif how == 4:
            data = b"".join([*lines[:line], lines[line], *lines[line:]])
        elif how == 5:
            data = data[:at]
        else:
            other = random.randrange(len(lines))
            lines[line], lines[other] = lines[other], lines[line]
            data = b"".join(lines)
    return data


class WrongSilenceError(Exception):
    """Something was neither read nor reported."""


def _properties(folder: Path, random: Random) -> None:
    path = folder / "client.properties"
    path.write_bytes(mutated(_PROPERTIES.encode(), random))
    access = Access.read(path)
    access.kafka_python()
    access.librdkafka()


def _cluster_file(folder: Path, random: Random) -> None:
    texts = {
        "server.properties": _SERVER,
        "compose.yaml": _COMPOSE,
        "docker-compose.yml": _COMPOSE_OF_OTHERS,
        "kafka.yaml": _STRIMZI,
    }
    name = random.choice(sorted(texts))
    path = folder / name
    path.write_bytes(mutated(texts[name].encode(), random))
    read_cluster(path)


def _settings(folder: Path, random: Random) -> None:
    own = random.random() < 0.5
    path = folder / ("kaput.toml" if own else "pyproject.toml")
    text = _SETTINGS if own else f"[project]\nname = 'ours'\n[tool.kaput]\n{_SETTINGS}"
    path.write_bytes(mutated(text.encode(), random))
    with contextlib.chdir(folder):
        read_settings()


def _alerts(folder: Path, random: Random) -> None:
    path = folder / "alerts.yaml"
    path.write_bytes(mutated(rules.builtin_text().encode(), random))
    rules.load(path)


def _scenario(folder: Path, random: Random) -> None:
    path = folder / "mine.yaml"
    path.write_bytes(mutated(builtin_text(random.choice(builtin_names())).encode(), random))
    path.write_text(resolved(load_file(path)))
    load_file(path)  # what is written out can be read again


def _misspelled_key(folder: Path, random: Random) -> None:
    """A key of a scenario with a letter too many."""
    path = folder / "mine.yaml"
    lines = builtin_text(random.choice(builtin_names())).splitlines()
    keys = ("title:", "topics:", "workload:", "  producers:", "expect:", "faults:", "cluster:", "  groups:")
    places = [at for at, line in enumerate(lines) if line.startswith(keys)]
    at = random.choice(places)
    key, colon, rest = lines[at].partition(":")
    lines[at] = f"{key}x{colon}{rest}"
    path.write_text("\n".join(lines) + "\n")
    load_file(path)
    raise WrongSilenceError(f"{key}x is accepted")


def _log(folder: Path, random: Random) -> None:
    path = folder / "received.log"
    kind = random.choice(sorted(_LOGS))
    text = _HEADERS.get(kind, "") + "".join(_LOGS[kind].format(n=n) for n in range(20))
    path.write_bytes(mutated(text.encode(), random))
    parser, checker = TextFormat(), Checker()
    numbered = skipped = 0
    for block in blocks([str(path)]):
        parsed = parser.parse(block)
        checker.take(parsed, block)
        numbered += len(parsed.number)
        skipped += parsed.lines - len(parsed.number) - len(parsed.unreadable)
    if numbered + skipped + checker.unreadable != checker.lines:
        counts = f"{numbered} numbered, {checker.unreadable} unreadable"
        raise WrongSilenceError(f"{checker.lines} lines: {counts}")


def _evidence(folder: Path, random: Random) -> None:
    run = History().acked(0, 0, 0).read_to_end().write(folder)
    ending = random.choice(sorted(_SENDS))
    header = _HEADERS.get(ending, "")
    (run.table("sends") / "part-0.parquet").unlink()
    path = run.table("sends") / f"part-0.{ending}"
    data = header.encode() + mutated("".join(_SENDS[ending].format(n=n) for n in range(20)).encode(), random)
    path.write_bytes(data)
    evidence = check(RunFolder(folder))
    rows = len(evidence.rows("sends"))
    lines = [line for line in data.replace(b"\r", b"\n").split(b"\n")[bool(header) :] if line.strip()]
    if ending == "csv" and b'"' in data:
        return  # a row may be several lines
    unreadable = sum(int(text.split()[0].replace(",", "")) for text in evidence.manifest.troubles)
    if rows + unreadable < len(lines):
        raise WrongSilenceError(f"{len(lines)} lines: {rows} rows, {unreadable} unreadable")


KINDS: dict[str, Callable[[Path, Random], None]] = {
    "properties": _properties,
    "cluster file": _cluster_file,
    "settings": _settings,
    "alerts": _alerts,
    "scenario": _scenario,
    "misspelled key": _misspelled_key,
    "log": _log,
    "evidence": _evidence,
}


@dataclass
class Outcome:
    """How many cases of each kind ended how; the failures in words."""

    ended: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def run(cases: Sequence[int], seed: int) -> Outcome:
    """Reads the files of these cases, one kind after the other."""
    total = Outcome()
    for case in cases:
        kind = list(KINDS)[case % len(KINDS)]
        with tempfile.TemporaryDirectory(prefix="kaput-fuzz-") as directory:
            try:
                KINDS[kind](Path(directory), Random(f"{seed}/{case}"))
                total.ended[kind, "read"] += 1
            except UsageError as error:
                total.ended[kind, "refused"] += 1
                if kind != "log" and directory not in str(error):
                    total.failures.append(f"{case} ({kind}): does not name the file: {error}")
            except Exception:  # noqa: BLE001 - whatever it is, it is what is looked for
                total.ended[kind, "failed"] += 1
                total.failures.append(f"{case} ({kind}): {traceback.format_exc()}")
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    total = run(range(given.first, given.first + given.count), given.seed)
    for failure in total.failures:
        sys.stdout.write(f"{failure}\n")
    for (kind, how), count in sorted(total.ended.items()):
        sys.stdout.write(f"{kind}: {how} {count}\n")
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
