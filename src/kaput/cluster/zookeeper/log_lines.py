"""Parses lines of a broker's controller.log and state-change.log, as Kafka 3.9 writes them.

Its place: event_log.py combines the logs of all brokers; log4j.properties configures them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from kaput.errors import UnknownFormat


@dataclass(frozen=True)
class PartitionVersion:
    """One version of a partition, as written by the controller or received by a broker; times in ns, UTC."""

    topic: str
    partition: int
    version: int  # of its znode: 0, 1, 2 ...
    leader: int  # -1 without a leader
    leader_epoch: int
    isr: list[int]
    at_ns: int
    received: bool = False


@dataclass(frozen=True)
class Elected:
    """This broker became the controller."""

    controller_epoch: int
    at_ns: int


@dataclass(frozen=True)
class Alive:
    """The live brokers that this controller saw; `bounced`: restarted before the controller noticed."""

    brokers: frozenset[int]
    bounced: frozenset[int]
    at_ns: int


LogEntry = PartitionVersion | Elected | Alive

_LINE = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] [A-Z]+ (.*)", re.DOTALL)
_PLACE = r"(?P<topic>\S+)-(?P<partition>\d+)"
_LEADER_AND_ISR = (
    r"LeaderAndIsr\(leader=(?P<leader>-?\d+), leaderEpoch=(?P<epoch>\d+), "
    r"isrWithBrokerEpoch=List\((?P<isr>.*?)\), leaderRecoveryState=\w+, partitionEpoch=(?P<version>\d+)\)"
)
_ISR_IN_LEADER_AND_ISR = re.compile(r"BrokerState\(brokerId=(\d+),")
_WRITTEN = (
    # elections
    re.compile(
        rf"\[Controller id=\d+ epoch=\d+\] Changed partition {_PLACE} from \w+ to \w+ "
        rf"with state {_LEADER_AND_ISR}"
    ),
    # ISR changes that the leader requested
    re.compile(rf"\[Controller id=\d+\] ISR for partition {_PLACE} updated to {_LEADER_AND_ISR}"),
    # a replica's broker stopped
    re.compile(
        rf"\[Controller id=\d+ epoch=\d+\] Partition {_PLACE} state changed to \(Leader:(?P<leader>-?\d+),"
        r"ISR:(?P<isr>[\d,]*),LeaderRecoveryState:\w+,LeaderEpoch:(?P<epoch>\d+),ZkVersion:(?P<version>\d+),"
    ),
)
_RECEIVED = re.compile(
    r"\[Broker id=\d+\] Cached leader info UpdateMetadataPartitionState\(topicName='(?P<topic>[^']+)', "
    r"partitionIndex=(?P<partition>\d+), controllerEpoch=\d+, leader=(?P<leader>-?\d+), "
    r"leaderEpoch=(?P<epoch>\d+), isr=\[(?P<isr>[\d, ]*)\], zkVersion=(?P<version>\d+),"
)
_ELECTED = re.compile(
    r"\[Controller id=\d+\] \d+ successfully elected as the controller\. Epoch incremented to (?P<epoch>\d+)"
)
_ALIVE = (
    re.compile(r"\[Controller id=\d+\] Currently active brokers in the cluster: \w+\((?P<alive>[\d, ]*)\)"),
    re.compile(
        r"\[Controller id=\d+\] Newly added brokers: [\d,]*, deleted brokers: [\d,]*, "
        r"bounced brokers: (?P<bounced>[\d,]*), all live brokers: (?P<alive>[\d,]*)"
    ),
)


# What the lines above contain in any version, whatever else they say.
_ABOUT_IT = re.compile(
    r"\] (?:Changed partition .* with state LeaderAndIsr\(|ISR for partition .* updated to "
    r"|Partition .* state changed to \(Leader:|Cached leader info |\d+ successfully elected as the controller"
    r"|Currently active brokers in the cluster: |Newly added brokers: )"
)


def read_line(line: str) -> LogEntry | None:
    """The state of a partition or of the brokers in a line; None for other lines. Raises UnknownFormat."""
    stamped = _LINE.match(line)
    if stamped is None:
        return None
    text = stamped[2]
    for pattern in (*_WRITTEN, _RECEIVED):
        if match := pattern.match(text):
            return _partition_state(match, _ns(stamped[1]), received=pattern is _RECEIVED)
    if match := _ELECTED.match(text):
        return Elected(int(match["epoch"]), _ns(stamped[1]))
    for pattern in _ALIVE:
        if match := pattern.match(text):
            named = match.groupdict()
            return Alive(
                frozenset(_ids(named["alive"])), frozenset(_ids(named.get("bounced", ""))), _ns(stamped[1])
            )
    if _ABOUT_IT.search(text) and line.endswith("\n"):  # a killed broker's last line may be cut
        raise UnknownFormat(f"a broker's log has {text.strip()[:300]!r}")
    return None


def _partition_state(match: re.Match[str], at_ns: int, received: bool) -> PartitionVersion:
    isr = match["isr"]
    brokers = map(int, _ISR_IN_LEADER_AND_ISR.findall(isr)) if "BrokerState" in isr else _ids(isr)
    return PartitionVersion(
        match["topic"],
        int(match["partition"]),
        int(match["version"]),
        int(match["leader"]),
        int(match["epoch"]),
        list(brokers),
        at_ns,
        received,
    )


def _ids(text: str) -> list[int]:
    return [int(part) for part in text.replace(" ", "").split(",") if part]


def _ns(stamp: str) -> int:
    """Nanoseconds since the epoch; via whole milliseconds, because a float has too few digits."""
    moment = datetime.fromisoformat(stamp).replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000) * 1_000_000
