"""The events of a cluster in ZooKeeper mode: leader epochs, ISR changes, brokers that started or stopped.

They are read from the brokers' logs. Every change of a partition is a new version of its znode, and every log
line about it names that version. So a change counts once, however many logs have it, and versions give the
order, not clocks. The controller's own line counts; if it died before writing one, that of the first broker
that learned of the change. A deposed controller writes no versions (ZooKeeper refuses), but may log which
brokers it thinks live. Its place: mode.py; log_lines.py knows the lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from kaput.cluster.events import CONTROLLER_LOG, STATE_CHANGE_LOG, ClusterEvent
from kaput.cluster.zookeeper.log_lines import Alive, Elected, PartitionVersion, read_line
from kaput.errors import LabError, UnknownFormat

SOURCES = {"controller.log": CONTROLLER_LOG, "state-change.log": STATE_CHANGE_LOG}


def read_cluster_events(folders: Mapping[int, Path]) -> list[ClusterEvent]:
    """The events in the logs of all brokers, by the folder of each. Raises LabError if one is missing;
    UnknownFormat.
    """
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
        """Reads one log of one broker."""
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
        found = [event for place in sorted(self._states) for event in self._partition_events(place)]
        found += self._broker_events()
        return sorted(found, key=lambda event: event.at_ns)

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
