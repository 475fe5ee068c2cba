"""Which of the lost messages single replicas were seen to hold, before they truncated them.

Compares analysis/lost with the evidence's replica_log: an independent proof of what was lost, and
where it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kaput.analysis.inputs import Inputs
from kaput.analysis.names import Place
from kaput.evidence.parquet import table_of
from kaput.evidence.schemas import TABLES

_WHO = ["topic", "partition", "offset", "producer", "seq"]
_HELD = pa.schema([TABLES["replica_log"].schema.field(name) for name in ("broker", "leader_epoch", *_WHO)])
_MS = 1_000_000


@dataclass(frozen=True)
class Seen:
    """Of the messages that one epoch overwrote: by broker how many it was seen to hold, and how many nobody.

    unseen_last_ms: how long before the last lost acknowledgement the first unseen one was given.
    """

    by_broker: Mapping[int, int] = field(default_factory=dict)
    unseen: int = 0
    unseen_last_ms: float | None = None


def seen(given: Inputs) -> dict[tuple[Place, int], Seen]:
    """By (partition, the epoch that overwrote them). Empty where no replica was looked at."""
    files = given.evidence.tables["replica_log"].files
    if not files or not given.evidence.tables["replica_log"].rows:
        return {}
    lost = ds.dataset(given.evidence.folder.analysis / "lost", format="parquet").to_table(
        columns=[*_WHO, "done_ns", "later_epoch"], filter=pc.field("cause") == "deposed-leader"
    )
    # Of the contract's types, whatever encodings the files have: a join takes only the same on both sides.
    held = pa.concat_tables([table_of(path, _HELD) for path in files]).filter(pc.field("seq").is_valid())
    held = held.group_by(["broker", *_WHO]).aggregate([("leader_epoch", "min")])
    looked_at = held.group_by(["topic", "partition"]).aggregate([]).to_pylist()
    places = {(row["topic"], row["partition"]) for row in looked_at}
    both = lost.join(held, _WHO, join_type="left outer")
    # Under the epoch that overwrote it, or a later one, it would be another copy.
    earlier = pc.fill_null(pc.less(both["leader_epoch_min"], both["later_epoch"]), False)
    both = both.set_column(
        both.column_names.index("broker"), "broker", pc.if_else(earlier, both["broker"], pa.scalar(None))
    )
    keys = both.group_by(["topic", "partition", "later_epoch"]).aggregate([]).to_pylist()
    return {
        ((key["topic"], key["partition"]), key["later_epoch"]): _of(both, key)
        for key in keys
        if (key["topic"], key["partition"]) in places
    }


def _of(both: pa.Table, key: Mapping[str, object]) -> Seen:
    mine = both
    for name, value in key.items():
        mine = mine.filter(pc.field(name) == value)
    counts = mine.group_by("broker").aggregate([([], "count_all")]).to_pylist()
    by_broker = {row["broker"]: row["count_all"] for row in counts if row["broker"] is not None}
    unseen = mine.filter(pc.field("broker").is_null())
    last, first = pc.max(mine["done_ns"]).as_py(), pc.min(unseen["done_ns"]).as_py()
    return Seen(
        dict(sorted(by_broker.items())),
        unseen.num_rows,
        None if last is None or first is None else (last - first) / _MS,
    )
