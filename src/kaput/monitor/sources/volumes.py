"""Signals of brokers' log directories, from DescribeLogDirs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from kaput.monitor.signals import Sample

_STORAGE_ERROR = 56  # KAFKA_STORAGE_ERROR: the directory is offline


def volume_samples(broker: int, answer: Any | None, at_ns: int) -> Iterator[Sample]:
    """`answer`: None if the broker did not answer."""
    labels = {"broker": str(broker)}
    known = answer is not None and not answer.error_code
    dirs = list(answer.results) if answer is not None and known else []
    offline = sum(each.error_code == _STORAGE_ERROR for each in dirs)
    yield Sample("kaput_log_dirs_offline", offline if known else math.nan, at_ns, labels)
    ratios = [1 - d.usable_bytes / d.total_bytes for d in dirs if not d.error_code and d.total_bytes > 0]
    yield Sample("kaput_log_dir_used_ratio", max(ratios, default=math.nan), at_ns, labels)
