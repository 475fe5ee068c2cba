"""Loads a judged run folder as a run to play rules over."""

from __future__ import annotations

from pathlib import Path

from kaput.evidence.findings import Findings
from kaput.evidence.findings_file import read_findings
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from kaput.monitor.alerts.scoring.ground_truth import faults_of
from kaput.monitor.alerts.scoring.recorded import recording_of
from kaput.monitor.alerts.scoring.score import RecordedRun


def recorded_run(path: Path) -> RecordedRun:
    """The run in that folder. Raises UsageError if it has not been judged, or cannot be read."""
    folder = RunFolder(path)
    return run_of(folder, read_findings(folder.findings_path))


def run_of(folder: RunFolder, findings: Findings) -> RecordedRun:
    """A run whose findings are already loaded. Raises EvidenceError if it cannot be read."""
    recording = recording_of(check(folder))
    return RecordedRun(
        folder.name, findings.run.scenario, recording, faults_of(findings, max(recording.steps))
    )
