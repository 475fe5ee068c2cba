"""A cluster that reassigns in memory: each look lets its copies go on, and any call may be the last one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kaput.cluster.admin import PartitionState
from kaput.cluster.admin.reassignments import ClusterView, Configs, Kind
from kaput.cluster.admin.requests import THROTTLED_REPLICAS as REPLICAS
from kaput.core import TopicPartition


class Killed(BaseException):
    """What SIGKILL would have done."""


class FakeCluster:
    """Brokers 1 to 3. `step`: bytes that each copy gains with every look; `size`: of each partition."""

    def __init__(
        self, partitions: Mapping[TopicPartition, Sequence[int]], size: int = 100, step: int = 60
    ) -> None:
        self.replicas = {place: tuple(each) for place, each in partitions.items()}
        self.leaders = {place: each[0] for place, each in self.replicas.items()}
        self.targets: dict[TopicPartition, tuple[int, ...]] = {}
        self.bytes = {(place, b): size for place, each in self.replicas.items() for b in each}
        self.set: dict[Kind, dict[str, dict[str, str]]] = {"broker": {}, "topic": {}}
        self.size, self.step = size, step
        self.kill_at: int | None = None  # the call that nobody lives to see the answer of
        self.calls = 0
        self.most_at_a_time = 0
        self.unthrottled: list[TopicPartition] = []  # what was told to move with no throttle on
        self.refuses: dict[TopicPartition, str] = {}
        self.stuck: set[TopicPartition] = set()
        self.copied = 0
        self.down: set[int] = set()
        self.stale_looks = 0  # so many looks show what was before

    def view(self) -> ClusterView:
        self._count()
        self._go_on()
        states = {}
        if self.stale_looks and not self.targets:
            self.stale_looks -= 1
            old = {place: PartitionState(each[0], each[-1:], each) for place, each in self.replicas.items()}
            return ClusterView("cluster-1", dict.fromkeys((1, 2, 3)), old)
        for place, replicas in self.replicas.items():
            target = self.targets.get(place, ())
            shown = tuple(dict.fromkeys((*target, *replicas))) if target else replicas
            states[place] = PartitionState(self.leaders[place], shown, replicas)
        return ClusterView("cluster-1", dict.fromkeys({1, 2, 3} - self.down), states)

    def ongoing(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        self._count()
        return dict(self.targets)

    def sizes(self, places: Iterable[TopicPartition]) -> Mapping[tuple[TopicPartition, int], int]:
        self._count()
        wanted = set(places)
        return {key: size for key, size in self.bytes.items() if key[0] in wanted}

    def reassign(self, wanted: Mapping[TopicPartition, Sequence[int]]) -> Mapping[TopicPartition, str]:
        for place, replicas in wanted.items():
            if place not in self.refuses:
                self.targets[place] = tuple(replicas)
                if not self._throttled(place, replicas):
                    self.unthrottled.append(place)
        self.most_at_a_time = max(self.most_at_a_time, len(self.targets))
        self._count()
        return {place: self.refuses[place] for place in wanted if place in self.refuses}

    def configs(
        self, kind: Kind, names: Iterable[str], keys: Sequence[str]
    ) -> dict[str, dict[str, str | None]]:
        self._count()
        return {name: {key: self.set[kind].get(name, {}).get(key) for key in keys} for name in names}

    def configure(self, kind: Kind, configs: Configs) -> None:
        for name, config in configs.items():
            assert kind == "topic" or int(name) not in self.down
            own = self.set[kind].setdefault(name, {})
            for key, value in config.items():
                own.pop(key, None)
                if value is not None:
                    own[key] = value
            if not own:
                del self.set[kind][name]
        self._count()

    def elect(self, places: Iterable[TopicPartition]) -> None:
        for place in places:
            self.leaders[place] = self.replicas[place][0]
        self._count()

    def _throttled(self, place: TopicPartition, replicas: Sequence[int]) -> bool:
        """Whether the throttle names every broker that copies it."""
        told = self.set["topic"].get(place[0], {}).get(REPLICAS[1], "").split(",")
        new = [broker for broker in replicas if broker not in self.replicas[place]]
        return bool(self.set["broker"]) and all(f"{place[1]}:{broker}" in told for broker in new)

    def held(self) -> set[TopicPartition]:
        """Partitions of which something is throttled now."""
        return {
            TopicPartition(topic, int(each.partition(":")[0]))
            for topic, config in self.set["topic"].items()
            for key in REPLICAS
            for each in config.get(key, "").split(",")
            if each
        }

    def _count(self) -> None:
        self.calls += 1
        if self.calls == self.kill_at:
            raise Killed

    def _go_on(self) -> None:
        for place, target in list(self.targets.items()):
            new = [broker for broker in target if broker not in self.replicas[place]]
            if place in self.stuck and new:
                continue
            for broker in new:
                before = self.bytes.get((place, broker), 0)
                self.bytes[(place, broker)] = min(self.size, before + self.step)
                self.copied += self.bytes[(place, broker)] - before
            if all(self.bytes[(place, broker)] == self.size for broker in new):
                self.replicas[place] = target
                del self.targets[place]
                if self.leaders[place] not in target:
                    self.leaders[place] = target[0]
