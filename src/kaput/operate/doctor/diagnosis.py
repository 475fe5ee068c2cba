"""From the picture to the answer: every finding, worst first, less what a baseline knows already."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kaput.errors import UsageError
from kaput.operate.doctor.checks import CHECKS, SEVERITIES, Severity
from kaput.operate.doctor.snapshot import Snapshot


@dataclass(frozen=True)
class Finding:
    """What `kaput doctor --json` has under `findings`."""

    id: str
    severity: Severity
    resource: str
    title: str
    evidence: str
    remedy: str

    @property
    def key(self) -> str:
        """What a baseline knows it by: numbers that change from day to day are not in it."""
        return f"{self.id} {self.resource}"


def diagnose(snapshot: Snapshot, known: Collection[str] = ()) -> list[Finding]:
    """Every finding, critical ones first, then by id and resource, but those `known` by their keys."""
    found = [
        Finding(check.id, check.severity, each.resource, check.title, each.evidence, each.remedy)
        for check in CHECKS
        for each in check.look(snapshot)
    ]
    order = {severity: place for place, severity in enumerate(SEVERITIES)}
    new = [finding for finding in found if finding.key not in known]
    return sorted(new, key=lambda finding: (order[finding.severity], finding.id, finding.resource))


def at_or_above(findings: Sequence[Finding], severity: Severity) -> bool:
    """Whether one is as bad as that."""
    bad = SEVERITIES[: SEVERITIES.index(severity) + 1]
    return any(finding.severity in bad for finding in findings)


def as_json(findings: Sequence[Finding], unknown: Sequence[str], fixed: Sequence[str] | None = None) -> str:
    """The document; `unknown`: what could not be looked at; `fixed`: what was done, where it was to be."""
    document: dict[str, object] = {
        "findings": [asdict(finding) for finding in findings],
        "unknown": list(unknown),
    }
    return json.dumps(document if fixed is None else {**document, "fixed": list(fixed)}, indent=2)


def read_baseline(path: Path) -> set[str]:
    """The keys in a file: one a line, or the document of `--json`. Raises UsageError."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    if not text.lstrip().startswith("{"):
        return {line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")}
    try:
        return {f"{each['id']} {each['resource']}" for each in json.loads(text)["findings"]}
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{path}: neither lines of keys nor what kaput doctor --json prints") from None
