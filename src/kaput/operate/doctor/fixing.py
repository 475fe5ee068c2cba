"""Turns findings into fixes that kaput can apply: more replicas, topic settings, leaders.

Its place: cli/doctor.py shows, confirms and applies each one. NOT_FIXABLE says why others cannot be
applied.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kaput.cluster.placement import Goal
from kaput.core import first_few
from kaput.operate.doctor.checks import SAFE_REPLICAS
from kaput.operate.doctor.diagnosis import Finding
from kaput.operate.doctor.snapshot import ClusterSnapshot, TopicState

_BROKER = "a broker is missing: bring it back"
NOT_FIXABLE: Mapping[str, str] = {
    **dict.fromkeys(
        ("KP005", "KP016", "KP021"),
        "brokers read it at startup: set it in server.properties and restart one after the other",
    ),
    **dict.fromkeys(("KP009", "KP010", "KP011"), _BROKER),
    **dict.fromkeys(("KP012", "KP013", "KP014"), "the quorum changes by adding or removing controllers"),
    "KP015": "whether to keep records longer or read faster is your decision",
    **dict.fromkeys(("KP017", "KP018"), "it is a setting of your client"),
    "KP019": "whether the group is still needed is your decision",
    "KP020": "deleted records do not come back; where to continue is your decision",
    "KP024": "whether its producer still lives is yours to find out: an abort loses what it has sent",
    "KP025": "which of the two is right is your decision",
    "KP026": "whether it needs a group is your decision",
    "KP027": "how much a client may send or fetch is your decision",
    "KP028": "controllers are missing: start them",
}
_RESUME_FIRST = "resume or undo the interrupted reassignment first"
_TWO_REPLICAS = "two replicas survive a lost or a stopped broker, not both: add a third broker (kaput grow)"
_ONE_BROKER = "there is only one broker: add one for a second replica (kaput grow)"


Settings = Mapping[str, Mapping[str, str | None]]


@dataclass(frozen=True)
class Fix:
    """A `goal` for topics (None: none), settings of topics (None: deleted) and brokers, an election."""

    ids: tuple[str, ...]
    title: str
    topics: tuple[str, ...] = ()
    goal: Goal | None = None
    configs: Settings = field(default_factory=dict)
    brokers: Settings = field(default_factory=dict)


@dataclass(frozen=True)
class Remedies:
    """The fixes in order, and the findings that cannot be fixed, with the reasons."""

    fixes: Sequence[Fix]
    cannot: Sequence[tuple[Finding, str]]


def remedies(snapshot: ClusterSnapshot, findings: Sequence[Finding]) -> Remedies:
    return _Remedies(snapshot, findings).compute()


class _Remedies:
    """Computes the fixes for one snapshot."""

    def __init__(self, snapshot: ClusterSnapshot, findings: Sequence[Finding]) -> None:
        self._survey, self._findings = snapshot, findings
        self._topics = {f"topic {topic.name}": topic for topic in snapshot.topics}
        self._factor = min(SAFE_REPLICAS, len(snapshot.brokers))

    def compute(self) -> Remedies:
        if self._survey.interrupted is not None:
            return Remedies([], [(each, _RESUME_FIRST) for each in self._findings if each.id != "KP023"])
        to_replicate = self._to_replicate()
        fixes = [
            self._more_replicas(to_replicate),
            self._spread_racks(),
            self._settings("KP004", {t.name: {_UNCLEAN: "false"} for t in self._fixable_topics("KP004")}),
            self._min_isr(to_replicate),
            self._leaders(),
            self._throttles(),
        ]
        done = {finding.key for finding in self._findings if self._why_not(finding) is None}
        left = [(each, self._why_not(each) or "") for each in self._findings if each.key not in done]
        return Remedies([fix for fix in fixes if fix is not None], left)

    def _why_not(self, finding: Finding) -> str | None:
        """Why kaput cannot fix the finding; None if it can."""
        number, topic = finding.id, self._topics.get(finding.resource)
        if number in NOT_FIXABLE:
            return NOT_FIXABLE[number]
        if number == "KP022" and finding.resource == "all brokers by default":
            return "it is a dynamic default of the cluster: the command above removes it"
        if number == "KP001" and self._factor == 1:
            return _BROKER if self._survey.missing else _ONE_BROKER
        if number in ("KP002", "KP003") and topic is not None:
            return _TWO_REPLICAS if max(topic.replication_factor, self._factor) < SAFE_REPLICAS else None
        return None

    def _fixable_topics(self, *ids: str) -> list[TopicState]:
        """The topics with these findings that can be fixed."""
        names = [f.resource for f in self._findings if f.id in ids and self._why_not(f) is None]
        return [self._topics[name] for name in dict.fromkeys(names)]

    def _to_replicate(self) -> list[TopicState]:
        """Topics that get more replicas: those with one, or with two and no good min.insync.replicas."""
        one, others = self._fixable_topics("KP001"), self._fixable_topics("KP002", "KP003")
        two = [topic for topic in others if topic.replication_factor < SAFE_REPLICAS]
        return [topic for _, topic in sorted({topic.name: topic for topic in (*one, *two)}.items())]

    def _more_replicas(self, to_replicate: Sequence[TopicState]) -> Fix | None:
        names = _names(to_replicate)
        title = f"{self._factor} replicas for {first_few(names, 3, 'topics')}"
        return Fix(("KP001",), title, names, Goal(self._factor)) if names else None

    def _spread_racks(self) -> Fix | None:
        names = _names(self._fixable_topics("KP006"))
        title = f"replicas of {first_few(names, 3, 'topics')} in as many racks as possible"
        return Fix(("KP006",), title, names, Goal(spread_racks=True)) if names else None

    def _min_isr(self, to_replicate: Sequence[TopicState]) -> Fix | None:
        """Sets min.insync.replicas to one less than the number of replicas, but at least two."""
        wanted = {}
        for topic in [*to_replicate, *self._fixable_topics("KP002", "KP003")]:
            factor = max(topic.replication_factor, self._factor if topic in to_replicate else 0)
            good = min(max(topic.min_isr, 2), factor - 1)
            # An internal topic may keep min.insync.replicas=1, but must not require all of its replicas.
            changeable = not topic.internal or topic.min_isr >= factor
            if factor >= SAFE_REPLICAS and good != topic.min_isr and changeable:
                wanted[topic.name] = {_MIN_ISR: str(good)}
        return self._settings("KP002, KP003", wanted)

    def _settings(self, ids: str, configs: Mapping[str, Mapping[str, str]]) -> Fix | None:
        if not configs:
            return None
        changes = sorted({f"{key}={value}" for each in configs.values() for key, value in each.items()})
        names = tuple(sorted(configs))
        title = f"{', '.join(changes)} for {first_few(names, 3, 'topics')}"
        return Fix(tuple(ids.split(", ")), title, names, None, configs)

    def _leaders(self) -> Fix | None:
        ids = tuple(sorted({each.id for each in self._findings} & {"KP007", "KP008"}))
        names = _names(self._topics.values())
        return (
            Fix(ids, "balance preferred leaders over brokers, and elect them", names, Goal()) if ids else None
        )

    def _throttles(self) -> Fix | None:
        if not any(finding.id == "KP022" for finding in self._findings):
            return None
        every = sorted(self._topics.values(), key=lambda topic: topic.name)
        topics = {topic.name: dict.fromkeys(topic.throttles) for topic in every if topic.throttles}
        brokers = {str(b.id): dict.fromkeys(b.throttles) for b in self._survey.brokers if b.throttles}
        return Fix(("KP022",), "remove leftover replication throttles", tuple(topics), None, topics, brokers)


_MIN_ISR, _UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"


def _names(topics: Collection[TopicState]) -> tuple[str, ...]:
    return tuple(sorted(topic.name for topic in topics))
