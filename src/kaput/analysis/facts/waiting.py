"""How far each group had come when a fault of brokers was healed, and what it had waited for until then.

Built on the driver from commits; the messages are counted where they are matched (questions/stuck.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import polars as pl

from kaput.analysis.facts.inputs import Inputs
from kaput.core import TopicPartition
from kaput.scenario.vocabulary import NOOP

GRACE_NS = 5_000_000_000
# For a fault (by its number), a group and a partition: acknowledged by `until_ns`, at `offset` or above;
# where that is below `all_from`, only what was attempted from `after_ns` on.
WAITING: Mapping[str, type[pl.DataType]] = dict.fromkeys(
    ("fault", "group", "place", "until_ns", "offset", "all_from", "after_ns"), pl.Int64
)


def waiting(given: Inputs, beginnings: pl.DataFrame, places: Collection[TopicPartition]) -> pl.DataFrame:
    """WAITING of all faults and groups. `places`: those that are known."""
    late = {(group, place): rest for group, place, *rest in beginnings.iter_rows()}
    rows = []
    for fault, healed_ns in _heals(given):
        for index, group in enumerate(given.groups):
            # Records of a share group are done with one by one: it commits no offsets.
            reads = given.places_of(group) & set(places) if given.types[index] != "share" else set()
            for place in sorted(reads):
                code = given.names.code(place)
                offset = committed(given, group, place, healed_ns)
                if offset is not None:
                    window = (offset, offset, 0)
                elif (index, code) in late:
                    below, all_from, _, after_ns = late[index, code]
                    window = (max(0, below), all_from, after_ns)
                else:
                    window = (0, 0, 0)
                rows.append((fault, index, code, healed_ns - GRACE_NS, *window))
    return pl.DataFrame(rows, schema=WAITING, orient="row")


def _heals(given: Inputs) -> Iterator[tuple[int, int]]:
    """Each fault of brokers that was healed, by its number, and when."""
    for number, fault in enumerate(given.faults):
        if fault.proven and fault.healed_ns is not None and fault.brokers and fault.fault != NOOP:
            yield number, fault.healed_ns


def committed(given: Inputs, group: str, place: TopicPartition, by_ns: int | None = None) -> int | None:
    """The last offset that a group had committed in a partition, by that moment; None for none. Of several
    at one moment, the greatest.
    """
    commits = given.commits.get((group, place), ())
    known = [(at_ns, offset) for at_ns, offset in commits if by_ns is None or at_ns <= by_ns]
    return max(known)[1] if known else None
