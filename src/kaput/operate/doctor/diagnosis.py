"""Turns a snapshot into findings: worst first, without those in a baseline; as JSON, or as SARIF 2.1.0, which
code hosts show in pull requests (OASIS, sarif-v2.1.0).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from kaput.core import VERSION
from kaput.errors import UsageError, unreadable
from kaput.operate.doctor.checks import CHECKS, SEVERITIES, Severity
from kaput.operate.doctor.snapshot import ClusterSnapshot
from kaput.operate.tools import CONFIG, TOOLS


@dataclass(frozen=True)
class Finding:
    """An entry of `findings` in `kaput doctor --json`."""

    id: str
    severity: Severity
    resource: str
    title: str
    evidence: str
    remedy: str

    @property
    def key(self) -> str:
        """Identifies the finding in a baseline, without numbers that change over time."""
        return f"{self.id} {self.resource}"


@dataclass(frozen=True)
class Address:
    """How the cluster was named on the command line: its remedies have to name it, too."""

    bootstrap_servers: str | None = None
    command_config: Path | None = None
    cluster: str | None = None

    def added_to(self, remedy: str) -> str:
        """The remedy with these options in each of its commands."""
        if self.bootstrap_servers is not None:
            remedy = re.sub(r" \(kaput grow \d+\)", "", remedy)  # that is for clusters of kaput up
        return re.sub(
            r"kaput (?:reassign|grow|tool ([a-z-]+))\b",
            lambda found: " ".join([found[0], *map(shlex.quote, self._options(found[1]))]),
            remedy,
        )

    def _options(self, tool: str | None) -> list[str]:
        if self.bootstrap_servers is None:
            return [] if self.cluster is None else ["--cluster", self.cluster]
        names = ("--bootstrap-servers", "--command-config")
        if tool is not None:
            names = (TOOLS[tool].bootstrap or names[0], CONFIG)  # as in Kafka 4.2 and later
        values = (self.bootstrap_servers, self.command_config)
        return [str(each) for pair in zip(names, values, strict=True) if pair[1] is not None for each in pair]


# Findings that a cluster with one broker cannot avoid.
_UNAVOIDABLE_WITH_ONE_BROKER = ("KP001", "KP005", "KP012", "KP021")


def diagnose(
    snapshot: ClusterSnapshot,
    known: Collection[str] = (),
    *,
    own: bool = False,
    address: Address = Address(),
) -> list[Finding]:
    """All findings, critical ones first, then by id and resource, without the keys in `known`. `own`: the
    cluster was started by `kaput up`. If it has one broker, that was a choice, and findings that follow from
    it are only `info`.
    """
    findings = [
        Finding(
            check.id, check.severity, each.resource, check.title, each.evidence, address.added_to(each.remedy)
        )
        for check in CHECKS
        for each in check.look(snapshot)
    ]
    if own and len(snapshot.brokers) == 1 and not snapshot.missing:
        findings = [_as_info(each) if each.id in _UNAVOIDABLE_WITH_ONE_BROKER else each for each in findings]
    order = {severity: place for place, severity in enumerate(SEVERITIES)}
    new = [finding for finding in findings if finding.key not in known]
    return sorted(new, key=lambda finding: (order[finding.severity], finding.id, finding.resource))


def _as_info(finding: Finding) -> Finding:
    return replace(finding, severity="info", evidence=f"{finding.evidence} (the cluster has one broker)")


def at_or_above(findings: Sequence[Finding], severity: Severity) -> bool:
    """Whether any finding is at least that severe."""
    bad = SEVERITIES[: SEVERITIES.index(severity) + 1]
    return any(finding.severity in bad for finding in findings)


def as_json(findings: Sequence[Finding], unknown: Sequence[str], fixed: Sequence[str] | None = None) -> str:
    """The JSON document; `unknown`: what could not be checked; `fixed`: what --fix did."""
    document: dict[str, object] = {
        "findings": [asdict(finding) for finding in findings],
        "unknown": list(unknown),
    }
    return json.dumps(document if fixed is None else {**document, "fixed": list(fixed)}, indent=2)


def read_baseline(path: Path) -> set[str]:
    """The keys in a file: one per line, or the output of `--json`. Raises UsageError."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from None
    if not text.lstrip().startswith("{"):
        return {line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")}
    try:
        return {f"{each['id']} {each['resource']}" for each in json.loads(text)["findings"]}
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{path}: neither lines of keys nor the output of kaput doctor --json") from None


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
    driver = {"name": "kaput doctor", "version": VERSION, "rules": rules}
    run = {"tool": {"driver": driver}, "results": results}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2)
