"""Judging on the command line: with a progress bar, notes on stderr, and an exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

    from kaput.api.judging import PartsDone
    from kaput.api.scratch import Scratch
    from kaput.evidence.findings import Findings
    from kaput.evidence.folder import LedgerRows, RunFolder
    from kaput.evidence.reading import Evidence

# Worst first: the exit status of several runs is that of the worst. A lab failure hides the result of a run,
# so it is worse than an inconclusive run.
_EXIT = {"violated": 1, "failed": 4, "inconclusive": 3, "held": 0}


def exit_status(verdicts: Sequence[str], failed: bool = False) -> int:
    """0: held, 1: violated, 3: inconclusive; for several runs the worst. `failed`: the lab failed in another
    run: 4.
    """
    words = [*verdicts, "failed"] if failed else verdicts
    return next(status for word, status in _EXIT.items() if word in words)


def judge_folder(
    evidence: Evidence,
    session: Callable[[], SparkContext],
    scratch: Scratch,
    ledger: LedgerRows = "stretches",
) -> Findings:
    """Judges one folder (api/judging.py)."""
    from kaput.api.judging import judge

    bar = partial(_bar, evidence.folder.path.name)
    return judge(evidence, session, scratch, ledger, bar, _note)


def keep_report(folder: RunFolder, findings: Findings) -> None:
    """Writes report.html (api/judging.py)."""
    from kaput.api import judging

    judging.keep_report(folder, findings, _note)


@contextmanager
def _bar(name: str) -> Iterator[PartsDone]:
    from kaput.cli.progress import JudgeProgress

    with JudgeProgress(name) as progress:
        yield progress.tell


def _note(text: str) -> None:
    sys.stderr.write(f"kaput: {text}\n")
