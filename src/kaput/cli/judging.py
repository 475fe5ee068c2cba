"""Judging a run folder: analyzes it with Spark, writes findings.json and junit.xml next to the evidence.

A folder that cannot be written to is judged like any other; a message names what could not be written.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kaput.cli.run_folders import os_reason

if TYPE_CHECKING:
    from pyspark import SparkContext

    from kaput.cli.scratch import Scratch
    from kaput.evidence.findings import Findings
    from kaput.evidence.folder import LedgerRows, RunFolder
    from kaput.evidence.reading import Evidence

# Worst first: the exit status of several runs is that of the worst. A failed lab hides what a run would have
# shown, so it is worse than an inconclusive run.
_EXIT = {"violated": 1, "failed": 4, "inconclusive": 3, "held": 0}

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def judge_folder(
    evidence: Evidence,
    session: Callable[[], SparkContext],
    scratch: Scratch,
    ledger: LedgerRows = "stretches",
) -> Findings:
    """The findings of one folder, written next to the evidence. Raises EvidenceError naming the file.

    `ledger`: what its rows are (analysis/ledger.py). `scratch`: for what cannot be written to the folder.
    """
    folder, unkept = evidence.folder, _Unkept()
    if folder.unkept is not None:
        unkept.add("all of analysis/, findings.json and junit.xml", folder.unkept)
    import kaput.analysis.pipeline  # noqa: F401  (loaded while Spark starts)

    spark = session()
    findings = _analysed(evidence, spark, scratch, ledger, unkept)
    _keep(evidence, findings, unkept)
    unkept.report(folder)
    return findings


def has_report(folder: RunFolder) -> bool:
    """Whether report.html belongs to these findings: it was written after them."""
    try:
        page = (folder.path / "report.html").stat()
        return page.st_mtime_ns >= folder.findings_path.stat().st_mtime_ns
    except OSError:
        return False


def keep_report(folder: RunFolder, findings: Findings) -> None:
    """Writes report.html next to the findings, if those could be written.

    The run has been judged by then, so a page that fails is only a sentence on stderr. Raises Interrupted.
    """
    from kaput.errors import Interrupted
    from kaput.evidence.folder import replace_text

    if folder.unkept is not None or not folder.findings_path.is_file():
        return
    try:
        from kaput.report.page import to_html

        replace_text(folder.path / "report.html", to_html(folder, findings))
    except OSError as error:
        if os.access(folder.path, os.W_OK):
            sys.stderr.write(f"kaput: {folder.title}: cannot write report.html ({os_reason(error)})\n")
    except Interrupted:
        raise
    except Exception as error:  # noqa: BLE001
        # The findings are safe; `kaput report --format html` shows the traceback.
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        sys.stderr.write(
            f"kaput: {folder.title}: cannot create report.html ({what}); findings.json is complete\n"
        )


def exit_status(verdicts: list[str], failed: bool = False) -> int:
    """0 held, 1 violated, 3 inconclusive; of several the worst. `failed`: the lab failed in one more: 4."""
    words = [*verdicts, "failed"] if failed else verdicts
    return next(status for word, status in _EXIT.items() if word in words)


class _Unkept:
    """The files that could not be written to a run folder, and why."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._why = ""

    def add(self, name: str, error: OSError) -> None:
        self._names.append(name)
        self._why = self._why or os_reason(error)

    def report(self, folder: RunFolder) -> None:
        if self._names:
            *rest, last = self._names
            names = f"{', '.join(rest)} and {last}" if rest else last
            sys.stderr.write(f"kaput: {folder.title} cannot be written to ({self._why}): not kept: {names}\n")


def _analysed(
    evidence: Evidence, spark: SparkContext, scratch: Scratch, ledger: LedgerRows, unkept: _Unkept
) -> Findings:
    """Analyzes in the run folder, or in the scratch directory if the folder cannot be written to."""
    from kaput.analysis.pipeline import analyse
    from kaput.cli.progress import JudgeProgress

    with JudgeProgress(evidence.folder.path.name) as progress:
        why = _refusal(evidence.folder.analysis)
        if why is None:
            try:
                return analyse(evidence, spark, progress.tell, ledger)
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                why = error
        unkept.add("analysis/", why)
        elsewhere = replace(evidence, folder=replace(evidence.folder, derived=_elsewhere(spark, scratch)))
        # No ledger: it would be deleted with the scratch directory.
        return analyse(elsewhere, spark, progress.tell, "none")


def _refusal(directory: Path) -> OSError | None:
    """Why the analysis cannot replace its tables there; None if it can."""
    try:
        directory.mkdir(exist_ok=True)
        trial = directory / f".trial-{os.getpid()}"
        trial.mkdir()
        trial.rmdir()
        for table in directory.iterdir():
            if not os.access(table, os.W_OK):
                return PermissionError(errno.EACCES, f"no permission to write to {table}")
    except OSError as error:
        return error
    return None


def _elsewhere(spark: SparkContext, scratch: Scratch) -> Path:
    from kaput.analysis.spark.elsewhere import check_scratch
    from kaput.errors import LabError

    check_scratch(spark, scratch.where)
    try:
        return scratch.directory()
    except OSError as error:
        raise LabError(f"cannot write to the scratch directory either: {error}") from None


def _keep(evidence: Evidence, findings: Findings, unkept: _Unkept) -> None:
    """Writes the findings; notes each file that cannot be written."""
    from kaput.evidence.folder import replace_text
    from kaput.report.junit import to_junit

    folder, manifest = evidence.folder, evidence.manifest
    for name, text in (("findings.json", findings.to_json() + "\n"), ("junit.xml", to_junit(findings))):
        try:
            replace_text(folder.path / name, text)
        except OSError as error:
            unkept.add(name, error)
    if manifest.state == "sealed":
        try:
            folder.write_manifest(manifest.model_copy(update={"state": "analysed"}))
        except OSError as error:
            unkept.add("the state `analysed` in manifest.json", error)
