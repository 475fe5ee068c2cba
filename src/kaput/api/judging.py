"""Judges a run folder: analyzes it with Spark, after sealing tables that a crash left unsealed, and writes
findings.json and junit.xml next to the evidence.

A read-only folder is judged too; `note` is then called with what could not be written.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

    from kaput.cluster.kafka_cluster import ClusterAddress
    from kaput.evidence.findings import Findings
    from kaput.evidence.folder import RunFolder
    from kaput.evidence.reading import Evidence
    from kaput.runner.mirrors.drain import CompareMirror
    from kaput.scenario.mirrors import Mirror
    from kaput.scenario.vocabulary import LedgerRows


class Scratch:
    """A context manager. `where`: the parent directory; None: the system's temporary directory."""

    def __init__(self, where: Path | None = None) -> None:
        self.where = where
        self._stack = ExitStack()
        self._made: Path | None = None
        self._number = 0

    def directory(self) -> Path:
        """A new, empty subdirectory. Raises OSError if it cannot be created."""
        from kaput.processes.ownership import Owner

        if self._made is None:
            owner = self._stack.enter_context(Owner())
            self._made = owner.own_path(Path(tempfile.mkdtemp(prefix="kaput-scratch-", dir=self.where)))
        self._number += 1
        path = self._made / str(self._number)
        path.mkdir()
        return path

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)


_COPIED = ("manifest.json", "scenario.yaml", "evidence/*", "evidence/*/*", "compare/*.json")


def sealed_evidence(folder: RunFolder, scratch: Scratch) -> Evidence:
    """A folder's checked evidence. Raises EvidenceError with the file, StillRecording."""
    from kaput.evidence.reading import check
    from kaput.evidence.recording import left_behind
    from kaput.evidence.sealing import needs_sealing

    folder.read_manifest()
    try:
        if needs_sealing(folder) or left_behind(folder.path):
            _seal(folder)
        return check(folder)
    except OSError as error:
        why = error
    with suppress(OSError):
        if not needs_sealing(folder):
            return check(folder)
    return check(_sealed_copy(folder, scratch, why))


def reason(error: OSError) -> str:
    """The system's message for an error."""
    return os.strerror(error.errno) if error.errno else str(error)


def _seal(folder: RunFolder) -> None:
    from kaput.evidence.sealing import seal

    def note(sentences: list[str]) -> None:
        # Read again under the sealing lock: an interrupted sealing may have noted its sentences already.
        manifest = folder.read_manifest()
        new = [sentence for sentence in sentences if sentence not in manifest.troubles]
        if new:
            folder.write_manifest(manifest.model_copy(update={"troubles": manifest.troubles + new}))

    seal(folder, note=note)


def _sealed_copy(folder: RunFolder, scratch: Scratch, why: OSError) -> RunFolder:
    """A sealed copy. `why`: the error for the folder itself. Raises LabError if the copy fails, too."""
    from kaput.errors import LabError
    from kaput.evidence.folder import RunFolder

    try:
        copy = RunFolder(scratch.directory() / folder.path.resolve().name, folder.title, copy_back_error=why)
        for name in _COPIED:
            # Only files: copied directories would keep their read-only permissions.
            for path in folder.path.glob(name):
                there = copy.path / path.relative_to(folder.path)
                there.parent.mkdir(parents=True, exist_ok=True)
                if path.is_file():
                    shutil.copyfile(path, there)
        _seal(copy)
    except OSError as error:
        raise LabError(
            f"{folder.title}: its tables must be sealed or converted first, which works neither in place "
            f"({reason(why)}) nor in a copy ({reason(error)}); give --scratch a directory with room"
        ) from None
    return copy


def mirror_comparison(session: Callable[[], SparkContext], scratch: Scratch) -> CompareMirror:
    """A function that compares the topics of a mirror. `scratch`: for temporary copies of records."""

    def compare(mirror: Mirror, source: ClusterAddress, target: ClusterAddress) -> Mapping[str, Any]:
        from kaput.compare.comparing import ClusterComparison, ComparisonRequest

        request = ComparisonRequest(
            source,
            target,
            topics=mirror.topics,
            policy=mirror.policy,
            wait_s=0.0,  # the drain has already waited for the mirror
        )
        folder = scratch.directory()
        compared = ClusterComparison(
            request, folder, lambda _records: session(), lambda _what, _done, _total: None
        )
        return compared.run().as_json()

    return compare


