"""`kaput doctor`: what of a cluster's settings and state will lose messages or stop the service."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kaput.cli.run import DEFAULT_RUNS
from kaput.cli.which import CommandConfig, Servers, Standing

if TYPE_CHECKING:
    from kaput.operate.doctor.diagnosis import Finding
    from kaput.operate.doctor.survey import Survey


class Format(StrEnum):
    """What is printed."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


class Severity(StrEnum):
    """From which one on the exit status is 1."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"
    NEVER = "never"


def doctor_command(
    check: Annotated[
        list[str] | None,
        typer.Argument(help="With --prove: these alone (KP003).", metavar="[ID...]", show_default=False),
    ] = None,
    *,
    bootstrap_servers: Servers = None,
    cluster: Standing = None,
    command_config: CommandConfig = None,
    client_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A producer's properties, to be looked at as well.")
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Leave out what is known: an earlier --json."),
    ] = None,
    fail_on: Annotated[Severity, typer.Option(help="1 if something is as bad as that.")] = Severity.WARNING,
    format_: Annotated[Format, typer.Option("--format", help="text, json or sarif.")] = Format.TEXT,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Apply remedies, each shown and confirmed first.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --fix: do not ask.")] = False,
    prove: Annotated[
        bool,
        typer.Option("--prove", help="Try what was found on a scratch cluster, without and with the remedy."),
    ] = False,
    runs: Annotated[Path, typer.Option(help="With --prove: where run folders are made.")] = DEFAULT_RUNS,
) -> int:
    """Look at a cluster, its topics, groups and quorum, and say what will hurt.

    Changes nothing, but with --fix, and then nothing that was not confirmed.

    Example: kaput doctor --bootstrap-servers broker1:9092 --fail-on critical

    Example: kaput doctor --prove KP002
    """
    _refuse(check, prove, fix)
    from kaput.cli.fixing import apply, resume
    from kaput.cli.proving import prove as proven
    from kaput.cli.which import config_of, servers_of
    from kaput.operate.doctor.diagnosis import diagnose, read_baseline
    from kaput.operate.doctor.taking import take
    from kaput.operate.homes import standing

    known = set() if baseline is None else read_baseline(baseline)
    if prove and check and bootstrap_servers is None and cluster is None and not standing():
        return proven(check, None, [], runs, json)  # with settings of the experiment's own
    servers = servers_of(bootstrap_servers, cluster)
    command_config = config_of(bootstrap_servers, cluster, command_config)

    def look() -> tuple[Survey, list[Finding]]:
        return (seen := take(servers, command_config, client_config)), diagnose(seen, known)

    survey, findings = look()
    if prove:
        return proven(check or [], survey, findings, runs, json)
    shown, fixed = Format.JSON if json else format_, None
    if fix:
        quiet = shown is not Format.TEXT
        if not quiet:
            _show(shown, findings, survey.unknown)
        fixed = list[str]()
        if survey.interrupted is not None:
            fixed = resume(survey, servers, command_config, yes=yes, quiet=quiet)
            survey, findings = look()
        fixed += apply(survey, findings, servers, command_config, yes=yes, quiet=quiet)
        survey, findings = look()
        typer.echo("\nafterwards:", err=quiet)
    _show(shown, findings, survey.unknown, fixed)
    return _status(findings, fail_on)


def _refuse(check: Sequence[str] | None, prove: bool, fix: bool) -> None:
    """Raises BadParameter for options that do not go together."""
    if check and not prove:
        raise typer.BadParameter("ids of checks go with --prove")
    if prove and fix:
        raise typer.BadParameter("--prove and --fix: one after the other")


def _show(
    shown: Format, findings: Sequence[Finding], unknown: Sequence[str], fixed: Sequence[str] | None = None
) -> None:
    from kaput.console import Console
    from kaput.operate.doctor.diagnosis import as_json
    from kaput.operate.doctor.sarif import as_sarif
    from kaput.report.doctor import render

    if shown is Format.JSON:
        typer.echo(as_json(findings, unknown, fixed))
    elif shown is Format.SARIF:
        typer.echo(as_sarif(findings))
    else:
        Console(soft_wrap=True).print(render(findings, unknown), end="")


def _status(findings: list[Finding], fail_on: Severity) -> int:
    """1 where something is as bad as that."""
    from kaput.operate.doctor.checks import SEVERITIES
    from kaput.operate.doctor.diagnosis import at_or_above

    bad = [severity for severity in SEVERITIES if severity == fail_on.value]  # none for "never"
    return int(any(at_or_above(findings, severity) for severity in bad))
