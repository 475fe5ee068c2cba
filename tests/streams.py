"""Evidence that is being written: what has reached the streams so far."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa


def rows_so_far(table: Path) -> list[dict[str, Any]]:
    """The rows of each whole batch in the streams of a table; the end of a stream may be torn.

    A tear between batches is ArrowInvalid, one within a batch OSError.
    """
    found: list[dict[str, Any]] = []
    for stream in sorted(table.glob("*.arrows")):
        try:
            with pa.ipc.open_stream(stream.read_bytes()) as reader:
                for batch in reader:
                    found += batch.to_pylist()
        except (pa.ArrowInvalid, OSError):
            continue
    return found
