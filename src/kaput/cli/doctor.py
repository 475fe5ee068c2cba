"""`kaput doctor`: finds settings and states of a cluster that risk lost messages or outages."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kaput.cli.cluster_options import ClusterName, CommandConfig, Servers
from kaput.cli.verbs import Runs
from kaput.core import DEFAULT_RUNS

if TYPE_CHECKING:
    from kaput.operate.doctor.diagnosis import Finding
    from kaput.operate.doctor.snapshot import Snapshot


class DoctorFormat(StrEnum):
    """Output formats."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


class Severity(StrEnum):
    """The lowest severity for which the exit status is 1."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"
    NEVER = "never"


CheckIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="With --prove: only these checks, for example KP003."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="With --fix: show the fixes and change nothing.")]
Prove = Annotated[
    bool,
    typer.Option("--prove", help="Reproduce each finding on a scratch cluster, with and without the fix."),
]


def doctor_command(
    check: CheckIds = None,
    *,
    bootstrap_servers: Servers = None,
    cluster: ClusterName = None,
    command_config: CommandConfig = None,
    client_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also check this producer's properties file.")
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Leave out the findings in this file (from --json)."),
    ] = None,
    fail_on: Annotated[
        Severity, typer.Option(help="Exit status 1 for findings of this severity or worse.")
    ] = Severity.WARNING,
    format_: Annotated[DoctorFormat, typer.Option("--format", help="Output format.")] = DoctorFormat.TEXT,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Apply the fixes; shows each and asks first.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --fix: do not ask for confirmation.")] = False,
    dry_run: DryRun = False,
    prove: Prove = False,
    runs: Runs = DEFAULT_RUNS,
) -> int:
    """Check a cluster, its topics and groups, and report risks.

    Changes nothing without --fix, and with --fix only what you confirm.

    Example: kaput doctor --bootstrap-servers broker1:9092 --fail-on critical

    Example: kaput doctor --prove KP002
    """
    _refuse(check, prove, fix, dry_run)
    from kaput.cli.cluster_options import config_of, servers_of
    from kaput.cli.doctor_fix import apply, resume
    from kaput.cli.doctor_prove import prove as prove_findings
    from kaput.operate.doctor.diagnosis import diagnose, read_baseline
    from kaput.operate.doctor.snapshot import read_snapshot
    from kaput.operate.registry import running

    known = set() if baseline is None else read_baseline(baseline)
    if prove and check and bootstrap_servers is None and cluster is None and not running():
        return prove_findings(check, None, [], runs, json)  # with the experiment's own settings
    servers = servers_of(bootstrap_servers, cluster)
    command_config = config_of(bootstrap_servers, cluster, command_config)

    def look() -> tuple[Snapshot, list[Finding]]:
        seen = read_snapshot(servers, command_config, client_config)
        return seen, diagnose(seen, known, own=bootstrap_servers is None)

    snapshot, findings = look()
    if prove:
        return prove_findings(check or [], snapshot, findings, runs, json)
    shown, fixed = DoctorFormat.JSON if json else format_, None
    if fix:
        quiet = shown is not DoctorFormat.TEXT
        if not quiet:
            _show(shown, findings, snapshot.unknown)
        fixed = list[str]()
        if snapshot.interrupted is not None:
            fixed = resume(snapshot, servers, command_config, yes=yes, dry_run=dry_run, quiet=quiet)
            snapshot, findings = look()
        fixed += apply(snapshot, findings, servers, command_config, yes=yes, dry_run=dry_run, quiet=quiet)
        if dry_run and not quiet:
            return _status(findings, fail_on)
        snapshot, findings = look()
        typer.echo("\nafter the fixes:", err=quiet)
    _show(shown, findings, snapshot.unknown, fixed)
    return _status(findings, fail_on)


def _refuse(check: Sequence[str] | None, prove: bool, fix: bool, dry_run: bool) -> None:
    """Raises BadParameter for incompatible options."""
    if check and not prove:
        raise typer.BadParameter("check IDs require --prove")
    if prove and fix:
        raise typer.BadParameter("--prove and --fix cannot be combined")
    if dry_run and not fix:
        raise typer.BadParameter("--dry-run requires --fix")


def _show(
    shown: DoctorFormat,
    findings: Sequence[Finding],
    unknown: Sequence[str],
    fixed: Sequence[str] | None = None,
) -> None:
    from kaput.cli.doctor_text import render
    from kaput.console import Console
    from kaput.operate.doctor.diagnosis import as_json, as_sarif

    if shown is DoctorFormat.JSON:
        typer.echo(as_json(findings, unknown, fixed))
    elif shown is DoctorFormat.SARIF:
        typer.echo(as_sarif(findings))
    else:
        Console(soft_wrap=True).print(render(findings, unknown), end="")


def _status(findings: list[Finding], fail_on: Severity) -> int:
    """The exit status: 1 if any finding is at least that severe."""
    from kaput.operate.doctor.checks import SEVERITIES
    from kaput.operate.doctor.diagnosis import at_or_above

    bad = [severity for severity in SEVERITIES if severity == fail_on.value]  # none for "never"
    return int(any(at_or_above(findings, severity) for severity in bad))
