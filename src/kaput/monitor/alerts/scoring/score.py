"""How well rules did on recorded runs: per fault and rule, and per rule over all runs.

right     announced because of a fault that needed someone for what the rule is meant to notice
needless  announced because of a fault that needed no one for that: it ended by itself
false     announced although there was no fault
missed    a fault needed someone for what the rule is meant to notice, and it did not fire. Only for rules
          on what clients notice: one on a single cause (no controller) does not miss other causes

What a fault needed (from the run's findings): **what ends by itself needs no one.** Findings say what ended
an outage: an election (or a rebalance, or an ISR change), or only the heal of the fault. In the second case a
longer fault would have been a longer outage, so someone had to act. An alert for the first kind wakes people
for nothing.

writes   nothing was acknowledged until the heal, or acknowledged messages were lost
reads    a group fell behind until the heal, or messages were stuck for it
reserve  in-sync replicas were missing until the heal: no client was hurt, but the next failure would have
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal

from kaput.core import SECOND
from kaput.evidence.findings import Findings
from kaput.evidence.findings_claims import FaultFindings, needs_heal
from kaput.evidence.findings_file import read_findings
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from kaput.monitor.alerts.rules import AlertRule, AlertRules
from kaput.monitor.alerts.scoring.recordings import (
    Episode,
    Playback,
    Recording,
    playable,
    played,
    recording_of,
)

Need = Literal["writes", "reads", "reserve"]
_SHORTEST_MS = 1000.0  # the shortest outage that counts
GRACE_NS = 60 * SECOND  # after a heal: alerts until then are still due to the fault
# What rules on these signals are meant to notice; all others: writes.
_READS = ("kaput_consumer_", "kaput_group_")
_RESERVE = (
    "kaput_broker_",
    "kaput_out_of_sync_replicas",
    "kaput_under_replicated_partitions",
    "kaput_reassigning_partitions",
    "kaput_spare_replicas",
    "kaput_quorum_",
    "kaput_log_dir",
    "kaput_certificate_",
    "kaput_mirror_",
)


@dataclass(frozen=True)
class ScoredFault:
    """One fault that took effect. `until_ns`: its heal, or the end of the run."""

    id: str
    fault: str
    target: str
    from_ns: int
    until_ns: int
    needs: Sequence[Need]

    def may_cause(self, at_ns: int) -> bool:
        """Whether an alert at this time can be due to it."""
        return self.from_ns <= at_ns <= self.until_ns + GRACE_NS


# Signals that show any trouble of clients, or of the reserve: rules on these should fire for each. Others
# are about one cause (no controller, no leader), and silent for the rest.
_ANY_CAUSE = (
    "kaput_messages_",
    "kaput_unacknowledged_seconds",
    "kaput_consumer_lag_",
    "kaput_out_of_sync_replicas",
    "kaput_under_replicated_partitions",
)


def faults_of(findings: Findings, end_ns: int) -> list[ScoredFault]:
    """Proven faults, without those that do nothing (noop)."""
    return [
        ScoredFault(
            each.id,
            each.fault,
            each.target,
            each.effective_ns,
            end_ns if each.healed_ns is None else each.healed_ns,
            tuple(_needs(each)),
        )
        for each in findings.faults
        if each.effective_ns is not None and each.proven and each.fault != "noop"
    ]


def noticed_by(signal: str) -> Need:
    """What a rule on this signal is meant to notice."""
    if signal.startswith(_READS):
        return "reads"
    return "reserve" if signal.startswith(_RESERVE) else "writes"


def of_any_cause(signal: str) -> bool:
    """Whether a rule on this signal should fire whatever the cause."""
    return signal.startswith(_ANY_CAUSE)


def _needs(fault: FaultFindings) -> list[Need]:
    lasted = needs_heal(fault.unavailable_waited_for) or fault.unavailable_ended_by is None
    down = lasted and fault.unavailable_ms is not None and fault.unavailable_ms >= _SHORTEST_MS
    found: dict[Need, bool] = {
        "writes": down or fault.lost > 0,
        "reads": fault.lag_ended_by == "heal" or any(fault.stuck.values()),
        "reserve": fault.isr_ended_by == "heal",
    }
    return [need for need, is_so in found.items() if is_so]


def recorded_run(path: Path) -> RecordedRun:
    """The run in that folder. Raises UsageError if it has not been judged, or cannot be read."""
    folder = RunFolder(path)
    return run_of(folder, read_findings(folder.findings_path))


def run_of(folder: RunFolder, findings: Findings) -> RecordedRun:
    """A run whose findings are already loaded. Raises EvidenceError if it cannot be read."""
    recording = recording_of(check(folder))
    return RecordedRun(
        folder.name, findings.run.scenario, recording, faults_of(findings, max(recording.steps))
    )


Judgement = Literal["right", "needless", "false"]


@dataclass(frozen=True)
class RecordedRun:
    """A run to play rules over."""

    name: str
    scenario: str
    recording: Recording
    faults: Sequence[ScoredFault]


@dataclass(frozen=True)
class FiredAlert:
    """An episode, judged. `detect_s`: from the fault's effect to the announcement; `resolve_s`: from its heal
    to the end of the alert, None if it ended before, or never did.
    """

    episode: Episode
    judgement: Judgement
    fault: ScoredFault | None
    detect_s: float | None
    resolve_s: float | None


@dataclass(frozen=True)
class RunScore:
    """The score of one run. `missed`: by fault id, the rules that should have been announced and were not."""

    run: RecordedRun
    rung: Sequence[FiredAlert]
    missed: Mapping[str, Sequence[AlertRule]]
    not_played: Mapping[str, str]

    def noticed(self, fault: ScoredFault) -> set[Need]:
        """What was noticed of a fault, by itself or together with others."""
        return {
            noticed_by(each.episode.rule.signal)
            for each in self.rung
            if fault.may_cause(each.episode.active_ns)
        }

    def unnoticed(self) -> list[ScoredFault]:
        """Faults that hurt clients, and for which no rule meant to notice that was announced."""
        found = []
        for fault in self.run.faults:
            fired = self.noticed(fault)
            silent = {noticed_by(rule.signal) for rule in self.missed.get(fault.id, ())}
            if (silent - fired) & {"writes", "reads"}:
                found.append(fault)
        return found


@dataclass
class RuleScore:
    """One rule over several runs; times in seconds."""

    rule: AlertRule
    right: int = 0
    needless: int = 0
    false: int = 0
    missed: int = 0
    detect_s: list[float] = field(default_factory=list)
    resolve_s: list[float] = field(default_factory=list)

    @property
    def precision(self) -> float | None:
        """The share of its announcements that were right; None without announcements."""
        announced = self.right + self.needless + self.false
        return self.right / announced if announced else None

    @property
    def recall(self) -> float | None:
        """The share of faults that it should notice, and did; None without such faults, and for a rule on a
        single cause.
        """
        needed = len(self.detect_s) + self.missed if of_any_cause(self.rule.signal) else 0
        return len(self.detect_s) / needed if needed else None

    @property
    def typical_detect_s(self) -> float | None:
        """The median of `detect_s`."""
        return median(self.detect_s) if self.detect_s else None


def scored(rules: AlertRules, run: RecordedRun) -> RunScore:
    """The rules' score on one run."""
    kept, not_played = playable(rules, run.recording)
    playback = played(kept, run.recording) if kept is not None else Playback()
    rung = [_judged(each, run.faults) for each in playback.episodes]
    missed = {fault.id: _missed(kept, fault, playback) for fault in run.faults}
    return RunScore(run, rung, missed, not_played)


