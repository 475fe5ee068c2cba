"""Helpers for exports: columns of a table as numbers, and lookup in sorted stretches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kaput.core import NULL_LONG
from kaput.export.merging import Rows


def ints(batch: pa.Table, name: str) -> Rows:
    """A numeric column as int64; NULL_LONG for null."""
    found: Rows = batch[name].cast(pa.int64()).fill_null(NULL_LONG).to_numpy()
    return found


def mapped(batch: pa.Table, name: str, number: Any) -> Rows:
    """A text column mapped to numbers by `number`; NULL_LONG for null."""
    encoded = batch[name].combine_chunks().dictionary_encode()
    words = np.array([*(int(number(word)) for word in encoded.dictionary.to_pylist()), NULL_LONG], np.int64)
    found: Rows = words[encoded.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False)]
    return found


def nowhere(batch: pa.Table) -> Any:
    """Whether each row names no partition."""
    return pc.or_kleene(pc.is_null(batch["partition"]), pc.less(batch["partition"], 0))


def identity(producer: Rows, seq: Rows) -> Rows:
    """A hash of a message's identity. Collisions are rare, and matches are compared in full."""
    return producer * np.int64(1 << 40) ^ seq


def among(firsts: Rows, lasts: Rows, numbers: Rows) -> Rows:
    """The index of the stretch that contains each number, -1 for none. Stretches must be sorted."""
    at = np.searchsorted(firsts, numbers, side="right") - 1
    return np.where((at >= 0) & (numbers <= lasts[at]), at, -1)
