"""The events of a cluster in ZooKeeper mode: leader epochs, ISR changes, brokers that started or stopped.

They are read from the brokers' logs. Every change of a partition is a new version of its znode, and every log
line about it names that version. So a change counts once, however many logs have it, and versions give the
order, not clocks. The controller's own line counts; if it died before writing one, that of the first broker
that learned of the change. A deposed controller writes no versions (ZooKeeper refuses), but may log which
brokers it thinks live. Its place: mode.py.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from kaput.cluster.kafka_cluster import CONTROLLER_LOG, STATE_CHANGE_LOG, ClusterEvent
from kaput.errors import LabError, UnknownFormat


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


SOURCES = {"controller.log": CONTROLLER_LOG, "state-change.log": STATE_CHANGE_LOG}


def read_cluster_events(folders: Mapping[int, Path]) -> list[ClusterEvent]:
    """The events in the logs of all brokers, by folder. Raises LabError if one is missing; UnknownFormat."""
    record = ZooKeeperEvents()
    for broker, folder in sorted(folders.items()):
        for name, source in SOURCES.items():
            try:
                with (folder / name).open(encoding="utf-8", errors="replace") as lines:
                    record.read(lines, source)
            except OSError as error:
                raise LabError(f"broker {broker} left no {folder / name} ({error.strerror})") from None
    if not record:
        raise UnknownFormat(f"the brokers' {' and '.join(SOURCES)} have lines in a format")
    return record.events()


@dataclass
class ZooKeeperEvents:
    """Combines all logs, which `read` accepts in any order."""

    _states: dict[tuple[str, int], dict[int, tuple[PartitionVersion, str]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    _terms: dict[int, tuple[int, list[Alive]]] = field(
        default_factory=dict
    )  # by controller epoch: when it began, and the live brokers it saw

    def __bool__(self) -> bool:
        """Whether a line was about leaders, in-sync replicas or controllers."""
        return bool(self._states or self._terms)

    def read(self, lines: Iterable[str], source: str) -> None:
        term: list[Alive] = []
        for line in lines:
            match read_line(line):
                case PartitionVersion() as state:
                    self._remember(state, source)
                case Elected(epoch, at_ns):
                    term = []
                    self._terms[epoch] = (at_ns, term)
                case Alive() as alive:
                    term.append(alive)

    def events(self) -> list[ClusterEvent]:
        """All events, in order of time."""
        collected = [event for place in sorted(self._states) for event in self._partition_events(place)]
        collected += self._broker_events()
        return sorted(collected, key=lambda event: event.at_ns)

    def _remember(self, state: PartitionVersion, source: str) -> None:
        versions = self._states[state.topic, state.partition]
        known = versions.get(state.version)
        if known is None or (state.received, state.at_ns) < (known[0].received, known[0].at_ns):
            versions[state.version] = (state, source)

    def _partition_events(self, place: tuple[str, int]) -> Iterator[ClusterEvent]:
        """The leader and ISR events of a partition: a new leader epoch is a leader event."""
        before: PartitionVersion | None = None
        for state, source in _by_version(self._states[place]):
            kind = "leader" if before is None or before.leader_epoch != state.leader_epoch else "isr"
            if kind == "leader" or (before is not None and before.isr != state.isr):
                yield ClusterEvent(
                    kind, None, *place, state.leader, state.leader_epoch, state.isr, state.at_ns, source
                )
            before = state

    def _broker_events(self) -> Iterator[ClusterEvent]:
        """Events of brokers that started or stopped, over all controllers."""
        alive: frozenset[int] = frozenset()
        for seen in self._live_brokers():
            gone, come = alive - seen.brokers | (alive & seen.bounced), seen.brokers - alive | seen.bounced
            for kind, brokers in (("fenced", gone), ("unfenced", come)):
                for broker in sorted(brokers):
                    yield ClusterEvent(kind, broker, None, None, None, None, None, seen.at_ns, CONTROLLER_LOG)
            alive = seen.brokers

    def _live_brokers(self) -> Iterator[Alive]:
        """The live brokers that each controller saw until the next election; its later lines are outdated."""
        terms = [self._terms[epoch] for epoch in sorted(self._terms)]
        for (_, term), (next_ns, _) in pairwise([*terms, (2**63 - 1, [])]):
            yield from (seen for seen in term if seen.at_ns < next_ns)


def _by_version(versions: Mapping[int, tuple[PartitionVersion, str]]) -> list[tuple[PartitionVersion, str]]:
    """By version; a change logged later than the next version gets the next version's time."""
    ordered: list[tuple[PartitionVersion, str]] = []
    limit_ns = 2**63 - 1
    for version in sorted(versions, reverse=True):
        state, source = versions[version]
        limit_ns = min(limit_ns, state.at_ns)
        ordered.append((replace(state, at_ns=limit_ns), source))
    return ordered[::-1]
