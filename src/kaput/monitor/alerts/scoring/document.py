"""Scores as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kaput.monitor.alerts.scoring.ground_truth import noticed_by
from kaput.monitor.alerts.scoring.score import FiredAlert, RuleScore, RunScore
from kaput.monitor.alerts.scoring.tuning import Point, Tuning


def score_document(runs: Sequence[RunScore], rules: Sequence[RuleScore]) -> dict[str, Any]:
    """All scores; times in seconds."""
    return {"runs": [_run(score) for score in runs], "rules": [_rule(score) for score in rules]}


def tuning_document(tuning: Tuning) -> dict[str, Any]:
    """The points, and the recommended one."""
    return {
        "rule": tuning.rule.name,
        "threshold": tuning.current.threshold,
        "points": [_point(each) for each in tuning.points],
        "recommended": None if tuning.recommended is None else _point(tuning.recommended),
        "why": tuning.why,
    }


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
        **_figures(score),
    }


def _figures(score: RuleScore) -> dict[str, Any]:
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


def _point(point: Point) -> dict[str, Any]:
    return {"threshold": point.threshold, "for_s": point.for_ms / 1000, **_figures(point.score)}
