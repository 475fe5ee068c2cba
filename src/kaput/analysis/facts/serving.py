"""Which brokers serve, and when: from the starts and stops that the cluster recorded, and from faults.

Built on the driver. Not here: what a partition waited for (waits.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeVar

from kaput.analysis.facts.leader_history import LeaderHistory
from kaput.core import FOREVER_NS, MS, TopicPartition, cluster_and_topic
from kaput.evidence.fault_rows import FaultRow
from kaput.evidence.parquet import absences, downtimes, taken_in
from kaput.scenario.fault_kinds import (
    DELETE_TOPIC,
    DELETE_TOPICS,
    ChangePasswordOptions,
    CommandOptions,
    DenyOptions,
    Options,
    PartitionOptions,
    ProtocolOptions,
)
from kaput.scenario.model import Scenario
from kaput.scenario.targets import CLUSTERS
from kaput.scenario.vocabulary import NOOP

# ended: no process; starting: a process that is not unfenced yet; frozen: a process that does not run; disk:
# nothing is written; cut: unreachable for some; slow: all else, which may or may not hold up a request.
How = Literal["ended", "starting", "frozen", "disk", "cut", "slow"]
HOW: Mapping[str, How] = {
    "kill": "ended",
    "power-loss": "ended",
    "disk-loss": "ended",
    "stop": "ended",
    "leave": "ended",
    "pause": "frozen",
    "disk-stall": "disk",
    "isolate": "cut",
    "cut": "cut",
    "partition": "cut",
    "flap": "cut",
}
_Broker = tuple[str | None, int]  # its cluster and its id
_Known = TypeVar("_Known")
_MIN_ISR = "min.insync.replicas"
# What clients ask before a message is acknowledged: an acknowledgement waits for no other answer.
ACKS_WAIT_FOR = ("Produce", "Metadata", "ApiVersions", "InitProducerId", "AddPartitionsToTxn")
# What a transaction's coordinator is asked: it need not lead what the transaction is about.
OF_TRANSACTIONS = ("AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit")
_ROLLING = ("rolling-restart", "rolling-upgrade")  # one broker after the other
_BY_EVENTS = (*_ROLLING, "disk-error", "disk-full")  # their stops are recorded


@dataclass(frozen=True)
class Hindrance:
    """A time in which something keeps a broker from serving. `fault`: None if it ended without a fault.
    `from_ns` to `to_ns` (FOREVER_NS: to the end); `may_end_ns`: the earliest time at which it may have ended,
    since a heal works before a probe confirms it. `cluster`: None for any. Of a cut: `clients`,
    `controllers`: whether it is cut off from them; `peers`: the brokers that it cannot reach, None for all
    others; `rejects`: who sends gets an error at once.
    """

    broker: int
    how: How
    from_ns: int
    to_ns: int
    may_end_ns: int
    fault: str | None = None
    cluster: str | None = None
    clients: bool = False
    controllers: bool = False
    peers: frozenset[int] | None = frozenset()
    rejects: bool = False

    @property
    def name(self) -> str:
        """The fault, if it is one, and the broker it is about (it may slow down one, and isolate another)."""
        return f"{self.fault or ''} {self.cluster or ''} broker {self.broker}"

    @property
    def stops_serving(self) -> bool:
        """Whether clients get no answer from the broker."""
        return self.how in ("ended", "starting", "frozen", "disk") or self.clients

    def may_concern(self, cluster: str | None) -> bool:
        """Whether it may be about a broker of that cluster; None for any."""
        return self.cluster is None or cluster is None or self.cluster == cluster

    def separates(self, one: int, other: int) -> bool:
        """Whether the two brokers cannot reach each other because of it."""
        if self.how in ("ended", "starting", "frozen"):
            return self.broker in (one, other)
        if self.how == "disk":
            return self.broker == other  # a follower that writes nothing does not fetch on
        if self.how != "cut" or self.broker not in (one, other):
            return False
        far = other if self.broker == one else one
        return self.peers is None or far in self.peers


class WithoutQuorum(NamedTuple):
    """A time (ns) in which too few controllers run to elect a leader, and why."""

    from_ns: int
    to_ns: int
    behind: tuple[Hindrance, ...]


@dataclass(frozen=True)
class Serving:
    """All hindrances of a run, by broker; `clients`: when faults held up producers and members, or denied
    them a topic (`Write orders`); `without_quorum`: by cluster; `turns`: by the id of a rolling restart or
    upgrade, when it was each broker's turn (from_ns, to_ns): from the return of the one before to its own.
    """

    hindrances: Mapping[int, Sequence[Hindrance]] = field(default_factory=dict)
    clients: Mapping[str, Sequence[Hindrance]] = field(default_factory=dict)
    without_quorum: Mapping[str | None, Sequence[WithoutQuorum]] = field(default_factory=dict)
    turns: Mapping[str, Mapping[int, tuple[int, int]]] = field(default_factory=dict)

    def of(
        self, broker: int, at_ns: int, cluster: str | None = None, without: Collection[str] = ()
    ) -> list[Hindrance]:
        """What hinders a broker of that cluster at that time, except the names in `without`."""
        return [
            one
            for one in self.hindrances.get(broker, ())
            if one.from_ns <= at_ns < one.to_ns and one.name not in without and one.may_concern(cluster)
        ]

    def down(self, broker: int, at_ns: int, cluster: str | None = None) -> bool:
        """Whether the broker's process is known to be gone, or just started and not unfenced yet."""
        return any(one.how in ("ended", "starting") for one in self.of(broker, at_ns, cluster))

    def moments(self, from_ns: int, to_ns: int) -> set[int]:
        """The times within at which any hindrance begins or ends."""
        every = [one for mine in (*self.hindrances.values(), *self.clients.values()) for one in mine]
        bounds = [(one.from_ns, one.to_ns) for one in every]
        bounds += [(one.from_ns, one.to_ns) for mine in self.without_quorum.values() for one in mine]
        return {at for both in bounds for at in both if from_ns < at < to_ns}


