"""What a sample's value can be: those that are read are counts, offsets and CPU seconds."""

from __future__ import annotations

import math

LAG, STABLE, WATERMARK = "lag", "last_stable_offset", "high_watermark"
CPU = "cpu_s"  # CPU seconds that a node's process has used
READ = frozenset({LAG, STABLE, WATERMARK, CPU})  # what the analysis reads
_MOST = 2**53  # from here on a float does not have every whole number


def whole(value: float) -> bool:
    """Whether a value can be a number of anything, or -1 for none."""
    return math.isfinite(value) and -1 <= value < _MOST


def countable(name: str, value: float) -> bool:
    """Whether a sample can be what its name says; of what is not read, anything can."""
    return name not in READ or (whole(value) and value >= 0)
