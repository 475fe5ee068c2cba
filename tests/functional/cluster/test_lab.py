"""Starting and ending real clusters: what stays, what goes, and the errors."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from kaput.cluster.admin import Admin
from kaput.cluster.cds import find_archive
from kaput.cluster.distribution import Distribution, from_home, java_command
from kaput.cluster.metadata_log import read_cluster_events
from kaput.cluster.own_cluster import OwnCluster
from kaput.cluster.properties import NodeLayout, write_properties
from kaput.cluster.storage import first_records, format_storage, new_id, run_storage_tool
from kaput.errors import BrokerError, KaputError
from kaput.java import Java
from kaput.processes.ownership import Owner
from kaput.scenario.model import Cluster, Topic
from waiting import PATIENCE_S, eventually, wait_for


def test_data_is_removed_and_configs_and_logs_are_kept(
    owner: Owner, distribution: Distribution, java: Java, tmp_path: Path
) -> None:
    """A combined cluster leaves its properties and logs, no data and no process, also after an exception."""
    with (
        pytest.raises(ZeroDivisionError),
        OwnCluster(owner, Cluster(brokers=1), distribution, java, tmp_path) as cluster,
    ):
        pids = [node.pid for node in cluster.nodes.values()]
        assert (tmp_path / "1" / "data" / "meta.properties").exists()
        assert [kind for kind, _, _ in cluster.lifecycle] == ["started"]
        _ = 1 // 0
    assert not (tmp_path / "1" / "data").exists()
    assert "started" in (tmp_path / "1" / "server.log").read_text()
    assert (tmp_path / "1" / "server.properties").exists()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert cluster.troubles() == []


def test_invalid_broker_config_fails_the_start_at_once(
    owner: Owner, distribution: Distribution, java: Java, tmp_path: Path
) -> None:
    """The error in its log is the reason, long before the time to be ready has passed."""
    spec = Cluster(brokers=1, config={"log.segment.bytes": 1})
    ready_s, began = 600, time.monotonic()
    with (
        pytest.raises(BrokerError, match=r"(?s)broker 1 ended on its own.*log\.segment\.bytes"),
        OwnCluster(owner, spec, distribution, java, tmp_path, ready_timeout_s=ready_s),
    ):
        pass
    assert time.monotonic() - began < ready_s / 2
    assert not (tmp_path / "1" / "data").exists()


@pytest.mark.long  # its siblings: the error above and the offline log directory, with other reasons
def test_port_taken_by_another_process_is_named_in_the_error(
    owner: Owner, distribution: Distribution, java: Java, tmp_path: Path
) -> None:
    """The error names the port, and nothing is left."""
    properties, taken = tmp_path / "1" / "server.properties", socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

    def take() -> None:
        wait_for(lambda: "listeners=" in text_of(properties), "the choice of a port")
        found = re.search(r"^listeners=\w+://127\.0\.0\.1:(\d+)", text_of(properties), re.MULTILINE)
        assert found is not None
        taken.bind(("127.0.0.1", int(found[1])))  # long before the JVM is as far
        taken.listen()

    reason = r"broker 1 ended on its own \(exit status 1\): .*to 127\.0\.0\.1:\d+: Address already in use$"
    with taken, ThreadPoolExecutor(1) as pool:
        taking = pool.submit(take)
        with (
            pytest.raises(BrokerError, match=reason),
            OwnCluster(owner, Cluster(brokers=1), distribution, java, tmp_path),
        ):
            pass
        taking.result()
    assert not (tmp_path / "1" / "data").exists()


def text_of(path: Path) -> str:
    """Nothing, where it does not exist yet."""
    return path.read_text() if path.exists() else ""


def test_ready_timeout_error_includes_the_broker_log(
    owner: Owner, distribution: Distribution, java: Java, tmp_path: Path
) -> None:
    """A bound that is too short names who was not ready."""
    slow = OwnCluster(owner, Cluster(brokers=1), distribution, java, tmp_path, ready_timeout_s=0.1)
    with pytest.raises(BrokerError, match="not ready after 0 s: broker 1; the log of broker 1 ends:"), slow:
        pass
    assert all(not node.running for node in slow.nodes.values())


def test_unsupported_cluster_modes_are_rejected_before_start(
    owner: Owner, distribution: Distribution, java: Java, tmp_path: Path
) -> None:
    """A Kafka without ZooKeeper, and namespaces that were not entered, are refused before anything starts."""
    for spec, word in [
        (Cluster(mode="zookeeper"), "has no ZooKeeper mode"),
        (Cluster(network="namespaces"), "kaput run"),
    ]:
        with pytest.raises(KaputError, match=word), OwnCluster(owner, spec, distribution, java, tmp_path):
            pass
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def pair(
    distribution: Distribution, java: Java, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OwnCluster]:
    """Two brokers and a controller, left as they were found, but for the broker that the last test adds."""
    spec, folder = Cluster(brokers=2, controllers=1), tmp_path_factory.mktemp("pair")
    with Owner() as owner, OwnCluster(owner, spec, distribution, java, folder) as started:
        yield started


def test_offline_log_directory_is_reported_as_the_reason(pair: OwnCluster) -> None:
    """As when a disk fails: the broker ends at its next checkpoint, and the other one goes on."""
    with Admin(pair) as admin:
        admin.create_topics([Topic(name="orders", replication_factor=2)])
    before = pair.troubles()
    data = pair.nodes[2].layout.data
    gone = data.with_name("gone")
    data.rename(gone)
    wait_for(lambda: pair.troubles() != before, "the end of broker 2")
    assert pair.troubles()[len(before) :] == [
        "broker 2 ended on its own (exit status 1): Shutdown broker because all log dirs in "
        f"{data} have failed"
    ]
    assert pair.nodes[1].running
    shutil.rmtree(data, ignore_errors=True)  # what the broker may have made anew before its end
    gone.rename(data)
    pair.nodes[2].start()
    pair.wait_ready(PATIENCE_S)


def test_only_an_unintended_broker_death_is_a_trouble(
    pair: OwnCluster, distribution: Distribution, java: Java
) -> None:
    """Only an unintended death is a trouble; both are in the lifecycle; a clean stop is clean."""
    troubles, began = pair.troubles(), len(pair.lifecycle)
    assert pair.nodes[1].terminate(60)
    pid = pair.nodes[2].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: pair.troubles() != troubles)
    (trouble,) = pair.troubles()[len(troubles) :]
    assert trouble.startswith("broker 2 ended on its own (exit status -9); its log ends:\n")
    with pytest.raises(BrokerError, match=r"broker [12] "):
        pair.wait_ready(5)
    for broker in (1, 2):
        pair.nodes[broker].start()
    pair.wait_ready(PATIENCE_S)
    kinds = [(kind, node) for kind, node, _ in pair.lifecycle[began : began + 2]]
    assert kinds == [("stopped", 1), ("stopped", 2)]
    # A killed controller's files are still readable.
    pair.nodes[101].kill()
    events = read_cluster_events(distribution.jars, pair.metadata_logs[0]).events
    pair.nodes[101].start()
    pair.wait_ready(PATIENCE_S)
    assert {event.broker for event in events if event.kind == "unfenced"} == {1, 2}


@pytest.mark.long
def test_storage_format_matches_kafkas_storage_tool(
    distribution: Distribution, java: Java, tmp_path: Path
) -> None:
    """Our meta.properties and checkpoint against the tool's: the same but for random ids and times."""
    cluster_id = new_id()
    place = NodeLayout(3, "combined", "127.0.0.1", 10_001, 10_002, tmp_path / "3")
    write_properties(place, [place], Cluster(brokers=1))
    run_storage_tool(place.properties, cluster_id, distribution, java)
    theirs = _files(place.data)
    ours_place = replace(place, folder=tmp_path / "ours")
    format_storage(ours_place, cluster_id, distribution, java)
    ours = _files(ours_place.data)

    assert ours.keys() == theirs.keys()
    ours_meta, their_meta = (_settings(files["meta.properties"]) for files in (ours, theirs))
    directory = ours_meta.pop("directory.id")
    assert len(directory) == len(their_meta.pop("directory.id"))
    assert ours_meta == their_meta
    name = first_records(place.data, distribution.version)
    assert ours[name].stat().st_mode == theirs[name].stat().st_mode
    assert _records(ours[name], distribution, java) == _records(theirs[name], distribution, java)
    assert _records(ours[name], distribution, java)


