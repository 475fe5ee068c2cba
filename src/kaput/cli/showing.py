"""Showing findings: text for people, JSON for programs, and the exit status."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from kaput.cli.judging import exit_status

if TYPE_CHECKING:
    from kaput.evidence.findings import Findings
    from kaput.evidence.folder import RunFolder


def show(results: list[tuple[RunFolder, Findings]], as_json: bool, repeated: bool = False) -> None:
    """Prints every result and ends the program with the status of the worst."""
    findings = [found for _, found in results]
    if as_json:
        _print_json([found.to_json() for found in findings], as_list=len(findings) > 1 or repeated)
    else:
        _print_text(results, repeated)
    raise typer.Exit(exit_status([found.verdict for found in findings]))


def _print_json(documents: list[str], as_list: bool) -> None:
    sys.stdout.write("[" + ",\n".join(documents) + "]\n" if as_list else documents[0] + "\n")


def _print_text(results: list[tuple[RunFolder, Findings]], repeated: bool) -> None:
    from rich.console import Console

    from kaput.report.terminal import render, render_statistics, side_by_side

    console = Console(highlight=False, soft_wrap=True)
    for folder, found in results:
        console.print(render(found, folder.title))
    if len(results) > 1:
        console.print(side_by_side([found for _, found in results]))
    if repeated:
        console.print(render_statistics([found for _, found in results]))
