"""Translates the failure of a Spark task into the right kind of error: evidence, lab, disk, or a bug."""

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
    """A Spark task failed unexpectedly. The message is Spark's."""


# Errors raised by a task, in Spark's message.
_RAISED_IN_TASK = re.compile(r"^(?:.*: )?kaput\.errors\.EvidenceError: (.+)$", re.MULTILINE)
_LAB_FAILED = re.compile(
    r"^(?:.*: )?kaput\.(?:errors|cluster\.wire)\.(?:LabError|Unanswered|AccessRefused|WrongProtocol): (.+)$",
    re.MULTILINE,
)
# The message of a task, or of Spark itself, about a file that it could not write.
_NOT_WRITTEN = re.compile(r"^(?:\w*Error: \[Errno (\d+)\]|.*\bNo space left on device)(.*)$", re.MULTILINE)


@contextmanager
def readable() -> Iterator[None]:
    """Raises EvidenceError for a file that cannot be read, LabError for a failure of the lab, OSError for a
    file that cannot be written, else TaskError.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        # Read now: the message of a Java exception is only available while its JVM lives.
        text = str(error)
        if match := _RAISED_IN_TASK.search(text):
            raise EvidenceError(match[1]) from None
        if match := _LAB_FAILED.search(text):
            raise LabError(match[1]) from None
        if match := _NOT_WRITTEN.search(text):
            number = int(match[1] or errno.ENOSPC)
            raise OSError(number, os.strerror(number), match[2].strip(" :'") or None) from None
        raise TaskError(text) from None
