"""The samples that the analysis reads (counts, offsets and CPU seconds), and which of their values
are valid.
"""

from __future__ import annotations

import math

LAG, STABLE, WATERMARK = "lag", "last_stable_offset", "high_watermark"
GROUP_LAG = "group_lag"  # of a group as a whole, for writers who do not know that of each partition (LAG)
CPU = "cpu_s"  # CPU seconds that a node's process has used
READ = frozenset({LAG, GROUP_LAG, STABLE, WATERMARK, CPU})  # what the analysis reads
_LIMIT = 2**53  # from here on a float cannot represent every integer


def whole(value: float) -> bool:
    """Whether a value can be a count, or -1 for none."""
    return math.isfinite(value) and -1 <= value < _LIMIT


def countable(name: str, value: float) -> bool:
    """Whether a sample's value is valid for its name. Samples that are not read are always valid."""
    return name not in READ or (whole(value) and value >= 0)
