"""What each group was waiting for when a broker fault was healed: everything above its committed offsets.

Built on the driver from commits. Not here: counting the messages (questions/stuck.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import polars as pl

from kaput.analysis.facts.inputs import Inputs
from kaput.core import TopicPartition
from kaput.scenario.vocabulary import NOOP

GRACE_NS = 5_000_000_000
# The messages that a group waited for in a partition until the heal of a fault (by its index): acknowledged
# by `until_ns`, at `offset` or above; below `all_from` only if attempted from `after_ns` on.
WAITING: Mapping[str, type[pl.DataType]] = dict.fromkeys(
    ("fault", "group", "place", "until_ns", "offset", "all_from", "after_ns"), pl.Int64
)


def waiting(given: Inputs, beginnings: pl.DataFrame, places: Collection[TopicPartition]) -> pl.DataFrame:
    """WAITING of all faults and groups. `places`: all known partitions."""
    late = {(group, place): rest for group, place, *rest in beginnings.iter_rows()}
    rows = []
    for fault, healed_ns in _heals(given):
        for index, group in enumerate(given.groups):
            # A share group acknowledges records one by one: it commits no offsets.
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
    """The index and heal time of each healed broker fault."""
    for number, fault in enumerate(given.faults):
        if fault.proven and fault.healed_ns is not None and fault.brokers and fault.fault != NOOP:
            yield number, fault.healed_ns


def committed(given: Inputs, group: str, place: TopicPartition, by_ns: int | None = None) -> int | None:
    """The last offset that a group had committed in a partition by `by_ns`; None for none. Of several at the
    same time, the highest.
    """
    commits = given.commits.get((group, place), ())
    known = [(at_ns, offset) for at_ns, offset in commits if by_ns is None or at_ns <= by_ns]
    return max(known)[1] if known else None
