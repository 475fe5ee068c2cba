"""What deposed leaders acknowledged, counted by partition, overwriting epoch and fault. In SQL: causes.py."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kaput.analysis.closer.causes import DEPOSED, RESTARTED
from kaput.analysis.closer.losses import Explained
from kaput.analysis.dense.numbers import NULL
from kaput.analysis.dense.split import grouped
from kaput.analysis.deposed import Deposed
from kaput.analysis.names import Names
from kaput.analysis.timeline import FOREVER_NS


def deposed(explained: Explained, healed: Mapping[str, int | None], names: Names) -> list[Deposed]:
    """The acknowledgements that a later epoch overwrote. `healed`: when each fault ended."""
    at = np.flatnonzero((explained.cause == DEPOSED) | (explained.cause == RESTARTED))
    rows, found = explained.rows, []
    keys = rows["place"][at], explained.later_epoch[at], explained.fault[at]
    for (code, later, fault), here in grouped(*keys):
        mine = at[here]
        place = names.place(code)
        assert place is not None, "nothing overwrites what has no place"
        done, began = rows["done_ns"][mine], explained.later_ns[mine]
        lost, told = explained.lost[mine], done[done != NULL]
        name = explained.faults[fault] if fault >= 0 else None
        end = healed.get(name) if name else None
        after_heal = lost & (done > (FOREVER_NS if end is None else end))
        taken = rows["offset"][mine][explained.holder_producer[mine] != NULL]
        found.append(
            Deposed(
                place,
                later,
                name,
                acks=len(mine),
                lost=int(np.count_nonzero(lost)),
                after_election=int(np.count_nonzero((began != NULL) & (done != NULL) & (done >= began))),
                after_heal=int(np.count_nonzero(after_heal)),
                offsets_twice=len(np.unique(taken)),
                first_ns=int(told.min()) if len(told) else None,
                last_ns=int(told.max()) if len(told) else None,
            )
        )
    return found
