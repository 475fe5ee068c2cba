"""Watch of a live cluster: whatever is killed, the ledger's totals are those of the analysis."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest
from confluent_kafka import Consumer, Producer

from driving import KAPUT, Standing, mentions
from fakes.called import called
from fakes.in_process import InProcess
from fakes.run_folders import looked_at
from kaput.analysis.pipeline import analyse
from kaput.clients.audit import CountingConsumer, CountingProducer
from kaput.cluster.admin import Admin
from kaput.cluster.existing_cluster import ExistingCluster
from kaput.dashboard.safe_files import Runs
from kaput.dashboard.topic_watches import TopicWatchPages
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from spark.standalone import standalone
from waiting import PATIENCE_S, wait_for

RULES = """
rules:
  - {name: down, signal: kaput_broker_up, at-most: 0, severity: ticket, summary: "{broker}", why: A test}
  - {name: lost, signal: kaput_messages_lost_total, above: 0, severity: page, summary: "{value}", why: A test}
"""
COUNTED = {"missing": "lost", "duplicated": "duplicate", "reordered": "reordered", "phantoms": "phantom"}


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    """Two brokers that are not watched yet; the first is the controller."""
    standing = Standing(tmp_path_factory.mktemp("s"))
    standing("up", "--brokers", "2", "--detach")
    yield standing
    standing("down", "--all")


def servers(standing: Standing) -> str:
    (card,) = standing.state.glob("kaput/clusters/*/lab/cluster.json")
    return str(json.loads(card.read_text())["bootstrap_servers"])


class Watching:
    """`kaput watch` in the background."""

    def __init__(self, standing: Standing, runs: Path, *options: str) -> None:
        self.runs = runs
        runs.mkdir(exist_ok=True)
        self._errors = runs / ".stderr"
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [
                    *(*KAPUT, "watch", "--json", "--rate", "30", "--runs", str(runs)),
                    *("--bootstrap-servers", servers(standing), *options),
                ],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        """What it has printed on stderr so far."""
        return self._errors.read_text()

    @property
    def folder(self) -> RunFolder:
        (path,) = self.runs.glob("*-watch-*")
        return RunFolder(path)

    def status(self) -> dict[str, Any]:
        """What its ledger knew last."""
        found = [*self.runs.glob("*-watch-*/watch/status.json")]
        known: dict[str, Any] = json.loads(found[0].read_text()) if found else {"acked": 0, "version": 0}
        return known

    def acked(self, more: int) -> None:
        """Waits until so many more are acknowledged, and the ledger knows."""
        before = self.status()["acked"]
        wait_for(lambda: self.status()["acked"] >= before + more, f"{more} more acknowledgements")

    def metrics_url(self) -> str:
        """Where its metrics are, as it says at its start."""
        found = re.compile(r"^metrics are at .*?(\S+)\n", re.MULTILINE)
        wait_for(lambda: found.search(self.said) is not None or self.process.poll() is not None, "metrics")
        match = found.search(self.said)
        assert match is not None, self.said
        return match[1]

    def processes(self, name: str) -> list[psutil.Process]:
        """What it has started, with that in its command line."""
        found = []
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(psutil.Error):
                found += [process] * (name in " ".join(process.cmdline()))
        return found

    def kill(self, name: str) -> None:
        """One of them, once it is there."""
        wait_for(lambda: bool(self.processes(name)), f"a process of {name}")
        self.processes(name)[-1].kill()

    def end(self) -> tuple[int, dict[str, Any]]:
        """Ctrl-C: its exit status, and the last line."""
        self.process.send_signal(signal.SIGINT)
        return self.ended()

    def ended(self) -> tuple[int, dict[str, Any]]:
        """The same when it ends by itself."""
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        assert "Traceback" not in self.said, self.said
        last = json.loads(out.splitlines()[-1])
        assert last["final"], self.said
        return self.process.returncode, last


def scraped(url: str) -> bytes:
    """What Prometheus would read there."""
    with urlopen(url, timeout=PATIENCE_S) as answer:
        return bytes(answer.read())


def assert_as_analyzed(folder: RunFolder, final: dict[str, Any]) -> None:
    """The stream's totals are those of the batch, which read the log anew."""
    findings = analyse(check(folder), InProcess())
    assert final["complete"]
    assert final["fates"] == sorted((f.model_dump() for f in findings.fates), key=lambda f: list(f.values()))
    (group,) = findings.groups
    found = {(f.outcome, f.stored, f.delivered): f.count for f in group.fates}
    told = {(f["outcome"], f["stored"], f["delivered"]): f["count"] for f in final["group_fates"]}
    assert told == found
    counts = {anomaly.name: anomaly.count for anomaly in findings.anomalies if anomaly.group is None}
    assert {name: final[name] for name in COUNTED} == {name: counts[of] for name, of in COUNTED.items()}
    assert findings.totals.sent == final["attempted"]


