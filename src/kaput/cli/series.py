"""Several runs one after the other, in one Spark session: what each gave, and what ended them early."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from kaput.errors import DistributionError, Interrupted, JavaError, LabError, NamespacesError

if TYPE_CHECKING:
    from kaput.evidence.findings import Findings
    from kaput.evidence.folder import RunFolder
    from kaput.scenario.model import Scenario


@dataclass(frozen=True)
class Plan:
    """One run to make. `label`: what the progress calls it; `varied`: the settings that --vary gave it;
    `variant`: the same for its repetitions.
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
    """A run that was judged; `variant`: runs of the same one are repetitions."""

    folder: RunFolder
    findings: Findings
    variant: str


@dataclass
class Series:
    """What there is so far. `ended`: what kept the rest from being played."""

    results: list[Result] = field(default_factory=list)
    failed: list[Plan] = field(default_factory=list)
    ended: BaseException | None = None


def play(
    plans: Sequence[Plan],
    run_one: Callable[[Plan], tuple[RunFolder, Findings]],
    between: Callable[[Result], None] = lambda _: None,
) -> Series:
    """Plays every plan. The lab's failure in one run leaves the others alone, unless it would fail all.

    `between`: what is done with a result before the next run, if there is one.
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
            # What has been judged is shown first; then this ends the program as it always does.
            series.ended = error
            return series
    return series


def _fails_all(error: LabError, plans: Sequence[Plan]) -> bool:
    """Whether every run would fail in the same way."""
    if isinstance(error, DistributionError):
        return len({plan.scenario.cluster.kafka for plan in plans}) == 1
    return isinstance(error, (JavaError, NamespacesError))
