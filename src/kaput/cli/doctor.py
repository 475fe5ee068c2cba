"""`kaput doctor`: what of a cluster's settings and state will lose messages or stop the service."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kaput.cli.run import DEFAULT_RUNS
from kaput.cli.which import CommandConfig, Servers, Standing


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
    if check and not prove:
        raise typer.BadParameter("ids of checks go with --prove")
    if prove and fix:
        raise typer.BadParameter("--prove and --fix: one after the other")
    from kaput.cli.fixing import apply
    from kaput.cli.proving import prove as proven
    from kaput.cli.which import servers_of
    from kaput.operate.doctor.checks import SEVERITIES
    from kaput.operate.doctor.diagnosis import as_json, at_or_above, diagnose, read_baseline
    from kaput.operate.doctor.sarif import as_sarif
    from kaput.operate.doctor.taking import take
    from kaput.operate.homes import standing
    from kaput.report.doctor import render

    known = read_baseline(baseline) if baseline is not None else set()
    if prove and check and bootstrap_servers is None and cluster is None and not standing():
        return proven(check, None, [], runs, json)  # with settings of the experiment's own
    servers = servers_of(bootstrap_servers, cluster)
    survey = take(servers, command_config, client_config)
    findings = diagnose(survey, known)
    if prove:
        return proven(check or [], survey, findings, runs, json)
    as_text = not json and format_ is Format.TEXT
    fixed = None
    if fix:
        if as_text:
            _print(render(findings, survey.unknown))
        fixed = apply(survey, findings, servers, command_config, yes=yes, quiet=not as_text)
        survey = take(servers, command_config, client_config)
        findings = diagnose(survey, known)
        typer.echo("\nafterwards:", err=not as_text)
    if json or format_ is Format.JSON:
        typer.echo(as_json(findings, survey.unknown, fixed))
    elif format_ is Format.SARIF:
        typer.echo(as_sarif(findings))
    else:
        _print(render(findings, survey.unknown))
    bad = [severity for severity in SEVERITIES if severity == fail_on.value]
    return int(any(at_or_above(findings, severity) for severity in bad))


def _print(text: object) -> None:
    from rich.console import Console

    Console(highlight=False, soft_wrap=True).print(text, end="")
