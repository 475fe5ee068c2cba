"""Clusters with TLS, users and rights: runs are accounted for, rights are needed, secrets are kept."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaError, Producer

from driving import Kaput, Standing
from kaput.cluster.access import Access
from waiting import PATIENCE_S, eventually

_RUN = """
version: 1
title: A leader of a secured cluster dies
cluster: {brokers: 2, controllers: 1, security: scram-tls}
topics: [{name: orders, replication-factor: 2}]
workload:
  producers: [{topic: orders, messages: 4000, rate: 1000}]
  groups: [{id: billing, topics: [orders]}]
faults:
  - {at: {message: 1000}, fault: kill, target: leader-of orders/0, for: 1s}
"""
_NOBODY = """
version: 1
title: Who has no rights does nothing
cluster: {brokers: 1, security: scram-tls}
topics: [{name: orders, replication-factor: 1}]
workload:
"""
_NOBODY_SENDS = "  producers: [{topic: orders, messages: 1000, config: {sasl.username: nobody}}]\n"
_NOBODY_READS = """
  producers: [{topic: orders, messages: 1000}]
  groups: [{id: billing, topics: [orders], config: {sasl.username: nobody}}]
"""
_HERE = """
version: 1
title: On a cluster that was there before
topics: [{name: bills, replication-factor: 1}]
workload:
  producers: [{topic: bills, messages: 1000}]
"""
_PASSWORD = re.compile(r'password="([^"]+)"')


def passwords(folder: Path) -> list[str]:
    """Those of every user of a cluster whose secrets stand in that folder."""
    return [_PASSWORD.findall(path.read_text())[0] for path in sorted(folder.glob("*.properties"))]


def telling(folder: Path, secrets: list[str]) -> list[str]:
    """Files that contain a secret, and may be read by others or are not meant to hold passwords."""
    found = []
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # of a broker that runs: it was renamed or removed just now
            if not path.is_file():
                continue
            data = path.read_bytes()
            told = any(secret.encode() in data for secret in secrets) or b"PRIVATE KEY" in data
            if told and (path.stat().st_mode & 0o077 or path.parent.name != "secrets"):
                found.append(str(path))
    return found


def shown_in_processes(secrets: list[str]) -> list[list[str]]:
    """Command lines and environments of this machine that hold a password."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        words = [*(process.info["cmdline"] or ()), *(process.info["environ"] or {}).values()]
        if any(secret in word for word in words for secret in secrets):
            found.append(process.info["cmdline"])
    return found


def test_secured_run_is_judged_and_reveals_no_secrets(kaput: Kaput, tmp_path: Path) -> None:
    """A leader dies, nothing is lost, everything is read; no secret shows, while it runs, afterwards, or on
    its page.
    """
    scenario = tmp_path / "secured.yaml"
    scenario.write_text(_RUN)
    with ThreadPoolExecutor(max_workers=1) as pool:
        running = pool.submit(kaput.run, str(scenario), "--page")
        assert eventually(lambda: running.done() or any(kaput.runs.glob("*/evidence/sends/*.arrows")))
        assert not running.done(), running.result().stderr
        (secrets,) = kaput.runs.glob("*/brokers/secrets")
        known = passwords(secrets)
        assert len(known) == 3 and secrets.stat().st_mode & 0o777 == 0o700
        assert shown_in_processes(known) == [] and telling(kaput.runs, known) == []
        result = running.result()
    assert result.status == 0 and result.count("lost") == 0, result.stderr
    assert result.findings["totals"]["acked"] == 4_000
    assert result.fault("kill")["bit"] and result.findings["groups"][0]["drained"]
    assert "</html>" in (result.folder / "report.html").read_text()
    assert not secrets.exists() and telling(kaput.runs, known) == []
    assert not any(secret in result.stderr + json.dumps(result.findings) for secret in known)


