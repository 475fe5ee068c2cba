"""What the cluster itself recorded: leader epochs, ISR changes and fencing, from the KRaft metadata log.

Kafka's own dump tool decodes the log's files, whether their controller runs or was killed; the records'
timestamps are the controller's, in ms. Its place: collecting.py asks here in KRaft mode, so that judging
needs no Kafka.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kaput.cluster.cds import find_archive
from kaput.cluster.distribution import Distribution
from kaput.cluster.events import ClusterEvent
from kaput.cluster.java import Java
from kaput.cluster.jvm import java_command
from kaput.errors import LabError

# Before Kafka 4 it was in another package.
_TOOL, _OLDER_TOOL = "org.apache.kafka.tools.DumpLogSegments", "kafka.tools.DumpLogSegments"
_TIMEOUT_S = 60
_RECORD = re.compile(r"\| offset: \d+ CreateTime: (\d+) .*? payload: (\{.*\})$")
_FENCE, _UNFENCE = 1, -1


def read_cluster_events(distribution: Distribution, java: Java, metadata_log: Path) -> list[ClusterEvent]:
    """The events in one voter's metadata log directory, in log order. Raises LabError."""
    segments = sorted(metadata_log.glob("*.log"))
    if not segments:
        raise LabError(f"{metadata_log} holds no metadata log")
    command = java_command(
        java,
        distribution,
        _TOOL if distribution.major >= 4 else _OLDER_TOOL,
        ["--cluster-metadata-decoder", "--files", ",".join(map(str, segments))],
        archive=find_archive(distribution, java),
        heap=("-Xms64m", "-Xmx512m"),
    )
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise LabError(f"Kafka's dump tool took longer than {_TIMEOUT_S} s on {metadata_log}") from None
    events = list(parse(done.stdout.splitlines()))
    # It also fails on a batch that the controller is just writing, after everything before it.
    if done.returncode != 0 and not events:
        raise LabError(f"Kafka's dump tool failed on {metadata_log}: {(done.stderr or done.stdout)[-500:]}")
    return events


def parse(lines: Iterable[str]) -> Iterator[ClusterEvent]:
    """The events in what the dump tool prints."""
    image = _Image()
    for line in lines:
        match = _RECORD.match(line)
        if match is not None:
            record = json.loads(match[2])
            yield from image.apply(record["type"], record["data"], int(match[1]) * 1_000_000)


def knowledge(metadata_log: Path) -> tuple[int, int]:
    """How far a voter has come: the newest epoch first, because an old leader's log may be the longer one."""
    try:
        epoch = int(json.loads((metadata_log / "quorum-state").read_text())["leaderEpoch"])
    except (OSError, ValueError, KeyError):
        epoch = -1
    return epoch, sum(segment.stat().st_size for segment in metadata_log.glob("*.log"))


@dataclass
class _Partition:
    leader: int
    leader_epoch: int
    isr: list[int]
    elr: list[int]


@dataclass
class _Image:
    """The cluster as of the last record, which the next record is relative to."""

    topics: dict[str, str] = field(default_factory=dict)
    partitions: dict[tuple[str, int], _Partition] = field(default_factory=dict)
    alive: dict[int, bool] = field(default_factory=dict)

    def apply(self, kind: str, data: dict[str, Any], at_ns: int) -> Iterator[ClusterEvent]:
        match kind:
            case "TOPIC_RECORD":
                self.topics[data["topicId"]] = data["name"]
            case "PARTITION_RECORD":
                state = _Partition(
                    data["leader"], data["leaderEpoch"], data["isr"], data.get("eligibleLeaderReplicas") or []
                )
                self.partitions[(data["topicId"], data["partitionId"])] = state
                yield self._event("leader", data, state, at_ns)
            case "PARTITION_CHANGE_RECORD":
                yield from self._change(data, at_ns)
            case "REGISTER_BROKER_RECORD":
                # A broker that comes back is fenced until it has caught up; a new one always was.
                if self.alive.get(data["brokerId"]):
                    yield from self._fencing(data["brokerId"], False, at_ns)
            case "BROKER_REGISTRATION_CHANGE_RECORD" if data.get("fenced", 0) in (_FENCE, _UNFENCE):
                yield from self._fencing(data["brokerId"], data["fenced"] == _UNFENCE, at_ns)
            case _:
                return

    def _change(self, data: dict[str, Any], at_ns: int) -> Iterator[ClusterEvent]:
        """Only what changes is in the record; naming a leader, even the same one, begins a new epoch."""
        state = self.partitions[(data["topicId"], data["partitionId"])]
        before = (state.isr, state.elr)
        state.isr = _or_else(data.get("isr"), state.isr)
        state.elr = _or_else(data.get("eligibleLeaderReplicas"), state.elr)
        if "leader" in data:
            state.leader, state.leader_epoch = data["leader"], state.leader_epoch + 1
            yield self._event("leader", data, state, at_ns)
        elif before != (state.isr, state.elr):
            yield self._event("isr", data, state, at_ns)

    def _fencing(self, broker: int, alive: bool, at_ns: int) -> Iterator[ClusterEvent]:
        if self.alive.get(broker, False) != alive:
            self.alive[broker] = alive
            kind = "unfenced" if alive else "fenced"
            yield ClusterEvent(kind, broker, None, None, None, None, None, at_ns)

    def _event(self, kind: str, data: dict[str, Any], state: _Partition, at_ns: int) -> ClusterEvent:
        return ClusterEvent(
            kind,
            None,
            self.topics[data["topicId"]],
            data["partitionId"],
            state.leader,
            state.leader_epoch,
            list(state.isr),
            at_ns,
            elr=list(state.elr),
        )


def _or_else(value: list[int] | None, otherwise: list[int]) -> list[int]:
    return otherwise if value is None else value
