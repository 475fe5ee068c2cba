"""A broker whose disk is full, on a file system of its own; and that the mount leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from driving import Kaput


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
