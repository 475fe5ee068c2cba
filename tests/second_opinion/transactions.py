"""Which transactions held a group back from what ended a silence of a partition, by the raw tables alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from second_opinion.raw import SECOND, Place, Row, RunTables

LEARNED = ("committed", "aborted")


class Hold(NamedTuple):
    """From when until when."""

    begin: int
    end: int


class Transactions:
    """Those of one run that were open for a second or more, or whose end their producers did not learn."""

    def __init__(self, tables: RunTables) -> None:
        self.tables = tables
        rows = [row for row in tables.rows("transactions") if row["begin_ns"] is not None]
        self.long = [
            row
            for row in rows
            if row["outcome"] not in LEARNED
            or row["end_ns"] is None
            or row["end_ns"] - row["begin_ns"] >= SECOND
        ]

    @cache  # noqa: B019
    def holds(self, place: Place, group: str, end: int) -> list[Hold]:
        """Those whose first record in the partition is at or below what was delivered then, and from whose
        record on nothing had been delivered before.
        """
        given = self._deliveries(place, group) if self._reads_committed(group) else []
        lowest = min((d["offset"] for d in given if d["polled_ns"] == end), default=None)
        if lowest is None:
            return []
        before = max((d["offset"] for d in given if d["polled_ns"] < end), default=-1)
        found = []
        for row in self.long:
            first = self._first_record(row, place)
            if first is not None and before < first["offset"] <= lowest:
                until = self._until(row, place, first["offset"], end)
                if until is not None:
                    found.append(Hold(self._attempted(first), until))
        return found

    def _reads_committed(self, group: str) -> bool:
        said = {g["group"]: g.get("isolation") for g in self.tables.manifest.get("groups") or []}
        if said.get(group) is not None:
            return bool(said[group] == "read_committed")
        spec = self.tables.group_specs.get(group)
        if spec is None or spec.get("client") == "command" or spec.get("type") == "share":
            return False
        config = spec.get("config") or {}
        return bool(config.get("isolation.level", "read_committed") == "read_committed")

    @cache  # noqa: B019
    def _deliveries(self, place: Place, group: str) -> list[Row]:
        return [d for d in self.tables.rows("deliveries") if d["group"] == group and d["place"] == place]

    def _first_record(self, row: Row, place: Place) -> Row | None:
        mine = [
            record
            for record in self.tables.stored_at.get(place, {}).values()
            if record["producer"] == row["producer"]
            and record["intact"]
            and record["seq"] is not None
            and row["first_seq"] <= record["seq"] <= row["last_seq"]
        ]
        return min(mine, key=lambda record: record["offset"], default=None)

    def _attempted(self, record: Row) -> int:
        who = record["producer"], record["seq"]
        return next(
            int(s["attempt_ns"]) for s in self.tables.rows("sends") if (s["producer"], s["seq"]) == who
        )

    def _until(self, row: Row, place: Place, offset: int, end: int) -> int | None:
        samples = [one for one in self._samples(place) if one[0] < end]
        held = [at for at, stable, mark in samples if stable == offset < mark]
        learned = row["end_ns"] if row["outcome"] in LEARNED else None
        if learned is not None and learned >= max(held, default=0):
            return min(int(learned), end)
        if not held:
            return None
        above = [at for at, stable, _ in samples if at > max(held) and stable > offset]
        return min([*above, end])

    @cache  # noqa: B019
    def _samples(self, place: Place) -> list[tuple[int, int, int]]:
        """By time, the last stable offset and the high watermark of samples that have both."""
        found: dict[int, dict[str, int]] = {}
        for row in self.tables.rows("samples"):
            labels = row["labels"] or {}
            named = (labels.get("topic"), labels.get("partition")) == (place.topic, str(place.partition))
            if named and row["cluster"] == place.cluster:
                found.setdefault(row["at_ns"], {})[row["name"]] = round(row["value"])
        names = ("last_stable_offset", "high_watermark")
        both = ((at, *(of.get(name) for name in names)) for at, of in sorted(found.items()))
        return [(at, stable, mark) for at, stable, mark in both if stable is not None and mark is not None]

    def moments(self, place: Place, group: str, end: int) -> Iterator[int]:
        """Every time at which one began or ended to hold it back."""
        for hold in self.holds(place, group, end):
            yield from hold
