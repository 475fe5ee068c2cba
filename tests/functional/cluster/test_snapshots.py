"""A metadata log whose beginning was given up for a snapshot, and one that cannot be read whole. All real."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kaput.cluster.admin import Admin
from kaput.cluster.distribution import Distribution, java_command
from kaput.cluster.kafka_cluster import ClusterEvent
from kaput.cluster.metadata_log import MetadataDecoder, read_cluster_events, read_records
from kaput.cluster.own_cluster import OwnCluster
from kaput.cluster.segments import segments
from kaput.java import Java
from kaput.processes.ownership import Owner
from kaput.scenario.model import Cluster, Topic
from waiting import eventually

_RECORD = re.compile(r"\| offset: \d+ CreateTime: (\d+) .*? payload: (\{.*\})$")
# A snapshot each second, small segments, and a session that is over within a few snapshots.
_SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": 1,
    "metadata.log.max.snapshot.interval.ms": 1000,
    "metadata.log.segment.ms": 1000,
    "metadata.max.idle.interval.ms": 200,
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, distribution: Distribution, java: Java) -> Path:
    """A metadata log with several segments and snapshots, in which the broker stops after some of them."""
    path = tmp_path_factory.mktemp("snapshots")
    spec = Cluster(brokers=1, controllers=1, config=_SNAPSHOTS)
    with Owner() as owner, OwnCluster(owner, spec, distribution, java, path / "brokers") as cluster:
        with Admin(cluster) as admin:
            admin.create_topics([Topic(name="orders", partitions=2, replication_factor=1)])
        log = cluster.metadata_logs[0]

        def snapshots_after(offset: int) -> list[int]:
            ends = sorted(int(p.stem.partition("-")[0]) for p in log.glob("*.checkpoint"))
            starts = {int(p.stem) for p in log.glob("*.log")}
            return [end for end in ends if end > offset and end in starts]

        assert eventually(lambda: bool(snapshots_after(30)))
        cluster.nodes[1].kill()
        moved = snapshots_after(30)[-1]
        assert eventually(lambda: len(snapshots_after(moved)) > 5)
        cluster.nodes[101].kill()  # else files come and go under the copy
        shutil.copytree(log, path / "log")
    return path / "log"


def copied(log: Path, to: Path, begin: int) -> Path:
    """The log as Kafka leaves it that has given up what lies before `begin`."""
    shutil.copytree(log, to)
    for path in to.iterdir():
        if path.stem.partition("-")[0].isdecimal() and int(path.stem.partition("-")[0]) < begin:
            path.unlink()
    return to


def begins(log: Path) -> list[int]:
    """Where both a segment begins and a snapshot ends, after the one that Kafka 4.4 formats storage with."""
    ends = {int(path.stem.partition("-")[0]) for path in log.glob("*.checkpoint")}
    return sorted((ends & {int(path.stem) for path in log.glob("*.log")}) - {0})


def state(events: list[ClusterEvent]) -> dict[object, object]:
    """Who leads what, in which epoch and ISR, and who is in the cluster, at the end."""
    found: dict[object, object] = {}
    for event in events:
        if event.kind in ("fenced", "unfenced"):
            found[event.broker] = event.kind
        else:
            found[event.topic, event.partition] = (event.leader, event.leader_epoch, sorted(event.isr or []))
    return found


@pytest.mark.long
def test_metadata_log_state_is_known_after_truncation_to_a_snapshot(
    recorded: Path, distribution: Distribution, tmp_path: Path
) -> None:
    """From the first snapshot on, and from the last; what was given up is a trouble where anything moved."""
    whole = read_cluster_events(distribution.jars, recorded)
    assert whole.troubles == []
    assert state(whole.events)[1] == "fenced"
    moved = False
    for number, begin in enumerate([begins(recorded)[0], begins(recorded)[-1]]):
        cut = copied(recorded, tmp_path / str(number), begin)
        events, troubles = read_cluster_events(distribution.jars, cut)
        created = {key: value for key, value in state(whole.events).items() if key in state(events)}
        assert state(events) == created
        moved = any(event.source == "metadata-snapshot" and (event.leader_epoch or 0) > 0 for event in events)
        assert [f"begins at offset {begin}" in trouble for trouble in troubles] == [True] * moved
    assert moved


def test_metadata_records_are_those_that_kafkas_dump_tool_prints(
    recorded: Path, distribution: Distribution, java: Java
) -> None:
    """Kind, time, and every field that is not the default, which the tool prints as well."""
    files = [*segments(recorded), *recorded.glob("*.checkpoint")]
    main, names = "org.apache.kafka.tools.DumpLogSegments", ["--files", ",".join(map(str, files))]
    command = java_command(java, distribution, main, ["--cluster-metadata-decoder", *names])
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    printed = [each for each in map(_RECORD.match, lines) if each is not None]
    theirs = [(int(at), json.loads(payload)) for at, payload in map(re.Match.groups, printed)]
    reads = [read_records([file], MetadataDecoder(distribution.jars)) for file in files]
    assert [each.problem for each in reads] == [None] * len(files)
    ours = [each for read in reads for each in read.records if each.kind != "SnapshotHeaderRecord"]
    kinds = {each.kind.removesuffix("Record").upper() for each in ours}
    theirs = [each for each in theirs if each[1]["type"].replace("_", "").removesuffix("RECORD") in kinds]
    for (at_ms, payload), each in zip(theirs, ours, strict=True):
        given = {name[0].upper() + name[1:]: value for name, value in payload["data"].items()}
        shown = {name: _shown(each.data[name], given[name]) for name in given}
        assert (at_ms, given) == (each.at_ms, shown)


def _shown(ours: Any, theirs: Any) -> Any:
    """A value as the tool prints it: ids in base64, and the names of fields in lower case."""
    if isinstance(ours, bytes):
        return base64.urlsafe_b64encode(ours).decode().rstrip("=")
    if isinstance(ours, list) and isinstance(theirs, list):
        return [_shown(one, other) for one, other in zip(ours, theirs, strict=True)]
    if isinstance(ours, dict):
        return {name[0].lower() + name[1:]: _shown(value, None) for name, value in ours.items()}
    return ours


def test_incomplete_metadata_log_is_reported(
    recorded: Path, distribution: Distribution, tmp_path: Path
) -> None:
    """Damaged, cut within a batch, and without its snapshot."""
    cut = shutil.copytree(recorded, tmp_path / "cut")
    last = max(path for path in cut.glob("*.log") if path.stat().st_size)
    last.write_bytes(last.read_bytes()[:-7])
    last.write_bytes(last.read_bytes() + bytes(7))
    assert "could be read (" in " ".join(read_cluster_events(distribution.jars, cut).troubles)
    torn = shutil.copytree(recorded, tmp_path / "torn")
    last = max(path for path in torn.glob("*.log") if path.stat().st_size)
    last.write_bytes(last.read_bytes()[:-7])
    assert "could be read (" in " ".join(read_cluster_events(distribution.jars, torn).troubles)
    bare = copied(recorded, tmp_path / "bare", begins(recorded)[0])
    for path in bare.glob("*.checkpoint"):
        path.unlink()
    events, troubles = read_cluster_events(distribution.jars, bare)
    assert "are not known" in troubles[0]
    assert all(event.source == "metadata-log" for event in events)
