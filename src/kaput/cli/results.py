"""From several runs to output: judges them with a progress bar and notes on stderr, shows findings as text or
JSON, compares them with earlier runs (--baseline, --tolerance), and ends with the exit status.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from typer import Option

from kaput.api import judging
from kaput.api.judging import PartsDone, Scratch, has_report, judge
from kaput.cli.options import TableOptions
from kaput.cli.verbs import prefixed_note, write_error
from kaput.errors import DistributionError, Interrupted, JavaError, LabError, NamespacesError, UsageError
from kaput.printable import printable_lines

if TYPE_CHECKING:
    from pydantic import JsonValue
    from pyspark import SparkContext

    from kaput.evidence.findings import Findings
    from kaput.evidence.folder import RunFolder
    from kaput.evidence.reading import Evidence
    from kaput.report.baseline import Tolerance
    from kaput.report.comparison import Entry
    from kaput.scenario.model import Scenario
    from kaput.scenario.vocabulary import LedgerRows


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
    end(series, worse)


def end(series: Series, worse: bool = False) -> NoReturn:
    """Ends the program as `show_series`. `worse`: than a baseline."""
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
        console.print(comparison_report.overview(runs, paths, console.width_or_none, printed.columns))


def _report_path(result: Result, pages: bool) -> str:
    """The path of the report, quoted for a shell; the run folder if there is no page."""
    folder = result.folder
    if folder.origin is not None:
        return folder.origin
    return shlex.quote(str(folder.path / "report.html" if pages or has_report(folder) else folder.path))


def print_json(documents: Sequence[str], as_list: bool) -> None:
    sys.stdout.write("[" + ",\n".join(documents) + "]\n" if as_list else documents[0] + "\n")


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


# Worst first: the exit status of several runs is that of the worst. A lab failure hides the result of a run,
# so it is worse than an inconclusive run.
_EXIT = {"violated": 1, "failed": 4, "inconclusive": 3, "held": 0}


def exit_status(verdicts: Sequence[str], failed: bool = False) -> int:
    """0: held, 1: violated, 3: inconclusive, the worst counts. `failed`: the lab failed in another run: 4."""
    words = [*verdicts, "failed"] if failed else verdicts
    return next(status for word, status in _EXIT.items() if word in words)


def judge_folder(
    evidence: Evidence,
    session: Callable[[], SparkContext],
    scratch: Scratch,
    ledger: LedgerRows = "stretches",
) -> Findings:
    """Judges one folder (api/judging.py)."""

    @contextmanager
    def bar() -> Iterator[PartsDone]:
        from kaput.cli.progress import CountProgress

        line = "counted {:,} of {:,} parts"
        with CountProgress(evidence.folder.path.name, line, doing="judging", late=True) as progress:
            yield progress.tell

    return judge(evidence, session, scratch, ledger, bar, prefixed_note)


def keep_report(folder: RunFolder, findings: Findings) -> None:
    """Writes report.html (api/judging.py)."""
    judging.keep_report(folder, findings, prefixed_note)


@dataclass(frozen=True)
class PlannedRun:
    """A run to play. `label`: in progress output; `varied`: by --vary; `variant`: shared by repetitions."""

    title: str
    label: str
    name: str
    scenario: Scenario
    varied: Mapping[str, JsonValue]
    variant: str
    seed: int
    runs: Path
    kafka_home: Path | None


@dataclass(frozen=True)
class Result:
    """A judged run; runs of the same `variant` are repetitions."""

    folder: RunFolder
    findings: Findings
    variant: str


@dataclass
class Series:
    """The results. `ended`: the exception that prevented the remaining runs."""

    results: list[Result] = field(default_factory=list)
    failed: list[PlannedRun] = field(default_factory=list)
    ended: BaseException | None = None


def play(
    plans: Sequence[PlannedRun],
    run_one: Callable[[PlannedRun], tuple[RunFolder, Findings]],
    between: Callable[[Result], None] = lambda _: None,
) -> Series:
    """Plays every run. A lab failure in one run does not stop the others, unless all would fail.

    `between`: called with each result if another run follows.
    """
    series = Series()
    for number, plan in enumerate(plans, 1):
        if len(plans) > 1:
            sys.stderr.write(f"run {number} of {len(plans)}: {plan.title}\n")
        try:
            folder, findings = run_one(plan)
            series.results.append(Result(folder, findings, plan.variant))
            if number < len(plans):
                between(series.results[-1])
        except LabError as error:
            if len(plans) == 1 or _fails_all(error, plans):
                series.ended = error
                return series
            write_error(f"run {number} of {len(plans)} failed: {error}")
            series.failed.append(plan)
        except (Exception, Interrupted) as error:  # noqa: BLE001
            # Results are shown first; then it ends the program as usual.
            series.ended = error
            return series
    return series


def _fails_all(error: LabError, plans: Sequence[PlannedRun]) -> bool:
    """Whether every run would fail in the same way."""
    if isinstance(error, DistributionError):
        return len({tuple(plan.scenario.kafka_versions()) for plan in plans}) == 1
    return isinstance(error, (JavaError, NamespacesError))


Baseline = Annotated[
    list[Path] | None,
    Option(
        metavar="FILE",
        help="findings.json or a run folder to compare with: exit status 1 if a figure is worse. Repeatable, "
        "one for each scenario (docs/CI.md).",
    ),
]
ToleranceOption = Annotated[
    list[str] | None,
    Option(
        "--tolerance",
        metavar="SHARE",
        help="With --baseline: how much worse figures may be (default: 20%, and 100 ms), or how much one "
        "figure may be: election-ms=50%, lost=3. Repeatable.",
    ),
]


@dataclass(frozen=True)
class Baselines:
    """Earlier runs by scenario."""

    of: dict[str, Findings] = field(default_factory=dict)
    allowed: dict[str, Tolerance] = field(default_factory=dict)

    def check(self, scenarios: Iterable[str]) -> None:
        """Raises UsageError naming the scenarios that have no baseline."""
        missing = sorted(set(scenarios) - set(self.of))
        if self.of and missing:
            known = ", ".join(self.of)
            raise UsageError(
                f"--baseline: no baseline for {', '.join(missing)}; the baselines are for {known}"
            )

    def show(self, runs: Sequence[Findings], to_stderr: bool) -> bool:
        """Prints all figures of runs with a baseline. Returns whether any is worse."""
        from kaput.report.baseline import compared, lines

        worse = False
        for now in runs:
            before = self.of.get(now.run.scenario)
            if before is None:
                continue
            figures = compared(before, now, self.allowed)
            worse = worse or any(one.worse for one in figures)
            text = "\n".join(lines(before, now, figures))
            (sys.stderr if to_stderr else sys.stdout).write(f"\n{printable_lines(text)}\n")
        return worse


def read_baselines(paths: Sequence[Path] | None, tolerance: Sequence[str] | None) -> Baselines:
    """The baselines given by the options. Raises UsageError."""
    from kaput.evidence.findings_file import read_findings
    from kaput.report.baseline import tolerances

    if not paths:
        if tolerance:
            raise UsageError("--tolerance requires --baseline")
        return Baselines()
    found: dict[str, Findings] = {}
    for path in paths:
        findings = read_findings(path / "findings.json" if path.is_dir() else path)
        if findings.run.scenario in found:
            raise UsageError(f"--baseline {path}: {findings.run.scenario} already has a baseline")
        found[findings.run.scenario] = findings
    return Baselines(found, tolerances(tolerance or []))
