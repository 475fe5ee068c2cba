"""Tries one rule with other thresholds over many runs: precision and delay against the threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import median
from typing import Any

import numpy as np

from kaput.errors import UsageError
from kaput.monitor.alerts.engine import SampleStore
from kaput.monitor.alerts.rules import WORSE_UPWARDS, AlertRule, AlertRules
from kaput.monitor.alerts.scoring.score import RecordedRun, RuleScore, by_rule, figures, of_any_cause, scored

_CANDIDATES = 24


@dataclass(frozen=True)
class TunedPoint:
    """The rule with this threshold and `for`, and its score. `played`: whether any run was long enough for it
    to fire.
    """

    threshold: float
    for_ms: int
    score: RuleScore
    played: bool = True


@dataclass(frozen=True)
class Tuning:
    """`points`: those that were played; `current`: the rule as it is. `why`: a sentence for the
    recommendation, or for its absence.
    """

    rule: AlertRule
    points: Sequence[TunedPoint]
    current: TunedPoint
    recommended: TunedPoint | None
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
        point for point in points if (point.threshold, point.for_ms) == (condition.threshold, rule.for_)
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


def _changed(rule: AlertRule, threshold: float, for_ms: int) -> AlertRule:
    """The rule with another threshold; `clear` is scaled with it."""
    condition = rule.condition
    assert condition is not None
    clear = rule.clear
    if clear is not None:
        clear = clear * threshold / condition.threshold if condition.threshold else threshold
    field = condition.comparison.replace("-", "_")
    return rule.model_copy(update={field: threshold, "clear": clear, "for_": for_ms, "unless": []})


def _point(rules: AlertRules, rule: AlertRule, runs: Sequence[RecordedRun]) -> TunedPoint:
    alone = rules.model_copy(update={"alert_rules": [rule]})
    found = by_rule(alone, [scored(alone, run) for run in runs])
    condition = rule.condition
    assert condition is not None
    return TunedPoint(condition.threshold, rule.for_, found[0] if found else RuleScore(rule), bool(found))


def _recommended(points: Sequence[TunedPoint], current: TunedPoint) -> tuple[TunedPoint | None, str]:
    """The point that misses least; of those, the ones that are right most often; of those, the fastest whose
    neighbors do as well: at the edge a little noise would make it wrong.
    """
    if not points:
        return None, "these runs are shorter than its `for`; try others with --for"
    if not of_any_cause(current.score.rule.signal):
        return None, "it is about a single cause, so it is unknown which faults it should detect"
    if all(point.score.recall is None for point in points):
        return None, "none of these runs has a fault that this rule should detect"
    best = max(map(_quality, points))
    if best[0] == 0:
        return None, "it detects none of the faults that it should, at any threshold"
    equal = [point for point in points if _quality(point) == best]
    safe = [point for point in equal if len(_around(equal, point, points)) == 3]
    soonest = min(safe or equal, key=lambda point: (_delay_s(point), point is not current))
    as_good = _around(equal, soonest, points, all_of_them=True)
    span = f"from {as_good[0].threshold:,.6g} to {as_good[-1].threshold:,.6g}"
    why = (
        f"thresholds {span} are right as often" if len(as_good) > 1 else "no neighboring threshold is as good"
    )
    if soonest is current:
        return current, f"no other is better; {why}"
    return soonest, f"it misses the fewest faults, is right most often, and among equals fires soonest; {why}"


def _quality(point: TunedPoint) -> tuple[float, float]:
    return point.score.recall or 0, point.score.precision or 0


def _delay_s(point: TunedPoint) -> float:
    """In whole seconds: smaller differences are noise."""
    return round(point.score.typical_detect_s or 0)


def _around(
    equal: Sequence[TunedPoint], point: TunedPoint, points: Sequence[TunedPoint], all_of_them: bool = False
) -> list[TunedPoint]:
    """The point and the neighboring thresholds, with the same `for`, that do as well: the next on each side,
    or all of them without a gap.
    """
    row = [each for each in points if each.for_ms == point.for_ms]
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


def _point_document(point: TunedPoint) -> dict[str, Any]:
    return {"threshold": point.threshold, "for_s": point.for_ms / 1000, **figures(point.score)}