def _files(data: Path) -> dict[str, Path]:
    return {str(path.relative_to(data)): path for path in data.rglob("*") if path.is_file()}


def _settings(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def _records(checkpoint: Path, distribution: Distribution, java: Java) -> list[str]:
    # The tool goes by the name of a file: this is that of a snapshot.
    snapshot = checkpoint.parent / "snapshot"
    snapshot.mkdir(exist_ok=True)
    copy = snapshot / "00000000000000000000-0000000000.checkpoint"
    shutil.copy(checkpoint, copy)
    args = ["--cluster-metadata-decoder", "--files", copy]
    command = java_command(java, distribution, "org.apache.kafka.tools.DumpLogSegments", args)
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return [line.partition("payload: ")[2] for line in done.stdout.splitlines() if "payload: " in line]


@pytest.mark.long
def test_damaged_cds_archive_only_slows_the_start(
    distribution: Distribution, java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Garbage is passed over by the JVM; what was cut short is never given to it, because it would crash."""
    good = find_archive(distribution, java)
    assert good is not None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    copy = tmp_path / "kaput" / "cds" / good.name
    copy.parent.mkdir(parents=True)
    shutil.copy(good, copy)
    assert find_archive(distribution, java) == copy
    copy.write_bytes(good.read_bytes()[:10_000])
    assert find_archive(distribution, java) is None
    copy.write_bytes(b"garbage!" * (good.stat().st_size // 8))
    for archive in (copy, tmp_path / "missing.jsa"):
        args = java_command(java, distribution, "kafka.tools.StorageTool", ["random-uuid"], archive=archive)
        done = subprocess.run(
            args, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=tmp_path
        )
        assert done.returncode == 0, archive


@pytest.mark.long
def test_an_installation_runs_like_the_locked_jars(
    owner: Owner, distribution: Distribution, java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--kafka-home: the jars of a directory, with no lock file, make a cluster, and its own archive."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    notes: list[str] = []
    libs = tmp_path / "kafka" / "libs"
    libs.mkdir(parents=True)
    for jar in distribution.jars:
        (libs / jar.name).symlink_to(jar)
    home = from_home(tmp_path / "kafka")
    assert home.version == distribution.version
    with OwnCluster(owner, Cluster(brokers=1), home, java, tmp_path / "brokers", notes.append) as cluster:
        assert list(cluster.broker_endpoints) == [1]
    assert notes == ["preparing faster broker starts (once)"]
    assert find_archive(home, java) is not None


def test_failed_broker_addition_leaves_nothing_behind(pair: OwnCluster) -> None:
    """Neither a node that is waited for, nor its data; and the next try has its number."""
    nodes, brokers = list(pair.nodes), list(pair.broker_endpoints)
    taken = pair.nodes[1].layout.folder.parent / "3"
    taken.write_text("in the way of its directory")
    with pytest.raises(OSError, match="exists"):
        pair.grow(1)
    assert (list(pair.nodes), list(pair.broker_endpoints)) == (nodes, brokers)
    taken.unlink()
    assert pair.grow(1) == [3]
    pair.wait_ready(PATIENCE_S)