@pytest.mark.tools  # its sibling: unit/workload/test_supervisor.py
@pytest.mark.parametrize(
    ("workload", "said"),
    [
        (_NOBODY_SENDS, "Describe topic orders (TOPIC_AUTHORIZATION_FAILED)"),
        (_NOBODY_READS, "Read group billing (GROUP_AUTHORIZATION_FAILED)"),
    ],
)
def test_unauthorized_run_fails_at_once_with_the_missing_acl(
    workload: str, said: str, kaput: Kaput, tmp_path: Path
) -> None:
    """Who, what and where, in a sentence; a client's own time-out is longer than the bound of this call."""
    scenario = tmp_path / "nobody.yaml"
    scenario.write_text(_NOBODY + workload)
    begun = time.monotonic()
    done = kaput.call("run", str(scenario), "--runs", str(kaput.runs))
    assert time.monotonic() - begun < 300  # message.timeout.ms
    assert done.returncode == 4, done.stderr
    assert f"User:nobody is not allowed to {said}" in done.stderr
    assert "Traceback" not in done.stderr and not any(kaput.runs.glob("*/brokers/secrets"))


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    """A secured cluster that stays, of three brokers that vote, with a topic."""
    kaput = Standing(tmp_path_factory.mktemp("s"))
    try:
        kaput("up", "--brokers", "3", "--security", "scram-tls", "--detach")
        kaput("tool", "topics", "--create", "--topic", "orders", "--replication-factor", "3")
        yield kaput
    finally:
        kaput("down", "--all")


def card_of(standing: Standing) -> dict[str, str]:
    """The card of the standing cluster."""
    (card,) = standing.state.glob("kaput/clusters/*/lab/cluster.json")
    return dict(json.loads(card.read_text()))


@pytest.mark.tools
def test_every_command_is_authorized(standing: Standing) -> None:
    """Tools, shell, doctor, faults with their proofs, status, peek, replay, reassign and grow."""
    kaput, card = standing, card_of(standing)
    assert "orders" in kaput("tool", "kafka-topics.sh", "--list")
    assert "orders" in kaput("shell", "kafka-topics", "--list")
    asked = ["--bootstrap-server", card["bootstrap_servers"], "--command-config", card["client_properties"]]
    assert "orders" in kaput("tool", "topics", "--list", *asked)
    assert "User:kaput" in kaput("tool", "acls", "--list")
    kaput("tool", "console-producer", "--topic", "orders", stdin="one\ntwo\n")
    words = ["--from-beginning", "--max-messages", "2", "--timeout-ms", "30000", "--group", "billing"]
    assert kaput("tool", "console-consumer", "--topic", "orders", *words).split() == ["one", "two"]
    found = kaput.json("doctor", status=1)
    assert "KP003" in {each["id"] for each in found["findings"]} and found["unknown"] == []
    injected = kaput.json("fault", "inject", "kill", "--target", "leader-of orders/0")
    assert [fault["state"] for fault in injected] == ["active"]
    assert kaput.json("fault", "heal")[0]["state"] == "healed"
    denied = kaput.json("fault", "inject", "deny", "--target", "topic orders")
    # The killed broker may not be in the cluster again yet.
    assert re.fullmatch(r"Write on orders denied to User:kaput by ([1-3]) of \1 brokers", denied[-1]["proof"])
    denials = [each for each in kaput.json("doctor", status=1)["findings"] if each["id"] == "KP025"]
    assert [each["resource"] for each in denials] == ["topic orders, User:kaput"]
    kaput("fault", "inject", "quota", "--target", "cluster", "--option", "producer-rate=20000")
    assert "client-id <default>" in str(kaput.json("doctor", status=1)["findings"])
    kaput("fault", "inject", "change-password", "--target", "cluster")
    assert "the password of app changed" in kaput.json("status")["faults"][-1]["proof"]
    assert {each["state"] for each in kaput.json("fault", "heal")[-3:]} == {"healed"}
    # Its groups are not known before their coordinator is there again.
    assert eventually(lambda: kaput.json("status")["unknown"] == [])
    status = kaput.json("status")
    assert status["security"] == "scram-tls"
    assert [group["group"] for group in status["groups"]] == ["billing"]
    peeked = kaput.json("peek", "orders/0", "--replica", "1")
    assert [record["value"] for record in peeked["records"]] == ["one", "two"]
    kaput("tool", "topics", "--create", "--topic", "again", "--replication-factor", "1")
    assert kaput.json("replay", "orders", "again")["copied"] == 2
    kaput("reassign", "--replication-factor", "2", "--topic", "again", "--yes")
    assert kaput.json("grow", "1")["brokers"] == [1, 2, 3, 4]
    assert "orders/0" in kaput("status")


