"""When a group was delivered again what it had been delivered before, by the raw tables alone."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

from second_opinion.raw import SECOND, Place, RunTables


class Rereads:
    """Those of one run."""

    def __init__(self, tables: RunTables) -> None:
        self.tables = tables

    @cache  # noqa: B019
    def within(self, place: Place, group: str, begin: int, end: int) -> list[tuple[int, int]]:
        """In a silence: where a message of the partition that was delivered more than once came again and
        again, less than a second apart, for a second or more.
        """
        cut = [(max(since, begin), min(until, end)) for since, until in self._spans(place, group)]
        return [(since, until) for since, until in cut if until - since >= SECOND]

    @cache  # noqa: B019
    def _times(self, group: str) -> dict[tuple[int, int], list[int]]:
        """By message, when the group was delivered it."""
        times: dict[tuple[int, int], list[int]] = defaultdict(list)
        for d in self.tables.rows("deliveries"):
            if d["group"] == group and d["producer"] is not None and d["seq"] is not None and d["intact"]:
                times[d["producer"], d["seq"]].append(d["polled_ns"])
        return times

    @cache  # noqa: B019
    def _spans(self, place: Place, group: str) -> list[tuple[int, int]]:
        if (self.tables.group_specs.get(group) or {}).get("type") == "share":
            return []
        times = self._times(group)
        mine = {(s["producer"], s["seq"]) for s in self.tables.sends_in(place)}
        often = sorted(t for who, of in times.items() if who in mine and len(of) > 1 for t in of)
        spans: list[list[int]] = []
        for t in often:
            if spans and t - spans[-1][1] < SECOND:
                spans[-1][1] = t
            else:
                spans.append([t, t])
        return [(since, until) for since, until in spans]
