"""Judging a run folder: seal what a crash left, analyse with Spark, write findings.json and junit.xml."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kaput.evidence.findings import Findings
    from kaput.evidence.folder import RunFolder
    from kaput.evidence.reading import Evidence

# Worst first: the exit status of several runs is that of the worst.
_EXIT = {"violated": 1, "inconclusive": 3, "held": 0}


def judge_folder(
    folder: RunFolder, session: Callable[[], SparkSession], evidence: Evidence | None = None
) -> Findings:
    """The findings of one folder, written beside the evidence. Raises EvidenceError naming the file.

    `evidence`: the folder's, if it has been checked already.
    """
    from kaput.cli.progress import JudgeProgress
    from kaput.evidence.folder import replace_text
    from kaput.evidence.reading import check
    from kaput.evidence.sealing import needs_sealing, seal
    from kaput.report.junit import to_junit

    manifest = folder.read_manifest()
    if needs_sealing(folder):
        said = seal(folder)
        manifest = manifest.model_copy(update={"troubles": manifest.troubles + said})
        folder.write_manifest(manifest)
    evidence = evidence or check(folder)
    spark = session()
    from kaput.analysis.pipeline import analyse

    with JudgeProgress(folder.path.name) as progress:
        findings = analyse(evidence, spark, progress.tell)
    replace_text(folder.findings_path, findings.to_json() + "\n")
    replace_text(folder.path / "junit.xml", to_junit(findings))
    if manifest.state == "sealed":
        folder.write_manifest(manifest.model_copy(update={"state": "analysed"}))
    return findings


def exit_status(verdicts: list[str]) -> int:
    """0 held, 1 violated, 3 inconclusive; of several the worst."""
    return next(status for verdict, status in _EXIT.items() if verdict in verdicts)