@pytest.mark.tools
def test_watch_of_a_secured_cluster(standing: Standing) -> None:
    """By kaput's clients and by Spark's source; what is found goes to a topic. Without rights it says so."""
    runs, card = standing.state / "watched", card_of(standing)
    words = ["--for", "15s", "--findings-topic", "kaput.findings", "--json", "--runs", str(runs)]
    final = json.loads(standing("watch", *words).splitlines()[-1])
    assert final["final"] and final["complete"] and final["acked"] > 100 and final["missing"] == 0
    assert "kaput.findings" in standing("tool", "topics", "--list")
    nobody = Path(card["client_properties"]).with_name("nobody.properties")
    asked = ["--bootstrap-servers", card["bootstrap_servers"], "--command-config", str(nobody)]
    assert "User:nobody" in standing("watch", "--for", "5s", "--runs", str(runs), *asked, status=4)


@pytest.mark.tools
def test_every_command_names_the_missing_acl(standing: Standing) -> None:
    """Promptly, naming who may not do what; who has a wrong password is not let in."""
    kaput, card = standing, card_of(standing)
    nobody = Path(card["client_properties"]).with_name("nobody.properties")
    asked = ["--bootstrap-servers", card["bootstrap_servers"], "--command-config", str(nobody)]
    said = kaput("doctor", *asked, status=4)
    assert "User:nobody is not allowed to Describe the cluster" in said
    assert "User:nobody" in kaput("peek", "orders/0", "--replica", "1", *asked, status=4)
    refused = kaput("replay", "orders", "again", *asked, status=4)
    assert "User:nobody" in refused and "orders" in refused
    said = kaput("reassign", "--replication-factor", "2", "--all-topics", "--yes", *asked, status=4)
    assert "User:nobody" in said
    here = standing.state / "here.yaml"
    here.write_text(_HERE)
    said = kaput("run", str(here), "--runs", str(standing.state / "runs"), *asked, status=4)
    assert "User:nobody is not authorized: topic bills cannot be described" in said
    wrong = standing.state / "wrong.properties"
    wrong.write_text(_PASSWORD.sub('password="wrong"', nobody.read_text()))
    for verb in (["doctor"], ["peek", "orders/0", "--replica", "1"]):
        said = kaput(*verb, *asked[:3], str(wrong), status=4)
        assert "refused User:nobody: " in said and "wrong" not in said.replace(str(wrong), "")


@pytest.mark.tools
def test_secrets_of_a_cluster_are_not_in_processes_or_logs(standing: Standing) -> None:
    """In no process, no log, no entry; and any client can sign in with what the lab provides."""
    folder = Path(card_of(standing)["client_properties"]).parent
    known = passwords(folder)
    assert shown_in_processes(known) == [] and telling(standing.state, known) == []
    outcomes: list[str] = []
    for user in ("client", "nobody"):
        settings = Access.read(folder / f"{user}.properties").librdkafka()
        producer = Producer({"bootstrap.servers": card_of(standing)["bootstrap_servers"], **settings})
        producer.produce("orders", "x", on_delivery=lambda error, _: outcomes.append(_named(error)))
        assert producer.flush(PATIENCE_S) == 0
    assert outcomes == ["acked", "TOPIC_AUTHORIZATION_FAILED"]


def _named(error: KafkaError | None) -> str:
    return "acked" if error is None else error.name()
