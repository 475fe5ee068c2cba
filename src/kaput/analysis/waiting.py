"""How far each group had come when a fault of brokers was healed, and what it had waited for until then.

Built on the driver from commits; the messages are counted where they are matched (questions/stuck.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import polars as pl

from kaput.analysis.account import Account
from kaput.analysis.inputs import Inputs
from kaput.analysis.names import Place
from kaput.analysis.questions.stuck import GRACE_NS, WAITING
from kaput.scenario.vocabulary import NOOP


def waiting(given: Inputs, beginnings: pl.DataFrame, places: Collection[Place]) -> pl.DataFrame:
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


def committed(given: Inputs, group: str, place: Place, by_ns: int | None = None) -> int | None:
    """The last offset that a group had committed in a partition, by that moment; None for none. Of several
    at one moment, the greatest.
    """
    commits = given.commits.get((group, place), ())
    known = [(at_ns, offset) for at_ns, offset in commits if by_ns is None or at_ns <= by_ns]
    return max(known)[1] if known else None


def stuck_of(given: Inputs, account: Account, sums: pl.DataFrame) -> dict[str, dict[str, int]]:
    """By fault and group, how many messages, where there are any. `sums`: STUCK."""
    floors = {
        (fault, group, place): offset
        for fault, group, place, offset in account.waiting.select(
            "fault", "group", "place", "offset"
        ).iter_rows()
    }
    found: dict[str, dict[str, int]] = {}
    for fault, group, place, n, end in sums.sort("fault", "group", "place").iter_rows():
        # Two that were acknowledged at one offset, of which one is lost, are one that can be waited for.
        count = min(n, end - floors[fault, group, place])
        mine = found.setdefault(given.faults[fault].id, {})
        mine[given.groups[group]] = mine.get(given.groups[group], 0) + count
    return found
