"""Judging a run folder: seal what a crash left, analyse with Spark, write findings.json and junit.xml."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kaput.evidence.fates import Fates
    from kaput.evidence.findings import Findings
    from kaput.evidence.folder import RunFolder
    from kaput.evidence.reading import Evidence

# Worst first: the exit status of several runs is that of the worst.
_EXIT = {"violated": 1, "inconclusive": 3, "held": 0}


def judge_folder(
    folder: RunFolder,
    session: Callable[[], SparkSession],
    evidence: Evidence | None = None,
    ledger: bool = True,
) -> Findings:
    """The findings of one folder, written beside the evidence. Raises EvidenceError naming the file.

    `evidence`: the folder's, if it has been checked already. `ledger`: whether to write that, too.
    """
    from kaput.cli.progress import JudgeProgress
    from kaput.evidence.folder import replace_text
    from kaput.report.junit import to_junit

    evidence = evidence or _sealed(folder)
    manifest = evidence.manifest
    spark = session()
    from kaput.analysis.pipeline import analyse

    with JudgeProgress(folder.path.name) as progress:
        findings = analyse(evidence, spark, progress.tell, ledger)
    replace_text(folder.findings_path, findings.to_json() + "\n")
    replace_text(folder.path / "junit.xml", to_junit(findings))
    if manifest.state == "sealed":
        folder.write_manifest(manifest.model_copy(update={"state": "analysed"}))
    return findings


def fates_of(
    folder: RunFolder, session: Callable[[], SparkSession], evidence: Evidence | None = None
) -> Fates:
    """The fates of one folder's messages; nothing is written. Raises EvidenceError naming the file."""
    from kaput.cli.progress import JudgeProgress

    evidence = evidence or _sealed(folder)
    spark = session()
    from kaput.analysis.fates import count

    with JudgeProgress(folder.path.name) as progress:
        return count(evidence, spark, progress.tell)


def _sealed(folder: RunFolder) -> Evidence:
    """A folder's evidence, checked; what a crash has left of it is sealed before."""
    from kaput.evidence.reading import check
    from kaput.evidence.sealing import needs_sealing, seal

    if needs_sealing(folder):
        manifest, said = folder.read_manifest(), seal(folder)
        folder.write_manifest(manifest.model_copy(update={"troubles": manifest.troubles + said}))
    return check(folder)


def exit_status(verdicts: list[str]) -> int:
    """0 held, 1 violated, 3 inconclusive; of several the worst."""
    return next(status for verdict, status in _EXIT.items() if verdict in verdicts)
