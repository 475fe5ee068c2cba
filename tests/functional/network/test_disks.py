"""Brokers whose disks are full, hang or fail, on file systems of their own, of which nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from driving import KAPUT, UNHURRIED, Kaput, Result, mentions
from kaput.cluster.network.reexec import namespace_command
from kaput.errors import LabError
from waiting import PATIENCE_S, wait_for

FILLING = Path(__file__).with_name("filling.py")
SOON = [
    "--set", "cluster.config.broker.session.timeout.ms=3000",
    "--set", "cluster.config.broker.heartbeat.interval.ms=500",
    "--set", "cluster.disk-mb=96",
    "--set", "workload.producers.0.messages=6000",
    "--set", "faults.0.at=3s",
]  # fmt: skip


def _devices() -> set[str]:
    """The loop devices that are in use."""
    return {path.parent.name for path in Path("/sys/block").glob("loop*/loop")}


@pytest.fixture
def _able() -> None:
    """Skips, with kaput's own sentence, where this machine cannot do it."""
    try:
        namespace_command({"tmpfs", "ext4"})
    except LabError as error:
        pytest.skip(str(error))


def _held(kaput: Kaput, scenario: str, duration: str, *more: str) -> Result:
    """A run in which the fault is confirmed and nothing is lost; its disks are gone."""
    before = _devices()
    result = kaput.run(scenario, *SOON, "--set", f"faults.0.for={duration}", *more)
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    (fault,) = result.findings["faults"]
    assert fault["bit"], fault["proof"]
    assert result.count("lost") == 0
    wait_for(lambda: _devices() <= before, "the release of the loop devices")
    return result


@pytest.mark.long
@pytest.mark.usefixtures("_able")
def test_disk_stall_causes_no_election_until_healed(kaput: Kaput) -> None:
    """Nothing says that it hangs; what ends the outage is the heal."""
    result = _held(kaput, "leader-disk-stall-acks-all", "8s", "--set", "expect.unavailable-ms='>= 7000'")
    stall = result.fault("disk-stall")
    assert "a write has not returned after half a second; the write returned after" in stall["proof"]
    assert stall["proof"].endswith("at the heal")
    assert stall["election_ms"] is None and result.findings["leader_changes"] == []
    assert stall["unavailable_ended_by"] == "heal" and stall["unavailable_ms"] > 6_000


@pytest.mark.long
@pytest.mark.usefixtures("_able")
def test_leader_with_disk_errors_is_replaced_and_rejoins(kaput: Kaput) -> None:
    """It shuts itself down, a follower leads; then it catches up with what it had not synced."""
    result = _held(kaput, "leader-disk-error-acks-all", "6s")
    failed = result.fault("disk-error")
    assert "Input/output error; broker 1 shut down; writes succeed again" in failed["proof"]
    assert failed["election_ms"] is not None
    assert result.findings["leader_changes"][0]["old_leader"] == 1


@pytest.mark.long
@pytest.mark.usefixtures("_able")
def test_run_killed_during_a_disk_stall_leaves_nothing(kaput: Kaput) -> None:
    """No broker that waits for its disk for ever, and no device."""
    before = _devices()
    command = ["run", "leader-disk-stall-acks-all", *SOON, "--set", "faults.0.for=60s"]
    longer = ["--set", "workload.producers.0.messages=60000"]
    running = subprocess.Popen(
        [*KAPUT, *command, *longer, *UNHURRIED, "--runs", str(kaput.runs)], stderr=subprocess.PIPE, text=True
    )
    assert running.stderr is not None
    assert any("injected: disk-stall" in line for line in running.stderr)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate(timeout=PATIENCE_S)
    wait_for(lambda: not mentions(kaput.runs), "the end of every process")
    wait_for(lambda: _devices() <= before, "the release of the loop devices")


@pytest.mark.usefixtures("_able")
def test_disk_stall_needs_an_ext4_disk_with_a_size(kaput: Kaput) -> None:
    """A file system that can fail, with a size."""
    done = kaput.call("run", "leader-disk-stall-acks-all", "--set", "cluster.disk-fs=tmpfs")
    assert done.returncode == 2
    assert "disk-stall needs a disk that can fail; write cluster.disk-mb: 256, disk-fs: ext4" in done.stderr


def test_a_disk_is_filled_to_its_last_page_and_freed_again(way: list[str], tmp_path: Path) -> None:
    """Bytes and pages as the system counts them; errors name the path."""
    done = subprocess.run(
        [*way, sys.executable, str(FILLING), str(tmp_path / "disk")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.usefixtures("way")
def test_leader_with_a_full_disk_is_replaced_and_rejoins(kaput: Kaput) -> None:
    """Its disk refuses a page, it shuts itself down, a follower leads, and nothing is lost."""
    result = kaput.run(
        "leader-disk-full-acks-all",
        "--set", "cluster.disk-mb=128",
        "--set", "cluster.config.broker.session.timeout.ms=3000",
        "--set", "cluster.config.broker.heartbeat.interval.ms=500",
        "--set", "workload.producers.0.messages=24000",
        "--set", "faults.0.at=3s",
        "--set", "faults.0.for=6s",
    )  # fmt: skip
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    full = result.fault("disk-full")
    assert full["bit"], full["proof"]
    assert "no space left on device" in full["proof"] and "broker 1 (pid" in full["proof"]
    assert "shut down; space available again after the heal" in full["proof"]
    assert full["election_ms"] is not None
    assert result.count("lost") == 0
    assert result.findings["leader_changes"][0]["old_leader"] == 1
    (run,) = kaput.runs.iterdir()
    assert not list(run.glob("brokers/*/data")) and not list(run.glob("brokers/*/tmp"))
    assert "kaput /" not in Path("/proc/mounts").read_text()


def test_disk_full_needs_namespaces_and_a_separate_disk(kaput: Kaput) -> None:
    """Without them nothing can be mounted; without a disk of its own nothing is filled."""
    done = kaput.call("run", "leader-disk-full-acks-all", "--network", "loopback")
    assert done.returncode == 2 and "disk-mb" in done.stderr
    done = kaput.call("run", "leader-kill-acks-1", "--set", "faults.0.fault=disk-full")
    assert done.returncode == 2 and "disk-full needs a separate disk for each broker" in done.stderr
