"""A trial: one experiment to play, and its result."""

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
    """One experiment to play. `labels`: the varied settings, for the manifest's `varied`."""

    name: str
    scenario: Scenario
    seed: int
    labels: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True)
class Judged:
    """The result of a trial. `error`: why the lab could not play or judge it, in a sentence; then there are
    no findings, but maybe a folder with partial evidence. `seconds`: from its start to its findings.
    """

    trial: Trial
    folder: RunFolder | None
    findings: Findings | None
    error: str | None
    seconds: float
