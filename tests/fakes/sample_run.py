"""A small run folder with one of everything: a loss, a duplicate, a redelivery, a kill, an election."""

from __future__ import annotations

import uuid
from pathlib import Path

import yaml

from kaput.core import MS
from kaput.evidence.folder import GroupDrain, Manifest, RunFolder, replace_text
from kaput.evidence.recorder import Recorder
from kaput.evidence.sealing import seal
from kaput.scenario.model import Scenario

MESSAGES = 400
_LOST = range(100, 110)  # acknowledged under epoch 0, overwritten by epoch 1
_START_NS = 1_700_000_000_000 * MS
_KILL_NS = _START_NS + 111 * MS
_ELECTION_NS = _START_NS + 150 * MS

_SCENARIO = {
    "version": 1,
    "title": "sample",
    "topics": [{"name": "t", "partitions": 1, "replication-factor": 3}],
    "workload": {
        "producers": [{"topic": "t", "acks": "1", "messages": MESSAGES}],
        "groups": [{"id": "g", "topics": ["t"], "members": 1}],
    },
    "faults": [{"at": "1s", "fault": "kill", "target": "leader-of t/0", "for": "1s"}],
}


def write(path: Path) -> RunFolder:
    folder = RunFolder(path)
    path.mkdir(parents=True, exist_ok=True)
    replace_text(folder.scenario_path, yaml.safe_dump(Scenario.model_validate(_SCENARIO).dump()))
    _messages(path)
    _cluster(path)
    seal(folder)
    folder.write_manifest(
        Manifest(
            run_id=uuid.UUID(int=0),
            scenario="sample",
            state="sealed",
            started_ns=_START_NS,
            ended_ns=_START_NS + 1000 * MS,
            groups=[GroupDrain(group="g", drained=True)],
        )
    )
    return folder


def _messages(path: Path) -> None:
    with (
        Recorder(path, "sends", "p") as sends,
        Recorder(path, "log", "drain") as log,
        Recorder(path, "deliveries", "m") as deliveries,
    ):
        offset = 0
        for seq in range(MESSAGES):
            at = _START_NS + seq * MS
            acked_at = seq if seq < _LOST.stop else offset
            sends.row(0, seq, "t", 0, at, at + 2 * MS, "acked", acked_at)
            if seq in _LOST:
                continue
            # One message is stored twice, and the last two are delivered twice and out of order.
            for _ in range(2 if seq == 300 else 1):
                log.row("t", 0, offset, int(seq > _LOST.stop), at // MS, 0, seq, True)
                deliveries.row("g", "m", "t", 0, offset, 0, seq, True, at + 5 * MS)
                offset += 1
        deliveries.row("g", "m", "t", 0, offset - 2, 0, MESSAGES - 2, True, _START_NS + 900 * MS)


def _cluster(path: Path) -> None:
    with (
        Recorder(path, "group_events", "m") as groups,
        Recorder(path, "cluster_events", "c") as cluster,
        Recorder(path, "end_offsets", "drain") as ends,
        Recorder(path, "faults", "nemesis") as faults,
    ):
        groups.row("g", "m", "assigned", "t", 0, None, _START_NS)
        groups.row("g", "m", "committed", "t", 0, 50, _START_NS + 100 * MS)
        groups.row("g", "m", "left", None, None, None, _START_NS + 950 * MS)
        cluster.row("leader", None, "t", 0, 1, 0, [1, 2, 3], _START_NS - MS, "sample")
        cluster.row("leader", None, "t", 0, 2, 1, [2, 3], _ELECTION_NS, "sample")
        cluster.row("isr", None, "t", 0, 2, 1, [1, 2, 3], _START_NS + 500 * MS, "sample")
        end = MESSAGES - len(_LOST) + 1
        ends.row("t", 0, end, end)
        faults.row(
            "1-kill", "kill", "leader-of t/0", [1], _KILL_NS, _KILL_NS, _START_NS + 400 * MS, True, "gone"
        )
