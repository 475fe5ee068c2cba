"""A trial: one experiment that is wanted, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import JsonValue

    from kaput.evidence.findings import Findings
    from kaput.evidence.folder import RunFolder
    from kaput.scenario.model import Scenario


@dataclass(frozen=True)
class Trial:
    """One experiment that is wanted. `labels`: what was varied, as the manifest's `varied` says it."""

    name: str
    scenario: Scenario
    seed: int
    labels: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True)
class Judged:
    """What came of it. `error`: why the lab could not play or judge it, in a sentence; then there are no
    findings, but maybe a folder with what was recorded. `seconds`: from its start to its findings.
    """

    trial: Trial
    folder: RunFolder | None
    findings: Findings | None
    error: str | None
    seconds: float
