"""`kaput doctor`: what of a cluster's settings and state will lose messages or stop the service."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


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
    *,
    bootstrap_servers: Annotated[
        str | None, typer.Option(metavar="HOST:PORT,...", help="Which cluster; else the one that stands.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="NAME", envvar="KAPUT_CLUSTER", help="This standing cluster.")
    ] = None,
    command_config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="How to be let in: Java's client properties."),
    ] = None,
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
) -> int:
    """Look at a cluster, its topics, groups and quorum, and say what will hurt; changes nothing.

    Example: kaput doctor --bootstrap-servers broker1:9092 --fail-on critical
    """
    from kaput.operate.doctor.checks import SEVERITIES
    from kaput.operate.doctor.diagnosis import as_json, at_or_above, diagnose, read_baseline
    from kaput.operate.doctor.sarif import as_sarif
    from kaput.operate.doctor.taking import take
    from kaput.report.doctor import render

    known = read_baseline(baseline) if baseline is not None else set()
    survey = take(bootstrap_servers or _standing(cluster), command_config, client_config)
    findings = diagnose(survey, known)
    if json or format_ is Format.JSON:
        typer.echo(as_json(findings, survey.unknown))
    elif format_ is Format.SARIF:
        typer.echo(as_sarif(findings))
    else:
        _print(render(findings, survey.unknown))
    bad = [severity for severity in SEVERITIES if severity == fail_on.value]
    return int(any(at_or_above(findings, severity) for severity in bad))


def _standing(cluster: str | None) -> str:
    from kaput.errors import UsageError
    from kaput.operate.homes import find, standing

    if cluster is not None:
        return find(cluster).bootstrap_servers
    cards = standing()
    if len(cards) != 1:
        stand = "no cluster stands" if not cards else f"{len(cards)} clusters stand"
        raise UsageError(f"which cluster? {stand}; say --bootstrap-servers HOST:PORT or --cluster NAME")
    return cards[0].bootstrap_servers


def _print(text: object) -> None:
    from rich.console import Console

    Console(highlight=False, soft_wrap=True).print(text, end="")