def serving(
    faults: Sequence[FaultRow],
    events: Iterable[Mapping[str, Any]],
    scenario: Scenario | None,
    group_events: Sequence[Mapping[str, Any]] = (),
) -> Serving:
    events = list(events)
    lives, signs = downtimes(events), _signs_of_life(events)
    brokers: dict[int, list[Hindrance]] = defaultdict(list)
    clients: dict[str, list[Hindrance]] = defaultdict(list)
    for fault in (cut for one in faults for cut in one.cuts()):
        if fault.effective_ns is None or fault.fault == NOOP:
            continue
        for target in [*_denied(fault, scenario), *([] if fault.brokers else [fault.target])]:
            clients[target].append(_without_topic(fault, _of_client(fault, group_events), events))
        for mirror in _mirrors_cut(fault, scenario):
            clients[f"mirror {mirror}"].append(replace(_of_client(fault), how="cut"))
        for broker in fault.brokers:
            known = _known_of(lives, fault, broker)
            hindrance = _of_broker(fault, broker, known, _known_of(signs, fault, broker), scenario)
            brokers[broker] += [hindrance] if hindrance is not None else []
        for broker in _without_clients(fault, events, scenario):
            away = _of_broker(fault, broker, (), (), scenario)
            if away is not None:
                brokers[broker].append(replace(away, clients=True, controllers=False, peers=frozenset()))
    for (cluster, broker), absent in absences(events).items():
        mine = [one for one in brokers[broker] if one.cluster in (None, cluster)]
        for stopped_ns, started_ns, unfenced_ns in absent:
            covered = any(
                one.how == "ended" and one.from_ns <= stopped_ns < one.to_ns and one.fault for one in mine
            )
            back_ns = FOREVER_NS if started_ns is None else started_ns
            if not covered:
                gone = Hindrance(broker, "ended", stopped_ns, back_ns, back_ns, cluster=cluster)
                brokers[broker].append(gone)
            if unfenced_ns is not None:
                starting = Hindrance(broker, "starting", back_ns, unfenced_ns, unfenced_ns, cluster=cluster)
                brokers[broker].append(starting)
    turns = {one.id: _turns(lives, one) for one in faults if one.fault in _ROLLING and one.effective_ns}
    return Serving(dict(brokers), dict(clients), _without_quorum(brokers, events, scenario), turns)


