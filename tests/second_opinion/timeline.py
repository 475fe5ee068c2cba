"""What the timeline of the page shows, held against the raw tables: its steps, bars, marks and samples.

`shown`: the data of the charts, in seconds since the load began (`began_ns`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from second_opinion.answers import FALSE, TRUE, Opinion, equal, one_of
from second_opinion.copies import Copies
from second_opinion.effects import FOREVER
from second_opinion.raw import MS, SECOND, Place, Row

if TYPE_CHECKING:
    from second_opinion.opinion import Examiner

_OF_BROKERS, _OF_MEMBERS = ("fenced", "unfenced", "started", "stopped"), ("joined", "left", "killed")
_SAMPLES = 600  # of lag: of more, the greatest of each of so many intervals
_SHORT = 20 * MS  # what is shorter is not looked at: times are shown in ms


class Timeline:
    """Of one run."""

    def __init__(self, of: Examiner, shown: Any) -> None:
        self.of, self.tables, self.shown = of, of.tables, shown
        self.end = shown.began_ns + round(shown.end_s * SECOND)

    def all(self) -> Iterator[Opinion]:
        """Every opinion."""
        for name in ("fine", "overview", "table"):
            yield from self._steps(name, getattr(self.shown, name))
        yield from self._faults()
        yield from self._partitions()
        yield from self._owners()
        yield from self._moves()
        yield from self._marks()
        for group in self.tables.groups:
            samples = [(s.at, s.lag) for s in self.of.groups.lag(group)]
            yield self._lag(group, samples, self.shown.lag)
        for row in self.of.findings.get("mirrors") or []:
            lags = Copies(self.of).lags(row).items()
            yield self._lag(row["mirror"], lags, self.shown.mirror_lag)
        yield from self._in_stores()

    def _s(self, at: int) -> float:
        """As it is shown."""
        return float(round(min(max((at - self.shown.began_ns) / SECOND, 0.0), self.shown.end_s), 3))

    # Steps.

    def _steps(self, name: str, figures: Any) -> Iterator[Opinion]:
        width = round(figures.width_s * SECOND)
        sends = self.tables.rows("sends")
        times = {"sent": [s["attempt_ns"] for s in sends]}
        for outcome in ("acked", "failed", "unknown"):
            mine = [s for s in sends if s["outcome"] == outcome]
            times[outcome] = [s["attempt_ns"] if s["done_ns"] is None else s["done_ns"] for s in mine]
        times["delivered"] = [d["polled_ns"] for d in self.tables.rows("deliveries")]
        for what, some in times.items():
            right = Counter(at // width for at in some)
            told = {self._step(row, width): row[what] for row in figures.rows if row[what]}
            yield Opinion(
                f"timeline {name}: {what}", TRUE if told == right else FALSE, f"{_apart(told, right)}"
            )
        acks = [(s["done_ns"], s["attempt_ns"]) for s in sends if s["outcome"] == "acked" and s["done_ns"]]
        longest: dict[int, float] = {}
        for done, begin in acks:
            longest[done // width] = max((done - begin) / MS, longest.get(done // width, 0.0))
        for row in figures.rows:
            most = longest.get(self._step(row, width))
            words = f"timeline {name}: longest acknowledgement at {row['s']}"
            yield equal(words, row["ack_max_ms"], {most}, 0.001 + 0.001 * (most or 0))
        lost = sum(a["count"] for a in self.of.findings["anomalies"] if a["name"] == "lost")
        yield one_of(f"timeline {name}: lost", sum(row["lost"] for row in figures.rows), {lost})

    def _step(self, row: Row, width: int) -> int:
        step: int = round((self.shown.began_ns + row["s"] * SECOND) / width)
        return step

    # Bars.

    def _faults(self) -> Iterator[Opinion]:
        told = {(b.row, b.begin, b.end) for b in self.shown.faults if b.kind == "fault"}
        ends = {e.id: self.end if e.healed == FOREVER else e.healed for e in self.of.effects.all}
        right = {(e.id, self._s(e.begin), self._s(ends[e.id])) for e in self.of.effects.all}
        yield Opinion("timeline: faults", TRUE if told == right else FALSE, f"{told ^ right}")

    def _partitions(self) -> Iterator[Opinion]:
        """Who led each partition, and its ISR, at times at which nothing changed."""
        yield from self._deposed()
        leaders, isrs = _by_row(self.shown.leaders), _by_row(self.shown.isrs)
        for place in self.of.failovers.places():
            events = self.tables.events_of(place)
            for at in self._moments({e["at_ns"] for e in events} | self.of.effects.moments()):
                words = f"timeline: {place} at {self._s(at)}"
                led = [e for e in events if e["kind"] == "leader" and e["at_ns"] <= at]
                allowed = self._led(led[-1]["leader"], at) if led else {None}
                yield one_of(f"{words}: leader", self._kind(leaders, str(place), at), allowed)
                known = [e["isr"] for e in events if e["isr"] is not None and e["at_ns"] <= at]
                members = ", ".join(map(str, sorted(known[-1]))) or "none" if known else None
                yield one_of(f"{words}: ISR", self._kind(isrs, str(place), at, "text"), {members})

    def _led(self, leader: int | None, at: int) -> set[str | None]:
        """A leader whose process is gone, or has not registered since it is back, leads nothing."""
        if leader is None or leader < 0:
            return {"no leader"}
        effects, named = self.of.effects, f"broker {leader}"
        if effects.is_booting(leader, at):
            return {"no leader"}
        stops = [up for when, up in effects.processes.get(leader, ()) if when <= at]
        gone = bool(stops) and not stops[-1]
        # Of a fault alone, without the end of a process in the record, either may be shown.
        return {"no leader"} if gone else {named} if effects.is_up(leader, at) else {named, "no leader"}

    def _moments(self, changes: Iterable[int]) -> list[int]:
        """In the middle between two changes."""
        inside = {at for at in changes if self.shown.began_ns < at < self.end}
        cuts = sorted({self.shown.began_ns, *inside, self.end})
        return [(one + two) // 2 for one, two in pairwise(cuts) if two - one >= _SHORT]

    def _kind(self, bars: dict[str, list[Any]], row: str, at: int, field: str = "kind") -> str | None:
        """What the bars of a row show at a time; null if there is none."""
        s = (at - self.shown.began_ns) / SECOND
        return next((getattr(b, field) for b in bars.get(row, ()) if b.begin <= s < b.end), None)

    def _owners(self) -> Iterator[Opinion]:
        bars = _by_row(self.shown.owners)
        events = [e for e in self.tables.rows("group_events") if e["kind"] != "committed"]
        alone = len({e["group"] for e in events}) == 1
        for group in sorted({e["group"] for e in events}):
            mine = self.of.groups.changes(group)
            for place in {p for e in mine if (p := self.tables.place(e)) is not None}:
                row = str(place) if alone else f"{group}: {place}"
                for at in self._moments({e["at_ns"] for e in mine}):
                    owner = self._owner(place, [e for e in mine if e["at_ns"] <= at])
                    words = f"timeline: owner of {row} at {self._s(at)}"
                    yield one_of(words, self._kind(bars, row, at), {owner})

    def _owner(self, place: Place, events: list[Row]) -> str | None:
        owner: str | None = None
        for event in events:
            where = self.tables.place(event)
            if event["kind"] == "assigned" and where is not None:
                if where == place:
                    owner = event["member"]
                elif where.cluster != place.cluster:
                    owner = None  # its group is in another cluster
            elif event["member"] == owner and (event["kind"] in ("left", "killed") or where in (None, place)):
                owner = None
        return owner

    def _moves(self) -> Iterator[Opinion]:
        """The steps of the plan, how long clients waited, and since when targets lack messages."""
        right, plan = set(), self.of.findings.get("plan") or {}
        for step in self.tables.rows("plan"):
            right.add((step["step"], self._s(step["started_ns"]), self._s(step["ended_ns"] or self.end)))
        waits = [("writes", plan.get("rto_writes"))]
        waits += [(f"reads of {row['group']}", row["rto"]) for row in plan.get("groups") or []]
        for what, wait in waits:
            if wait is not None:
                right.add((f"RTO, {what}", self._s(wait["from_ns"]), self._s(wait["to_ns"])))
        for row in self.of.findings.get("mirrors") or []:
            since = row["unmirrored_since_ns"]
            if since is not None and row["rpo_messages"] is not None:
                end = max(since, row["ended_ns"] or self.end)
                right.add((f"RPO, {row['mirror']}", self._s(since), self._s(end)))
        told = {(bar.row, bar.begin, bar.end) for bar in self.shown.moves}
        yield Opinion("timeline: moves", TRUE if told == right else FALSE, f"{told ^ right}")

    def _deposed(self) -> Iterator[Opinion]:
        """Who went on acknowledging after another had been elected, and until when."""
        right = set()
        for row in self.of.findings.get("leader_changes") or []:
            place = self.tables.place_of(row.get("cluster"), row["topic"], row["partition"])
            if row["two_leaders_ms"] and row["old_leader"] is not None:
                times = self._s(row["elected_ns"]), self._s(row["last_deposed_ack_ns"])
                right.add((f"{place} deposed", f"broker {row['old_leader']}", *times))
        bars = (bar for bar in self.shown.leaders if bar.row.endswith(" deposed"))
        told = {(bar.row, bar.kind, bar.begin, bar.end) for bar in bars}
        right = {one for one in right if one[2] < one[3]}
        yield Opinion("timeline: deposed leaders", TRUE if told == right else FALSE, f"{told ^ right}")

    # Marks and samples.

    def _marks(self) -> Iterator[Opinion]:
        """Every broker and member that came or went, and every change of a leader or an ISR, and no other; of
        changes of one ms it is not known which came first, so they need not be shown.
        """
        right: Counter[tuple[float, str]] = Counter()
        unsure: set[tuple[float, str]] = set()
        for event in self.tables.rows("cluster_events"):
            if event["kind"] in _OF_BROKERS and self._within(event["at_ns"]):
                right[self._s(event["at_ns"]), f"broker {event['broker']} {event['kind']}"] += 1
        for event in self.tables.rows("group_events"):
            if event["kind"] in _OF_MEMBERS and self._within(event["at_ns"]):
                verb = "was killed" if event["kind"] == "killed" else event["kind"]
                right[self._s(event["at_ns"]), f"{event['member']} of {event['group']} {verb}"] += 1
        for place in self.of.failovers.places():
            often = Counter(event["at_ns"] // MS for event in self.tables.events_of(place))
            for event, text in self._changes(place):
                if often[event["at_ns"] // MS] > 1:
                    unsure.add((self._s(event["at_ns"]), text))
                elif text and self._within(event["at_ns"]):
                    right[self._s(event["at_ns"]), text] += 1
        yield from self._all_shown("brokers, members, leaders and ISRs", right, unsure, "rebalance")
        begun = Counter(
            (self._s(one["started_ns"]), f"{one['group']}: {one['trigger']}")
            for one in self.of.findings.get("rebalances") or []
            if self._within(one["started_ns"])
        )
        yield from self._all_shown("rebalances", begun, set(), None)

    def _all_shown(
        self, what: str, right: Counter[Any], unsure: set[Any], other: str | None
    ) -> Iterator[Opinion]:
        """Whether the marks are these; `other`: of all kinds but this one, else of rebalances."""
        mine = (mark for mark in self.shown.marks if (mark.kind == "rebalance") is (other is None))
        told = Counter((mark.at, mark.text if other else mark.text.partition("; ")[0]) for mark in mine)
        wrong = [one for one in (right - told) + (told - right) if one not in unsure]
        yield Opinion(f"timeline: {what}", FALSE if wrong else TRUE, f"{wrong[:4]}")

    def _changes(self, place: Place) -> Iterator[tuple[Row, str]]:
        """Each event of a partition, and how it is shown; empty if nothing changed."""
        leader: int | None = None
        led, isr = False, None
        for event in self.tables.events_of(place):
            text, members = "", ", ".join(map(str, event["isr"] or []))
            if event["kind"] == "leader":
                if led and leader != event["leader"]:
                    now = event["leader"]
                    leads = "no leader of" if now is None or now < 0 else f"broker {now} leads"
                    in_sync = f", ISR {members}" if members else ""
                    text = f"{leads} {place} (epoch {event['leader_epoch']}{in_sync})"
                leader, led = event["leader"], True
            elif event["isr"] is not None and event["isr"] != isr:
                text = f"ISR of {place}: {members or 'empty'}"
            isr = isr if event["isr"] is None else event["isr"]
            yield event, text

    def _within(self, at: int) -> bool:
        return bool(0 <= (at - self.shown.began_ns) / SECOND <= self.shown.end_s)

    def _lag(self, of: str, samples: Iterable[tuple[int, float]], shown: Iterable[Any]) -> Opinion:
        """The greatest sample of each interval, and nothing else."""
        width, most = max(self.shown.end_s / _SAMPLES, 0.001), dict[int, tuple[float, int]]()
        for at, lag in sorted((self._s(at), round(lag)) for at, lag in samples if self._within(at)):
            if lag > most.get(int(at / width), (0.0, -1))[1]:
                most[int(at / width)] = at, lag
        told = sorted((point.at, point.lag) for point in shown if point.group == of)
        right = sorted(most.values())
        words = f"timeline: lag of {of}"
        return Opinion(words, TRUE if told == right else FALSE, f"{set(told) ^ set(right)}")

    def _in_stores(self) -> Iterator[Opinion]:
        """What stores had taken and not given back, somewhere in the step of each point (up to a second)."""
        rows = [(row["at_ns"], 1) for row in self.tables.rows("kept")]
        changes = sorted(rows + [(row["at_ns"], -1) for row in self.tables.rows("replayed")])
        for point in self.shown.in_stores:
            begin = self.shown.began_ns + round(point.at * SECOND)
            had = sum(more for at, more in changes if at < begin)
            during = [more for at, more in changes if begin <= at <= begin + SECOND]
            allowed = {max(had + some, 0) for some in (0, *accumulate(during))}
            right = point.messages in allowed
            yield Opinion(f"timeline: in stores at {point.at}", TRUE if right else FALSE, f"{allowed}")
        yield one_of("timeline: stores", bool(self.shown.in_stores), {bool(changes)})


def _by_row(bars: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for bar in bars:
        found.setdefault(bar.row, []).append(bar)
    return found


def _apart(told: dict[Any, Any], right: dict[Any, Any]) -> list[Any]:
    """The first keys whose values differ, with both."""
    keys = [key for key in {*told, *right} if (told.get(key) or 0) != (right.get(key) or 0)]
    return [(key, told.get(key), right.get(key)) for key in keys[:4]]
