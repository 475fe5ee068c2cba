"""Columns of a table as numbers, and a message's place among stretches of messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kaput.core import NULL_LONG
from kaput.export.merging import Rows


def ints(batch: pa.Table, name: str) -> Rows:
    """A column of numbers; NULL_LONG for null."""
    found: Rows = batch[name].cast(pa.int64()).fill_null(NULL_LONG).to_numpy()
    return found


def mapped(batch: pa.Table, name: str, number: Any) -> Rows:
    """The numbers of a column's words; NULL_LONG for null."""
    encoded = batch[name].combine_chunks().dictionary_encode()
    words = np.array([*(int(number(word)) for word in encoded.dictionary.to_pylist()), NULL_LONG], np.int64)
    found: Rows = words[encoded.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False)]
    return found


def nowhere(batch: pa.Table) -> Any:
    """Which rows name no partition."""
    return pc.or_kleene(pc.is_null(batch["partition"]), pc.less(batch["partition"], 0))


def identity(producer: Rows, seq: Rows) -> Rows:
    """One number for a message, of which two are alike too seldom to matter: what is found is compared."""
    return producer * np.int64(1 << 40) ^ seq


def among(firsts: Rows, lasts: Rows, numbers: Rows) -> Rows:
    """The index of the stretch that each number is in, -1 for none. The stretches are in order."""
    at = np.searchsorted(firsts, numbers, side="right") - 1
    return np.where((at >= 0) & (numbers <= lasts[at]), at, -1)
