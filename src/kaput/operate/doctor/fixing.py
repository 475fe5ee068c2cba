"""From findings to fixes that kaput can apply: more replicas, topic settings, leaders.

Its place: cli/doctor_fix.py shows, confirms and applies each one. CANNOT says why others cannot be applied.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kaput.cluster.placement import Goal
from kaput.operate.doctor.diagnosis import Finding
from kaput.operate.doctor.settings import ENOUGH
from kaput.operate.doctor.snapshot import Snapshot, TopicState

_AT_START = "brokers read it at startup: set it in server.properties and restart one after the other"
_BROKER = "a broker is missing: bring it back"
_QUORUM = "the quorum changes by adding or removing controllers"
_CLIENT = "it is a setting of your client"
CANNOT: Mapping[str, str] = {
    "KP005": _AT_START,
    "KP009": _BROKER,
    "KP010": _BROKER,
    "KP011": _BROKER,
    "KP012": _QUORUM,
    "KP013": _QUORUM,
    "KP014": _QUORUM,
    "KP015": "whether to keep records longer or read faster is your decision",
    "KP016": _AT_START,
    "KP017": _CLIENT,
    "KP018": _CLIENT,
    "KP019": "whether the group is still needed is your decision",
    "KP020": "deleted records do not come back; where to continue is your decision",
    "KP021": _AT_START,
}
_FIRST = "resume or undo the interrupted reassignment first"
_TWO = "two replicas survive a lost or a stopped broker, not both: add a third broker (kaput grow)"
_ONE = "there is only one broker: add one for a second replica (kaput grow)"


Settings = Mapping[str, Mapping[str, str | None]]


@dataclass(frozen=True)
class Fix:
    """A fix: a `goal` for the topics (None: no reassignment), settings of topics (None: deleted) and brokers,
    or an election.
    """

    ids: tuple[str, ...]
    title: str
    topics: tuple[str, ...] = ()
    goal: Goal | None = None
    configs: Settings = field(default_factory=dict)
    brokers: Settings = field(default_factory=dict)


@dataclass(frozen=True)
class Remedies:
    """The fixes in order, and the reason for each finding that stays."""

    fixes: Sequence[Fix]
    cannot: Sequence[tuple[Finding, str]]


def remedies(snapshot: Snapshot, findings: Sequence[Finding]) -> Remedies:
    """For these findings of this cluster."""
    return _Remedies(snapshot, findings).found()


class _Remedies:
    """Finds the fixes for one snapshot."""

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
        """Why it cannot be fixed; None if it can."""
        number, topic = finding.id, self._topics.get(finding.resource)
        if number == "KP010" and topic is not None and topic.replication_factor < topic.min_isr:
            # No broker is missing: more replicas fix it.
            number = "KP001" if topic.replication_factor == 1 else "KP002"
        if number in CANNOT:
            return CANNOT[number]
        if number == "KP001" and self._factor == 1:
            return _BROKER if self._survey.missing else _ONE
        if number in ("KP002", "KP003") and topic is not None:
            return _TWO if max(topic.replication_factor, self._factor) < ENOUGH else None
        return None

    def _with(self, *ids: str) -> list[TopicState]:
        """The topics with these findings that can be fixed."""
        names = [f.resource for f in self._findings if f.id in ids and self._why_not(f) is None]
        return [self._topics[name] for name in dict.fromkeys(names)]

    def _raised(self) -> list[TopicState]:
        """Topics that get more replicas: with one, or with two, for which no min.insync.replicas is right."""
        two = [topic for topic in self._with("KP002", "KP003") if topic.replication_factor < ENOUGH]
        return sorted({topic.name: topic for topic in [*self._with("KP001"), *two]}.values(), key=_name)

    def _more_replicas(self, raised: Sequence[TopicState]) -> Fix | None:
        names = _names(raised)
        title = f"{self._factor} replicas for {_counted(names)}"
        return Fix(("KP001",), title, names, Goal(self._factor)) if names else None

    def _racks(self) -> Fix | None:
        names = _names(self._with("KP006"))
        title = f"replicas of {_counted(names)} in as many racks as possible"
        return Fix(("KP006",), title, names, Goal(spread_racks=True)) if names else None

    def _in_sync(self, raised: Sequence[TopicState]) -> Fix | None:
        """One less than the number of replicas, but not below two."""
        wanted = {}
        for topic in [*raised, *self._with("KP002", "KP003")]:
            factor = max(topic.replication_factor, self._factor if topic in raised else 0)
            good = min(max(topic.min_isr, 2), factor - 1)
            # Internal topics may stay at one, but not at all of their replicas.
            ours = not topic.internal or topic.min_isr >= factor
            if factor >= ENOUGH and good != topic.min_isr and ours:
                wanted[topic.name] = {_MIN_ISR: str(good)}
        return self._settings("KP002, KP003", wanted)

    def _settings(self, ids: str, configs: Mapping[str, Mapping[str, str]]) -> Fix | None:
        if not configs:
            return None
        changes = sorted({f"{key}={value}" for each in configs.values() for key, value in each.items()})
        names = tuple(sorted(configs))
        return Fix(
            tuple(ids.split(", ")), f"{', '.join(changes)} for {_counted(names)}", names, None, configs
        )

    def _leaders(self) -> Fix | None:
        ids = tuple(sorted({each.id for each in self._findings} & {"KP007", "KP008"}))
        names = tuple(sorted(topic.name for topic in self._topics.values()))
        return (
            Fix(ids, "balance preferred leaders over brokers, and elect them", names, Goal()) if ids else None
        )

    def _throttles(self) -> Fix | None:
        if not any(finding.id == "KP022" for finding in self._findings):
            return None
        topics = {name: dict.fromkeys(topic.throttles) for name, topic in self._named() if topic.throttles}
        brokers = {str(b.id): dict.fromkeys(b.throttles) for b in self._survey.brokers if b.throttles}
        return Fix(("KP022",), "remove leftover replication throttles", tuple(topics), None, topics, brokers)

    def _named(self) -> list[tuple[str, TopicState]]:
        return sorted((topic.name, topic) for topic in self._topics.values())


_MIN_ISR, _UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"


def _name(topic: TopicState) -> str:
    return topic.name


def _names(topics: Collection[TopicState]) -> tuple[str, ...]:
    return tuple(sorted(topic.name for topic in topics))


def _counted(names: Sequence[str]) -> str:
    some = ", ".join(names[:3])
    return some if len(names) <= 3 else f"{some} and {len(names) - 3:,} more topics"
