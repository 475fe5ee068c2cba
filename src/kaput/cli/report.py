"""`kaput report`: shows the findings of a judged run, as text, JSON or JUnit XML."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """How findings may be shown."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    HTML = "html"


def report_command(
    run_dir: Annotated[Path, typer.Argument(help="A run folder that was judged (it has findings.json).")],
    format: Annotated[
        Format, typer.Option("--format", help="text, json or junit (html is not built yet).")
    ] = Format.TEXT,
) -> None:
    """Show the findings of a run on stdout. Judges nothing: that is `kaput analyze`.

    Example: kaput report runs/20260101T120000-noop-1a2b3c --format junit
    """
    from kaput.errors import UsageError
    from kaput.evidence.findings import read_findings
    from kaput.evidence.folder import RunFolder

    if format is Format.HTML:
        raise UsageError("the HTML report is not built yet; write --format text, json or junit")
    folder = RunFolder(run_dir)
    findings = read_findings(folder.findings_path)
    match format:
        case Format.JSON:
            sys.stdout.write(folder.findings_path.read_text(encoding="utf-8").rstrip() + "\n")
        case Format.JUNIT:
            from kaput.report.junit import to_junit

            sys.stdout.write(to_junit(findings).rstrip() + "\n")
        case Format.TEXT:
            from rich.console import Console

            from kaput.report.terminal import render

            Console(highlight=False, soft_wrap=True).print(render(findings, folder.path), end="")
