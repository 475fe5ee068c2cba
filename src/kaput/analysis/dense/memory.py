"""Memory of a task: arrays come and go by the thousand, and the process keeps their pages for the next ones.

By default the C library hands each large array back to the system at once, and the next one costs a page
fault every 4 KiB: a tenth of all CPU time. Elsewhere than with glibc nothing is done.
"""

from __future__ import annotations

import ctypes
from functools import cache

import pyarrow as pa

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt(3)
_KEPT_BYTES = 256 << 20
_LARGE_BYTES = 64 << 20


@cache
def keep() -> None:
    """Freed memory up to a bound stays with this process."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
    mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
    # Arrow's own pool hands back as well: reading sends then took twice the time.
    pa.set_memory_pool(pa.system_memory_pool())
