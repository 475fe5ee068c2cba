"""One rule with other thresholds, over many runs: precision and delay against the threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kaput.errors import UsageError
from kaput.monitor.alerts.observing import Observed
from kaput.monitor.alerts.rule import Rule
from kaput.monitor.alerts.rules import Rules
from kaput.monitor.alerts.scoring.score import RecordedRun, RuleScore, by_rule, scored
from kaput.monitor.alerts.scoring.truth import of_any_cause

_CANDIDATES = 16


@dataclass(frozen=True)
class Point:
    """The rule with this threshold and this `for`, and how well it did. `played`: whether any run was long
    enough for it to ring.
    """

    threshold: float
    for_ms: int
    score: RuleScore
    played: bool = True


@dataclass(frozen=True)
class Tuning:
    """`points`: those that were played; `current`: the rule as it is. `why`: a sentence for the
    recommendation, or for there being none.
    """

    rule: Rule
    points: Sequence[Point]
    current: Point
    recommended: Point | None
    why: str


def tuned(
    rules: Rules,
    rule: Rule,
    runs: Sequence[RecordedRun],
    thresholds: Sequence[float] = (),
    fors_ms: Sequence[int] = (),
) -> Tuning:
    """The rule by itself, with each of these thresholds and times; by default, with thresholds from what the
    runs show, and its own `for`. Raises UsageError.
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


def candidates(rules: Rules, rule: Rule, runs: Sequence[RecordedRun]) -> list[float]:
    """Round numbers between the least and the most that the rule observed in these runs."""
    seen = sorted({value for run in runs for value in _observed(rules, rule, run)})
    if not seen:
        return []
    low, high = seen[0], seen[-1]
    step = _round_step((high - low) / _CANDIDATES)
    return [round(float(each), 9) for each in np.arange(math.floor(low / step) * step, high + step, step)]


def _observed(rules: Rules, rule: Rule, run: RecordedRun) -> list[float]:
    observed = Observed(rules.model_copy(update={"alert_rules": [rule]}))
    began_ns = min(run.recording.steps)
    found = []
    for at_ns, samples in run.recording.steps.items():
        observed.add(samples, at_ns)
        found += [each.value for each in observed.of_rule(rule, at_ns, began_ns).values()]
    return [value for value in found if not math.isnan(value)]


def _round_step(step: float) -> float:
    """1, 2 or 5 times a power of ten, not below this."""
    if step <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * 0.999)


def _changed(rule: Rule, threshold: float, for_ms: int) -> Rule:
    """The same rule with another threshold; `clear` keeps its distance in proportion."""
    condition = rule.condition
    assert condition is not None
    clear = rule.clear
    if clear is not None:
        clear = clear * threshold / condition.threshold if condition.threshold else threshold
    field = condition.comparison.replace("-", "_")
    return rule.model_copy(update={field: threshold, "clear": clear, "for_": for_ms, "unless": []})


def _point(rules: Rules, rule: Rule, runs: Sequence[RecordedRun]) -> Point:
    alone = rules.model_copy(update={"alert_rules": [rule]})
    found = by_rule(alone, [scored(alone, run) for run in runs])
    condition = rule.condition
    assert condition is not None
    return Point(condition.threshold, rule.for_, found[0] if found else RuleScore(rule), bool(found))


def _recommended(points: Sequence[Point], current: Point) -> tuple[Point | None, str]:
    """The point that misses least; of these, the one that is right most often; of these, the soonest."""
    if not points:
        return None, "these runs are shorter than its `for`; try others with --for"
    if not of_any_cause(current.score.rule.signal):
        return None, "it is about one cause, so nothing tells which faults it should notice"
    if all(point.score.recall is None for point in points):
        return None, "none of these runs has a fault that this rule should notice"
    quality = {id(point): _quality(point) for point in points}
    best = max(quality.values())
    if best[0] == 0:
        return None, "it notices none of the faults that it should, whatever its threshold"
    equal = [point for point in points if quality[id(point)] == best]
    if current in equal:
        return current, f"no other threshold is better; {_plateau(equal)}"
    middle = equal[len(equal) // 2]
    return middle, f"it misses least, is right most often, and is soonest; {_plateau(equal)}"


def _quality(point: Point) -> tuple[float, float, float]:
    delay_s = point.score.typical_detect_s
    return point.score.recall or 0, point.score.precision or 0, -round(delay_s or 0)


def _plateau(equal: Sequence[Point]) -> str:
    if len(equal) == 1:
        return "no other is as good"
    low, high = min(each.threshold for each in equal), max(each.threshold for each in equal)
    return f"from {low:g} to {high:g} it makes no difference in these runs"
