"""The canary: a topic with a partition for each broker, led by that broker.

A keeper checks every few seconds: a new broker gets a partition of its own, and a preferred leader that is in
sync again leads its partition again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kaput.cluster.access import Access
from kaput.cluster.admin import Admin
from kaput.cluster.admin.reassignments import reassignment_client
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.runner.samplers import Sampler
from kaput.scenario.model import Scenario

_MOST_REPLICAS = 3
_LOOK_S = 5.0
_GROUP_CONFIG = {"session.timeout.ms": 10_000, "topic.metadata.refresh.interval.ms": 5_000}
# A message that is not taken within this time has an unknown outcome.
DELIVERY_S = 30


def replicas_of(leader: int, brokers: Sequence[int]) -> list[int]:
    """The replicas of the partition that this broker leads: itself, and the next brokers in order."""
    at = brokers.index(leader)
    ring = [*brokers[at:], *brokers[:at]]
    return ring[:_MOST_REPLICAS]


def scenario_of(topic: str, group: str, brokers: Sequence[int], rate: float) -> Scenario:
    """A watch as a scenario: `rate` messages a second to each partition."""
    replicas = min(_MOST_REPLICAS, len(brokers))
    return Scenario.model_validate(
        {
            "version": 1,
            "title": "Watch of a live cluster",
            "description": "Messages of kaput watch, through a partition of each broker.",
            "topics": [
                {
                    "name": topic,
                    "assignment": [replicas_of(broker, brokers) for broker in brokers],
                    "config": {
                        "min.insync.replicas": max(1, replicas - 1),
                        "unclean.leader.election.enable": False,
                        "retention.ms": 7 * 24 * 3_600_000,
                    },
                }
            ],
            "workload": {
                "producers": [
                    {
                        "topic": topic,
                        "count": len(brokers),
                        "rate": rate,
                        "acks": "all",
                        "idempotence": True,
                        "duration": "168h",
                        "config": {
                            "message.timeout.ms": DELIVERY_S * 1000,
                            "linger.ms": 5,
                            "topic.metadata.refresh.interval.ms": 5_000,
                        },
                    }
                ],
                "groups": [{"id": group, "topics": [topic], "members": 1, "config": dict(_GROUP_CONFIG)}],
            },
        }
    )


class CanaryKeeper(Sampler):
    """Keeps each partition led by its broker. `on_partition`: called from a thread with the number of a new
    partition; `note`: called with a sentence about each change.
    """

    def __init__(
        self,
        admin: Admin,
        access: Access,
        servers: str,
        topic: str,
        on_partition: Callable[[int], None],
        note: Callable[[str], Any],
    ) -> None:
        self._admin, self._access, self._servers, self._topic = admin, access, servers, topic
        self._on_partition, self._note = on_partition, note
        super().__init__("canary", _LOOK_S)

    def look(self) -> None:
        """Adds a partition, or elects preferred leaders; does nothing while the cluster does not respond."""
        try:
            brokers, partitions = self._admin.live([self._topic])
            owners = {place: state.replicas[0] for place, state in partitions.items() if state.replicas}
            for broker in sorted(brokers - set(owners.values())):
                self._add(broker, sorted(brokers), len(owners))
                return  # one at a time
            back = [
                place
                for place, state in partitions.items()
                if state.leader != owners.get(place) and owners.get(place) in state.isr
            ]
            if back:
                self._give_back(back)
        except LabError:
            return

    def _add(self, broker: int, brokers: Sequence[int], count: int) -> None:
        self._admin.add_partitions(self._topic, count + 1, [replicas_of(broker, brokers)])
        self._note(f"broker {broker} is new: {self._topic}/{count} is its partition")
        self._on_partition(count)

    def _give_back(self, places: Sequence[TopicPartition]) -> None:
        with reassignment_client(self._servers, self._access) as client:
            client.elect(places)
        self._note(f"led by their own brokers again: {', '.join(map(str, sorted(places)))}")
