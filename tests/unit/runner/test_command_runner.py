"""A scenario's commands as real processes: what they are given, what they may take, and what they leave."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from kaput.cluster.wire import Endpoint
from kaput.errors import LabError
from kaput.faults.fault import CommandResult
from kaput.processes.ownership import Owner
from kaput.processes.records import MARKER
from kaput.runner.cleanup import CleanupJournal, CreatedResources, read_journal
from kaput.runner.existing_cluster import CommandRunner
from kaput.scenario.fault_kinds import CommandOptions
from waiting import eventually

KNOWN = {"topic": "orders", "partition": "3"}


def known_cluster(servers: str, brokers: dict[int, Endpoint]) -> Any:
    """A cluster with these addresses."""
    return SimpleNamespace(bootstrap_servers=servers, broker_endpoints=brokers)


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[CommandRunner]:
    """Of a cluster with brokers 1 and 2."""
    cluster = known_cluster("kafka-1:9092", {1: Endpoint("kafka-1", 9092), 2: Endpoint("kafka-2", 9093)})
    journal = CleanupJournal(tmp_path, CreatedResources(bootstrap_servers="kafka-1:9092"))
    with Owner() as owner:
        yield CommandRunner(owner, tmp_path / "commands", cluster, journal)


def run(
    runner: CommandRunner, line: str, kind: str = "inject", broker: int = 2, timeout_s: float = 60
) -> CommandResult:
    """One command of step 1."""
    return runner.run("1-command", kind, broker, line, KNOWN, timeout_s)


def test_command_gets_its_target_in_arguments_and_environment(runner: CommandRunner, tmp_path: Path) -> None:
    """In its words and in its environment; what it says is kept."""
    ran = run(
        runner,
        "sh -c 'echo {broker} {host}:{port} {topic}/{partition}; echo $KAPUT_HOST $KAPUT_STEP >&2; exit 3'",
    )
    assert ran == CommandResult(3, "kafka-2 1-command")
    kept = (tmp_path / "commands" / "1-command-inject-2.txt").read_text().splitlines()
    assert kept[0].startswith("$ sh -c ") and kept[1:3] == ["2 kafka-2:9093 orders/3", "kafka-2 1-command"]
    assert kept[3].startswith("(exit status 3, ")
    assert run(runner, "true") == CommandResult(0)
    assert len((tmp_path / "commands" / "1-command-inject-2.txt").read_text().splitlines()) == 6


def test_command_timeout_kills_its_children(runner: CommandRunner, tmp_path: Path) -> None:
    """Nothing of it goes on."""
    pid = tmp_path / "pid"
    ran = run(runner, f"sh -c 'sleep 600 & echo $! > {pid}; echo slow; wait'", timeout_s=1)
    assert ran == CommandResult(None, "slow") and ran.how("heal") == "heal took too long and was ended: slow"
    assert eventually(lambda: not _runs(int(pid.read_text())))


def test_process_left_by_a_command_keeps_running(tmp_path: Path) -> None:
    """A heal may start a broker: that is not kaput's to be ended, as what kaput starts itself is."""
    pid = tmp_path / "pid"
    with Owner() as owner:
        own = CommandRunner(
            owner,
            tmp_path / "c",
            known_cluster("a:1", {1: Endpoint("a", 1)}),
            CleanupJournal(tmp_path, CreatedResources(bootstrap_servers="a:1")),
        )
        own.run("1-command", "heal", 1, f"sh -c 'sleep 600 > /dev/null 2>&1 & echo $! > {pid}'", {}, 60)
    left = int(pid.read_text())
    try:
        assert _runs(left) and MARKER not in psutil.Process(left).environ()
    finally:
        os.kill(left, signal.SIGKILL)


def test_missing_program_is_a_lab_error(runner: CommandRunner) -> None:
    """As the lab's trouble, which is a fault that did not bite."""
    with pytest.raises(LabError, match=r"inject of 1-command cannot be started: .*no-such-program"):
        run(runner, "no-such-program {broker}")
    with pytest.raises(LabError, match="node 101 is not a broker, so its address is unknown"):
        run(runner, "true", broker=101)


def test_pending_heal_is_on_disk_until_done(runner: CommandRunner, tmp_path: Path) -> None:
    """With the words that heal it, until it is healed."""
    healed = CommandOptions(heal="start '{host} {broker}'", prove="look {topic}", timeout="2s")
    runner.add_pending_heal("1-command", [1, 2], healed, KNOWN)
    runner.add_pending_heal("2-command", [1], CommandOptions(), KNOWN)
    created = read_journal(tmp_path)
    assert [(heal.step, heal.heals) for heal in created.pending_heals] == [
        ("1-command", [["start", "kafka-1 1"], ["start", "kafka-2 2"]]),
        ("2-command", []),
    ]
    first, second = created.pending_heals
    assert first.proves == [["look", "orders"]] * 2 and first.timeout_s == 2
    assert [each["KAPUT_HOST"] for each in first.environments] == ["kafka-1", "kafka-2"]
    assert second.proves == []
    runner.heal_done("1-command")
    runner.heal_done("2-command")
    assert read_journal(tmp_path).nothing


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
