"""`kaput serve` and its clients: a test in Java and one in Go break a leader and count what is left."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kaput.cluster.distribution import resolve
from kaput.core import NEWEST_KAFKA
from kaput.java import Java
from waiting import PATIENCE_S, eventually

CLIENTS = Path(__file__).parents[2] / "clients"
JUNIT = "org.junit.platform:junit-platform-console-standalone:1.13.4"
KAPUT = str(Path(sys.executable).parent / "kaput")


class Served:
    """`kaput serve`, asked line by line."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [KAPUT, "serve", "--brokers", "2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.ready = self._read()["ready"]

    def ask(self, do: str, **arguments: Any) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"id": do, "do": do, **arguments}) + "\n")
        self.process.stdin.flush()
        answer = self._read()
        assert answer.pop("id") == do
        return answer

    def _read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    started = Served()
    yield started
    assert started.process.stdin is not None
    started.process.stdin.close()
    assert started.process.wait(PATIENCE_S) == 0


def test_a_leader_is_killed_and_everything_is_counted(served: Served) -> None:
    """By lines of JSON alone."""
    assert served.ready["brokers"] == [1, 2]
    # Broker 1 is the only controller, without which there would be no other leader.
    orders = {"name": "orders", "assignment": [[2, 1]], "config": {"retention.ms": 3_600_000}}
    assert served.ask("create_topic", **orders) == {"result": None}
    killed = served.ask("inject", fault="kill", target="leader-of orders/0")["result"]
    (dead,) = killed["brokers"]
    assert killed["proof"]
    assert eventually(lambda: served.ask("partitions", topic="orders")["result"]["0"]["leader"] != dead)
    assert served.ask("produce", topic="orders", count=100, acks="all")["result"]["acked"] == 100
    assert served.ask("heal", fault=killed["id"]) == {"result": {"healed": killed["id"]}}
    assert served.ask("account")["result"]["totals"]["acked"] == 100
    found = served.ask("count", topic="orders", acked=["never-sent"])["result"]
    assert (found["stored"], found["lost"], found["lost_examples"]) == (100, 1, ["never-sent"])


def test_mistakes_are_answered(served: Served) -> None:
    """With what to do, and the next request is answered as ever."""
    assert served.ask("heal", fault="1-nothing")["kind"] == "usage"
    assert "did you mean inject?" in served.ask("injekt")["error"]
    assert "not a request" in served.ask("create_topic", nme="x")["error"]
    assert "retention.ms" in served.ask("create_topic", name="x", config={"retention.ms": "soon"})["error"]
    assert served.ask("inject", fault="kil")["kind"] == "usage"
    assert served.ask("status")["result"]["faults"] == []


@pytest.mark.long
def test_java(tmp_path: Path, java: Java) -> None:
    """OrdersTest, by JUnit's console."""
    compiler, maven = shutil.which("javac"), shutil.which("mvn")
    if compiler is None or maven is None:
        pytest.skip("no JDK, or no Maven to fetch JUnit with")
    copy = [maven, "-q", "dependency:copy", f"-Dartifact={JUNIT}", f"-DoutputDirectory={tmp_path}"]
    subprocess.run(copy, check=True, timeout=300)
    kafka = resolve(NEWEST_KAFKA, java)
    junit = next(tmp_path.glob("junit*.jar"))
    classes = tmp_path / "classes"
    classes.mkdir()
    path = os.pathsep.join([str(junit), str(classes), kafka.classpath])
    sources = sorted(map(str, (CLIENTS / "java" / "src").rglob("*.java")))
    lint = ["-Xlint:all,-serial,-try,-processing", "-Werror", "--release", "17"]
    subprocess.run([compiler, *lint, "-cp", path, "-d", classes, *sources], check=True, timeout=300)
    words = ["java", f"-DKAPUT={KAPUT}", "-jar", str(junit), "execute", "--select-class=example.OrdersTest"]
    done = subprocess.run(
        [*words, f"--class-path={path}"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0 and "1 tests successful" in done.stdout, done.stdout + done.stderr


@pytest.mark.long
def test_go(tmp_path: Path) -> None:
    """orders_test.go, with franz-go, as docs/OTHER_LANGUAGES.md says; a checkout is not changed by it."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        pytest.skip("no Go")
    shutil.copytree(CLIENTS / "go", tmp_path / "go")
    example = tmp_path / "go" / "example"
    subprocess.run([go, "vet", "./..."], cwd=example, check=True, timeout=300)
    done = subprocess.run(
        [go, "test", "-count=1", "-v", "./..."], cwd=example, env={**os.environ, "KAPUT": KAPUT},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "--- PASS" in done.stdout, done.stdout + done.stderr
    subprocess.run([go, "mod", "tidy"], cwd=example, check=True, timeout=300)
    committed = CLIENTS / "go" / "example"
    assert sorted(path.name for path in example.iterdir()) == sorted(
        path.name for path in committed.iterdir()
    )
    for name in ("go.mod", "go.sum"):
        assert (example / name).read_text() == (committed / name).read_text()
