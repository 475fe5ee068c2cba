"""From a sealed run folder to its findings: the count (counting.py), the judgement (assemble.py)."""

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
from kaput.analysis.counting import count
from kaput.analysis.watching import Tell, nobody
from kaput.errors import EvidenceError
from kaput.evidence.findings import Findings
from kaput.evidence.folder import LedgerRows
from kaput.evidence.reading import Evidence


def analyse(
    evidence: Evidence, spark: SparkSession, tell: Tell = nobody, ledger: LedgerRows = "stretches"
) -> Findings:
    """Judges a checked run folder and writes its analysis/. `tell` hears how far it has come.

    `ledger`: what analysis/ledger has a row for; where that is nothing, none from another time is left.

    Raises EvidenceError, AccountingError.
    """
    given = inputs.read(evidence)
    with readable():
        return assemble.findings(given, count(spark, given, tell=tell, ledger=ledger))


# What a task raised.
_TASK_SAID = re.compile(r"^(?:.*: )?kaput\.errors\.EvidenceError: (.+)$", re.MULTILINE)
# What a task or Spark itself says of a file that it could not write.
_NOT_WRITTEN = re.compile(r"^(?:\w*Error: \[Errno (\d+)\]|.*\bNo space left on device)(.*)$", re.MULTILINE)


@contextmanager
def readable() -> Iterator[None]:
    """A file that cannot be read is the evidence's fault, not ours; one that cannot be written an OSError."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if told := _TASK_SAID.search(str(error)):
            raise EvidenceError(told[1]) from None
        if told := _NOT_WRITTEN.search(str(error)):
            number = int(told[1] or errno.ENOSPC)
            raise OSError(number, os.strerror(number), told[2].strip(" :'") or None) from error
        raise
