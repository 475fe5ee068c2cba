"""From a sealed run folder to its findings: the count (dense/), the closer look (closer/), the judgement.

What the count cannot settle, the analysis in plain SQL does (reference/): slower, with the same findings.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kaput.analysis import assemble, inputs
from kaput.analysis.closer.full import NotSettled
from kaput.analysis.closer.look import Look
from kaput.analysis.dense.counted import count
from kaput.analysis.reference import pipeline as reference
from kaput.analysis.watching import Tell, nobody
from kaput.errors import EvidenceError
from kaput.evidence.findings import Findings
from kaput.evidence.reading import Evidence


def analyse(evidence: Evidence, spark: SparkSession, tell: Tell = nobody, ledger: bool = True) -> Findings:
    """Judges a checked run folder and writes its analysis/. `tell` hears how far it has come.

    `ledger`: whether analysis/ledger is written; where it is not, none from another time is left.

    Raises EvidenceError, AccountingError.
    """
    given = inputs.read(evidence)
    with readable():
        try:
            counted = count(spark, given, tell=tell, ledger=ledger)
            return assemble.findings(given, Look(spark, given, counted).account_for())
        except NotSettled:
            return reference.analyse(given, spark, ledger)


# What a task raised, and what Spark says of a file that it cannot read itself.
_TASK_SAID = re.compile(r"^(?:.*: )?kaput\.errors\.EvidenceError: (.+)$", re.MULTILINE)
# What a task or Spark itself says of a file that it could not write.
_NOT_WRITTEN = re.compile(r"^(?:\w*Error: \[Errno (\d+)\]|.*\bNo space left on device)(.*)$", re.MULTILINE)
_SPARK_SAID = re.compile(r"\[FAILED_READ_FILE[^]]*\][^\n]*? file (?:file:)?/*(/\S+\.parquet)")


@contextmanager
def readable() -> Iterator[None]:
    """A file that cannot be read is the evidence's fault, not ours; one that cannot be written an OSError."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if told := _TASK_SAID.search(str(error)):
            raise EvidenceError(told[1]) from None
        if told := _SPARK_SAID.search(str(error)):
            raise EvidenceError(f"{told[1]}: not a whole Parquet file (its pages cannot be read)") from None
        if told := _NOT_WRITTEN.search(str(error)):
            number = int(told[1] or errno.ENOSPC)
            raise OSError(number, os.strerror(number), told[2].strip(" :'") or None) from error
        raise