def by_rule(rules: AlertRules, scores: Iterable[RunScore]) -> list[RuleScore]:
    """Each rule's score over all of these runs, in the order of the file; without rules that were never
    played.
    """
    scores = list(scores)
    played_ones = [rule for rule in rules if any(rule.name not in score.not_played for score in scores)]
    found = {rule.name: RuleScore(rule) for rule in played_ones}
    for score in scores:
        for each in score.rung:
            mine = found[each.episode.rule.name]
            setattr(mine, each.judgement, getattr(mine, each.judgement) + 1)
        for name, mine in found.items():
            mine.detect_s += _first_detections(score, name)
            mine.resolve_s += [s for s in _resolutions(score, name) if s is not None]
            mine.missed += sum(rule.name == name for silent in score.missed.values() for rule in silent)
    return list(found.values())


def _judged(episode: Episode, faults: Sequence[ScoredFault]) -> FiredAlert:
    causes = [fault for fault in faults if fault.may_cause(episode.active_ns)]
    if not causes:
        return FiredAlert(episode, "false", None, None, None)
    need = noticed_by(episode.rule.signal)
    # Of several simultaneous faults: one that needed someone, else the latest.
    cause = max(causes, key=lambda fault: (need in fault.needs, fault.from_ns))
    resolved_ns = episode.resolved_ns
    after_heal = None if resolved_ns is None else (resolved_ns - cause.until_ns) / SECOND
    return FiredAlert(
        episode,
        "right" if need in cause.needs else "needless",
        cause,
        (episode.fired_ns - cause.from_ns) / SECOND,
        after_heal if after_heal is not None and after_heal >= 0 else None,
    )