def _turns(
    lives: Mapping[_Broker, Sequence[tuple[int, int | None]]], fault: FaultRow
) -> dict[int, tuple[int, int]]:
    """When it was each broker's turn, by its first stop within the fault; not of brokers without one."""
    begin_ns, end_ns = fault.effective_ns or 0, fault.until_ns
    restarts = []
    for broker in fault.brokers:
        mine = [span for span in _known_of(lives, fault, broker) if begin_ns <= span[0] < end_ns]
        restarts += [(*mine[0], broker)] if mine else []
    turns: dict[int, tuple[int, int]] = {}
    for _, started_ns, broker in sorted(restarts, key=lambda one: one[0]):
        turns[broker] = begin_ns, FOREVER_NS if started_ns is None else started_ns
        begin_ns = turns[broker][1]
    return turns


def _mirrors_cut(fault: FaultRow, scenario: Scenario | None) -> list[str]:
    """The mirrors between a cluster that a fault isolates and those that it is isolated from."""
    if scenario is None or how_of(fault, scenario) != "cut" or fault.hit.hits != CLUSTERS:
        return []
    options = options_of(fault, scenario)
    words = {word.removeprefix("cluster ") for word in (options.parties if options else ())}
    between = [one for one in scenario.mirrors if fault.hit.name in (one.from_, one.to)]
    ends = {one.name: {one.from_, one.to, f"mirror {one.name}"} - {fault.hit.name} for one in between}
    return [name for name, others in ends.items() if not words or words & others]


def _without_topic(fault: FaultRow, away: Hindrance, events: Iterable[Mapping[str, Any]]) -> Hindrance:
    """The hindrance; of a topic deleted for good it lasts until a client has it created, if ever."""
    if fault.fault != DELETE_TOPIC or fault.hit.whole_topic is None:
        return away
    cluster, topic = cluster_and_topic(fault.hit.whole_topic)
    again = (
        row["at_ns"]
        for row in events
        if row["kind"] == "leader" and row["topic"] is not None and row["at_ns"] > away.from_ns
        if cluster_and_topic(row["topic"]) in ((cluster, topic), (fault.cluster, topic))
    )
    end_ns = min(again, default=FOREVER_NS)
    return replace(away, to_ns=end_ns, may_end_ns=end_ns)


def _denied(fault: FaultRow, scenario: Scenario | None) -> list[str]:
    """What a fault denies kaput's clients, as `Write orders` (while it has deleted the topic), or a user of
    theirs, as `Write orders as app`.
    """
    if fault.fault in DELETE_TOPICS and fault.hit.whole_topic is not None:
        name = _full_name(fault.hit.whole_topic, scenario)
        return [f"Read {name}", f"Write {name}"]
    step = scenario.step_of(fault.id, fault.fault) if scenario is not None else None
    if step is None or scenario is None:
        return []
    if isinstance(step.options, ChangePasswordOptions):
        return [sign_in(step.options.user, fault.cluster)]
    if not isinstance(step.options, DenyOptions) or step.target.topic is None:
        return []
    done = f"{_full_name(step.target.topic, scenario)} as {step.options.principal.removeprefix('User:')}"
    return [f"{one} {done}" for one in ("Read", "Write") if step.options.operation in (one, "All")]


def sign_in(user: str, cluster: str | None) -> str:
    return f"sign in to {cluster or 'the cluster'} as {user}"


def _full_name(topic: str, scenario: Scenario | None) -> str:
    found = scenario.topic(topic) if scenario is not None else None
    return found.full_name if found is not None else topic


