"""When and where each group began to read each partition, by its assignments and translated positions.

A group may begin in a partition more than once: if it was assigned partitions in another cluster meanwhile,
it begins anew when it returns, at its translated position. What lies below was skipped by that move
(questions/translations.py), not by its commits. Built on the driver. Not here: late groups without a
known position (group_starts.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from kaput.analysis.facts.assignments import place_of, position_of
from kaput.analysis.facts.inputs import Inputs
from kaput.analysis.facts.mirrors import Translated
from kaput.core import cluster_and_topic

# `offset`: where the group began at `since_ns`; null if no assignment or translated position tells.
STAYS: Mapping[str, type[pl.DataType]] = dict.fromkeys(("group", "place", "since_ns", "offset"), pl.Int64)


def stays(given: Inputs, moves: Sequence[Translated]) -> pl.DataFrame:
    """STAYS: one row for each time that a group began in a partition, by assignments and `moves`."""
    found: dict[tuple[int, int, int], int | None] = {}
    for group, place, at_ns, offset in _assigned(given):
        key = group, place, at_ns
        known = found.get(key)
        # Of several at the same time, the highest: no record below it is certain to have been for the group.
        found[key] = known if offset is None else max(offset, -1 if known is None else known)
    for move in moves:
        key = move.group, move.place, move.at_ns
        if found.get(key) is None:
            found[key] = move.offset
    rows = [(*key, offset) for key, offset in sorted(found.items())]
    return pl.DataFrame(rows, schema=STAYS, orient="row")


def _assigned(given: Inputs) -> Iterator[tuple[int, int, int, int | None]]:
    """(group, place, at_ns, offset): the assignments with which groups began: the first ones of each
    partition, and the first since the group was assigned anything in another cluster.
    """
    topics, groups = set(given.names.topics), {name: n for n, name in enumerate(given.groups)}
    last: dict[int, str | None] = {}
    began: dict[tuple[int, int], int] = {}
    for event in sorted(given.group_events, key=lambda event: int(event["at_ns"])):
        group, place = groups.get(event["group"]), place_of(event)
        if event["kind"] != "assigned" or group is None or place is None or place[1] < 0:
            continue
        cluster = cluster_and_topic(place[0])[0]
        if last.setdefault(group, cluster) != cluster:
            last[group] = cluster
            began = {key: at_ns for key, at_ns in began.items() if key[0] != group}
        if place[0] in topics:
            code, at_ns = given.names.code(place), int(event["at_ns"])
            if began.setdefault((group, code), at_ns) == at_ns:
                yield group, code, at_ns, position_of(event)
