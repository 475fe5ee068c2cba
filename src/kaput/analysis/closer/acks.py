"""Every acknowledgement of a partition in a window, read again: where stretches of producers overlap.

A few columns of one table, filtered as they are read: seconds less than the analysis in SQL of all of it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from kaput.analysis.dense.context import Reached
from kaput.analysis.dense.numbers import Ints
from kaput.analysis.names import Names
from kaput.errors import EvidenceError
from kaput.evidence.reading import Evidence

_MOST = 20_000_000  # of 8 bytes each


def times(evidence: Evidence, names: Names, one: Reached) -> Ints | None:
    """Those after the fault's effect and before the recovery, in order; None: too many."""
    place = names.place(one.place)
    assert place is not None
    wanted = (
        (ds.field("topic") == place[0])
        & (ds.field("partition") == place[1])
        & (ds.field("outcome") == "acked")
        & (ds.field("done_ns") > one.effective_ns)
        & (ds.field("done_ns") < one.recovered_ns)
    )
    found: list[Ints] = []
    for path in evidence.tables["sends"].files:
        try:
            column = ds.dataset(path).to_table(columns=["done_ns"], filter=wanted)["done_ns"]
        except (pa.ArrowException, OSError) as error:
            raise EvidenceError(f"{path}: not a whole Parquet file ({str(error).splitlines()[0]})") from None
        found.append(column.to_numpy())
        if sum(map(len, found)) > _MOST:
            return None
    return np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)
