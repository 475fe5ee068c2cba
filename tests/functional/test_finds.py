"""The scripts of docs/finds do what their reports say, with nothing of kaput's own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kaput
from kaput.cluster.distribution import resolve
from kaput.cluster.network.loopback import Loopback
from kaput.core import NEWEST_KAFKA
from kaput.java import find_java
from waiting import PATIENCE_S

FINDS = Path(__file__).parents[2] / "docs" / "finds"
OLD_OFFSET = "offset 100 of the old topic is there; read 50 of 150, unseen 100"
CLEAN = "no offset of the old topic is there; read 150 of 150, unseen 0"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like that of Kafka's distribution."""
    folder = tmp_path_factory.mktemp("kafka")
    (folder / "libs").mkdir()
    for jar in resolve(NEWEST_KAFKA, find_java()).jars:
        (folder / "libs" / jar.name).symlink_to(jar)
    return folder


@pytest.mark.tools
@pytest.mark.long
@pytest.mark.parametrize(
    ("mode", "client", "found"), [("kill", "classic", OLD_OFFSET), ("none", "classic", CLEAN)]
)
def test_offset_in_a_deleted_topic_comes_back_with_another_coordinator(
    mode: str, client: str, found: str, home: Path
) -> None:
    """And not if the group's coordinator is there when the topic is deleted."""
    script = FINDS / "topic-recreated-without-coordinator.sh"
    ports = " ".join(map(str, Loopback().ports(4)))
    # A longer session: on a busy machine the tool that deletes the topic takes a while to start.
    own = {"KAFKA_HOME": str(home), "PORTS": ports, "SESSION_MS": "40000"}
    path = {"PATH": f"{find_java().path.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", str(script), mode, client],
        env={**os.environ, **own, **path},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = f"RESULT kafka={NEWEST_KAFKA} client={NEWEST_KAFKA} {mode} {client}: {found}"
    assert done.stdout.strip() == said, done.stderr


@pytest.mark.tools
@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["earliest", "classic"], {0, 900}),
        (["latest", "classic"], {900, 1000}),
        (["earliest", "classic", "alone"], {900}),
    ],
)
def test_librdkafka_forgets_an_unstable_offset(words: list[str], found: set[int], tmp_path: Path) -> None:
    """If the group rebalances meanwhile: one of two partitions starts by auto.offset.reset."""
    script = FINDS / "librdkafka-unstable-offset-commit.py"
    with kaput.lab(brokers=1, folder=tmp_path) as lab:
        command = [sys.executable, str(script), lab.bootstrap_servers, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    firsts = re.findall(r"read partition \d from offset (\d+)", done.stdout)
    assert len(firsts) == 2 and {int(first) for first in firsts} == found, done.stdout


@pytest.mark.tools
@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["accept"], "no error"),
        (["renew"], "no error"),
        (["accept", "left"], "InvalidRecordStateException"),
    ],
)
def test_late_acknowledgement_of_a_share_group_succeeds(words: list[str], answer: str, home: Path) -> None:
    """If the group has finished everything before it; else it is refused."""
    lock = "group.share.min.record.lock.duration.ms"
    with kaput.lab(brokers=1, config={lock: 1000}, folder=home.parent) as lab:
        printed = _java(
            home, "share-late-acknowledgement.java", lab.bootstrap_servers, *words, LOCK_MS="2000"
        )
    (late,) = re.findall(r"A acknowledges .*, late: (.*)", printed)
    assert answer in late, printed


@pytest.mark.tools
@pytest.mark.long
@pytest.mark.parametrize(("mode", "fails"), [("joining", True), ("mixed", True), ("stable", False)])
def test_upgrade_of_a_group_before_its_first_generation_fails(mode: str, fails: bool, home: Path) -> None:
    """The member that asks for it is never assigned anything; the same after that generation succeeds."""
    # A longer delay: on a busy machine the member must get there within it.
    delay = {"group.initial.rebalance.delay.ms": 10000}
    with kaput.lab(brokers=1, config=delay, folder=home.parent) as lab:
        printed = _java(home, "upgrade-before-first-generation.java", lab.bootstrap_servers, mode)
    assert ("B: poll() throws org.apache.kafka.common.errors.UnknownServerException" in printed) == fails, (
        printed
    )
    of_b, of_c = re.findall(r"the group: (\w+), .*; what members have: .*B=(\[.*?\])", printed)[-2:]
    assert (of_b[0], of_b[1] == "[]") == ("Classic" if fails else "Consumer", fails), printed
    assert (of_c[0], of_c[1] == "[]") == ("Consumer", fails), printed


def _java(home: Path, script: str, *words: str, **environment: str) -> str:
    """What a find in Java prints; it runs from its source."""
    compiler = shutil.which("javac")
    if compiler is None:
        pytest.skip("it runs from its source, which needs a JDK")
    java = str(Path(compiler).with_name("java"))
    done = subprocess.run(
        [java, "-cp", f"{home}/libs/*", str(FINDS / script), *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
