"""Findings as SARIF 2.1.0, which code hosts show in pull requests (OASIS, sarif-v2.1.0)."""

from __future__ import annotations

import json
from collections.abc import Sequence

import kaput
from kaput.operate.doctor.checks import CHECKS
from kaput.operate.doctor.diagnosis import Finding

_LEVELS = {"critical": "error", "warning": "warning", "info": "note"}


def as_sarif(findings: Sequence[Finding]) -> str:
    """One run with a rule for each check; locations are logical, because a cluster has no source lines."""
    rules = [
        {
            "id": check.id,
            "shortDescription": {"text": check.title},
            "defaultConfiguration": {"level": _LEVELS[check.severity]},
        }
        for check in CHECKS
    ]
    results = [
        {
            "ruleId": finding.id,
            "level": _LEVELS[finding.severity],
            "message": {"text": f"{finding.title}: {finding.evidence}. Remedy: {finding.remedy}"},
            "locations": [{"logicalLocations": [{"fullyQualifiedName": finding.resource}]}],
            "partialFingerprints": {"kaput/v1": finding.key},
        }
        for finding in findings
    ]
    driver = {"name": "kaput doctor", "version": kaput.__version__, "rules": rules}
    run = {"tool": {"driver": driver}, "results": results}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2)
