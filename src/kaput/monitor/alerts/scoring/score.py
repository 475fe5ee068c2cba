"""How well rules did on recorded runs: per fault and rule, and per rule over all runs.

right     announced because of a fault that needed someone for what the rule is meant to notice
needless  announced because of a fault that needed nobody for that: it ended by itself
false     announced although there was no fault
missed    a fault needed someone for what the rule is meant to notice, and it did not fire. Only for rules
          on what clients notice: one on a single cause (no controller) does not miss other causes
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from kaput.core import SECOND
from kaput.monitor.alerts.rule import Rule
from kaput.monitor.alerts.rules import Rules
from kaput.monitor.alerts.scoring.ground_truth import Fault, Need, noticed_by, of_any_cause
from kaput.monitor.alerts.scoring.recorded import Recording
from kaput.monitor.alerts.scoring.replaying import Episode, Played, playable, played

Judgement = Literal["right", "needless", "false"]


@dataclass(frozen=True)
class RecordedRun:
    """A run to play rules over."""

    name: str
    scenario: str
    recording: Recording
    faults: Sequence[Fault]


@dataclass(frozen=True)
class FiredAlert:
    """An episode, judged. `detect_s`: from the fault's effect to the announcement; `resolve_s`: from its heal
    to the end of the alert, None if it ended before, or never did.
    """

    episode: Episode
    judgement: Judgement
    fault: Fault | None
    detect_s: float | None
    resolve_s: float | None


@dataclass(frozen=True)
class RunScore:
    """The score of one run. `missed`: by fault id, the rules that should have been announced and were not."""

    run: RecordedRun
    rung: Sequence[FiredAlert]
    missed: Mapping[str, Sequence[Rule]]
    not_played: Mapping[str, str]

    def noticed(self, fault: Fault) -> set[Need]:
        """What was noticed of a fault, by itself or together with others."""
        return {
            noticed_by(each.episode.rule.signal)
            for each in self.rung
            if fault.may_cause(each.episode.active_ns)
        }

    def unnoticed(self) -> list[Fault]:
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

    rule: Rule
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


def scored(rules: Rules, run: RecordedRun) -> RunScore:
    """The rules' score on one run."""
    kept, not_played = playable(rules, run.recording)
    found = played(kept, run.recording) if kept is not None else Played()
    rung = [_judged(each, run.faults) for each in found.episodes]
    missed = {fault.id: _missed(kept, fault, found) for fault in run.faults}
    return RunScore(run, rung, missed, not_played)


def by_rule(rules: Rules, scores: Iterable[RunScore]) -> list[RuleScore]:
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


def _judged(episode: Episode, faults: Sequence[Fault]) -> FiredAlert:
    causes = [fault for fault in faults if fault.may_cause(episode.active_ns)]
    if not causes:
        return FiredAlert(episode, "false", None, None, None)
    need = noticed_by(episode.rule.signal)
    # Of several simultaneous faults: one that needed somebody, else the latest.
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


def _missed(kept: Rules | None, fault: Fault, found: Played) -> list[Rule]:
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
