"""Run folders on Spark's file systems (s3a://, hdfs://): copies them here, and findings back.

Copies with Hadoop's own FileSystem, which Spark reads with; its settings are Spark's (spark.hadoop.*). Not
here: judging, which needs a folder on a path that every worker can open.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from kaput.analysis.engine.spark_jobs import IN_PROCESS
from kaput.errors import EvidenceError, UsageError
from kaput.evidence.folder import RunFolder

_NEEDED = ("manifest.json", "evidence")
_BROUGHT = (*_NEEDED, "scenario.yaml", "compare")
_RESULTS = ("manifest.json", "findings.json", "junit.xml", "report.html", "analysis")


def bring(spark: SparkContext, url: str, scratch: Path) -> RunFolder:
    """Copies what judging needs to a new folder below `scratch`. Raises EvidenceError naming the file."""
    with _as_evidence_errors(url):
        files, root = _file_system(spark, url)
        target = scratch / (root.getName() or "run")
        target.mkdir(parents=True)
        for name in _BROUGHT:
            source = _path(spark, root, name)
            if files.exists(source):
                files.copyToLocalFile(False, source, _path(spark, str(target / name)), True)
            elif name in _NEEDED:
                raise EvidenceError(f"{source.toString()}: does not exist; is {url} a run folder?")
    return RunFolder(target, origin=url)


def take_back(spark: SparkContext, folder: RunFolder) -> None:
    """Copies what judging wrote to the folder's URL. Raises EvidenceError."""
    assert folder.origin is not None
    with _as_evidence_errors(folder.origin):
        files, root = _file_system(spark, folder.origin)
        files.setWriteChecksum(False)  # else Hadoop writes a .crc file beside each on a file:/ URL
        # If the run may still be recorded there, its manifest belongs to the recorder.
        recording = folder.read_manifest().state == "recording"
        for name in _RESULTS[1:] if recording else _RESULTS:
            if (folder.path / name).exists():
                there = _path(spark, root, name)
                files.delete(there, True)
                files.copyFromLocalFile(False, True, _path(spark, str(folder.path / name)), there)


def check_scratch(spark: SparkContext, scratch: Path | None) -> None:
    """Checks that workers on other machines can open `scratch`. Raises UsageError."""
    if scratch is None and not str(spark.master).startswith(("local", IN_PROCESS)):
        raise UsageError(
            "evidence at a URL, or in a folder that cannot be written to, is judged in a copy; "
            "give --scratch, a path that all workers open"
        )


def _file_system(spark: SparkContext, url: str) -> tuple[Any, Any]:
    context: Any = spark  # py4j's objects have no types
    path = _path(spark, url)
    return path.getFileSystem(context._jsc.hadoopConfiguration()), path


def _path(spark: SparkContext, *parts: Any) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.hadoop.fs.Path(*parts)


@contextmanager
def _as_evidence_errors(url: str) -> Iterator[None]:
    """Converts Hadoop's exceptions to EvidenceError."""
    try:
        yield
    except Py4JJavaError as error:
        reason = str(error.java_exception.getMessage() or error.java_exception.toString()).splitlines()[0]
        raise EvidenceError(f"{url}: Spark's file system failed: {reason}") from None
