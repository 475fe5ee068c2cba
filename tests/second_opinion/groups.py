"""What groups had to be delivered, what waited for a heal, their lag, and their rebalances."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection
from functools import cache, cached_property
from typing import NamedTuple

from second_opinion.effects import Effect
from second_opinion.raw import SECOND, Place, Row, RunTables


class Quick(NamedTuple):
    """Messages, and how many of them came within a second of their attempt."""

    messages: int
    within_1s: int


class Sample(NamedTuple):
    """A group's lag; `whole`: no partition is missing that was sampled before."""

    at: int
    lag: float
    whole: bool


class Backlog(NamedTuple):
    """Of one group and one fault; `to`: null if the lag never fell back."""

    before: float
    greatest: float
    greatest_at: int
    to: int | None


class Groups:
    """Of one run."""

    def __init__(self, tables: RunTables) -> None:
        self.tables = tables

    @cache  # noqa: B019
    def topics(self, group: str, cluster: str | None, topic: str) -> bool:
        """Whether a group reads a topic; one that the scenario does not have reads what it was delivered."""
        spec = self.tables.group_specs.get(group)
        if spec is None:
            rows = self.tables.rows("deliveries")
            return any(d["group"] == group and (d["cluster"], d["topic"]) == (cluster, topic) for d in rows)
        for name in spec["topics"]:
            _, colon, rest = name.partition(":")
            wanted = rest if colon else name
            if wanted == topic or (wanted.startswith("^") and re.match(wanted, topic)):
                return True
        return False

    # Within a second.

    def producers_quick(self, place: Place | None) -> set[Quick]:
        """Of acknowledgements, in one partition or in all."""
        sends = self.tables.rows("sends") if place is None else self.tables.sends_of.get(place, [])
        if place is not None and not self.tables.scenario.get("mirrors"):
            sends = self.tables.sends_in(place)
        sends = [s for s in sends if s["outcome"] != "acked" or s["done_ns"] is not None]
        quick = [s for s in sends if s["outcome"] == "acked"]
        return {Quick(len(sends), sum(s["done_ns"] - s["attempt_ns"] <= SECOND for s in quick))}

    def quick(self, group: str, place: Place | None) -> set[Quick]:
        """Of first deliveries to a group; for each reading of what it had to be delivered."""
        first = self.tables.first_delivery.get(group, {})
        sends = self.tables.rows("sends") if place is None else self.tables.sends_in(place)
        mine = [s for s in sends if self.topics(group, s["cluster"], s["topic"])]
        found = set()
        for owed in self._owed(group, mine):
            quick = 0
            for send in owed:
                at = first.get((send["producer"], send["seq"]))
                quick += at is not None and at - send["attempt_ns"] <= SECOND
            found.add(Quick(len(owed), quick))
        return found

    def _owed(self, group: str, sends: list[Row]) -> list[list[Row]]:
        """Committed, visible, not lost: with or without what was not acknowledged."""
        first = self.tables.first_delivery.get(group, {})
        stored, unread = [], []
        for send in sends:
            if self._before_it_began(group, send):
                continue
            if self.tables.due(send):
                stored.append(send)
            elif send["outcome"] == "acked" and not self._known_gone(send):
                unread.append(send)
        acked = [s for s in stored if s["outcome"] == "acked"]
        some = [s for s in stored if s["outcome"] == "acked" or (s["producer"], s["seq"]) in first]
        readings = [acked] if len(acked) == len(stored) else [acked, stored, some]
        clusters = self._reads_in(group)
        for one in [clusters, *([cluster] for cluster in clusters)]:  # one that moved: what its last one has
            there = [s for s in acked if self._message(s) in first or self._is_in(one, s)]
            readings += [there] if len(there) < len(acked) else []
        if unread:
            readings += [one + unread for one in list(readings)]
        return readings

    def _message(self, send: Row) -> tuple[int, int]:
        return send["producer"], send["seq"]

    def _is_in(self, clusters: Collection[str | None], send: Row) -> bool:
        """Whether one of the clusters in which a group was handed anything has the message, or a copy."""
        return not clusters or any((*self._message(send), one) in self._stored for one in clusters)

    @cache  # noqa: B019
    def _reads_in(self, group: str) -> frozenset[str | None]:
        return frozenset(row["cluster"] for row in self.tables.rows("deliveries") if row["group"] == group)

    @cached_property
    def _stored(self) -> set[tuple[int, int, str | None]]:
        return {(row["producer"], row["seq"], row["cluster"]) for row in self.tables.rows("log")}

    def _before_it_began(self, group: str, send: Row) -> bool:
        """Whether a group that begins at the end of the log was only ever handed what was stored after it."""
        config = (self.tables.group_specs.get(group) or {}).get("config") or {}
        if config.get("auto.offset.reset") != "latest":
            return False
        records = self.tables.home_records(send)
        places = [(self.tables.place(record), record["offset"]) for record in records]
        return all(offset < self._began(group).get(place, 1 << 62) for place, offset in places)

    @cache  # noqa: B019
    def _began(self, group: str) -> dict[Place | None, int]:
        """By partition, the lowest offset that the group was handed."""
        found: dict[Place | None, int] = {}
        for row in self.tables.rows("deliveries"):
            if row["group"] == group:
                place = self.tables.place(row)
                found[place] = min(row["offset"], found.get(place, row["offset"]))
        return found

    def _known_gone(self, send: Row) -> bool:
        where = self.tables.place(send)
        return where is not None and self.tables.read_to_end(where) and not self.tables.may_remove(where)

    # Stuck until the heal.

    def stuck(self, fault: Effect, group: str) -> set[int]:
        """Messages acknowledged 5 s or more before a heal, and first delivered after it."""
        first = self.tables.first_delivery.get(group, {})
        readings = [0, 0]
        for send in self.tables.rows("sends"):
            at = first.get((send["producer"], send["seq"]))
            acked = send["outcome"] == "acked" and send["done_ns"] is not None
            if at is None or not acked or send["done_ns"] > fault.healed - 5 * SECOND or at <= fault.healed:
                continue
            if not self.tables.home_records(send):
                continue
            visible = self.tables.due(send)
            readings[0] += visible
            readings[1] += visible or self._sees_everything(group)
        return set(readings)

    def _sees_everything(self, group: str) -> bool:
        config = (self.tables.group_specs.get(group) or {}).get("config") or {}
        said = {g["group"]: g.get("isolation") for g in self.tables.manifest.get("groups") or []}
        return "read_uncommitted" in (config.get("isolation.level"), said.get(group))

    # Lag.

    @cache  # noqa: B019
    def lag(self, group: str) -> list[Sample]:
        """The samples of a group's lag in the cluster where it is then, in the order of their times."""
        found: dict[int, dict[Place, float]] = defaultdict(dict)
        whole: dict[int, float] = {}  # samples of the group's lag that name no partition
        for row in self.tables.rows("samples"):
            labels = row["labels"] or {}
            if row["name"] == "group_lag" and labels.get("group") == group:
                whole[row["at_ns"]] = row["value"]
            if row["name"] == "lag" and labels.get("group") == group:
                place = Place(row["cluster"], labels.get("topic", ""), int(labels.get("partition", 0)))
                found[row["at_ns"]][place] = row["value"]
        samples: list[Sample] = []
        before: set[Place] = set()
        for at in sorted(found.keys() | whole.keys()):
            values = found.get(at, {})
            if not values and at in whole:
                samples.append(Sample(at, whole[at], True))
                continue
            here = {p: lag for p, lag in values.items() if p.cluster in self._clusters(group, at)}
            places = {p for p in before if p.cluster in self._clusters(group, at)}
            if not here:
                continue
            samples.append(Sample(at, sum(here.values()), places <= here.keys()))
            before |= here.keys()
        return samples

    def _clusters(self, group: str, at: int) -> set[str | None]:
        """Where a group is then: in the cluster of its last assignment, anywhere before the first."""
        assigned = [e for e in self.changes(group) if e["kind"] == "assigned" and e["at_ns"] <= at]
        if assigned:
            return {assigned[-1]["cluster"]}
        return {None, *(self.tables.scenario.get("clusters") or {})}

    def can_reach(self, fault: Effect, group: str, until: int) -> bool:
        """Whether a fault can make a group lag until then."""
        kind, _, name = fault.target.partition(" ")
        if fault.fault == "noop":
            return False
        if of_members := re.fullmatch(r"(?:any )?members?\b.* of (.+)", fault.target):
            return of_members[1] == group
        if kind == "topic":
            place = self.tables.place_of(None, name, 0)
            here = {e["cluster"] for e in self.changes(group) if e["kind"] == "assigned"}
            here |= {(self.tables.group_specs.get(group) or {}).get("cluster") or self.tables.first_cluster}
            return place.cluster in here and self.topics(group, place.cluster, place.topic)
        names = list(self.tables.scenario.get("clusters") or {})
        hit = {names[broker // 1000] for broker in fault.brokers if broker // 1000 < len(names)}
        if kind == "mirror":
            hit = {name.partition("->")[2]}
        assigned = [(e["at_ns"], e["cluster"]) for e in self.changes(group) if e["kind"] == "assigned"]
        where = [c for at, c in assigned if at <= fault.begin][-1:] or [c for _, c in assigned[:1]]
        where += [c for at, c in assigned if fault.begin < at <= until]
        where = where or [(self.tables.group_specs.get(group) or {}).get("cluster")]
        return not hit or None in where or bool(hit & set(where))

    def backlogs(self, fault: Effect, until: int, recovered: set[int], group: str) -> set[Backlog | None]:
        """What a group's lag was above its greatest before a fault that can reach it; null if it never was.

        `until`: when the next such fault took effect; `recovered`: the end of recovery, in each reading.
        """
        samples = self.lag(group)
        before = [sample.lag for sample in samples if sample.at < fault.begin]
        if not before:
            return {None}
        after = [sample for sample in samples if sample.at >= fault.begin]
        rise = next((sample.at for sample in after if sample.lag > max(before)), until)
        found: set[Backlog | None] = set()
        for end in recovered:
            last = next((sample.at for sample in after if sample.whole and sample.at >= end), until)
            mine = rise < until and rise <= last and self.can_reach(fault, group, rise)
            found.add(self._backlog(after, max(before)) if mine else None)
        return found

    def _backlog(self, samples: list[Sample], before: float) -> Backlog:
        rise = next(n for n, sample in enumerate(samples) if sample.lag > before)
        rest = range(rise, len(samples))
        fall = next((n for n in rest if samples[n].lag <= before and samples[n].whole), None)
        own = samples[rise:fall]
        greatest = max(sample.lag for sample in own)
        at = next(sample.at for sample in own if sample.lag == greatest)
        return Backlog(before, greatest, at, None if fall is None else samples[fall].at)

    # Rebalances.

    @cache  # noqa: B019
    def changes(self, group: str) -> list[Row]:
        """Events that give partitions to members or take them away, and members that go."""
        kinds = ("assigned", "revoked", "lost", "left", "killed")
        events = [e for e in self.tables.rows("group_events") if e["group"] == group and e["kind"] in kinds]
        return sorted(events, key=lambda e: e["at_ns"])

    @cache  # noqa: B019
    def deliveries_of(self, group: str) -> dict[tuple[str, Place], list[int]]:
        """By member and partition: the times of its deliveries, in order."""
        found: dict[tuple[str, Place], list[int]] = defaultdict(list)
        for d in self.tables.rows("deliveries"):
            where = self.tables.place(d)
            if d["group"] == group and where is not None:
                found[d["member"], where].append(d["polled_ns"])
        for times in found.values():
            times.sort()
        return found