@pytest.mark.parametrize(
    "killed",
    [
        [],
        pytest.param(["SparkSubmit", "streaming.job", "pyspark.daemon"], marks=pytest.mark.long),
    ],
)
def test_broker_jvm_and_worker_kills_change_no_totals(
    standing: Standing, tmp_path: Path, killed: list[str]
) -> None:
    """A broker is killed and comes back; Spark's JVM, the job and a worker of Python's are killed."""
    told = tmp_path / "alerts.jsonl"
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    alerting = ("--alerts", str(rules), "--notify", f"json:{told}")
    watching = Watching(standing, tmp_path, *alerting, "--metrics", "127.0.0.1:0")
    url = watching.metrics_url()
    watching.acked(90)
    standing("fault", "inject", "kill", "--target", "broker 2")
    for name in killed:
        watching.acked(30)
        watching.kill(name)
        assert b'kaput_messages_acked_total{partition="0",' in scraped(url)
    wait_for(lambda: told.is_file() and '"down"' in told.read_text(), "the alert of the broker")
    standing("fault", "heal")
    watching.acked(90)
    # The other partitions alone reach that while clients still ask the dead leader of this one.
    wait_for(lambda: "/1: acknowledged again after " in watching.said, "the end of the standstill")
    assert len(looked_at(watching.folder)["places"]) == 2
    status, final = watching.end()
    assert looked_at(watching.folder)["ledger"]["final"]["kind"] == "held"
    assert (status, final["missing"], final["troubles"]) == (0, 0, [])
    # A dead leader is noted soon after the first message that it did not take, long before clients give up.
    (noted,) = re.findall(r"/1 \(led by broker 2\): nothing acknowledged for (\d+\.\d) s", watching.said)
    assert float(noted) < 60 and "/1: acknowledged again after " in watching.said
    changes = [json.loads(line) for line in told.read_text().splitlines()]
    assert {change["alert"] for change in changes} == {"down"}
    assert_as_analyzed(watching.folder, final)
    assert not mentions(tmp_path)


@pytest.mark.long
def test_a_killed_watch_goes_on(standing: Standing, tmp_path: Path) -> None:
    """In the same run folder; nothing is left at its end."""
    first = Watching(standing, tmp_path)
    first.acked(90)
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.communicate(timeout=PATIENCE_S)
    wait_for(lambda: not mentions(tmp_path), "the end of every process")
    before = first.status()["acked"]
    again = Watching(standing, tmp_path, "--for", "5s", "--resume", str(first.folder.path))
    status, final = again.ended()
    assert (status, final["missing"], final["late"]) == (0, 0, 0)
    assert final["acked"] > before >= 90
    assert_as_analyzed(again.folder, final)
    found = ExistingCluster(servers(standing))
    found.refresh()
    with Admin(found) as admin:
        assert [name for name in admin.topics() if not name.startswith("__")] == []
        assert admin.every_group() == set()


