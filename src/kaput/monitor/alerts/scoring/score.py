"""How well rules did on recorded runs: per fault and rule, and per rule over all runs; and the tuning of
thresholds by these scores.

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

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np

from kaput.core import SECOND
from kaput.errors import UsageError
from kaput.evidence.findings import Findings
from kaput.evidence.findings_claims import FaultFindings, needs_heal
from kaput.evidence.findings_file import read_findings
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from kaput.monitor.alerts.engine import SampleStore
from kaput.monitor.alerts.rules import WORSE_UPWARDS, AlertRule, AlertRules, Condition
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
    """One rule over several runs; times in seconds. `played`: whether any run was long enough."""

    rule: AlertRule
    played: bool = True
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
        """The share of faults it should notice that it did; None for none, or a rule on a single cause."""
        needed = len(self.detect_s) + self.missed if of_any_cause(self.rule.signal) else 0
        return len(self.detect_s) / needed if needed else None

    @property
    def typical_detect_s(self) -> float | None:
        return median(self.detect_s) if self.detect_s else None

    @property
    def threshold(self) -> float:
        return _condition(self.rule).threshold

    @property
    def quality(self) -> tuple[float, float]:
        return self.recall or 0, self.precision or 0


def scored(rules: AlertRules, run: RecordedRun) -> RunScore:
    kept, not_played = playable(rules, run.recording)
    playback = played(kept, run.recording) if kept is not None else Playback()
    rung = [_judged(each, run.faults) for each in playback.episodes]
    missed = {fault.id: _missed(kept, fault, playback) for fault in run.faults}
    return RunScore(run, rung, missed, not_played)


def by_rule(rules: AlertRules, scores: Iterable[RunScore]) -> list[RuleScore]:
    """Each rule's score over all runs, in the file's order; without rules that were never played."""
    scores = list(scores)
    played_ones = [rule for rule in rules if any(rule.name not in score.not_played for score in scores)]
    found = {rule.name: RuleScore(rule) for rule in played_ones}
    for score in scores:
        for each in score.rung:
            mine = found[each.episode.rule.name]
            setattr(mine, each.judgement, getattr(mine, each.judgement) + 1)
        for name, mine in found.items():
            mine.detect_s += _first_detections(score, name)
            mine.resolve_s += [
                each.resolve_s
                for each in score.rung
                if each.episode.rule.name == name and each.resolve_s is not None
            ]
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


def score_document(runs: Sequence[RunScore], rules: Sequence[RuleScore]) -> dict[str, Any]:
    """All scores; times in seconds."""
    of_rules = [
        {
            "rule": score.rule.name,
            "severity": score.rule.severity,
            "notices": noticed_by(score.rule.signal),
            **figures(score),
        }
        for score in rules
    ]
    return {"runs": [_run(score) for score in runs], "rules": of_rules}


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


def figures(score: RuleScore) -> dict[str, Any]:
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


_CANDIDATES = 24


@dataclass(frozen=True)
class Tuning:
    """`points`: the rule with other thresholds and `for`, those played; `current`: the rule as it is; `why`:
    of the recommendation, or none.
    """

    rule: AlertRule
    points: Sequence[RuleScore]
    current: RuleScore
    recommended: RuleScore | None
    why: str


def tuned(
    rules: AlertRules,
    rule: AlertRule,
    runs: Sequence[RecordedRun],
    thresholds: Sequence[float] = (),
    fors_ms: Sequence[int] = (),
) -> Tuning:
    """Plays the rule by itself with each of these thresholds and `for` times; by default with thresholds from
    what the runs show, and its own `for`. Raises UsageError.
    """
    condition = rule.condition
    if condition is None:
        raise UsageError(f"{rule.name} has no threshold: it is about absence")
    recorded = [run for run in runs if rule.signal in run.recording.signals]
    if not recorded:
        raise UsageError(f"none of these runs records {rule.signal}")
    alone = [
        RecordedRun(run.name, run.scenario, run.recording.only(rule.signal), run.faults) for run in recorded
    ]
    tried = sorted({*(thresholds or candidates(rules, rule, alone)), condition.threshold})
    fors = sorted({*fors_ms, rule.for_})
    points = [_point(rules, _changed(rule, each, for_ms), alone) for for_ms in fors for each in tried]
    (current,) = [
        point for point in points if (point.threshold, point.rule.for_) == (condition.threshold, rule.for_)
    ]
    tried_out = [point for point in points if point.played]
    recommended, why = _recommended(tried_out, current)
    return Tuning(rule, tried_out, current, recommended, why)


def candidates(rules: AlertRules, rule: AlertRule, runs: Sequence[RecordedRun]) -> list[float]:
    """Round numbers between the usual value of these runs (the median) and the worst one: a threshold on the
    other side of the median would fire all the time.
    """
    seen = [value for run in runs for value in _observed(rules, rule, run)]
    condition = rule.condition
    if not seen or condition is None:
        return []
    low, usual, high = min(seen), median(seen), max(seen)
    if (upwards := WORSE_UPWARDS.get(condition.comparison)) is not None:
        low, high = (usual, high) if upwards else (low, usual)
    step = _round_step((high - low) / _CANDIDATES)
    return [round(float(each), 9) for each in np.arange(math.floor(low / step) * step, high + step, step)]


def _observed(rules: AlertRules, rule: AlertRule, run: RecordedRun) -> list[float]:
    observed = SampleStore(rules.model_copy(update={"alert_rules": [rule]}))
    began_ns = min(run.recording.steps)
    found = []
    for at_ns, samples in run.recording.steps.items():
        observed.add(samples, at_ns)
        found += [each.value for each in observed.of_rule(rule, at_ns, began_ns).values()]
    return [value for value in found if not math.isnan(value)]


def _round_step(step: float) -> float:
    """1, 2 or 5 times a power of ten, not below `step`."""
    if step <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * 0.999)


def _condition(rule: AlertRule) -> Condition:
    assert rule.condition is not None
    return rule.condition


def _changed(rule: AlertRule, threshold: float, for_ms: int) -> AlertRule:
    """The rule with another threshold; `clear` is scaled with it."""
    condition, clear = _condition(rule), rule.clear
    if clear is not None:
        clear = clear * threshold / condition.threshold if condition.threshold else threshold
    field = condition.comparison.replace("-", "_")
    return rule.model_copy(update={field: threshold, "clear": clear, "for_": for_ms, "unless": []})


def _point(rules: AlertRules, rule: AlertRule, runs: Sequence[RecordedRun]) -> RuleScore:
    alone = rules.model_copy(update={"alert_rules": [rule]})
    found = by_rule(alone, [scored(alone, run) for run in runs])
    return found[0] if found else RuleScore(rule, played=False)


def _recommended(points: Sequence[RuleScore], current: RuleScore) -> tuple[RuleScore | None, str]:
    """The point that misses least; of those, the ones that are right most often; of those, the fastest whose
    neighbors do as well: at the edge a little noise would make it wrong.
    """
    if not points:
        return None, "these runs are shorter than its `for`; try others with --for"
    if not of_any_cause(current.rule.signal):
        return None, "it is about a single cause, so it is unknown which faults it should detect"
    if all(point.recall is None for point in points):
        return None, "none of these runs has a fault that this rule should detect"
    best = max(point.quality for point in points)
    if best[0] == 0:
        return None, "it detects none of the faults that it should, at any threshold"
    equal = [point for point in points if point.quality == best]
    safe = [point for point in equal if len(_around(equal, point, points)) == 3]
    # Whole seconds: smaller differences are noise.
    soonest = min(safe or equal, key=lambda point: (round(point.typical_detect_s or 0), point is not current))
    as_good = _around(equal, soonest, points, all_of_them=True)
    span = f"from {as_good[0].threshold:,.6g} to {as_good[-1].threshold:,.6g}"
    why = (
        f"thresholds {span} are right as often" if len(as_good) > 1 else "no neighboring threshold is as good"
    )
    if soonest is current:
        return current, f"no other is better; {why}"
    return soonest, f"it misses the fewest faults, is right most often, and among equals fires soonest; {why}"


def _around(
    equal: Sequence[RuleScore], point: RuleScore, points: Sequence[RuleScore], all_of_them: bool = False
) -> list[RuleScore]:
    """The point and its neighbors, with the same `for`, that do as well: the next ones, or all in a row."""
    row = [each for each in points if each.rule.for_ == point.rule.for_]
    at = row.index(point)
    reach = len(row) if all_of_them else 1
    below = [*takewhile(lambda each: each in equal, row[max(0, at - reach) : at][::-1])]
    above = [*takewhile(lambda each: each in equal, row[at + 1 : at + 1 + reach])]
    return [*below[::-1], point, *above]


def tuning_document(tuning: Tuning) -> dict[str, Any]:
    """The points, and the recommended one."""
    return {
        "rule": tuning.rule.name,
        "threshold": tuning.current.threshold,
        "points": [_point_document(each) for each in tuning.points],
        "recommended": None if tuning.recommended is None else _point_document(tuning.recommended),
        "why": tuning.why,
    }


def _point_document(point: RuleScore) -> dict[str, Any]:
    return {"threshold": point.threshold, "for_s": point.rule.for_ / 1000, **figures(point)}
