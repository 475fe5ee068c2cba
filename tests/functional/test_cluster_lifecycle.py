"""A cluster that stays: started, asked, broken, mended, grown and taken down from the command line."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from driving import Standing
from waiting import PATIENCE_S, eventually


@pytest.fixture
def kaput(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    """kaput with a state of its own; what a failed test leaves standing is taken down."""
    standing = Standing(tmp_path_factory.mktemp("s"))
    yield standing
    standing("down", "--all")


def served(url: str, series: str) -> bool:
    """Whether there is such a series among the metrics at an address."""
    with urlopen(url, timeout=PATIENCE_S) as answer:
        return re.search(rf"^kaput_{series}", answer.read().decode(), re.MULTILINE) is not None


def test_a_cluster_stays_until_it_is_taken_down(kaput: Standing) -> None:
    """Every verb once, Kafka's tools, and its metrics; at the end nothing is left of it."""
    up = kaput.json("up", "--brokers", "2", "--detach", "--metrics", "127.0.0.1:0")
    assert eventually(lambda: served(up["metrics"], r'broker_up{broker="1"} 1\.0$'))
    assert up["brokers"] == [1, 2] and len(up["bootstrap_servers"].split(",")) == 2
    assert "cluster lab is already running" in kaput("up", "--brokers", "1", status=2)
    kaput("tool", "kafka-topics.sh", "--create", "--topic", "orders", "--replica-assignment", "1:2")
    assert "Topic: orders" in kaput("tool", "topics", "--describe")
    assert "orders" in kaput("shell", "kafka-topics", "--list")
    findings = kaput.json("doctor", status=1)["findings"]
    assert ("KP003", "topic orders") in {(each["id"], each["resource"]) for each in findings}
    injected = kaput.json("fault", "inject", "kill", "--target", "leader-of orders/0")
    assert [fault["state"] for fault in injected] == ["active"]
    assert injected[0]["brokers"] == [1]  # the only controller
    assert eventually(lambda: served(up["metrics"], r"fault_active{.* 1\.0$"))
    status = kaput.json("status")
    assert {broker["id"]: broker["state"] for broker in status["brokers"]} == {1: "down", 2: "running"}
    assert status["controller"] is None and "waited 5 s for the controller: " in status["unknown"][0]
    assert [fault["id"] for fault in status["faults"]] == ["1-kill"]
    assert "KP028" in {each["id"] for each in kaput.json("doctor", status=1)["findings"]}
    (healed,) = kaput.json("fault", "heal")
    assert healed["state"] == "healed" and "was started again" in healed["proof"]
    assert "no fault is active" in kaput("fault", "heal", status=2)
    assert eventually(lambda: not served(up["metrics"], "fault_active{"))
    paused = kaput.json("fault", "inject", "pause", "--target", "broker 1", "--for", "1s")
    assert paused[0]["for_ms"] == 1000

    def healed_by_itself() -> bool:
        return [f["state"] for f in kaput.json("fault", "list")] == ["healed", "healed"]

    assert eventually(healed_by_itself)
    kaput("fault", "inject", "kill", "--target", "broker 2")  # 1 is the only controller
    refused = kaput("grow", "1", status=2)
    assert "cannot add a broker while broker 2 is down" in refused
    assert len(kaput.json("status")["brokers"]) == 2
    kaput("fault", "heal")
    assert kaput.json("grow", "1")["brokers"] == [1, 2, 3]
    assert [broker["state"] for broker in kaput.json("status")["brokers"]] == ["running"] * 3
    assert "orders/0" in kaput("status")
    (card,) = kaput.state.glob("kaput/clusters/*/lab/cluster.json")
    os.kill(json.loads(card.read_text())["pid"], signal.SIGKILL)
    assert eventually(lambda: kaput.left() == [])
    assert "its daemon died" in kaput("status", status=2)
    with pytest.raises(URLError, match="refused"):
        served(up["metrics"], "")
    assert "nothing of it is left" in kaput("down")
    assert not list(kaput.state.glob("kaput/clusters/*/*"))


@pytest.mark.long
def test_cluster_ends_when_its_directory_is_removed(kaput: Standing) -> None:
    """It could not be taken down any more."""
    kaput("up", "--brokers", "1", "--detach")
    (card,) = kaput.state.glob("kaput/clusters/*/lab/cluster.json")
    shutil.rmtree(card.parent)
    assert eventually(lambda: kaput.left() == [])


@pytest.mark.long
def test_down_ends_processes_and_removes_the_directory(kaput: Standing) -> None:
    """The keeper, the broker and the directory; a second time there is nothing."""
    kaput("up", "--brokers", "1", "--detach", "--name", "one")
    (card,) = kaput.state.glob("kaput/clusters/*/one/cluster.json")
    journal = kaput.state / f"kaput/reassignments/{json.loads(card.read_text())['cluster_id']}.json"
    journal.parent.mkdir()
    journal.write_text("{}")
    assert journal.stem in kaput("tool", "cluster", "cluster-id")
    assert "one: down" in kaput("down", "--cluster", "one")
    assert kaput.left() == [] and not list(kaput.state.glob("kaput/clusters/*/*"))
    assert not journal.exists()
    assert "no cluster named 'one' is running" in kaput("down", "--cluster", "one", status=2)


@pytest.mark.long
def test_concurrent_starts_of_one_name_have_one_winner(kaput: Standing) -> None:
    """The other gets an error, and harms neither the cluster nor its log; two at once may take it down."""
    first, second = (kaput.start("up", "--brokers", "1", "--detach") for _ in range(2))
    ends = {process.communicate()[1]: process.returncode for process in (first, second)}
    assert sorted(ends.values()) == [0, 2], ends
    (loser,) = (text for text, status in ends.items() if status == 2)
    assert "starting or stopping" in loser or "already running" in loser
    assert [broker["state"] for broker in kaput.json("status")["brokers"]] == ["running"]
    (log,) = kaput.state.glob("kaput/clusters/*/*.log")
    assert log.name == "lab.log"
    downs = [kaput.start("down") for _ in range(2)]
    assert 0 in {process.wait(PATIENCE_S) for process in downs}
    assert kaput.left() == [] and not list(kaput.state.glob("kaput/clusters/*/*"))


def test_a_start_that_is_interrupted_leaves_nothing(kaput: Standing) -> None:
    """Its keeper has a session of its own, which Ctrl-C does not reach."""
    starting = kaput.start("up", "--brokers", "1", "--detach")
    assert eventually(lambda: any(kaput.state.glob("kaput/clusters/*/lab/nodes/1/server.log")))
    starting.send_signal(signal.SIGINT)
    starting.communicate()
    assert starting.returncode == 130
    assert eventually(lambda: kaput.left() == [])
    assert not [path for path in kaput.state.glob("kaput/clusters/*/*") if path.suffix != ".log"]
