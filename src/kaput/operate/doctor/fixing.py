"""From findings to fixes that kaput can apply: more replicas, topic settings, leaders.

Its place: cli/doctor_fix.py shows, confirms and applies each one. CANNOT says why others cannot be applied.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kaput.cluster.placement import Goal
from kaput.operate.doctor.diagnosis import Finding
from kaput.operate.doctor.settings import ENOUGH
from kaput.operate.doctor.snapshot import Snapshot, Topic

_AT_START = "brokers read it when they start: set it in server.properties and restart one after the other"
_BROKER = "a broker is missing: bring it back"
_QUORUM = "the metadata quorum is changed with nodes, not with settings"
_CLIENT = "it is a setting of your client"
CANNOT: Mapping[str, str] = {
    "KP005": _AT_START,
    "KP009": _BROKER,
    "KP010": _BROKER,
    "KP011": _BROKER,
    "KP012": _QUORUM,
    "KP013": _QUORUM,
    "KP014": _QUORUM,
    "KP015": "to keep more, or to read faster, is yours to decide",
    "KP016": _AT_START,
    "KP017": _CLIENT,
    "KP018": _CLIENT,
    "KP019": "whether anybody still needs the group is yours to decide",
    "KP020": "what was deleted does not come back; where to go on is yours to decide",
    "KP021": _AT_START,
}
_FIRST = "the interrupted reassignment comes first: it is to be resumed, or undone"
_TWO = "two replicas survive either a loss or a stop, never both: a third broker is needed (kaput grow)"
_ONE = "one broker alone: there is nowhere to put a second replica (kaput grow)"


Settings = Mapping[str, Mapping[str, str | None]]


@dataclass(frozen=True)
class Fix:
    """A remedy: `goal` for the topics (None: no reassignment), their settings (None: deleted), those of
    brokers, or an election among them.
    """

    ids: tuple[str, ...]
    title: str
    topics: tuple[str, ...] = ()
    goal: Goal | None = None
    configs: Settings = field(default_factory=dict)
    brokers: Settings = field(default_factory=dict)


@dataclass(frozen=True)
class Remedies:
    """What can be done, in this order, and of each finding that stays the reason."""

    fixes: Sequence[Fix]
    cannot: Sequence[tuple[Finding, str]]


def remedies(snapshot: Snapshot, findings: Sequence[Finding]) -> Remedies:
    """For these findings of this cluster."""
    return _Remedies(snapshot, findings).found()


class _Remedies:
    """Some remedies in the making."""

    def __init__(self, snapshot: Snapshot, findings: Sequence[Finding]) -> None:
        self._survey, self._findings = snapshot, findings
        self._topics = {f"topic {topic.name}": topic for topic in snapshot.topics}
        self._factor = min(ENOUGH, len(snapshot.brokers))

    def found(self) -> Remedies:
        if self._survey.interrupted is not None:
            return Remedies([], [(each, _FIRST) for each in self._findings if each.id != "KP023"])
        raised = self._raised()
        fixes = [
            self._more_replicas(raised),
            self._racks(),
            self._settings("KP004", {t.name: {_UNCLEAN: "false"} for t in self._with("KP004")}),
            self._in_sync(raised),
            self._leaders(),
            self._throttles(),
        ]
        done = {finding.key for finding in self._findings if self._why_not(finding) is None}
        left = [(each, self._why_not(each) or "") for each in self._findings if each.key not in done]
        return Remedies([fix for fix in fixes if fix is not None], left)

    def _why_not(self, finding: Finding) -> str | None:
        """None where there is a remedy."""
        number, topic = finding.id, self._topics.get(finding.resource)
        if number == "KP010" and topic is not None and topic.replication_factor < topic.min_isr:
            # No broker is missing: it ends with what is done about its replicas.
            number = "KP001" if topic.replication_factor == 1 else "KP002"
        if number in CANNOT:
            return CANNOT[number]
        if number == "KP001" and self._factor == 1:
            return _BROKER if self._survey.missing else _ONE
        if number in ("KP002", "KP003") and topic is not None:
            return _TWO if max(topic.replication_factor, self._factor) < ENOUGH else None
        return None

    def _with(self, *ids: str) -> list[Topic]:
        """The topics of which these were found, where that can be mended."""
        names = [f.resource for f in self._findings if f.id in ids and self._why_not(f) is None]
        return [self._topics[name] for name in dict.fromkeys(names)]

    def _raised(self) -> list[Topic]:
        """Topics that get more replicas: those with one, and with two, which no min.insync.replicas suits."""
        two = [topic for topic in self._with("KP002", "KP003") if topic.replication_factor < ENOUGH]
        return sorted({topic.name: topic for topic in [*self._with("KP001"), *two]}.values(), key=_name)

    def _more_replicas(self, raised: Sequence[Topic]) -> Fix | None:
        names = _names(raised)
        title = f"{self._factor} replicas for {_counted(names)}"
        return Fix(("KP001",), title, names, Goal(self._factor)) if names else None

    def _racks(self) -> Fix | None:
        names = _names(self._with("KP006"))
        title = f"replicas of {_counted(names)} in as many racks as there can be"
        return Fix(("KP006",), title, names, Goal(spread_racks=True)) if names else None

    def _in_sync(self, raised: Sequence[Topic]) -> Fix | None:
        """One less than there are replicas, but not below two."""
        wanted = {}
        for topic in [*raised, *self._with("KP002", "KP003")]:
            factor = max(topic.replication_factor, self._factor if topic in raised else 0)
            good = min(max(topic.min_isr, 2), factor - 1)
            # Kafka's own topics are left at one, and not at all of their replicas.
            ours = not topic.internal or topic.min_isr >= factor
            if factor >= ENOUGH and good != topic.min_isr and ours:
                wanted[topic.name] = {_MIN_ISR: str(good)}
        return self._settings("KP002, KP003", wanted)

    def _settings(self, ids: str, configs: Mapping[str, Mapping[str, str]]) -> Fix | None:
        if not configs:
            return None
        said = sorted({f"{key}={value}" for each in configs.values() for key, value in each.items()})
        names = tuple(sorted(configs))
        return Fix(tuple(ids.split(", ")), f"{', '.join(said)} for {_counted(names)}", names, None, configs)

    def _leaders(self) -> Fix | None:
        ids = tuple(sorted({each.id for each in self._findings} & {"KP007", "KP008"}))
        names = tuple(sorted(topic.name for topic in self._topics.values()))
        return (
            Fix(ids, "preferred leaders, as many for each broker, and they lead", names, Goal())
            if ids
            else None
        )

    def _throttles(self) -> Fix | None:
        if not any(finding.id == "KP022" for finding in self._findings):
            return None
        topics = {name: dict.fromkeys(topic.throttles) for name, topic in self._named() if topic.throttles}
        brokers = {str(b.id): dict.fromkeys(b.throttles) for b in self._survey.brokers if b.throttles}
        return Fix(("KP022",), "replication without a throttle", tuple(topics), None, topics, brokers)

    def _named(self) -> list[tuple[str, Topic]]:
        return sorted((topic.name, topic) for topic in self._topics.values())


_MIN_ISR, _UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"


def _name(topic: Topic) -> str:
    return topic.name


def _names(topics: Collection[Topic]) -> tuple[str, ...]:
    return tuple(sorted(topic.name for topic in topics))


def _counted(names: Sequence[str]) -> str:
    some = ", ".join(names[:3])
    return some if len(names) <= 3 else f"{some} and {len(names) - 3:,} more topics"
