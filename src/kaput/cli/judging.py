"""Judging a run folder: analyse it with Spark, write findings.json and junit.xml beside the evidence.

A folder that cannot be written to is judged like any other: what could not be kept is said.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kaput.cli.ready import told

if TYPE_CHECKING:
    from pyspark import SparkContext

    from kaput.cli.scratch import Scratch
    from kaput.evidence.findings import Findings
    from kaput.evidence.folder import LedgerRows, RunFolder
    from kaput.evidence.reading import Evidence

# Worst first: the exit status of several runs is that of the worst. The lab's failure hides what a run would
# have shown, so it is worse than a run that showed too little.
_EXIT = {"violated": 1, "failed": 4, "inconclusive": 3, "held": 0}

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def judge_folder(
    evidence: Evidence,
    session: Callable[[], SparkContext],
    scratch: Scratch,
    ledger: LedgerRows = "stretches",
) -> Findings:
    """The findings of one folder, written beside the evidence. Raises EvidenceError naming the file.

    `ledger`: what that has rows of (analysis/ledger.py). `scratch`: for what the folder does not take.
    """
    folder, unkept = evidence.folder, _Unkept()
    if folder.unkept is not None:
        unkept.add("all of analysis/, findings.json and junit.xml", folder.unkept)
    import kaput.analysis.pipeline  # noqa: F401  (loaded while Spark starts)

    spark = session()
    findings = _analysed(evidence, spark, scratch, ledger, unkept)
    _keep(evidence, findings, unkept)
    unkept.say(folder)
    return findings


def has_report(folder: RunFolder) -> bool:
    """Whether report.html is of these findings: written after them."""
    try:
        page = (folder.path / "report.html").stat()
        return page.st_mtime_ns >= folder.findings_path.stat().st_mtime_ns
    except OSError:
        return False


def keep_report(folder: RunFolder, findings: Findings) -> None:
    """Writes report.html beside the findings, for those who look; where these could not be kept it is not.

    A run is judged by then: a page that cannot be made or written is but a sentence on stderr.
    """
    from kaput.evidence.folder import replace_text

    if folder.unkept is not None or not folder.findings_path.is_file():
        return
    try:
        from kaput.report.page import to_html

        replace_text(folder.path / "report.html", to_html(folder, findings))
    except OSError as error:
        if os.access(folder.path, os.W_OK):
            sys.stderr.write(f"kaput: {folder.title}: report.html cannot be written ({told(error)})\n")
    except Exception as error:  # noqa: BLE001
        # Whatever it is, the page is a picture of findings that are kept; what is wrong is asked for by
        # `kaput report --format html`, which fails with its traceback.
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        sys.stderr.write(
            f"kaput: {folder.title}: report.html cannot be made ({what}); findings.json has every figure\n"
        )


def exit_status(verdicts: list[str], failed: bool = False) -> int:
    """0 held, 1 violated, 3 inconclusive; of several the worst. `failed`: the lab failed in one more: 4."""
    words = [*verdicts, "failed"] if failed else verdicts
    return next(status for word, status in _EXIT.items() if word in words)


class _Unkept:
    """What could not be written into a run folder, and why."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._why = ""

    def add(self, name: str, error: OSError) -> None:
        self._names.append(name)
        self._why = self._why or told(error)

    def say(self, folder: RunFolder) -> None:
        if self._names:
            *rest, last = self._names
            names = f"{', '.join(rest)} and {last}" if rest else last
            sys.stderr.write(f"kaput: {folder.title} cannot be written to ({self._why}): not kept: {names}\n")


def _analysed(
    evidence: Evidence, spark: SparkContext, scratch: Scratch, ledger: LedgerRows, unkept: _Unkept
) -> Findings:
    """Analyses beside the evidence, or, where nothing can be written there, in the program's scratch."""
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
        # Nobody could read the ledger there.
        return analyse(elsewhere, spark, progress.tell, "none")


def _refusal(directory: Path) -> OSError | None:
    """Why the analysis could not replace its tables there."""
    try:
        directory.mkdir(exist_ok=True)
        trial = directory / f".trial-{os.getpid()}"
        trial.mkdir()
        trial.rmdir()
        for table in directory.iterdir():
            if not os.access(table, os.W_OK):
                return PermissionError(errno.EACCES, f"no right to write to {table}")
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
        raise LabError(f"nothing can be written to the scratch directory, either: {error}") from None


def _keep(evidence: Evidence, findings: Findings, unkept: _Unkept) -> None:
    """Writes what the analysis found; each file that cannot be written is noted."""
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
