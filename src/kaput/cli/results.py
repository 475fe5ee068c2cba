"""Shows findings as text or JSON, and ends with the exit status."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import typer

from kaput.api.judging import has_report
from kaput.cli.judging import exit_status, keep_report
from kaput.cli.series import Result, Series
from kaput.cli.table_options import TableOptions

if TYPE_CHECKING:
    from kaput.cli.baseline import Baselines
    from kaput.console import Console
    from kaput.evidence.findings import Findings
    from kaput.evidence.folder import RunFolder
    from kaput.report.comparison import Entry


def show_series(
    series: Series,
    as_json: bool,
    as_list: bool,
    pages: bool = True,
    baselines: Baselines | None = None,
    printed: TableOptions | None = None,
    also: Callable[[Sequence[Result]], None] | None = None,
) -> None:
    """Prints the results, writes the report.html files (`pages`), then ends the program with the exception
    that ended the series, or the worst exit status. `also`: prints more about the results, after them.

    From worst to best: violated (or worse than its baseline), failed by the lab, inconclusive, held.
    """
    worse = False
    try:
        if series.results or series.failed or (as_json and as_list):
            _print(series, as_json, as_list, pages, printed or TableOptions())
            if baselines is not None:
                worse = baselines.show([r.findings for r in series.results], to_stderr=as_json)
            if also is not None and series.results:
                also(series.results)
            sys.stdout.flush()
    finally:
        # Last, so that the text is shown first; also if printing failed.
        for result in series.results if pages else ():
            if result.folder.origin is None and not has_report(result.folder):
                keep_report(result.folder, result.findings)
    if series.ended is not None:
        raise series.ended
    verdicts = [*(r.findings.verdict for r in series.results), *(["violated"] if worse else [])]
    raise typer.Exit(exit_status(verdicts, failed=bool(series.failed)))


def show(
    results: list[Result],
    as_json: bool,
    pages: bool = True,
    baselines: Baselines | None = None,
    printed: TableOptions | None = None,
) -> None:
    """Like `show_series`, for runs that were recorded earlier and judged now."""
    show_series(Series(results), as_json, len(results) > 1, pages, baselines, printed)


def _print(series: Series, as_json: bool, as_list: bool, pages: bool, printed: TableOptions) -> None:
    if as_json:
        print_json([result.findings.to_json() for result in series.results], as_list)
        return
    from kaput.console import Console
    from kaput.report import comparison_report
    from kaput.report.run_report import scenario_of, to_text

    console, runs = Console(soft_wrap=True), entries(series.results, series)
    for result in series.results if printed.reports or len(runs) == 1 else ():
        console.print(to_text(result.findings, result.folder.title, scenario_of(result.folder)))
    if len(runs) > 1:
        paths = [] if printed.reports else [_report_path(result, pages) for result in series.results]
        console.print(comparison_report.overview(runs, paths, width_of(console), printed.columns))


def _report_path(result: Result, pages: bool) -> str:
    """The path of the report, quoted for a shell; the run folder if there is no page."""
    folder = result.folder
    if folder.origin is not None:
        return folder.origin
    return shlex.quote(str(folder.path / "report.html" if pages or has_report(folder) else folder.path))


def print_json(documents: Sequence[str], as_list: bool) -> None:
    """Prints one JSON document, or a list of them."""
    sys.stdout.write("[" + ",\n".join(documents) + "]\n" if as_list else documents[0] + "\n")


def width_of(console: Console) -> int | None:
    """The terminal's width; None for a pipe or a file."""
    return console.width if console.is_terminal else None


def entries(results: Sequence[Result], series: Series | None = None) -> list[Entry]:
    """The entries of a comparison: judged runs, then failed ones."""
    from kaput.report.comparison import Entry

    judged = [
        Entry(
            result.folder.path.resolve().name,
            result.variant,
            result.findings.run.scenario,
            result.findings.run.varied,
            result.findings,
        )
        for result in results
    ]
    failed = [
        Entry("-", plan.variant, plan.name, plan.varied, None) for plan in (series.failed if series else ())
    ]
    return [*judged, *failed]


def result_of(folder: RunFolder, findings: Findings) -> Result:
    """The result of a recorded run; runs with the same name and scenario are repetitions."""
    try:
        scenario = folder.scenario_path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        # A run without its scenario is not a repetition of any other.
        return Result(folder, findings, folder.title)
    return Result(folder, findings, f"{findings.run.scenario}\n{scenario}")
