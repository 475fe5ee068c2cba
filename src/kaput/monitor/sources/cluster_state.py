"""Samples of the state of any cluster with bootstrap servers: one poll queries all of its brokers.

A poll is at most seven rounds of requests, each of at most about a second. A broker that fails in one is not
queried again in that poll. Each broker is asked for its groups and (of many, five in turn) for the metadata
of all topics and for the quorum; coordinators once for all of their groups' offsets, leaders once for their
log ends and, if a group lags, for records; one broker for reassignments. Topic settings, log directories and
certificates are requested less often.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

from kaput.cluster.access import OPEN, Access
from kaput.cluster.admin import requests
from kaput.cluster.wire import REFUSALS, AccessRefused, Endpoint, addresses
from kaput.core import TopicPartition
from kaput.monitor.signals import Sample
from kaput.monitor.sources.answers import (
    Elections,
    PolledView,
    Reassigning,
    broker_samples,
    describe_quorum,
    partition_samples,
    quorum_controllers,
    quorum_leaders,
    quorum_samples,
    valid_until,
    view_of,
    volume_samples,
)
from kaput.monitor.sources.groups import GroupLags, offsets_job, offsets_of_logs
from kaput.monitor.sources.nodes import ROUND_S, Ask, NodeJob, Nodes, Unsupported

_MOST_ASKED = 5  # brokers asked for their view of the cluster in one poll
_SETTINGS_S, _VOLUMES_S, _CERTIFICATES_S = 30.0, 15.0, 300.0
# Known even if no broker answers.
_ALWAYS_KNOWN = ("kaput_cluster_reachable", "kaput_broker_answers", "kaput_unclean_elections_total")


class Interval:
    """Limits how often something is done."""

    def __init__(self, every_s: float) -> None:
        self._every_s, self._next = every_s, -math.inf

    def due(self) -> bool:
        """True at most once in `every_s` seconds."""
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + self._every_s
        return True


class ClusterState:
    """Polls one cluster. `troubles`: sentences about what the last poll could not get. Not thread-safe."""

    def __init__(
        self,
        bootstrap_servers: str,
        access: Access = OPEN,
        nodes: Nodes | None = None,
        every_end: bool = False,
    ) -> None:
        """`every_end`: of every partition, not only those that groups read. Raises UsageError: addresses."""
        self._access = access
        self._seeds = [Endpoint(*each, access) for each in addresses(bootstrap_servers)]
        self._nodes, self._every_end = nodes or Nodes(), every_end
        self._groups, self._elections = GroupLags(self._nodes), Elections()
        self._known: dict[int, Endpoint] = {}
        self._view: PolledView | None = None
        self.active_controllers: list[int] = []  # by id
        self.ends: dict[TopicPartition, int] = {}  # high watermarks from leaders in the last poll
        self.ends_s = 0.0  # when they were read (monotonic clock)
        self._turn = 0
        self._min_isrs: dict[str, int] = {}
        self._topics: set[str] = set()  # topics whose settings were requested
        self._settings_of: set[str] = set()  # topics whose settings were last answered
        self._controllers: dict[int, Endpoint] = {}
        self._near_controller: set[Endpoint] = (
            set()
        )  # brokers that could forward a request to it in the last poll
        self._settings_due, self._volumes_due = Interval(_SETTINGS_S), Interval(_VOLUMES_S)
        self._certificates_due = Interval(_CERTIFICATES_S)
        self._volumes: dict[int, Any] = {}
        self._valid_until: dict[int, float] = {}
        self.troubles: list[str] = []
        self.reached = False  # whether anybody answered in the last poll

    @property
    def view(self) -> PolledView | None:
        """What the last poll saw; None if no broker answered."""
        return self._view if self.reached else None

    @property
    def committed(self) -> dict[str, Mapping[TopicPartition, int]]:
        """By group, its committed offsets when its coordinator last answered."""
        return self._groups.committed

    def close(self) -> None:
        self._nodes.close()

    @property
    def requests(self) -> int:
        """The number of requests of the last poll."""
        return self._nodes.requests

    def poll(self) -> list[Sample]:
        """The current samples. Raises AccessRefused if the first servers that answer refuse access."""
        self._nodes.begin()
        answers = self._metadata()
        at_ns = time.time_ns()
        self.reached = bool(answers)
        if not answers:
            samples = list(self._unreachable(at_ns))
        else:
            views = {node: seen for node, (seen, _) in answers.items() if seen is not None}
            self._view = view = view_of(views, self._access)
            self._known |= view.alive
            known = (*self._seeds, *self._known.values(), *self._controllers.values())
            self._nodes.forget_all_but(set(known))
            groups = {
                broker: answers[node][1]
                for broker, node in view.alive.items()
                if node in answers and answers[node][1] is not None
            }
            samples = list(self._samples(view, groups, at_ns))
        self.troubles = [str(why) for why in self._nodes.silent.values()]
        return samples

    def _metadata(self) -> dict[Endpoint, tuple[Any, Any]]:
        """By broker that answered: (metadata, if requested; its groups). Queries the seeds if no other broker
        returns metadata; empty if they do not either.
        """
        viewed = self._viewed_brokers()
        jobs = {n: NodeJob(n, _metadata_and_groups if n in viewed else _groups) for n in self._known.values()}
        answers = self._nodes.run(jobs)
        if all(metadata is None for metadata, _ in answers.values()):
            seeds = [seed for seed in self._seeds if seed not in answers]
            answers |= self._nodes.run({node: NodeJob(node, _metadata_and_groups) for node in seeds})
        refused = [why for why in self._nodes.silent.values() if isinstance(why, AccessRefused)]
        if not answers and refused and self._view is None:
            raise refused[0]
        return answers if any(metadata is not None for metadata, _ in answers.values()) else {}

    def _viewed_brokers(self) -> set[Endpoint]:
        brokers = list(self._known.values())
        self._turn = (self._turn + _MOST_ASKED) % max(1, len(brokers))
        return set(islice([*brokers[self._turn :], *brokers], _MOST_ASKED))

    def _unreachable(self, at_ns: int) -> Iterator[Sample]:
        """No broker answers: everything about the cluster is unknown now."""
        yield Sample("kaput_cluster_reachable", 0, at_ns)
        yield from self._answer_samples(at_ns)
        for sample in self._last:
            if sample.name not in _ALWAYS_KNOWN:
                yield Sample(sample.name, math.nan, at_ns, sample.labels)

    _last: tuple[Sample, ...] = ()  # of the last poll that got an answer

    def _samples(self, view: PolledView, groups: Mapping[int, Any], at_ns: int) -> Iterator[Sample]:
        samples = [Sample("kaput_cluster_reachable", 1, at_ns), *broker_samples(view, self._known, at_ns)]
        coordinated = self._groups.take_listing(view, groups)
        results = self._nodes.run(self._second_round(view, coordinated))
        self._near_controller = {view.alive[key] for what, key in results if what == "quorum"}
        for (what, key), answer in results.items():
            self._take(what, key, answer, coordinated)
        samples += self._quorum(view, results, at_ns)
        self._elections.look(view.partitions)
        samples.append(Sample("kaput_unclean_elections_total", self._elections.unclean, at_ns))
        samples += partition_samples(view, self._min_isrs, results.get(("moving", 0)), at_ns)
        samples += self._slow_samples(view, at_ns)
        wanted = view.partitions if self._every_end else self._groups.places()
        self.ends = offsets_of_logs(self._nodes, view, wanted, requests.watermarks)
        self.ends_s = time.monotonic()
        samples += self._groups.samples(view, self.ends, time.time_ns())
        samples += self._answer_samples(at_ns)
        self._last = tuple(samples)
        return iter(samples)

    def _second_round(
        self, view: PolledView, coordinated: Mapping[int, list[str]]
    ) -> dict[tuple[str, int], NodeJob]:
        awake = {broker: node for broker, node in view.alive.items() if node not in self._nodes.silent}
        jobs: dict[tuple[str, int], NodeJob] = {
            ("offsets", broker): offsets_job(view, broker, names) for broker, names in coordinated.items()
        }
        for broker, node in islice(awake.items(), _MOST_ASKED):
            jobs["quorum", broker] = NodeJob(node, describe_quorum, forwarded=True)
        for controller, node in self._controllers.items():
            jobs["controller", controller] = NodeJob(node, describe_quorum, forwarded=True)
        # Prefer a broker that recently reached the controller.
        one_node = min(awake.values(), key=lambda node: node not in self._near_controller, default=None)
        if one_node is not None:
            jobs["moving", 0] = NodeJob(one_node, _reassigning, forwarded=True)
            self._topics = topics = {place.topic for place in view.partitions}
            if self._settings_due.due() or not self._settings_of >= topics:
                jobs["settings", 0] = NodeJob(one_node, lambda ask: ask(requests.min_isrs(topics)))
        if self._volumes_due.due():
            self._volumes = {}
            for broker, node in awake.items():
                jobs["volume", broker] = NodeJob(node, lambda ask: ask(requests.log_dirs()))
        if self._access.tls is not None and self._certificates_due.due():
            for broker, node in awake.items():
                jobs["certificate", broker] = NodeJob(node, partial(_certificate, node))
        return jobs

    def _take(self, what: str, key: int, answer: Any, coordinated: Mapping[int, list[str]]) -> None:
        if what == "offsets":
            self._groups.take_offsets(coordinated[key], answer)
        elif what == "settings":
            self._min_isrs, self._settings_of = _min_isrs(answer), self._topics
        elif what == "volume":
            self._volumes[key] = answer
        elif what == "certificate":
            self._valid_until[key] = answer

    def _quorum(
        self, view: PolledView, results: Mapping[tuple[str, int], Any], at_ns: int
    ) -> Iterator[Sample]:
        """In ZooKeeper mode brokers name the controller, and two of them cannot be detected."""
        answers = [answer for (what, _), answer in results.items() if what in ("quorum", "controller")]
        self._controllers = quorum_controllers(answers, self._access) or self._controllers
        refused = any(answer.error_code in REFUSALS for answer in answers)
        active = quorum_leaders(answers)
        if self._has_quorum(view):
            count = math.nan if refused and not active else len(active)
        else:
            count = float(view.controller is not None)
        known = [] if view.controller is None else [view.controller]
        self.active_controllers = sorted(active) if self._has_quorum(view) else known
        yield Sample("kaput_active_controllers", count, at_ns)
        yield from quorum_samples(active, at_ns)

    def _answer_samples(self, at_ns: int) -> Iterator[Sample]:
        """For each broker, whether it answered this poll. Kafka notices seconds later that one is dead."""
        for broker, node in sorted(self._known.items()):
            answers = float(node not in self._nodes.silent)
            yield Sample("kaput_broker_answers", answers, at_ns, {"broker": str(broker)})

    def _has_quorum(self, view: PolledView) -> bool:
        return any(self._nodes.supports(node, requests.DESCRIBE_QUORUM) for node in view.alive.values())

    def _slow_samples(self, view: PolledView, at_ns: int) -> Iterator[Sample]:
        """What is requested less often; unknown for a broker that does not answer now."""
        for broker in sorted(self._known):
            node = view.alive.get(broker)
            well = node is not None and node not in self._nodes.silent
            yield from volume_samples(broker, self._volumes.get(broker) if well else None, at_ns)
            if self._access.tls is not None:
                until = self._valid_until.get(broker, math.nan) - at_ns / 1e9
                yield Sample("kaput_certificate_expiry_seconds", until, at_ns, {"broker": str(broker)})


def _metadata_and_groups(ask: Ask) -> tuple[Any, Any]:
    return ask(requests.topics_with_ids()), _groups(ask)[1]


def _groups(ask: Ask) -> tuple[None, Any]:
    try:
        return None, ask(requests.list_groups(states=True))
    except Unsupported:
        return None, None


def _reassigning(ask: Ask) -> Reassigning | None:
    answer = ask(requests.reassignments(ROUND_S))
    if answer.error_code:
        return None
    every = ((topic.name, p) for topic in answer.topics for p in topic.partitions)
    return {TopicPartition(name, p.partition_index): frozenset(p.adding_replicas) for name, p in every}


def _certificate(node: Endpoint, _ask: Ask) -> float:
    return valid_until(node, ROUND_S)


def _min_isrs(answer: Any) -> dict[str, int]:
    return {
        found.resource_name: int(setting.value)
        for found in answer.results
        if not found.error_code
        for setting in found.configs
        if setting.name == requests.MIN_ISR and setting.value is not None
    }