Note = Callable[[str], None]
PartsDone = Callable[[int, int], None]  # called with the parts done and their number
Unwritten = list[tuple[str, OSError]]  # what could not be written to a run folder, and why

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def warn(text: str) -> None:
    """The default `note`: a Python warning."""
    warnings.warn(text, RuntimeWarning, stacklevel=3)


def judge(
    evidence: Evidence,
    session: Callable[[], SparkContext],
    scratch: Scratch,
    ledger: LedgerRows = "stretches",
    progress: Callable[[], AbstractContextManager[PartsDone]] = lambda: nullcontext(
        lambda _done, _total: None
    ),
    note: Note = warn,
) -> Findings:
    """Judges one folder and writes the findings next to the evidence. Raises EvidenceError with the file.

    `ledger`: what the ledger's rows are (analysis/questions/ledger.py); `scratch`: for tables that cannot be
    written to the folder; `progress`: entered while the analysis runs.
    """
    folder, unwritten = evidence.folder, Unwritten()
    if folder.copy_back_error is not None:
        unwritten.append(("all of analysis/, findings.json and junit.xml", folder.copy_back_error))
    spark = session()
    with progress() as on_parts:
        findings = _analyze(evidence, spark, scratch, ledger, unwritten, on_parts)
    _keep(evidence, findings, unwritten)
    if unwritten:
        *rest, last = (name for name, _ in unwritten)
        names = f"{', '.join(rest)} and {last}" if rest else last
        note(f"{folder.title} cannot be written to ({reason(unwritten[0][1])}): not kept: {names}")
    return findings


def has_report(folder: RunFolder) -> bool:
    """Whether report.html is newer than the findings."""
    try:
        page = (folder.path / "report.html").stat()
        return page.st_mtime_ns >= folder.findings_path.stat().st_mtime_ns
    except OSError:
        return False


def keep_report(folder: RunFolder, findings: Findings, note: Note = warn) -> None:
    """Writes report.html next to findings.json, if there is one. A failure is only noted."""
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
        note(f"{folder.title}: report.html cannot be created ({what}); findings.json has every figure")


def _analyze(
    evidence: Evidence,
    spark: SparkContext,
    scratch: Scratch,
    ledger: LedgerRows,
    unwritten: Unwritten,
    on_parts: PartsDone,
) -> Findings:
    """Runs the analysis next to the evidence or, if that is not writable, in the scratch directory."""
    from kaput.analysis.pipeline import analyse

    why = _refusal(evidence.folder.analysis)
    if why is None:
        try:
            return analyse(evidence, spark, on_parts, ledger)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            why = error
    unwritten.append(("analysis/", why))
    elsewhere = replace(evidence, folder=replace(evidence.folder, derived=_scratch_directory(spark, scratch)))
    # A ledger there would be deleted with it.
    return analyse(elsewhere, spark, on_parts, "none")


def _refusal(directory: Path) -> OSError | None:
    """Why the analysis cannot replace its tables in a directory; None if it can."""
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


def _scratch_directory(spark: SparkContext, scratch: Scratch) -> Path:
    from kaput.analysis.spark.remote_folders import check_scratch
    from kaput.errors import LabError

    check_scratch(spark, scratch.where)
    try:
        return scratch.directory()
    except OSError as error:
        raise LabError(f"nothing can be written to the scratch directory, either: {error}") from None


def _keep(evidence: Evidence, findings: Findings, unwritten: Unwritten) -> None:
    """Writes the findings; notes each file that cannot be written."""
    from kaput.evidence.folder import replace_text
    from kaput.report.junit import to_junit

    folder, manifest = evidence.folder, evidence.manifest
    for name, text in (("findings.json", findings.to_json() + "\n"), ("junit.xml", to_junit(findings))):
        try:
            replace_text(folder.path / name, text)
        except OSError as error:
            unwritten.append((name, error))
    if manifest.state == "sealed":
        try:
            folder.write_manifest(folder.read_manifest().model_copy(update={"state": "analysed"}))
        except OSError as error:
            unwritten.append(("the state `analysed` in manifest.json", error))
