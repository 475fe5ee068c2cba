"""Experiments that reproduce a finding: a small cluster with the same settings, and with the fix.

A pure function from findings to pairs of scenarios; cli/doctor.py runs them. Each is as small as
possible: one topic, one partition if that suffices, and the one failure that the finding is about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from kaput.evidence.findings import Findings
from kaput.operate.doctor.snapshot import ClusterSnapshot, TopicState
from kaput.scenario.builtin import builtin_text
from kaput.scenario.loader import resolve
from kaput.scenario.model import Scenario
from kaput.scenario.source import parse

NO_EXPERIMENT: Mapping[str, str] = {
    **dict.fromkeys(("KP007", "KP008", "KP022", "KP027"), "it affects performance only"),
    **dict.fromkeys(
        ("KP009", "KP010", "KP011", "KP014", "KP023", "KP024", "KP028"),
        "it is a state of the cluster, not a setting that could be tried elsewhere",
    ),
    **dict.fromkeys(
        ("KP015", "KP020"),
        "a run cannot distinguish deleted records from lost ones: it only reads back the log",
    ),
    "KP016": "nothing has to fail: the messages are in the wrong topic",
    "KP019": "nothing has to fail: there is no reader",
    **dict.fromkeys(("KP025", "KP026"), "nothing has to fail: clients are refused"),
}


@dataclass(frozen=True)
class Measure:
    """A figure to compare; higher is worse. `column`: its name in a table of runs."""

    name: str
    column: str
    of: Callable[[Findings], float | None]


LOST = Measure("messages lost", "lost", lambda findings: findings.total("lost"))
DOUBLED = Measure("messages stored twice", "duplicate", lambda findings: findings.total("duplicate"))
WAIT = Measure(
    "longest wait for an acknowledgement, ms", "ack max ms", lambda findings: findings.latency_ms.ack.max
)
AGE = Measure(
    "oldest message when it was delivered, ms",
    "end-to-end max ms",
    lambda findings: findings.latency_ms.end_to_end.max,
)


@dataclass(frozen=True)
class DoctorExperiment:
    """`scenario`: a file in scenarios/ or a built-in; `risk`, `remedy`: changes to it, as for --set."""

    scenario: str
    figure: Measure
    remedy: tuple[str, ...]
    risk: tuple[str, ...] = ()


_THREE_REPLICAS = (
    "topics.0.replication-factor=3",
    "topics.0.assignment=[[1,2,3]]",
    "topics.0.config.min.insync.replicas=2",
)
_ONE_REPLICA = DoctorExperiment("one-replica", WAIT, _THREE_REPLICAS)
EXPERIMENTS: Mapping[str, DoctorExperiment] = {
    "KP001": _ONE_REPLICA,
    "KP002": DoctorExperiment("no-slack", WAIT, ("topics.0.config.min.insync.replicas=2",)),
    "KP003": DoctorExperiment("one-in-sync", LOST, ("topics.0.config.min.insync.replicas=2",)),
    "KP004": DoctorExperiment(
        "unclean-election",
        LOST,
        ("topics.0.config.unclean.leader.election.enable=false", "expect={}"),
        ("expect={}",),
    ),
    "KP005": _ONE_REPLICA,  # topics created with that default
    "KP006": DoctorExperiment("one-rack", WAIT, ("topics.0.assignment=[[1,3]]",)),
    "KP012": DoctorExperiment("lone-voter", WAIT, ("cluster.controllers=3",)),
    "KP013": DoctorExperiment("lone-voter", WAIT, ("cluster.controllers=3",), ("cluster.controllers=2",)),
    "KP017": DoctorExperiment(
        "leader-kill-lagging-acks-1", LOST, ("workload.producers.0.acks=all", "expect={}"), ("expect={}",)
    ),
    "KP018": DoctorExperiment(
        "leader-kill-lagging-acks-all",
        DOUBLED,
        ("workload.producers.0.idempotence=true", "expect={}"),
        ("expect={}",),
    ),
    "KP021": DoctorExperiment("internal-topic", AGE, ("cluster.config.offsets.topic.replication.factor=3",)),
}


@dataclass(frozen=True)
class Pair:
    """An experiment without and with the fix. `resource`: the one whose settings it uses; None: its own."""

    id: str
    resource: str | None
    without_fix: Scenario
    with_fix: Scenario
    figure: Measure


def pair(number: str, snapshot: ClusterSnapshot | None, resource: str | None) -> Pair:
    """A check's experiment, with the settings of its topic, if any. `number`: one of EXPERIMENTS."""
    experiment = EXPERIMENTS[number]
    topics = {f"topic {topic.name}": topic for topic in snapshot.topics} if snapshot is not None else {}
    topic = topics.get(resource or "")
    risk: Sequence[str] = experiment.risk
    remedy: Sequence[str] = experiment.remedy
    if number == "KP002" and topic is not None:
        risk, remedy = _no_slack(topic)
    if number == "KP003" and topic is not None and topic.replication_factor == 2:
        risk, remedy = ("topics.0.replication-factor=2", "topics.0.assignment=[[1,2]]"), _THREE_REPLICAS
    source = parse(f"{experiment.scenario}.yaml", _scenario_text(experiment.scenario))
    return Pair(number, resource, resolve(source, risk), resolve(source, (*risk, *remedy)), experiment.figure)


def fix_helps(figure: Measure, without_fix: Findings, with_fix: Findings) -> bool:
    """Whether the fix reduces the figure to at most half."""
    bad, good = figure.of(without_fix), figure.of(with_fix)
    return bad is not None and good is not None and bad > 0 and good <= bad / 2


def _no_slack(topic: TopicState) -> tuple[Sequence[str], Sequence[str]]:
    """(risk, remedy): all replicas must be in sync; one fewer must be, or three replicas instead of two."""
    factor = topic.replication_factor
    every = list(range(1, factor + 1))
    risk = (
        f"cluster.brokers={max(3, factor)}",
        f"topics.0.replication-factor={factor}",
        f"topics.0.assignment={[every]}",
        f"topics.0.config.min.insync.replicas={topic.min_isr}",
    )
    return risk, _THREE_REPLICAS if factor < 3 else (f"topics.0.config.min.insync.replicas={factor - 1}",)


def _scenario_text(name: str) -> str:
    own = files("kaput.operate.doctor") / "scenarios" / f"{name}.yaml"
    return own.read_text(encoding="utf-8") if own.is_file() else builtin_text(name)