@pytest.mark.parametrize(
    ("options", "status", "sentence"),
    [
        (["--bootstrap-servers", "127.0.0.1:1"], 4, "127.0.0.1:1 cannot be reached"),
        (["--bootstrap-servers", "127.0.0.1:1", "--for", "soon"], 2, "--for soon: 'soon' is not a duration"),
        (["--bootstrap-servers", "somewhere"], 2, "'somewhere' is not HOST:PORT"),
    ],
)
def test_invalid_options_are_rejected_with_one_line(
    options: list[str],
    status: int,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a sentence; nothing is begun."""
    told = called(["watch", "--runs", str(tmp_path / "runs"), *options], monkeypatch, capsys)
    assert (told.status, told.stderr.count("\n")) == (status, 1)
    assert sentence in told.stderr
    assert not (tmp_path / "runs").exists()


def test_sequence_numbers_in_a_json_field_are_audited(standing: Standing, tmp_path: Path) -> None:
    """A gap in a field of JSON is missing once newer messages are there, and late when it fills; one among
    the last messages is missing at the end.
    """
    producer = Producer({"bootstrap.servers": servers(standing)})
    standing("shell", "kafka-topics", "--create", "--topic", "bills", "--partitions", "2")

    def send(*numbers: int) -> None:
        for n in numbers:
            producer.produce("bills", json.dumps({"n": n, "by": "till-1"}), str(n))
        assert producer.flush(PATIENCE_S) == 0

    send(0)
    options = ("--topic", "bills", "--json-field", "n", "--producer-field", "by", "--from-start")
    watching = Watching(standing, tmp_path, *options)
    send(*range(1, 100), *range(101, 200))
    wait_for(lambda: watching.status().get("sent") == 200, "all numbers up to 199")
    assert watching.status()["missing"] == 0

    following = count(200)

    def next_is_missing() -> bool:
        send(next(following))
        return bool(watching.status()["missing"])

    wait_for(next_is_missing, "the gap")
    send(100)
    wait_for(lambda: watching.status()["late"] == 1, "the late message")
    skipped = [next(following) for _ in range(3)]
    send(last := next(following))
    wait_for(lambda: watching.status()["sent"] == last + 1, "the last message")
    assert watching.status()["missing"] == 0
    status, final = watching.end()
    assert (status, final["missing"], final["late"], final["duplicated"]) == (1, len(skipped), 1, 0)
    assert sum(final["read_to"].values()) == last + 1 - len(skipped)
    (shown,) = TopicWatchPages(Runs(tmp_path)).all()  # as the dashboard shows it
    assert (shown.state, list(shown.topics), shown.audit) == ("ended", ["bills"], False)
    named = ("missing", "late", "duplicated", "reordered")
    stored = final["sent"] - final["missing"]
    assert shown.counts == {"stored": stored} | {name: final[name] for name in named}


@pytest.mark.long
def test_gap_at_the_end_exits_with_status_1(standing: Standing, tmp_path: Path) -> None:
    """The number is in a header."""
    producer = Producer({"bootstrap.servers": servers(standing)})
    standing("shell", "kafka-topics", "--create", "--topic", "notes")
    watching = Watching(standing, tmp_path, "--topic", "notes", "--header", "seq", "--from-start")
    for n in (0, 1, 3, 4):
        producer.produce("notes", b"x", headers=[("seq", str(n).encode())])
    assert producer.flush(PATIENCE_S) == 0
    wait_for(lambda: watching.status().get("sent") == 5, "all of them")
    status, final = watching.end()
    assert (status, final["missing"]) == (1, 1)


@pytest.mark.long
def test_numbers_of_aborted_transactions_are_missing(standing: Standing, tmp_path: Path) -> None:
    """As a consumer of committed records would find it; what is in an open transaction is not read."""
    standing("shell", "kafka-topics", "--create", "--topic", "deals", "--partitions", "1")
    at = {"bootstrap.servers": servers(standing)}
    closing, open_ = (Producer({**at, "transactional.id": name}) for name in ("closing", "open"))

    def send(producer: Producer, numbers: range, end: Callable[[float], None] | None) -> None:
        producer.begin_transaction()
        for n in numbers:
            producer.produce("deals", json.dumps({"n": n}))
        assert producer.flush(PATIENCE_S) == 0
        if end is not None:
            end(PATIENCE_S)

    closing.init_transactions(PATIENCE_S)
    open_.init_transactions(PATIENCE_S)
    send(closing, range(10), closing.commit_transaction)
    send(closing, range(10, 13), closing.abort_transaction)
    send(closing, range(13, 20), closing.commit_transaction)
    send(open_, range(20, 25), None)
    watching = Watching(standing, tmp_path, "--topic", "deals", "--json-field", "n", "--from-start")
    wait_for(lambda: watching.status().get("sent") == 20, "all that is committed")
    status, final = watching.end()
    open_.abort_transaction(PATIENCE_S)
    assert (status, final["missing"], final["troubles"]) == (1, 3, [])
    assert final["read_to"] == {"deals/0": 23}  # 20 records, and a marker of each transaction
    assert final["held_back"] == {"deals/0": 5}


@pytest.mark.long
def test_topic_at_rest_from_its_end_on_has_been_read(standing: Standing, tmp_path: Path) -> None:
    """Nothing comes, or nothing with a number: that is no log that could not be read."""
    producer = Producer({"bootstrap.servers": servers(standing)})
    standing("shell", "kafka-topics", "--create", "--topic", "quiet", "--partitions", "2")
    for n in range(10):
        producer.produce("quiet", json.dumps({"n": n}))
    assert producer.flush(PATIENCE_S) == 0
    watching = Watching(standing, tmp_path, "--topic", "quiet", "--json-field", "n")
    wait_for(lambda: "sent" in watching.status(), "the ledger")
    status, final = watching.end()
    assert (status, final["sent"], final["complete"], final["troubles"]) == (0, 0, True, [])


@pytest.mark.long
def test_messages_without_numbers_are_audited_by_counts(standing: Standing, tmp_path: Path) -> None:
    """What clients counted, the log, a group's committed offsets, and copies in a mirror: here in the same
    cluster. Copies that come are late; what is found is in a topic as well.
    """
    at = {"bootstrap.servers": servers(standing)}
    begin_ms = int(time.time() - 600) * 1000  # whole by now, and not forgotten yet
    for topic in ("parcels", "dc1.parcels"):
        standing("shell", "kafka-topics", "--create", "--topic", topic)
    producer, mirror = CountingProducer(at), Producer(at)
    for n in range(20):
        producer.produce("parcels", b"x", timestamp=begin_ms + n * 1000)
    for n in range(18):
        mirror.produce("dc1.parcels", b"x", timestamp=begin_ms + n * 1000)
    assert producer.flush(PATIENCE_S) == mirror.flush(PATIENCE_S) == 0
    consumer = CountingConsumer({**at, "group.id": "porters", "auto.offset.reset": "earliest"})
    consumer.subscribe(["parcels"])
    assert len(consumer.consume(20, PATIENCE_S)) == 20
    consumer.close()
    options = ["--audit", "--from-start", "--group", "porters", "--mirror", servers(standing)]
    more = ["--mirror-prefix", "dc1.", "--findings-topic", "kaput.findings"]
    watching = Watching(standing, tmp_path, "--topic", "parcels", *options, *more)
    whole = {"count": 20, "missing": 0}
    stages = {"produced": whole, "stored": whole, "consumed by porters": whole}

    def audited(missing: int) -> bool:
        mirrored = {"count": 20 - missing, "missing": missing}
        return watching.status().get("audited", {}) == {"parcels": {**stages, "mirrored": mirrored}}

    wait_for(lambda: audited(2), "the mirror to lack two")
    assert watching.status()["mirror_lag_ms"] == {"parcels": 2000}
    mirror.produce("dc1.parcels", b"x", timestamp=begin_ms + 18_000)
    assert mirror.flush(PATIENCE_S) == 0
    wait_for(lambda: audited(1), "one to come late")
    status, final = watching.end()
    assert (status, final["missing"], final["late"], final["complete"]) == (1, 1, 1, True)
    (shown,) = TopicWatchPages(Runs(tmp_path)).all()  # as the dashboard shows it
    assert shown.audit and list(shown.topics) == ["parcels"] and shown.counts == {"missing": 1, "late": 1}
    assert set(shown.stages) == {*stages, "mirrored"}
    reader = Consumer({**at, "group.id": "tests", "auto.offset.reset": "earliest"})
    reader.subscribe(["kaput.findings"])
    records = iter(lambda: reader.poll(PATIENCE_S), None)
    found = next(each for each in records if each is not None and b'"final": true' in (each.value() or b""))
    reader.close()
    assert json.loads(found.value() or b"")["audited"] == final["audited"]
    assert (found.key() or b"").decode() == watching.folder.path.name


@pytest.mark.long
def test_watch_on_a_spark_cluster_survives_a_worker_kill(standing: Standing, tmp_path: Path) -> None:
    """Tasks run in executors; one worker is killed, and the totals are those of the analysis."""
    (tmp_path / "spark").mkdir()
    with standalone(tmp_path / "spark") as spark:
        watching = Watching(standing, tmp_path / "runs", "--master", spark.url)
        watching.acked(90)
        spark.kill_worker()
        watching.acked(90)
        status, final = watching.end()
    assert (status, final["missing"], final["troubles"]) == (0, 0, [])
    assert_as_analyzed(watching.folder, final)
