"""`kaput report`: shows the findings of a judged run, or a comparison of several."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Option

from kaput.cli.options import Columns, JudgedRuns, columns_of
from kaput.cli.results import Result, entries, print_json, result_of
from kaput.cli.verbs import prefixed_note
from kaput.errors import UsageError

if TYPE_CHECKING:
    from kaput.evidence.findings import Findings
    from kaput.evidence.folder import RunFolder


ReportFormat = Literal["text", "markdown", "json", "junit", "html", "svg", "png"]


def report_command(
    run_dir: JudgedRuns,
    format: Annotated[
        ReportFormat, Option("--format", help="Output format; svg and png show only the timeline.")
    ] = "text",
    json: Annotated[bool, Option("--json", help="The same as --format json.")] = False,
    columns: Columns = None,
) -> None:
    """Show the findings of a run, or compare several runs.

    Prints earlier findings to stdout; kaput analyze judges again. For several runs, junit has a suite for
    each and json a list; the other formats compare them. Of several, those without findings are listed on
    stderr and left out.

    Example: kaput report runs/20260101T120000-noop-1a2b3c --format junit

    Example: kaput report runs/*leader-kill* --format markdown
    """
    results = _read(run_dir)
    form = "json" if json else format
    several = len(run_dir) > 1
    tabled = several and form in ("text", "markdown", "html")
    varied = [key for result in results for key in result.findings.run.varied]
    _print(form, results, several, columns_of(columns, tabled, varied))


def _print(form: ReportFormat, results: list[Result], several: bool, names: tuple[str, ...]) -> None:
    """Imports only what the format needs. `several`: were named, although maybe only one is judged."""
    match form:
        case "json":
            texts = [result.folder.findings_path.read_text(encoding="utf-8").rstrip() for result in results]
            print_json(texts, as_list=several)
        case "junit":
            from kaput.report.junit import to_junit

            sys.stdout.write(to_junit(*(result.findings for result in results)).rstrip() + "\n")
        case "html" if several:
            from kaput.report.comparison_report import to_html as compared

            sys.stdout.write(compared(_pairs(results), entries(results), names).rstrip() + "\n")
        case "html":
            from kaput.report.run_report import to_html

            sys.stdout.write(to_html(results[0].folder, results[0].findings).rstrip() + "\n")
        case "svg":
            from kaput.report.images import to_svg

            sys.stdout.write(to_svg(_pairs(results), entries(results)).rstrip() + "\n")
        case "png":
            from kaput.report.images import to_png

            sys.stdout.buffer.write(to_png(_pairs(results), entries(results)))
        case "markdown" if not several:
            from kaput.report.run_report import scenario_of, to_markdown

            sys.stdout.write(to_markdown(results[0].findings, scenario_of(results[0].folder)))
        case "markdown":
            from kaput.report.comparison_report import to_markdown as compared_markdown

            sys.stdout.write(compared_markdown(entries(results), names))
        case "text":
            from kaput.console import Console
            from kaput.report import comparison_report
            from kaput.report.run_report import scenario_of, to_text

            console = Console(soft_wrap=True)
            if several:
                console.print(
                    comparison_report.to_text(entries(results), console.width_or_none, names), end=""
                )
            else:
                (result,) = results
                text = to_text(result.findings, result.folder.path, scenario_of(result.folder))
                console.print(text, end="")


def _pairs(results: list[Result]) -> list[tuple[RunFolder, Findings]]:
    return [(result.folder, result.findings) for result in results]


def _read(run_dirs: list[Path]) -> list[Result]:
    """The findings of each folder. Of several, those that are not judged are listed on stderr.

    Raises UsageError if none is judged, and for one that is missing or named twice.
    """
    from kaput.evidence.findings_file import read_findings
    from kaput.evidence.folder import RunFolder

    results: list[Result] = []
    mistakes: list[str] = []
    unjudged: list[str] = []
    seen: dict[str, Path] = {}
    for path in run_dirs:
        folder = RunFolder(path)
        try:
            result = result_of(folder, read_findings(folder.findings_path))
            if (first := seen.setdefault(result.findings.run.id, path)) is not path:
                mistakes.append(f"{path}: the same run as {first}")
            results.append(result)
        except UsageError as error:
            (unjudged if path.exists() else mistakes).append(str(error))
    if mistakes or not results:
        raise UsageError("\n".join([*mistakes, *unjudged]))
    for text in unjudged:
        prefixed_note(f"left out: {text}")
    return results
