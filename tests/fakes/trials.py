"""Trials without brokers: what comes of each is a function of it. The seam is that of trials/trials.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kaput.evidence.findings import Findings
from kaput.scenario.model import Scenario
from kaput.trials.batch import Judged, Trial


def findings(verdict: str = "held", **more: Any) -> Findings:
    """Findings of a run in which little happened; `more`: fields by name."""
    document = {
        "schema": "kaput.findings/1",
        "run": {"id": "x", "scenario": "x", "seed": 1, "kafka": "4.3.1", "mode": "kraft"},
        "verdict": verdict,
        "promise": verdict,
        "reasons": ["A reason."],
        "totals": dict.fromkeys(("sent", "acked", "failed", "unknown", "log_records", "stored_messages"), 0),
        "fates": [],
        "groups": [],
        "anomalies": [],
        "high_watermark_arithmetic": {"acked": 0, "end_offsets": 0, "difference": 0},
        "faults": [],
        "unavailability": [],
        "latency_ms": {"ack": {}, "end_to_end": {}},
        "rates": {"sent_per_s": 0, "acked_per_s": 0},
    }
    document["run"] |= {"started_ns": 0, "ended_ns": None}  # type: ignore[operator]
    return Findings.model_validate({**document, **more})


def lost(cause: str = "deposed-leader") -> Findings:
    """Findings of a run that lost a message."""
    anomaly = {"name": "lost", "count": 1, "permitted": 0, "causes": {cause: 1}}
    return findings("violated", anomalies=[anomaly])


def has(scenario: Scenario, *faults: str) -> bool:
    """Whether its timeline has all of these."""
    return set(faults) <= {step.fault for step in scenario.faults}


@dataclass
class World:
    """Loses a message where `loses` says so, which may name the cause. `played`: every trial; `dies_after`:
    so many, then it raises.
    """

    loses: Callable[[Trial], bool | str]
    dies_after: int | None = None
    played: list[Trial] = field(default_factory=list)

    def run(self, trials: Iterable[Trial]) -> Iterator[Judged]:
        for trial in trials:
            if self.dies_after is not None and len(self.played) >= self.dies_after:
                raise KeyboardInterrupt
            self.played.append(trial)
            how = self.loses(trial)
            found = lost(how) if isinstance(how, str) else lost() if how else findings()
            yield Judged(trial, None, found, None, 1.0)
