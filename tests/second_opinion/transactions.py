"""Which transactions held a group back from what ended a silence of a partition, by the raw tables alone."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from second_opinion.effects import ENDS, Effect, Effects
from second_opinion.raw import SECOND, Place, Row, RunTables

LEARNED = ("committed", "aborted")
_SILENT = frozenset({*ENDS, "pause", "isolate"})  # a broker answers nobody


class Hold(NamedTuple):
    """From when until when."""

    begin: int
    end: int


def _seq(record: Row) -> int:
    return int(record["seq"])


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

    def holds(self, place: Place, group: str, end: int) -> list[Hold]:
        """When those were open that held a group back."""
        return [hold for _, hold in self.held(place, group, end)]

    @cache  # noqa: B019
    def held(self, place: Place, group: str, end: int) -> list[tuple[Row, Hold]]:
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
            first = self.first_record(row, place)
            if first is not None and before < first["offset"] <= lowest:
                until = self.until(row, place, first["offset"], end)
                if until is not None:
                    found.append((row, Hold(self.attempted(first), until)))
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

    def first_record(self, row: Row, place: Place) -> Row | None:
        mine = self._records(place).get(row["producer"], [])
        low = bisect_left(mine, row["first_seq"], key=_seq)
        high = bisect_right(mine, row["last_seq"], key=_seq)
        return min(mine[low:high], key=lambda record: record["offset"], default=None)

    @cache  # noqa: B019
    def _records(self, place: Place) -> dict[int, list[Row]]:
        """By producer, what the partition holds of it, by number."""
        found: dict[int, list[Row]] = defaultdict(list)
        for record in self.tables.stored_at.get(place, {}).values():
            if record["intact"] and record["producer"] is not None and record["seq"] is not None:
                found[record["producer"]].append(record)
        return {producer: sorted(mine, key=_seq) for producer, mine in found.items()}

    def attempted(self, record: Row) -> int:
        who = record["producer"], record["seq"]
        return next(
            int(s["attempt_ns"]) for s in self.tables.rows("sends") if (s["producer"], s["seq"]) == who
        )

    def until(self, row: Row, place: Place, offset: int, end: int) -> int | None:
        """When it ended to hold a group back that was given something behind it; None if nothing shows."""
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


class Coordinators:
    """When faults kept the transaction coordinators of producers down."""

    def __init__(self, tables: RunTables, effects: Effects) -> None:
        self.tables = tables
        self.hits = [e for e in effects.of_brokers if e.bit and e.fault != "noop"]

    def down(self, row: Row, begin: int, end: int) -> int | None:
        """How long that of a transaction was down: the leader of its partition of __transaction_state, or if
        that is not recorded, the broker that a step named as its coordinator. None: a fault of another kind
        hit brokers meanwhile.
        """
        spans = [(e, self._back(e)) for e in self.hits if e.begin < end]
        if any(e.fault not in _SILENT and back > begin for e, back in spans):
            return None
        states, total = self._states(row["transactional_id"]), 0
        bounds = {begin, end, *(s[0] for s in states), *(t for e, back in spans for t in (e.begin, back))}
        for at, until in pairwise(sorted(t for t in bounds if begin <= t <= end)):
            now = [e for e, back in spans if e.begin <= at < back]
            state = next((s for s in reversed(states) if s[0] <= at), None)
            if not states:
                name = f"transaction-coordinator-of producer {row['producer']}"
                down = any(e.target == name for e in now)
            else:
                down = state is not None and any(state[2] or state[1] in e.brokers for e in now)
            total += (until - at) * down
        return total

    def _back(self, effect: Effect) -> int:
        """When its brokers answered again: after their processes ended, when they were unfenced."""
        rows = self.tables.rows("cluster_events") if effect.fault in ENDS else []
        every = [e for e in rows if e["kind"] == "unfenced" and e["at_ns"] >= effect.healed]
        times = (min((e["at_ns"] for e in every if e["broker"] == b), default=0) for b in effect.brokers)
        return max(effect.healed, *times)

    @cache  # noqa: B019
    def _states(self, transactional_id: str) -> list[tuple[int, int | None, bool]]:
        """By time, the leader of its partition, and whether it could not write decisions. None if no leader
        is recorded.
        """
        rows = [e for e in self.tables.rows("cluster_events") if e["topic"] == "__transaction_state"]
        numbers = {e["partition"] for e in rows if e["partition"] is not None}
        config = self.tables.cluster_spec(self.tables.first_cluster).get("config") or {}
        most = max(numbers, default=-1) + 1
        count = config.get("transaction.state.log.num.partitions") or (
            most if most and most == len(numbers) else max(most, 50)
        )
        number = 0
        for char in transactional_id:
            number = (31 * number + ord(char)) % 2**32
        mine = abs(number - 2**32 if number >= 2**31 else number) % int(count)
        least = int(config.get("transaction.state.log.min.isr") or 2)
        leader, isr, found = None, None, []
        for e in sorted((e for e in rows if e["partition"] == mine), key=lambda e: e["at_ns"]):
            leader = leader if e["leader"] is None else e["leader"]
            isr = isr if e["isr"] is None else e["isr"]
            found.append((e["at_ns"], leader, leader == -1 or (isr is not None and len(isr) < least)))
        return found if leader is not None else []