def _without_quorum(
    hindrances: Mapping[int, Sequence[Hindrance]],
    events: Sequence[Mapping[str, Any]],
    scenario: Scenario | None,
) -> dict[str | None, list[WithoutQuorum]]:
    """By cluster, the times without a majority of its controllers. Where a leader or an ISR changed
    meanwhile, the record shows that there was one.
    """
    found: dict[str | None, list[WithoutQuorum]] = {}
    for cluster, spec in scenario.all_clusters.items() if scenario is not None else ():
        mine = [
            row for row in events if (row["cluster"] or "") == cluster and row["kind"] in ("leader", "isr")
        ]
        decided = sorted(row["at_ns"] for row in mine)
        voters = spec.voter_ids()
        down = [
            # A process is up before a probe has confirmed that it answers.
            (one.from_ns, next((at for at in decided if one.may_end_ns <= at < one.to_ns), one.to_ns), one)
            for voter in voters
            for one in hindrances.get(voter, ())
            if one.how == "ended" and one.may_concern(cluster or None)
        ]
        spans: list[WithoutQuorum] = []
        for begin, end in pairwise(sorted({at for from_ns, to_ns, _ in down for at in (from_ns, to_ns)})):
            behind = tuple(one for from_ns, to_ns, one in down if from_ns <= begin < to_ns)
            if 2 * len({one.broker for one in behind}) < len(voters):
                continue
            from_ns = spans.pop().from_ns if spans and spans[-1].to_ns == begin else begin
            spans.append(WithoutQuorum(from_ns, end, behind))
        found[cluster or None] = [
            one for one in spans if not any(one.from_ns // MS < at // MS < one.to_ns // MS for at in decided)
        ]
    return found


def _known_of(
    by_broker: Mapping[_Broker, Sequence[_Known]], fault: FaultRow, broker: int
) -> Sequence[_Known]:
    """What is known of a fault's broker, in the fault's cluster or, without one, in all that have it."""
    if fault.cluster is not None:
        return by_broker.get((fault.cluster, broker), ())
    return next((mine for (_, of), mine in by_broker.items() if of == broker), ())


def _signs_of_life(events: Sequence[Mapping[str, Any]]) -> dict[_Broker, list[int]]:
    """When the cluster recorded that a broker is back (unfenced), made it a leader, or let it into an ISR:
    that also shows that its leader was reached, by the new member and by the controllers.
    """
    signs: dict[_Broker, list[int]] = defaultdict(list)
    back = [(row, {row["broker"]}) for row in events if row["kind"] == "unfenced"]
    back += [(row, {row["leader"]}) for row in events if row["kind"] == "leader"]
    back += [(row, {row["leader"], *brokers}) for row, brokers in taken_in(events) if brokers]
    for row, brokers in back:
        for broker in brokers - {None}:
            signs[row["cluster"], broker].append(row["at_ns"])
    return signs


def _of_client(fault: FaultRow, group_events: Sequence[Mapping[str, Any]] = ()) -> Hindrance:
    """The heal of a fault on a member works when it begins, if partitions are assigned before its proof. One
    that was killed is back when a new process of it joins, if that is sooner.
    """
    assert fault.effective_ns is not None
    how: How = how_of(fault, None)
    end_ns, may_end_ns = fault.until_ns, fault.may_end_ns
    mine = [row for row in group_events if fault.hit.includes_member(row["group"], row["member"])]
    before = {row["member"] for row in mine if row["at_ns"] <= fault.effective_ns}
    back = [
        row["at_ns"]
        for row in mine
        if row["at_ns"] < end_ns
        and (
            (row["kind"] == "assigned" and may_end_ns < row["at_ns"])
            or (how == "ended" and row["kind"] in ("joined", "assigned") and row["member"] not in before)
        )
    ]
    to_ns = min(may_end_ns, *back) if back else end_ns
    return Hindrance(-1, how, fault.effective_ns, to_ns, may_end_ns, fault.id, fault.cluster)


def _of_broker(
    fault: FaultRow,
    broker: int,
    lives: Sequence[tuple[int, int | None]],
    signs_of_life: Sequence[int],
    scenario: Scenario | None,
) -> Hindrance | None:
    """The hindrance by one fault; None if only the events of the broker tell when it was down."""
    assert fault.effective_ns is not None
    end_ns = fault.until_ns
    from_ns, how = fault.effective_ns, how_of(fault, scenario)
    if fault.fault in _BY_EVENTS:
        return None
    if how == "ended":
        # A clean stop takes effect with its signal, and the process goes on for a while; a kill is proven
        # after the process ended. Records have a resolution of 1 ms.
        stopped = [at for at, _ in lives if fault.injected_ns // MS <= at // MS and at < end_ns]
        from_ns = min(stopped, default=from_ns)
        # A process may be up long before the last one of the fault is, and before a probe has confirmed it.
        started = [at for _, at in lives if at is not None and from_ns <= at]
        if started and fault.healed_ns is not None:
            return Hindrance(broker, how, from_ns, min(started), min(started), fault.id, fault.cluster)
        may_end_ns = min(started, default=fault.may_end_ns)
        end_ns = min((at for at in signs_of_life if may_end_ns < at < end_ns), default=end_ns)
        return Hindrance(broker, how, from_ns, end_ns, may_end_ns, fault.id, fault.cluster)
    may_end_ns = fault.may_end_ns
    cut = _far_side(fault, scenario) if how == "cut" else (False, False, frozenset[int]())
    # Controllers that unfence or elect it before the heal is confirmed had reached it.
    back = any(may_end_ns < at < end_ns for at in signs_of_life)
    end_ns = may_end_ns if back and (how == "frozen" or cut[1]) else end_ns
    rejects = getattr(options_of(fault, scenario), "how", None) == "reject"
    return Hindrance(broker, how, from_ns, end_ns, may_end_ns, fault.id, fault.cluster, *cut, rejects)


def _far_side(fault: FaultRow, scenario: Scenario | None) -> tuple[bool, bool, frozenset[int] | None]:
    """Whether a network fault cuts its targets off from clients and from controllers, and from which brokers
    (None: all others).
    """
    options = options_of(fault, scenario)
    if fault.fault == "partition":
        clients = isinstance(options, PartitionOptions) and options.clients_with == "others"
        return clients, True, None
    words = (options.parties if options is not None else ()) or ("all-nodes",)
    voters = set(scenario.cluster.voter_ids()) if scenario is not None and not scenario.clusters else set()
    peers: set[int] = set()
    for word in words:
        if word in ("all-nodes", "everybody", "brokers"):
            return (
                "everybody" in words or "clients" in words,
                word != "brokers" or "controllers" in words,
                None,
            )
        if word.startswith("broker "):
            peers.add(int(word.removeprefix("broker ")))
        elif word == "controllers":
            peers |= voters
    return "clients" in words, "controllers" in words or "zookeeper" in words, frozenset(peers)


def _without_clients(
    fault: FaultRow, events: Iterable[Mapping[str, Any]], scenario: Scenario | None
) -> set[int]:
    """The brokers on the other side of a partition whose targets alone clients still reach."""
    options = options_of(fault, scenario)
    if not isinstance(options, PartitionOptions) or options.clients_with != "target":
        return set()
    mine = [row for row in events if fault.cluster in (None, row["cluster"])]
    return {row["broker"] for row in mine if row["broker"] is not None} - set(fault.brokers)


def how_of(fault: FaultRow, scenario: Scenario | None) -> How:
    """How a fault hinders what it hits. A command that is proven without a `prove` command counts as the end
    of a broker's process: it was asked, and did not answer.
    """
    if fault.fault == "command" and fault.confirmed:
        options = options_of(fault, scenario)
        return "ended" if isinstance(options, CommandOptions) and not options.prove else "slow"
    return HOW.get(fault.fault, "slow")


def options_of(fault: FaultRow, scenario: Scenario | None) -> Options | None:
    """The options of that step."""
    step = scenario.step_of(fault.id, fault.fault) if scenario is not None else None
    return None if step is None else step.options


def asked_by_clients(fault: FaultRow, scenario: Scenario | None) -> str | None:
    """The kind of requests that a fault in the protocol acts on, if only clients send them; else None."""
    options = options_of(fault, scenario)
    if not isinstance(options, ProtocolOptions) or list(options.parties) != ["clients"]:
        return None
    return options.api


@dataclass(frozen=True)
class MinIsr:
    """A topic's min.insync.replicas: as configured, and what each step made of it for a while: from its
    request on, which works before it is confirmed, and on which brokers (none: for the topic itself).
    `confirmed_ns`: by step.
    """

    configured: int = 1
    steps: Sequence[tuple[Hindrance, Collection[int], int]] = ()
    confirmed_ns: Mapping[str | None, int] = field(default_factory=dict)

    def at(self, leader: int, at_ns: int) -> tuple[int, Hindrance | None]:
        """The value at that time, and the step that set it, if one did."""
        for step, brokers, value in reversed(self.steps):
            if step.from_ns <= at_ns < step.to_ns and (not brokers or leader in brokers):
                return value, step
        return self.configured, None

    def moments(self) -> set[int]:
        """When it changes."""
        return {at for step, _, _ in self.steps for at in (step.from_ns, step.to_ns)}

    def lowered(self, leader: int, from_ns: int, to_ns: int) -> set[int]:
        """When steps lower it for that leader, between these times."""
        return {
            step.from_ns
            for step, brokers, value in self.steps
            if value < self.configured
            and from_ns < step.from_ns <= to_ns
            and (not brokers or leader in brokers)
        }

    def lowered_late(self, to_ns: int) -> MinIsr:
        """The same, if what lowers it works when it is confirmed, or at this end of a silence before that."""
        if all(value >= self.configured for _, _, value in self.steps):
            return self
        late = [
            (
                replace(step, from_ns=max(step.from_ns, min(self.confirmed_ns[step.fault], to_ns))),
                where,
                value,
            )
            if value < self.configured
            else (step, where, value)
            for step, where, value in self.steps
        ]
        return replace(self, steps=late)


def min_isr_of(topic: str, faults: Collection[FaultRow], scenario: Scenario) -> MinIsr:
    """Reads the scenario and its steps; those on brokers first, since a topic's own setting counts."""
    found = [
        (
            replace(_of_client(fault), from_ns=fault.injected_ns),
            fault.brokers,
            scenario.effective_min_isr(topic, value),
        )
        for fault in sorted(faults, key=lambda one: not one.brokers)
        if fault.effective_ns is not None and (step := scenario.step_of(fault.id, fault.fault)) is not None
        for value in scenario.set_by(step, topic, _MIN_ISR)
    ]
    configured = scenario.topic_setting(topic, _MIN_ISR, "1")
    confirmed_ns: dict[str | None, int] = {
        fault.id: fault.effective_ns for fault in faults if fault.effective_ns is not None
    }
    return MinIsr(scenario.effective_min_isr(topic, configured), found, confirmed_ns)


_KILLING_FAULTS = ("kill", "power-loss", "disk-loss")  # they take effect when the process is gone


def leaderless(
    faults: Iterable[FaultRow], history: LeaderHistory, events: Iterable[Mapping[str, Any]], ended_ns: int
) -> Iterator[tuple[TopicPartition, int, int]]:
    """The times (from_ns, to_ns) without a running leader of a partition. `events`: cluster_events, for the
    starts of brokers; `ended_ns`: end of the run.
    """
    started = [(row["broker"], row["at_ns"]) for row in events if row["kind"] == "started"]
    for fault in faults:
        since = fault.effective_ns
        if fault.fault not in _KILLING_FAULTS or not fault.proven or since is None:
            continue
        for place, changes in history.changes.items():
            leader = history.before(place, since).leader
            if leader not in fault.brokers:
                continue
            led = [c.at_ns - c.within_ns for c in changes if c.kind == "leader" and (c.leader or 0) >= 0]
            back = [at_ns for broker, at_ns in started if broker == leader]
            healed = [fault.healed_ns] if fault.healed_ns is not None else []
            yield place, since, min((at for at in [*led, *back, *healed] if at >= since), default=ended_ns)


def deaths(
    events: Iterable[Mapping[str, Any]], faults: Sequence[FaultRow], ended_ns: int
) -> list[tuple[int, int]]:
    """(broker, at_ns) by time, up to the end of the run. `events`: the cluster_events table."""
    stops = [
        (row["broker"], row["at_ns"])
        for row in events
        if row["kind"] == "stopped"
        and row["broker"] is not None
        and row["at_ns"] <= ended_ns
        and not _in_a_fault(row["broker"], row["at_ns"], faults)
    ]
    return sorted(stops, key=lambda death: death[::-1])


def _in_a_fault(broker: int, at_ns: int, faults: Sequence[FaultRow]) -> bool:
    """Whether a proven fault on the broker was active. noop does not count: it stops no broker."""
    return any(
        fault.proven
        and fault.fault != NOOP
        and broker in fault.brokers
        and fault.injected_ns // MS <= at_ns // MS
        and (fault.healed_ns is None or at_ns // MS <= fault.healed_ns // MS)
        for fault in faults
    )
