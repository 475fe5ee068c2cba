"""Plays trials of `kaput matrix` and `kaput regress` that are not judged yet, within a time budget.

Progress is stored in the run folders only, so a killed program can resume.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer
from typer import Option

from kaput.cli.options import milliseconds
from kaput.cli.results import exit_status
from kaput.cli.verbs import print_json, write_error
from kaput.errors import Interrupted, LabError, UsageError

if TYPE_CHECKING:
    from kaput.evidence.findings import Findings
    from kaput.evidence.folder import RunFolder
    from kaput.report.document import Document
    from kaput.trials.batch import Judged, Trial

TOGETHER = 12  # trials that may share a cluster and its faults
Key = tuple[str, str, int]  # the scenario, the changes to it, the seed
JudgedRuns = Mapping[Key, tuple[str, "Findings"]]  # (name of the folder, findings)


Format = Literal["text", "markdown", "json", "html"]
FormatOption = Annotated[Format, Option("--format", help="Output format.")]
Json = Annotated[bool, Option("--json", help="The same as --format json.")]
Budget = Annotated[
    str | None, Option("--budget", metavar="TIME", help="Start no run that would end after this time.")
]
Resume = Annotated[bool, Option("--resume", help="Continue with the runs that are already in --runs.")]


@dataclass
class TrialResults:
    """`runs`: all judged runs; `failed`: lab failures as sentences; `ended`: what prevented the rest."""

    runs: JudgedRuns
    failed: list[str] = field(default_factory=list)
    ended: BaseException | None = None

    def end(self, verdicts: Sequence[str]) -> NoReturn:
        """Exits as what ended the trials, or with the worst verdict. Raises LabError if there is none."""
        if self.ended is not None:
            raise self.ended
        if not verdicts and not self.failed:
            raise LabError("none of these runs has been judged yet: give a longer --budget, or none")
        raise typer.Exit(exit_status(verdicts, failed=bool(self.failed)))


def key_of(trial: Trial) -> Key:
    return trial.name, json.dumps(dict(trial.labels), sort_keys=True), trial.seed


def judged_runs(runs: Path) -> JudgedRuns:
    """All judged runs in that directory; the last one of each trial."""
    from kaput.evidence.findings_file import read_findings

    found = {}
    for path in sorted(runs.glob("*/findings.json")):
        try:
            findings = read_findings(path)
        except UsageError:
            continue  # not judged, or judged by another kaput: played again
        run = findings.run
        found[run.scenario, json.dumps(run.varied, sort_keys=True), run.seed] = (path.parent.name, findings)
    return found


def not_judged(trials: Sequence[Trial], runs: Path) -> dict[Key, tuple[Trial, RunFolder]]:
    """The trials that were recorded completely but not judged, with their folders."""
    from kaput.evidence.folder import RunFolder

    wanted, found = {key_of(trial): trial for trial in trials}, {}
    for path in sorted(runs.glob("*/manifest.json")):
        folder = RunFolder(path.parent)
        try:
            manifest = folder.read_manifest()
        except UsageError:
            continue
        key = (manifest.scenario, json.dumps(manifest.varied, sort_keys=True), manifest.seed)
        if manifest.state == "sealed" and key in wanted:
            found[key] = (wanted[key], folder)
    return found


def play(trials: Sequence[Trial], runs: Path, budget: str | None, resume: bool, title: str) -> TrialResults:
    """Plays and judges the trials that are not judged yet, in order; starts none that would not end in time.

    Raises UsageError, JavaError, NamespacesError before anything starts; later errors are in the result.
    """
    budget_s = None if budget is None else milliseconds("--budget", budget) / 1000
    played = TrialResults(judged_runs(runs))
    left = [trial for trial in trials if key_of(trial) not in played.runs]
    if not resume and (done := len(trials) - len(left)):
        raise UsageError(
            f"{done} of these runs are already in {runs}: --resume continues them; or choose other --runs"
        )
    if left and budget_s != 0:
        _play(left, runs, TrialBudget(budget_s), title, played)
        played.runs = judged_runs(runs)
    return played


def _play(trials: Sequence[Trial], runs: Path, clock: TrialBudget, title: str, played: TrialResults) -> None:
    from kaput.cli.progress import CountProgress
    from kaput.cli.run_scenarios import prepare
    from kaput.java import find_java
    from kaput.processes.signals import interrupts
    from kaput.trials.trials import Trials

    prepare([(trial.name, trial.scenario) for trial in trials], find_java())
    bar = CountProgress(title, late=True)
    with interrupts(), bar as progress, Trials(runs, together=TOGETHER) as running:
        progress.step("first run", 0, len(trials))
        try:
            sealed = not_judged(trials, runs)
            left = [trial for trial in trials if key_of(trial) not in sealed]
            # Trials that share a cluster share its seed, so only trials with the same seed may be adjacent.
            seeds = (list(group) for _, group in groupby(left, key=lambda trial: trial.seed))
            every = chain(
                (
                    running.judge(*sealed[key_of(trial)])
                    for trial in clock.in_time(trials)
                    if key_of(trial) in sealed
                ),
                chain.from_iterable(running.run(clock.in_time(group)) for group in seeds),
            )
            for done, judged in enumerate(every, 1):
                clock.longest_s = max(clock.longest_s, judged.seconds)
                if judged.error is not None:
                    played.failed.append(f"{judged.trial.name}: {judged.error}")
                    write_error(played.failed[-1])
                progress.step(f"{_result(judged)}; {clock.left(done, len(trials))}", done, len(trials))
        except (Exception, Interrupted) as error:  # noqa: BLE001
            played.ended = error  # raised again after the results are shown


class TrialBudget:
    """The time budget. `longest_s`: of the longest trial so far."""

    def __init__(self, budget_s: float | None) -> None:
        self._budget_s, self._began = budget_s, time.monotonic()
        self.longest_s = 0.0

    def in_time(self, trials: Sequence[Trial]) -> Iterator[Trial]:
        """The trials that would end in time if each takes as long as the longest one so far."""
        for trial in trials:
            if self._budget_s is not None and self._elapsed_s() + self.longest_s > self._budget_s:
                return
            yield trial

    def left(self, done: int, total: int) -> str:
        """`about 12 min left`: for all trials, regardless of the budget."""
        left_s = self._elapsed_s() / done * (total - done)
        return f"about {left_s / 60:.0f} min left" if left_s >= 90 else f"about {left_s:.0f} s left"

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began


def _result(judged: Judged) -> str:
    if judged.findings is None:
        return f"{judged.trial.name}: the lab failed"
    return f"{judged.trial.name}: {judged.findings.verdict}, {judged.findings.lost:,} lost"


def show(document: Document, title: str, to_json: Callable[[], object], form: Format) -> None:
    """Prints a document. `title`: of a page of documentation."""
    from kaput.console import Console
    from kaput.report.render import html, markdown, terminal

    match form:
        case "json":
            print_json(to_json(), indent=2)
        case "markdown":
            sys.stdout.write(f"# {title}\n\n{markdown.render(document, heading='## {}')}")
        case "html":
            sys.stdout.write(html.render(document))
        case "text":
            console = Console(soft_wrap=True)
            console.print(terminal.render(document, console.width_or_none), end="")
