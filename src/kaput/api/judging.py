"""Judging a run folder: analyzes it with Spark and writes findings.json and junit.xml next to the evidence.

A read-only folder is judged like any other; `note` then hears what could not be kept.
"""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kaput.api.sealed import reason

if TYPE_CHECKING:
    from pyspark import SparkContext

    from kaput.api.scratch import Scratch
    from kaput.evidence.findings import Findings
    from kaput.evidence.folder import LedgerRows, RunFolder
    from kaput.evidence.reading import Evidence

Note = Callable[[str], None]
Tell = Callable[[int, int], None]  # how many of how many parts are counted

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def warn(text: str) -> None:
    """The default for notes: a Python warning."""
    warnings.warn(text, RuntimeWarning, stacklevel=3)


def judge(
    evidence: Evidence,
    session: Callable[[], SparkContext],
    scratch: Scratch,
    ledger: LedgerRows = "stretches",
    progress: Callable[[], AbstractContextManager[Tell]] = lambda: nullcontext(lambda _done, _total: None),
    note: Note = warn,
) -> Findings:
    """The findings of one folder, written next to the evidence. Raises EvidenceError naming the file.

    `ledger`: what its rows are (analysis/questions/ledger.py). `scratch`: for what cannot be written into
    the folder. `progress` is entered while the analysis works.
    """
    folder, unkept = evidence.folder, _Unkept()
    if folder.copy_back_error is not None:
        unkept.add("all of analysis/, findings.json and junit.xml", folder.copy_back_error)
    import kaput.analysis.pipeline  # noqa: F401  (loaded while Spark starts)

    spark = session()
    with progress() as tell:
        findings = _analyzed(evidence, spark, scratch, ledger, unkept, tell)
    _keep(evidence, findings, unkept)
    unkept.report(folder, note)
    return findings


def has_report(folder: RunFolder) -> bool:
    """Whether report.html is up to date: written after the findings."""
    try:
        page = (folder.path / "report.html").stat()
        return page.st_mtime_ns >= folder.findings_path.stat().st_mtime_ns
    except OSError:
        return False


def keep_report(folder: RunFolder, findings: Findings, note: Note = warn) -> None:
    """Writes report.html next to findings.json, unless that could not be kept.

    The run is judged by then: a page that cannot be made or written is only noted.
    """
    from kaput.evidence.folder import replace_text

    if folder.copy_back_error is not None or not folder.findings_path.is_file():
        return
    try:
        from kaput.report.run_report import to_html

        replace_text(folder.path / "report.html", to_html(folder, findings))
    except OSError as error:
        if os.access(folder.path, os.W_OK):
            note(f"{folder.title}: report.html cannot be written ({reason(error)})")
    except Exception as error:  # noqa: BLE001
        # `kaput report --format html` fails with the traceback; findings.json has every figure.
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        note(f"{folder.title}: report.html cannot be made ({what}); findings.json has every figure")


class _Unkept:
    """What could not be written into a run folder, and why."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._why = ""

    def add(self, name: str, error: OSError) -> None:
        self._names.append(name)
        self._why = self._why or reason(error)

    def report(self, folder: RunFolder, note: Note) -> None:
        if self._names:
            *rest, last = self._names
            names = f"{', '.join(rest)} and {last}" if rest else last
            note(f"{folder.title} cannot be written to ({self._why}): not kept: {names}")


def _analyzed(
    evidence: Evidence,
    spark: SparkContext,
    scratch: Scratch,
    ledger: LedgerRows,
    unkept: _Unkept,
    tell: Tell,
) -> Findings:
    """Analyzes next to the evidence or, if nothing can be written there, in the scratch directory."""
    from kaput.analysis.pipeline import analyse

    why = _refusal(evidence.folder.analysis)
    if why is None:
        try:
            return analyse(evidence, spark, tell, ledger)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            why = error
    unkept.add("analysis/", why)
    elsewhere = replace(evidence, folder=replace(evidence.folder, derived=_elsewhere(spark, scratch)))
    # A ledger there would be deleted with it.
    return analyse(elsewhere, spark, tell, "none")


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
    from kaput.analysis.spark.remote_folders import check_scratch
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
