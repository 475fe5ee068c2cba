"""The sections of the report of one run. Each module builds its section from findings, for all renderers.

A section is a function that takes a JudgedRun and returns a Section, or None if it has nothing to show; it is
in SECTIONS of run_report.py (docs/ADDING_A_SECTION.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from kaput.evidence.findings import Findings
from kaput.evidence.folder import Manifest
from kaput.scenario.model import Scenario

_DAY_S = 86_400


@dataclass(frozen=True)
class JudgedRun:
    """A run with its findings; `scenario` and `manifest` where they are known."""

    findings: Findings
    scenario: Scenario | None = None
    manifest: Manifest | None = None

    @property
    def described(self) -> bool:
        """Whether a scenario or a version is recorded; else mode, seed and types of groups are defaults, of
        evidence that another program wrote.
        """
        return self.scenario is not None or self.findings.run.kafka is not None

    def seconds(self, ns: int | None) -> float | None:
        """A time in s since the load began; None if unknown or more than a day away."""
        began_ns = self.findings.run.started_ns
        seconds = None if ns is None or not began_ns else (ns - began_ns) / 1e9
        return None if seconds is None or abs(seconds) > _DAY_S else seconds
