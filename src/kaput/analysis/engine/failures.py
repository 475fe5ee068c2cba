"""What failed in a task, reported as what it is: the evidence's fault, the lab's, the disk's, or ours."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kaput.errors import EvidenceError, LabError


class TaskError(Exception):
    """What Spark says of a task that failed for an unforeseen reason."""


# What a task raised.
_RAISED_IN_TASK = re.compile(r"^(?:.*: )?kaput\.errors\.EvidenceError: (.+)$", re.MULTILINE)
_LAB_FAILED = re.compile(
    r"^(?:.*: )?kaput\.(?:errors|cluster\.wire)\.(?:LabError|Unanswered|AccessRefused|WrongProtocol): (.+)$",
    re.MULTILINE,
)
# What a task or Spark itself says of a file that it could not write.
_NOT_WRITTEN = re.compile(r"^(?:\w*Error: \[Errno (\d+)\]|.*\bNo space left on device)(.*)$", re.MULTILINE)


@contextmanager
def readable() -> Iterator[None]:
    """A file that cannot be read is the evidence's fault, not ours; one that cannot be written an OSError."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        # Asked now: a Java exception tells what it says as long as its JVM is there.
        text = str(error)
        if match := _RAISED_IN_TASK.search(text):
            raise EvidenceError(match[1]) from None
        if match := _LAB_FAILED.search(text):
            raise LabError(match[1]) from None
        if match := _NOT_WRITTEN.search(text):
            number = int(match[1] or errno.ENOSPC)
            raise OSError(number, os.strerror(number), match[2].strip(" :'") or None) from None
        raise TaskError(text) from None
