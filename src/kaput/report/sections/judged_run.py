"""The input of the sections of one run."""

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

    def seconds(self, ns: int | None) -> float | None:
        """A time in seconds since the load began, as in the timeline; None if unknown or more than a day
        away.
        """
        began_ns = self.findings.run.started_ns
        seconds = None if ns is None or not began_ns else (ns - began_ns) / 1e9
        return None if seconds is None or abs(seconds) > _DAY_S else seconds
