"""What failed in a task, reported as what it is: the evidence's fault, the disk's, or ours."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kaput.errors import EvidenceError


class TaskError(Exception):
    """What Spark says of a task that failed for an unforeseen reason."""


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
        # Asked now: a Java exception tells what it says as long as its JVM is there.
        said = str(error)
        if told := _TASK_SAID.search(said):
            raise EvidenceError(told[1]) from None
        if told := _NOT_WRITTEN.search(said):
            number = int(told[1] or errno.ENOSPC)
            raise OSError(number, os.strerror(number), told[2].strip(" :'") or None) from None
        raise TaskError(said) from None
