"""Latencies, rates, and the states of partitions and groups at a time, from the raw tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from second_opinion.answers import FALSE, NOT_DECIDABLE, TRUE, Opinion, equal, one_of, scope_words
from second_opinion.effects import FOREVER
from second_opinion.raw import MS, SECOND, Place, Row

if TYPE_CHECKING:
    from second_opinion.opinion import Examiner

_SHARES = {"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1.0}
_WHENS = ("before", "during", "after")
ENOUGH = 0.8  # of the producers' rates: less is a slump
Took = tuple[int, int]  # when something was attempted, and when it was there


class Measures:
    """Of one run."""

    def __init__(self, of: Examiner) -> None:
        self.of, self.tables, self.findings = of, of.tables, of.findings

    def all(self) -> Iterator[Opinion]:
        """Every opinion."""
        yield from self._latencies()
        yield from self._rates()
        for row in self.findings.get("availability") or []:
            yield from self._load_of(row)
        for table in self.findings.get("partition_tables") or []:
            yield from self._partition_table(table)
        for row in self.findings.get("groups") or []:
            yield from self._lag(row)
            yield from self._settings_of(row)
        recorded = {row["id"]: row for row in self.tables.rows("faults")}
        for row in self.findings.get("faults") or []:
            yield from self._recorded(row, recorded.get(row["id"], {}))

    # Latencies.

    @cached_property
    def _acks(self) -> list[Took]:
        sends = self.tables.rows("sends")
        acked = [s for s in sends if s["outcome"] == "acked" and s["done_ns"] is not None]
        return [(s["attempt_ns"], s["done_ns"]) for s in acked]

    @cached_property
    def _deliveries(self) -> dict[str, list[Took]]:
        """By group: first deliveries of what was sent."""
        attempts = {(s["producer"], s["seq"]): s["attempt_ns"] for s in self.tables.rows("sends")}
        return {
            group: [(attempts[who], at) for who, at in first.items() if who in attempts]
            for group, first in self.tables.first_delivery.items()
        }

    def _latencies(self) -> Iterator[Opinion]:
        told = self.findings["latency_ms"]
        every = [one for mine in self._deliveries.values() for one in mine]
        yield from _percentiles("latency: ack", told["ack"], [self._acks])
        yield from _percentiles("latency: end to end", told["end_to_end"], [every])
        for row in self.findings.get("groups") or []:
            mine = self._deliveries.get(row["group"], [])
            yield from _percentiles(f"latency: {row['group']}", row["end_to_end_ms"], [mine])
        for row in told["around_faults"]:
            number, words = _WHENS.index(row["when"]), f"latency {row['when']} the faults"
            for name, some in (("ack", self._acks), ("end_to_end", every)):
                parts = [_around(some, *span)[number] for span in self._spans]
                yield from _percentiles(f"{words}: {name}", row[name], parts or [[]])
        expected = _WHENS if self._spans else ()
        yield one_of("latency: parts", tuple(row["when"] for row in told["around_faults"]), {expected})

    @cached_property
    def _spans(self) -> list[Took]:
        """From when the first fault was injected to the last heal."""
        some = [e for e in self.of.effects.all if e.fault != "noop"]
        return [(min(e.asked for e in some), max(e.healed for e in some))] if some else []

    # Rates.

    def _rates(self) -> Iterator[Opinion]:
        told, sends = self.findings["rates"], self.tables.rows("sends")
        attempts = [s["attempt_ns"] for s in sends]
        first, last = min(attempts, default=0), max(attempts, default=0)
        acked = sum(s["outcome"] == "acked" for s in sends)
        acks = [done for _, done in self._acks]
        yield equal("rates: sent_per_s", told["sent_per_s"], {_rate(len(sends), first, last)}, 1e-6)
        known = {_rate(acked, first, max(acks, default=0))}
        yield equal("rates: acked_per_s", told["acked_per_s"], known, 1e-6)
        yield equal("rates: ordered_per_s", told["ordered_per_s"], {self._ordered}, 1e-9)
        yield from self._cpu(told, first, max(acks, default=0), acked)
        for row in self.findings.get("groups") or []:
            times = [d["polled_ns"] for d in self.tables.rows("deliveries") if d["group"] == row["group"]]
            rate = _rate(len(times), first, max(times)) if times else None
            yield equal(f"rates: delivered to {row['group']}", row["delivered_per_s"], {rate}, 1e-6)
        if self._ordered is None or acked != len(acks):
            yield one_of("rates: without an order", (told["means"], told["slumps"]) == ([], []), {True})
            return
        load = range(-(-first // SECOND), last // SECOND)
        yield from self._means(told["means"], load)
        yield from self._slumps(told["slumps"], load)

    def _cpu(self, told: Row, begin: int, end: int, acked: int) -> Iterator[Opinion]:
        """Of all nodes, from the first attempt to the last acknowledgement, by acknowledged message."""
        by_process: dict[tuple[str | None, str, str], list[tuple[int, float]]] = defaultdict(list)
        for row in self.tables.rows("samples"):
            if row["name"] == "cpu_s":
                labels = row["labels"]
                process = row["cluster"], labels.get("node"), labels.get("pid")
                by_process[process].append((row["at_ns"], row["value"]))
        used, begun, known = 0.0, 0, False
        for samples in map(sorted, by_process.values()):
            earlier = [value for at, value in samples if at <= begin]
            known |= bool(earlier)
            if samples[0][0] <= end:
                used += _between(samples, end) - max(earlier, default=0.0)
                begun += not earlier
        known &= bool(acked and end)
        others = 1 + len(self.tables.manifest.get("shares_cluster_with") or [])
        each = used * 1e6 / acked / others if known else None
        near = 1e-6 * (each or 0)
        yield equal("rates: cpu_us_per_message", told["cpu_us_per_message"], {each}, near)
        begins = told["cpu_processes_begun"]
        yield one_of("rates: cpu_processes_begun", begins, {begun if known else 0})

    @cached_property
    def _ordered(self) -> float | None:
        """What all producers are to send a second; null if one has no rate or starts later, or for pipes."""
        specs = list(self.tables.producer_specs.values())
        rates = [float(s["rate"]) for s in specs if s.get("rate", "max") != "max" and not s.get("starts")]
        pipes = any(spec.get("produces") for spec in self.tables.group_specs.values())
        return sum(rates) if specs and len(rates) == len(specs) and not pipes else None

    @cached_property
    def _by_second(self) -> dict[str, Counter[int]]:
        deliveries = (d["polled_ns"] for d in self.tables.rows("deliveries"))
        return {
            "sent": Counter(s["attempt_ns"] // SECOND for s in self.tables.rows("sends")),
            "acked": Counter(done // SECOND for _, done in self._acks),
            "delivered": Counter(at // SECOND for at in deliveries),
        }

    def _means(self, told: list[Row], load: range) -> Iterator[Opinion]:
        """Of the whole seconds before the one in which the first fault was injected, of those after the one
        in which the last was healed, and of the others.
        """
        parts = {}
        for begin, end in self._spans:
            heal = -(-end // SECOND)
            edges = [load.start, *(min(max(one, load.start), load.stop) for one in (begin // SECOND, heal))]
            parts = dict(zip(_WHENS, zip(edges, [*edges[1:], load.stop], strict=True), strict=True))
        wanted = {when: range(*edges) for when, edges in parts.items() if edges[0] < edges[1]}
        yield one_of("means: parts", tuple(row["when"] for row in told), {tuple(wanted)})
        for row in told:
            seconds = wanted.get(row["when"], range(0))
            words = f"means {row['when']} the faults"
            yield one_of(f"{words}: seconds", row["seconds"], {len(seconds)})
            for name, counts in self._by_second.items():
                mean = sum(counts[second] for second in seconds) / max(len(seconds), 1)
                yield equal(f"{words}: {name}_per_s", row[f"{name}_per_s"], {mean}, 1e-6)

    def _slumps(self, told: list[Row], load: range) -> Iterator[Opinion]:
        groups = self.findings.get("groups") or []
        names = (("acked",) if len(groups) != 1 else ("acked", "delivered")) if load else ()
        yield one_of("slumps: of what", tuple(row["what"] for row in told), {names})
        below = ENOUGH * (self._ordered or 0)
        for row in told:
            low = [self._by_second[row["what"]][second] < below - 1e-9 for second in load]
            longest = run = 0
            for one in low:
                run = run + 1 if one else 0
                longest = max(longest, run)
            words = f"slump: {row['what']}"
            yield equal(f"{words}: below", row["below_per_s"], {below}, 1e-6)
            yield one_of(words, (row["longest_s"], row["total_s"]), {(longest, sum(low))})

    # Availability.

    def _load_of(self, row: Row) -> Iterator[Opinion]:
        scope = self.of.scope(row)
        words = f"availability of {scope_words(scope)}"
        within = row["within_timeout"]
        share = within / row["messages"] if row["messages"] and within is not None else None
        yield equal(f"{words}: within_timeout_share", row["within_timeout_share"], {share}, 1e-9)
        if self.of.silences.backwards(scope):
            return
        lengths = {load / SECOND for load in self.of.silences.loads(scope)}
        yield equal(f"{words}: load_s", row["load_s"], lengths, 1e-6)

    # Partitions.

    def _partition_table(self, table: Row) -> Iterator[Opinion]:
        at, when = table["at_ns"], table["when"]
        yield self._moment(at, when)
        told = [self._named(row) for row in table["partitions"]]
        yield one_of(f"table {when}: partitions", tuple(sorted(told)), {tuple(sorted(self._recorded_places))})
        for row in table["partitions"]:
            yield from self._partition(f"table {when}", row, self._named(row), at)

    def _moment(self, at: int, when: str) -> Opinion:
        effects = [e for e in self.of.effects.all if e.fault != "noop"]
        ended = self.tables.manifest.get("ended_ns")
        words = f"table {when}: its time"
        if when == "before":
            first = min((e.begin for e in effects), default=None)
            known = first is not None and min(e.asked for e in effects) <= at <= first
            return Opinion(words, TRUE if known else FALSE, f"the first took effect at {first}")
        if when == "during":
            some = [e for e in effects if e.brokers] or effects
            ends = [(e.heal_began, e.healed) if e.healed < FOREVER else (ended, ended) for e in some]
            low, high = max(begin for begin, _ in ends), max(end for _, end in ends)
            return Opinion(words, TRUE if low <= at <= high else FALSE, f"between {low} and {high}")
        return one_of(words, at, {ended})

    def _named(self, row: Row) -> Place:
        return self.tables.place_of(row.get("cluster"), row["topic"], row["partition"])

    @cached_property
    def _recorded_places(self) -> set[Place]:
        return set(self.of.failovers.places())

    def _partition(self, words: str, row: Row, place: Place, at: int) -> Iterator[Opinion]:
        words = f"{words}: {place}"
        steps = [e for e in self.of.effects.all if e.target == f"topic {row['topic']}"]
        gone = any(e.fault in ("recreate", "delete-topic") and e.begin <= at for e in steps)
        if row["deleted"] or gone:
            yield Opinion(f"{words}: deleted", NOT_DECIDABLE if gone else FALSE, "by no step")
            return
        isr = self.of.failovers.isr_at(place, at)
        told = None if row["isr"] is None else tuple(row["isr"])
        yield one_of(f"{words}: isr", told, isr or {None})
        yield one_of(f"{words}: replicas", tuple(sorted(row["replicas"])), {self._replicas(place)})
        events = self.tables.events_of(place)
        since = min(e["at_ns"] for e in events)
        polled = any(e.get("within_ns") is not None for e in self.tables.rows("cluster_events"))
        near = {True, False} if since // MS == at // MS else {polled or since < at}
        yield one_of(f"{words}: created", row["created"], near)
        if row["leader"] is not None and row["leader"] >= 0:
            yield one_of(f"{words}: leader_down", row["leader_down"], self._down(row["leader"], at))
        else:
            yield one_of(f"{words}: leader_down", row["leader_down"], {False})

    def _replicas(self, place: Place) -> tuple[int, ...]:
        assigned = self.tables.topic_spec(place.cluster, place.topic).get("assignment")
        if assigned and place.partition < len(assigned):
            return tuple(sorted(assigned[place.partition]))
        return tuple(sorted({b for e in self.tables.events_of(place) for b in e["isr"] or ()}))

    def _down(self, broker: int, at: int) -> set[bool]:
        """Whether its process was gone, or was back and not unfenced: just before a time, and at it."""
        effects = self.of.effects
        moments = (at - MS, at - 1, at, at + MS)
        return {not effects.is_up(broker, one) or effects.is_booting(broker, one) for one in moments}

    # Groups.

    def _lag(self, row: Row) -> Iterator[Opinion]:
        name, told = row["group"], row["lag"]
        samples = [sample.lag for sample in self.of.groups.lag(name)]
        yield one_of(f"lag of {name}: max", told["max"], {round(max(samples)) if samples else None})
        final = self._final(name)
        if final is not None:
            yield one_of(f"lag of {name}: final", told["final"], {final})

    def _final(self, group: str) -> int | None:
        """What its last commits left, in a run of one cluster where it had read from the start."""
        spec = self.tables.group_specs.get(group) or {}
        reset = (spec.get("config") or {}).get("auto.offset.reset", "earliest")
        if self.tables.first_cluster or spec.get("type") == "share" or reset != "earliest":
            return None
        commits: dict[Place, Row] = {}
        for event in self.tables.rows("group_events"):
            place = self.tables.place(event)
            if (event["group"], event["kind"]) != (group, "committed") or place is None:
                continue
            if place not in commits or event["at_ns"] >= commits[place]["at_ns"]:
                commits[place] = event
        ends = {p: e["end_offset"] for p, e in self.tables.ends.items()}
        mine = {p: end for p, end in ends.items() if self.of.groups.topics(group, p.cluster, p.topic)}
        if not commits or commits.keys() - mine.keys():
            return None
        offsets: dict[Place, int] = {p: max(commits[p]["offset"], 0) if p in commits else 0 for p in mine}
        return sum(max(0, end - offsets[place]) for place, end in mine.items())

    def _settings_of(self, row: Row) -> Iterator[Opinion]:
        name = row["group"]
        recorded = {one["group"]: one for one in self.tables.manifest.get("groups") or []}
        if name in recorded:
            yield one_of(f"group {name}: drained", row["drained"], {recorded[name]["drained"]})
            known = recorded[name].get("isolation")
            if known is not None:
                yield one_of(f"group {name}: isolation", row["isolation"], {known})
        if name in self.tables.group_specs:
            kind = self.tables.group_specs[name].get("type", "classic")
            yield one_of(f"group {name}: type", row["type"], {kind})
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for event in self.tables.rows("share_events"):
            if event["group"] == name:
                counts[event["member"]][event["kind"]] += 1
        for one in row["members"]:
            for kind in ("accepted", "released", "rejected"):
                if kind in one:
                    words = f"group {name}: {one['member']}: {kind}"
                    yield one_of(words, one[kind], {counts[one["member"]][kind]})

    # Faults.

    def _recorded(self, row: Row, recorded: Row) -> Iterator[Opinion]:
        """What the engine recorded of a fault, as it did."""
        words = f"fault {row['id']}"
        names = ("fault", "target", "brokers", "injected_ns", "effective_ns", "bit", "proof")
        ends = {e.id: e.healed for e in self.of.effects.all}
        healed = recorded.get("healed_ns") or ends.get(row["id"])
        yield one_of(f"{words}: healed_ns", row["healed_ns"], {None if healed == FOREVER else healed})
        for name in (*names, "event", "event_ns", "noticed_ns"):
            told, known = row[name], recorded.get(name)
            yield Opinion(f"{words}: {name}", TRUE if told == known else FALSE, f"recorded: {known}")
        window = row["sent_in_window"]
        share = row["affected"] / window if window else None
        yield equal(f"{words}: affected_share", row["affected_share"], {share}, 1e-9)


def _rate(count: int, begin: int, end: int) -> float:
    return count * SECOND / (end - begin) if end > begin else 0.0


def _between(samples: list[tuple[int, float]], at: int) -> float:
    """A counter between two samples, where it grows evenly; after the last one it stays."""
    for (one, value), (two, later) in pairwise(samples):
        if one <= at < two:
            return value + (later - value) * (at - one) / (two - one)
    return samples[-1][1] if at >= samples[-1][0] else samples[0][1]


def _around(some: Iterable[Took], begin: int, end: int) -> tuple[list[Took], list[Took], list[Took]]:
    """What was there before `begin`, what was attempted from `end` on, and the rest between the two."""
    parts: tuple[list[Took], list[Took], list[Took]] = ([], [], [])
    for took in some:
        parts[2 if took[0] >= end else 0 if took[1] < begin else 1].append(took)
    return parts


def _percentiles(words: str, told: Row, choices: list[list[Took]]) -> Iterator[Opinion]:
    """In whole microseconds; between two measurements, in proportion."""
    every = [sorted((there - begin) // 1_000 for begin, there in some) for some in choices]
    for name, share in _SHARES.items():
        found = {_percentile(times, share) for times in every}
        yield equal(f"{words}: {name}", told[name], found, 0.000_5)


def _percentile(times: list[int], share: float) -> float | None:
    if not times:
        return None
    below, part = divmod((len(times) - 1) * share, 1)
    low, high = times[int(below)], times[min(int(below) + 1, len(times) - 1)]
    return (low + (high - low) * part) / 1_000
