"""Plays several runs one after another; their results, and the exception that ended them early."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kaput.errors import DistributionError, Interrupted, JavaError, LabError, NamespacesError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from kaput.evidence.findings import Findings
    from kaput.evidence.folder import RunFolder
    from kaput.scenario.model import Scenario


@dataclass(frozen=True)
class PlannedRun:
    """A run to play. `label`: its name in the progress output; `varied`: its settings from --vary; `variant`:
    the same for all its repetitions.
    """

    title: str
    label: str
    name: str
    scenario: Scenario
    varied: Mapping[str, JsonValue]
    variant: str
    seed: int
    runs: Path
    kafka_home: Path | None


@dataclass(frozen=True)
class Result:
    """A judged run; runs of the same `variant` are repetitions."""

    folder: RunFolder
    findings: Findings
    variant: str


@dataclass
class Series:
    """The results. `ended`: the exception that prevented the remaining runs."""

    results: list[Result] = field(default_factory=list)
    failed: list[PlannedRun] = field(default_factory=list)
    ended: BaseException | None = None


def play(
    plans: Sequence[PlannedRun],
    run_one: Callable[[PlannedRun], tuple[RunFolder, Findings]],
    between: Callable[[Result], None] = lambda _: None,
) -> Series:
    """Plays every run. A lab failure in one run does not stop the others, unless all would fail.

    `between`: called with each result if another run follows.
    """
    series = Series()
    for number, plan in enumerate(plans, 1):
        if len(plans) > 1:
            sys.stderr.write(f"run {number} of {len(plans)}: {plan.title}\n")
        try:
            folder, findings = run_one(plan)
            series.results.append(Result(folder, findings, plan.variant))
            if number < len(plans):
                between(series.results[-1])
        except LabError as error:
            if len(plans) == 1 or _fails_all(error, plans):
                series.ended = error
                return series
            sys.stderr.write(f"kaput: run {number} of {len(plans)} failed: {error}\n")
            series.failed.append(plan)
        except (Exception, Interrupted) as error:  # noqa: BLE001
            # Results are shown first; then it ends the program as usual.
            series.ended = error
            return series
    return series


def _fails_all(error: LabError, plans: Sequence[PlannedRun]) -> bool:
    """Whether every run would fail in the same way."""
    if isinstance(error, DistributionError):
        return len({tuple(plan.scenario.kafka_versions()) for plan in plans}) == 1
    return isinstance(error, (JavaError, NamespacesError))
