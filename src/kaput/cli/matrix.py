"""`kaput matrix`: measures losses by fault and settings, with a trial for each cell; resumable."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from kaput.cli.run import Varied
from kaput.cli.trials import Budget, FormatOption, Json, JudgedRuns, Resume, key_of, play, show
from kaput.cli.verbs import Runs
from kaput.core import DEFAULT_RUNS
from kaput.errors import UsageError

if TYPE_CHECKING:
    from kaput.evidence.findings import Findings
    from kaput.report.matrix_report import CellRuns
    from kaput.scenario.matrix import MatrixCell
    from kaput.trials.batch import Trial


def matrix_command(
    file: Annotated[
        Path | None, Argument(metavar="FILE", help="Matrix file (see --default --print-matrix).")
    ] = None,
    *,
    print_matrix: Annotated[bool, Option("--print-matrix", help="Print the matrix file and exit.")] = False,
    default: Annotated[bool, Option("--default", help="Use the matrix of docs/WHAT_YOU_LOSE.md.")] = False,
    cells: Annotated[
        list[str] | None,
        Option(
            metavar="LABEL=VALUE,...", help="Only these cells: fault=crash*,acks=1. Repeatable, to add cells."
        ),
    ] = None,
    vary: Varied = None,
    repeat: Annotated[int, Option(min=1, metavar="N", help="Number of runs per cell.")] = 1,
    budget: Budget = None,
    runs: Runs = DEFAULT_RUNS / "matrix",
    resume: Resume = False,
    format: FormatOption = "text",
    json: Json = False,
) -> None:
    """Measure what is lost, by fault and settings.

    Each cell is an ordinary scenario. Judged runs are kept: after Ctrl-C, a kill or the end of
    --budget, --resume continues. --vary replaces a setting's values or adds a setting.

    Example: kaput matrix --default --repeat 10 --budget 8h

    Example: kaput matrix --default --resume --budget 0s --format markdown

    Example: kaput matrix my.yaml --vary cluster.kafka=3.9.2,4.3.1
    """
    from kaput.report.matrix_report import document
    from kaput.scenario.matrix import chosen, default_text, load_matrix
    from kaput.scenario.overrides import split

    if default == (file is not None):
        raise UsageError("give either FILE or --default")
    if print_matrix:
        sys.stdout.write(default_text() if file is None else file.read_text(encoding="utf-8"))
        return
    try:
        varied = [text for option in vary or [] for text in split(option)]
    except ValueError as error:
        raise UsageError(f"--vary: {error}") from None
    matrix, every = load_matrix(file, varied)
    wanted = chosen(every, cells or [])
    again = shlex.join(["kaput", "matrix", str(file) if file else "--default"])
    played = play(_trials(wanted, repeat), runs, budget, resume, "matrix")
    found = _collect(wanted, played.runs)
    verdicts = [one.verdict for each in found for _, one in each.runs]
    if verdicts or played.ended is None:
        made = document(matrix, found, again)
        show(made, matrix.title, lambda: [each.to_json() for each in found], "json" if json else format)
    played.end(verdicts)


def _trials(cells: Sequence[MatrixCell], repeat: int) -> list[Trial]:
    """All cells once, then all again. Cells of a fault are adjacent, so that they can share a cluster."""
    from kaput.trials.batch import Trial

    return [
        Trial(cell.scenario_name, cell.scenario, seed, cell.changes)
        for seed in range(1, repeat + 1)
        for cell in cells
    ]


def _collect(cells: Sequence[MatrixCell], done: JudgedRuns) -> list[CellRuns]:
    """The cells with all their runs, including those of an earlier, longer invocation."""
    from kaput.report.matrix_report import CellRuns

    by: dict[tuple[str, str], list[tuple[str, Findings]]] = {}
    for (name, changes, _), run in done.items():
        by.setdefault((name, changes), []).append(run)
    return [
        CellRuns(cell, by.get(key_of(trial)[:2], []))
        for cell, trial in zip(cells, _trials(cells, 1), strict=True)
    ]