def _missed(kept: AlertRules | None, fault: ScoredFault, found: Playback) -> list[AlertRule]:
    begun = [(each.rule.name, each.active_ns) for each in found.episodes]
    fired = {name for name, active_ns in (*begun, *found.explained) if fault.may_cause(active_ns)}
    return [
        rule
        for rule in kept or ()
        if noticed_by(rule.signal) in fault.needs and of_any_cause(rule.signal) and rule.name not in fired
    ]


def _first_detections(score: RunScore, name: str) -> list[float]:
    """For each fault that the rule rightly noticed, the time of the first detection."""
    first: dict[str, float] = {}
    for each in score.rung:
        if each.episode.rule.name == name and each.judgement == "right":
            assert each.fault is not None and each.detect_s is not None
            first[each.fault.id] = min(each.detect_s, first.get(each.fault.id, each.detect_s))
    return list(first.values())


def _resolutions(score: RunScore, name: str) -> list[float | None]:
    return [each.resolve_s for each in score.rung if each.episode.rule.name == name]


def score_document(runs: Sequence[RunScore], rules: Sequence[RuleScore]) -> dict[str, Any]:
    """All scores; times in seconds."""
    return {"runs": [_run(score) for score in runs], "rules": [_rule(score) for score in rules]}


def _run(score: RunScore) -> dict[str, Any]:
    return {
        "run": score.run.name,
        "scenario": score.run.scenario,
        "faults": [
            {
                "id": fault.id,
                "fault": fault.fault,
                "target": fault.target,
                "needs": list(fault.needs),
                "alerts": [_rung(each) for each in score.rung if each.fault is fault],
                "missed": [rule.name for rule in score.missed.get(fault.id, ())],
            }
            for fault in score.run.faults
        ],
        "false": [_rung(each) for each in score.rung if each.fault is None],
        "unnoticed": [fault.id for fault in score.unnoticed()],
        "not_played": dict(score.not_played),
    }


def _rung(each: FiredAlert) -> dict[str, Any]:
    return {
        "rule": each.episode.rule.name,
        "severity": each.episode.rule.severity,
        "labels": dict(each.episode.labels),
        "judgement": each.judgement,
        "summary": each.episode.summary,
        "fired_ns": each.episode.fired_ns,
        "resolved_ns": each.episode.resolved_ns,
        "detect_s": each.detect_s,
        "resolve_s": each.resolve_s,
    }


def _rule(score: RuleScore) -> dict[str, Any]:
    return {
        "rule": score.rule.name,
        "severity": score.rule.severity,
        "notices": noticed_by(score.rule.signal),
        **figures(score),
    }


def figures(score: RuleScore) -> dict[str, Any]:
    """A rule's score as JSON."""
    return {
        "right": score.right,
        "needless": score.needless,
        "false": score.false,
        "missed": score.missed,
        "precision": score.precision,
        "recall": score.recall,
        "detect_s": score.typical_detect_s,
        "detect_s_max": max(score.detect_s, default=None),
        "resolve_s_max": max(score.resolve_s, default=None),
    }
