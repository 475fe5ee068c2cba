"""The lag of each group at each sampled time: how much it had not committed yet, in the cluster where it was;
and the backlog that a fault left.

Samples of one time are from different partitions (those whose leaders answered) and are added up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kaput.analysis.facts.assignments import Event
from kaput.core import FOREVER_NS, SECOND, cluster_and_topic
from kaput.evidence.schemas import GROUP_LAG, LAG

CLOSE_NS = 3 * SECOND  # between samples, which are taken about every second

Row = Mapping[str, Any]  # of the table samples
Clusters = Mapping[str, Sequence[tuple[int, str | None]]]


class LagSample(NamedTuple):
    """The lag of a group. `whole`: of all partitions; else it is only known not to have been less."""

    at_ns: int
    lag: int
    whole: bool


class Backlog(NamedTuple):
    """A group's lag above `before`, its greatest before the fault. `from_ns`: the first such sample; `to_ns`:
    the first one back at `before` or below, None if none came. `greatest_at_ns`, `grew_until_ns`: the first
    and the last sample with its greatest lag; `shrank_ns`: the sample after the last of these;
    that one itself if none came within seconds, since no leader answered.
    """

    before: int
    from_ns: int
    to_ns: int | None
    greatest: int
    greatest_at_ns: int
    grew_until_ns: int
    shrank_ns: int


def clusters(group_events: Iterable[Event]) -> dict[str, list[tuple[int, str | None]]]:
    """By group: since when it was in which cluster, by its assignments."""
    visited: dict[str, list[tuple[int, str | None]]] = {}
    for event in sorted(group_events, key=lambda event: int(event["at_ns"])):
        if event["kind"] == "assigned" and event["topic"] is not None:
            cluster = cluster_and_topic(event["topic"])[0]
            mine = visited.setdefault(event["group"], [])
            if not mine or mine[-1][1] != cluster:
                mine.append((event["at_ns"], cluster))
    return visited


def series(samples: Iterable[Row], clusters_: Clusters) -> dict[str, list[LagSample]]:
    """The lag of each group over time, without samples of a cluster that the group was not in."""
    values: defaultdict[tuple[str, int], dict[tuple[str | None, ...], float]] = defaultdict(dict)
    whole_groups: dict[tuple[str, int], float] = {}
    for row in samples:
        labels = dict(row["labels"])
        group, cluster, at_ns = labels.get("group"), row.get("cluster"), row["at_ns"]
        if row["name"] not in (LAG, GROUP_LAG) or group is None:
            continue
        where = clusters_.get(group, ())
        if cluster is not None and len(where) > 1 and cluster not in clusters_within(where, at_ns, at_ns):
            continue  # of a cluster in which the group was not
        if row["name"] == GROUP_LAG:
            whole_groups[group, at_ns] = row["value"]
            continue
        place = cluster, labels.get("topic"), labels.get("partition")
        at = values[group, at_ns]
        at[place] = at.get(place, 0.0) + row["value"]
    by_group: dict[str, list[LagSample]] = {}
    known: dict[str, set[tuple[str | None, ...]]] = {}
    for group, at_ns in sorted({*values, *whole_groups}, key=lambda key: key[1]):
        here = values.get((group, at_ns), {})
        seen = known.setdefault(group, set())
        if here.keys() and not {place[0] for place in seen} <= {place[0] for place in here}:
            seen.clear()  # in another cluster
        seen.update(here)
        lag = sum(here.values()) if here else whole_groups[group, at_ns]
        by_group.setdefault(group, []).append(LagSample(at_ns, round(lag), not here or seen == here.keys()))
    return by_group


def clusters_within(where: Sequence[tuple[int, str | None]], from_ns: int, to_ns: int) -> set[str | None]:
    """In which clusters a group was between two times; empty if that is not known. `where`: of `clusters`."""
    before = [name for at_ns, name in where if at_ns <= from_ns] or [name for _, name in where[:1]]
    return {*before[-1:], *(name for at_ns, name in where if from_ns < at_ns <= to_ns)}


def backlog(
    samples: Sequence[LagSample], fault_ns: int, until_ns: int, recovered_ns: int = FOREVER_NS
) -> Backlog | None:
    """A group's backlog after a fault; None without samples before the fault, or without a rise before
    `until_ns` that may have begun before `recovered_ns`: up to the first whole sample since then.
    """
    before = max((one.lag for one in samples if one.at_ns < fault_ns), default=None)
    if before is None:
        return None
    late = (one.at_ns for one in samples if one.whole and one.at_ns >= max(fault_ns, recovered_ns))
    until_ns = min(until_ns, next(late, FOREVER_NS) + 1)
    rose = next(
        (n for n, one in enumerate(samples) if fault_ns <= one.at_ns < until_ns and one.lag > before), None
    )
    if rose is None:
        return None
    back = next((n for n in range(rose, len(samples)) if samples[n].whole and samples[n].lag <= before), None)
    above = samples[rose:back]
    greatest = max(one.lag for one in above)
    most = [rose + n for n, one in enumerate(above) if one.lag == greatest]
    last = samples[most[-1]].at_ns
    shrank_ns = max(one.at_ns for one in samples[most[-1] : most[-1] + 2] if one.at_ns - last <= CLOSE_NS)
    to_ns = None if back is None else samples[back].at_ns
    return Backlog(before, samples[rose].at_ns, to_ns, greatest, samples[most[0]].at_ns, last, shrank_ns)
