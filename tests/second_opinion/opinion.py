"""What the raw tables say of each statement of findings.json: true, false, or not decidable, with the reason.

A statement is false only if no reading of the record and of the law allows it; if only some readings do, or
the evidence lacks what would tell, it is not decidable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from second_opinion.accounts import Accounts
from second_opinion.answers import (
    FALSE,
    NOT_DECIDABLE,
    TRUE,
    Opinion,
    after,
    equal,
    largest,
    one_of,
    scope_words,
    smallest,
)
from second_opinion.causes import Causes
from second_opinion.claims import Claims
from second_opinion.copies import Copies
from second_opinion.counts import Counts
from second_opinion.effects import FOREVER, Effect, Effects, hits_producer
from second_opinion.failovers import Election, Failovers
from second_opinion.figures import Figures
from second_opinion.groups import Backlog, Groups
from second_opinion.measures import Measures
from second_opinion.raw import MOMENT, MS, SECOND, Place, Row, RunTables
from second_opinion.rebalances import Rebalances
from second_opinion.rereads import Rereads
from second_opinion.silences import Scope, Silence, Silences
from second_opinion.statements import Statements
from second_opinion.story import Story, Wait, readings_of
from second_opinion.transactions import Transactions

# A stretch this short may come from the order of two records, and not from what happened.
BLINK = 3 * MS


def opinions(folder: Path, findings: Row) -> Iterator[Opinion]:
    """Of every statement that can be recomputed. `findings`: the document as JSON has it."""
    return Examiner(folder).opinions(findings)


class Examiner:
    """One run folder; what was read and found in it serves several documents about it."""

    def __init__(self, folder: Path) -> None:
        self.findings: Row = {}
        self.tables = RunTables(folder)
        self.effects = Effects(self.tables)
        self._effects: dict[frozenset[str], Effects] = {frozenset(): self.effects}
        self.silences = Silences(self.tables)
        self.transactions, self.rereads = Transactions(self.tables), Rereads(self.tables)
        self.failovers = Failovers(self.tables, self.effects, self.silences)
        self.groups = Groups(self.tables)
        self.causes = Causes(self.tables, self.failovers)
        self.failovers.held_up = self.causes.held_up
        self.causes.waits = self._waits_of
        self.rebalances = Rebalances(self.tables, self.effects)
        self._stories: dict[Any, Story] = {}

    def opinions(self, findings: Row) -> Iterator[Opinion]:
        """Every opinion about these findings, as it is asked for: of one document after the other."""
        self.findings = findings
        yield from self._standstills()
        yield from self._unavailability()
        yield from self._availability()
        for fault in self.findings.get("faults") or []:
            yield from self._fault(fault)
        yield from self._leader_changes()
        yield from self._partition_tables()
        yield from self._rebalances()
        yield from Claims(self).all()
        yield from Figures(self).all()
        yield from Measures(self).all()
        yield from Counts(self).all()
        yield from Copies(self).all()
        yield from Accounts(self).all()
        yield from Statements(self).all()

    # Silences.

    def scope(self, row: Row) -> Scope:
        """Whose silence a row of findings is about."""
        place = None
        if row.get("topic") is not None:
            place = self.tables.place_of(row.get("cluster"), row["topic"], row["partition"])
        return Scope(row.get("group"), place, row.get("producer"))

    def _standstills(self) -> Iterator[Opinion]:
        told: dict[Scope, list[Row]] = {}
        for row in self.findings.get("standstills") or []:
            told.setdefault(self.scope(row), []).append(row)
        for scope, rows in told.items():
            for row in rows:
                yield from self.silence(f"standstill of {scope_words(scope)}", scope, row)
        missing = [
            opinion
            for scope in self.silences.scopes()
            for opinion in self._missing(scope, told.get(scope, []))
        ]
        # Where there are many the shorter ones are left out, and counted.
        if len(missing) > (self.findings.get("standstills_left_out") or 0):
            yield from missing

    def silence(self, words: str, scope: Scope, row: Row) -> Iterator[Opinion]:
        """Whether there was this silence, and whether what ended it is right."""
        words = f"{words} at {row['from_ns']}"
        silence = Silence(row["from_ns"], row["to_ns"], row.get("ended_by") is not None)
        readings = self.silences.readings(scope)
        if not self.tables.acked_times_known and scope.group is None:
            yield Opinion(words, FALSE, "no acknowledgement has a time")
            return
        allowed = {s[:2] for found in readings for s in found}
        first = {s[:2] for s in readings[0]}
        if silence[:2] not in allowed:
            if self.silences.backwards(scope):
                yield Opinion(words, NOT_DECIDABLE, "something came before it was attempted")
                return
            yield Opinion(words, FALSE, f"recomputed: {sorted(allowed)[:5]}")
            return
        yield Opinion(words, TRUE if silence[:2] in first else NOT_DECIDABLE, "")
        length = row.get("length_ms")
        if length is not None:
            yield equal(f"{words}: length_ms", length, {(silence.end - silence.begin) / MS}, 0.001)
        ended = any(s == (silence.begin, silence.end, True) for found in readings for s in found)
        open_ = any(s == (silence.begin, silence.end, False) for found in readings for s in found)
        yield self.ended_by(
            f"{words}: ended_by {row.get('ended_by')}", scope, silence, {ended, not open_}, row
        )
        yield from self._fencings(words, scope, silence, row.get("waited_for") or [])

    def _missing(self, scope: Scope, rows: list[Row]) -> Iterator[Opinion]:
        if self._left_out(scope, rows) or (scope.group is None and not self.tables.acked_times_known):
            return
        groups = {None, *(g["group"] for g in self.findings.get("groups") or [])}
        if scope.group not in groups or self._reads_copies(scope.group):
            return
        if self.silences.backwards(scope):
            return
        told = {(row["from_ns"], row["to_ns"]) for row in rows}
        for silence in self.silences.of(scope):
            in_all = all(any(s[:2] == silence[:2] for s in found) for found in self.silences.readings(scope))
            if silence[:2] not in told and in_all:
                words = f"no standstill of {scope_words(scope)} at {silence.begin}"
                yield Opinion(words, FALSE, f"there was one of {(silence.end - silence.begin) / MS:.0f} ms")

    def _left_out(self, scope: Scope, rows: list[Row]) -> bool:
        """Whether more silences of this kind may not be told: the longest hundred are, of each group."""
        every = self.findings.get("standstills") or []
        kin = [
            r for r in every if r["group"] == scope.group and (r["topic"] is None) == (scope.place is None)
        ]
        return len(rows) >= 100 or len(kin) >= 100

    def _reads_copies(self, group: str | None) -> bool:
        """Whether a group reads in another cluster than the producers': no silences are defined of it."""
        spec = self.tables.group_specs.get(group or "") or {}
        cluster = spec.get("cluster") or self.tables.first_cluster
        return group is not None and all(s["cluster"] != cluster for s in self.tables.rows("sends"))

    def _unavailability(self) -> Iterator[Opinion]:
        told = set()
        for row in self.findings.get("unavailability") or []:
            scope = self.scope(row)
            told.add(scope)
            words = f"unavailability of {scope_words(scope)}"
            longest = [
                max((s.end - s.begin for s in f), default=0) / MS for f in self.silences.readings(scope)
            ]
            if not self.tables.acked_times_known or not max(longest):
                yield Opinion(words, FALSE, "there was no silence")
                continue
            yield equal(f"{words}: longest_ms", row["longest_ms"], set(longest), 0.001)
            yield from self.silence(words, scope, {**row, "length_ms": row["longest_ms"]})
        for place, sends in self.tables.sends_of.items():
            for producer in sorted({s["producer"] for s in sends}):
                scope = Scope(None, place, producer)
                if scope not in told and self.silences.of(scope) and self.tables.acked_times_known:
                    yield Opinion(f"no unavailability of {scope_words(scope)}", FALSE, "there was a silence")

    # What a silence waited for.

    def _fencings(self, words: str, scope: Scope, silence: Silence, waits: list[Row]) -> Iterator[Opinion]:
        """Whether each election that followed a fencing did: of the one that led before, in the silence, and
        not before the one that is elected was fenced itself.
        """
        places = self._resumed(scope, silence)
        rows = [e for e in self.tables.rows("cluster_events") if e["kind"] == "fenced"]
        for wait in waits:
            allowed: set[int | None] = set()
            last = False
            for place in places:
                since = min(self._begins(scope, place, silence)) // MS * MS
                elections = [e for e in self.tables.events_of(place) if e["kind"] == "leader"]
                for number, event in enumerate(elections):
                    if number == 0 or event["at_ns"] > wait["to_ns"] + MS or event["at_ns"] < since:
                        continue
                    before = [e for e in elections[:number] if e["leader"] not in (None, -1)]
                    # Of several elections in one ms, which came first is not certain.
                    led = {e["leader"] for e in before[-1:]}
                    led |= {e["leader"] for e in before if e["at_ns"] // MS == event["at_ns"] // MS}
                    of = [e for e in rows if e["cluster"] == event["cluster"] and since <= e["at_ns"]]
                    then = {e["broker"]: e["at_ns"] for e in of if e["at_ns"] <= event["at_ns"] + MS}
                    found = {one for one in led if then.get(one, 0) > then.get(event["leader"], 0)}
                    allowed |= found
                    last |= len(led) == len(found) == 1 and event["at_ns"] // MS == wait["to_ns"] // MS
            if wait["condition"] != "election":
                allowed = {None}
            elif not last or places[1:] or any(map(self.tables.polled, places)):
                allowed.add(None)
            yield one_of(f"{words}: fenced", wait.get("fenced"), allowed)

    def story(self, place: Place, reading: Any) -> Story:
        """Stories of a partition in one reading."""
        key = place, reading
        if key not in self._stories:
            began = reading.heals_began
            if began not in self._effects:
                self._effects[began] = Effects(self.tables, began)
            of = self.tables, self._effects[began], place, reading
            self._stories[key] = Story(*of, self.transactions, self.rereads)
        return self._stories[key]

    def ended_by(self, words: str, scope: Scope, silence: Silence, ended: set[bool], row: Row) -> Opinion:
        """Whether `ended_by`, and `waited_for` if there is one, are what the record shows."""
        claimed = row.get("ended_by")
        if True not in ended:
            return Opinion(words, TRUE if claimed is None else FALSE, "no acknowledgement ended it")
        if claimed is None:
            return Opinion(words, FALSE if ended == {True} else NOT_DECIDABLE, "an acknowledgement ended it")
        places = self._resumed(scope, silence)
        if not places:
            return Opinion(words, NOT_DECIDABLE, "it is not known which partition went on first")
        waits = row.get("waited_for")
        tolerance = BLINK + max(self.tables.polled(p) for p in places)
        said: list[str] = []
        agreeing = seen = 0
        for place, begin, every in self._told(scope, places, silence):
            recomputed = _without_blinks(every)
            own = Silence(begin, silence.end, True)
            by = self._last(recomputed, scope, place, own) | self._last(every, scope, place, own)
            seen += 1
            agreeing += claimed in by and (waits is None or _same_waits(waits, recomputed, tolerance))
            text = ", ".join(f"{w.condition} {(w.end - w.begin) / MS:.0f} ms" for w in recomputed)
            if text not in said:
                said.append(text)
        told = f"recomputed: {' | '.join(said[:6]) or 'nothing'}"
        if not any(self.tables.events_of(p) for p in places):
            told = f"no leader is recorded; {told}"
            return Opinion(words, TRUE if agreeing else NOT_DECIDABLE, told)
        if not agreeing:
            # "Not known" is not false where the record has no wait, and only the client is left.
            undecided = said == [""] or (
                scope.place is None and not self._ended_alone(scope, places, silence)
            )
            # Nor where nobody led when the acknowledgement came.
            led = [self.failovers.leaders_at(place, silence.end) for place in places]
            undecided |= scope.group is None and all({who < 0 for who, _ in one} == {True} for one in led)
            unsaid = row.get("decidable") is False or (claimed == "unknown" and undecided)
            return Opinion(words, NOT_DECIDABLE if unsaid else FALSE, told)
        return Opinion(words, TRUE if agreeing == seen else NOT_DECIDABLE, told)

    def _waits_of(self, scope: Scope, silence: Silence) -> list[list[Wait]]:
        """Of a partition, as if it had been silent from the beginning of `silence` on."""
        places = [scope.place] if scope.place is not None else []
        return [
            self.story(place, reading).waits(silence.begin, silence.end, scope.group)
            for place in places
            for reading in readings_of(self.tables, self.effects, place, silence.end)
        ]

    def _told(
        self, scope: Scope, places: list[Place], silence: Silence
    ) -> Iterator[tuple[Place, int, list[Wait]]]:
        """The story of a silence in each reading."""
        for place in places:
            for reading in readings_of(self.tables, self.effects, place, silence.end):
                for begin in self._begins(scope, place, silence):
                    waits = self.story(place, reading).waits(begin, silence.end, scope.group, scope.producer)
                    yield place, begin, waits

    def _resumed(self, scope: Scope, silence: Silence) -> list[Place]:
        """The partitions that went on at the end of a silence."""
        if scope.place is not None:
            return [scope.place]
        if scope.group is None:
            sends = [s for s in self.tables.rows("sends") if s["outcome"] == "acked"]
            ended = [
                s
                for s in sends
                if s["done_ns"] is not None and max(s["done_ns"], s["attempt_ns"]) == silence.end
            ]
        else:
            first = self.tables.first_delivery.get(scope.group, {})
            sends = self.tables.rows("sends")
            ended = [s for s in sends if first.get((s["producer"], s["seq"])) == silence.end]
        return sorted({p for s in ended if (p := self.tables.place(s)) is not None}, key=str)

    def _begins(self, scope: Scope, place: Place, silence: Silence) -> set[int]:
        """From when its story is told: its own beginning, or that of the partition's own silence."""
        found = {silence.begin}
        if scope.place is None:
            for own in self.silences.of(Scope(scope.group, place)):
                if own.end == silence.end:
                    found.add(own.begin)
        return found

    def _ended_alone(self, scope: Scope, places: list[Place], silence: Silence) -> bool:
        """Whether one of the partitions that went on had a silence of its own up to then."""
        ends = {own.end for place in places for own in self.silences.of(Scope(scope.group, place))}
        return silence.end in ends

    def _last(self, waits: list[Wait], scope: Scope, place: Place, silence: Silence) -> set[str]:
        """What `ended_by` may be: the last wait, else the client if the record shows that it was held up."""
        if waits:
            return {waits[-1].condition}
        where = place if scope.place else None
        given_up = [] if scope.group is not None else self.given_up(where)
        if any(silence.begin <= at <= silence.end for at, p in given_up if scope.producer in (None, p)):
            return {"client"}
        meanwhile = [e for e in self.effects.all if e.begin < silence.end and e.healed > silence.begin]
        producers = self.senders(where) if scope.producer is None else {scope.producer}
        if any(hits_producer(e, p) for e in meanwhile for p in producers):
            # whether it was this producer that the partition waited for is left open
            return {"client"} if scope.producer is not None else {"client", "unknown"}
        return {"unknown"}

    @cache  # noqa: B019
    def given_up(self, place: Place | None) -> list[tuple[int, int]]:
        """When messages of a partition (null: of any) failed or were given up, and whose."""
        sends = self.tables.rows("sends") if place is None else self.tables.sends_of.get(place, [])
        return [
            (s["done_ns"], s["producer"])
            for s in sends
            if s["outcome"] != "acked" and s["done_ns"] is not None
        ]

    @cache  # noqa: B019
    def senders(self, place: Place | None) -> set[int]:
        """The producers of a partition, or of any."""
        return {s["producer"] for s in self.tables.rows("sends") if place in (None, self.tables.place(s))}

    # Availability.

    def _availability(self) -> Iterator[Opinion]:
        for row in self.findings.get("availability") or []:
            scope = self.scope(row)
            words = f"availability of {scope_words(scope)}"
            if scope.group is None:
                quick = self.groups.producers_quick(scope.place)
            else:
                quick = self.groups.quick(scope.group, scope.place)
            if scope.group is None and not self.tables.acked_times_known:
                continue
            yield one_of(
                f"{words}: within_1s", (row["messages"], row["within_1s"]), {tuple(q) for q in quick}
            )
            if self.silences.backwards(scope):
                continue
            readings = self.silences.readings(scope)
            lengths = {tuple(s.end - s.begin for s in found) for found in readings}
            yield one_of(f"{words}: standstills", row["standstills"], {len(found) for found in lengths})
            longest = {max(found, default=0) / MS for found in lengths}
            yield equal(f"{words}: longest_standstill_ms", row["longest_standstill_ms"], longest, 0.001)
            total = {sum(found) / SECOND for found in lengths}
            yield equal(f"{words}: standstill_s", row["standstill_s"], total, 1e-6)

    # Faults.

    def effect(self, fault: str) -> Effect | None:
        """A fault that took effect, by its id."""
        return next((e for e in self.effects.all if e.id == fault), None)

    def judged_effects(self) -> list[Effect]:
        """Faults of brokers; a step that only adds something breaks no partition."""
        return [e for e in self.effects.of_brokers if e.fault not in ("noop", "grow", "reassign")]

    def _fault(self, row: Row) -> Iterator[Opinion]:
        effect, words = self.effect(row["id"]), f"fault {row['id']}"
        if effect is not None and effect.fault != "noop":
            yield from self._shared(words, row, effect)
        if effect is None or effect not in self.judged_effects():
            return
        elections = {place: self.failovers.elections(effect, place) for place in self.failovers.places()}
        times = [{after(e.at if e else None, effect) for e in found} for found in elections.values()]
        yield equal(f"{words}: election_ms", row["election_ms"], smallest(times), 1.001 + self._polled_ms())
        yield from self._affected(words, row, effect)
        yield from self._first_ack(words, row, effect, elections)
        yield from self._unavailable(words, row, effect)
        yield from self._stuck(words, row, effect)
        yield self._backlog(words, row, effect)
        if row.get("lag_ended_by") == "heal":
            turned = any(self._turned_at_the_heal(effect, group) for group in self.tables.groups)
            served = self._served_before_the_heal(effect, elections)
            text = "the lag turned at another time" if not turned else "new leaders served before the heal"
            yield Opinion(f"{words}: lag_ended_by", TRUE if turned and not served else FALSE, text)

    def _polled_ms(self) -> float:
        return max((self.tables.polled(p) for p in self.failovers.places()), default=0) / MS

    def _affected(self, words: str, row: Row, effect: Effect) -> Iterator[Opinion]:
        if not self.tables.acked_times_known:
            return
        sends = self.tables.rows("sends")
        if any(s["partition"] is None and s["attempt_ns"] >= effect.begin for s in sends):
            yield Opinion(f"{words}: affected", NOT_DECIDABLE, "some were kept or failed without a partition")
            return
        sums = {(0, 0)}
        for place in self.failovers.places():
            choices: set[tuple[int, int]] = set()
            for hit in self.failovers.hit(effect, place):
                windows = self.failovers.windows(effect, place) if hit else {None}
                choices |= {(w.sent, w.affected) if w else (0, 0) for w in windows}
            sums = {(a + c, b + d) for a, b in sums for c, d in choices}
            if len(sums) > 5000:
                yield Opinion(f"{words}: affected", NOT_DECIDABLE, "too many readings")
                return
        yield one_of(f"{words}: sent_in_window, affected", (row["sent_in_window"], row["affected"]), sums)

    def _first_ack(
        self, words: str, row: Row, effect: Effect, elections: dict[Place, set[Election | None]]
    ) -> Iterator[Opinion]:
        firsts = []
        for place, found in elections.items():
            times: set[float | None] = set()
            for election in found:
                acks = self.failovers.first_acks(place, election) if election else {None}
                times |= {after(at, effect) for at in acks}
            firsts.append(times)
        words = f"{words}: first_ack_after_ms"
        yield equal(words, row["first_ack_after_ms"], smallest(firsts), 0.001)

    def _unavailable(self, words: str, row: Row, effect: Effect) -> Iterator[Opinion]:
        if not self.tables.acked_times_known:
            yield equal(f"{words}: unavailable_ms", row["unavailable_ms"], {None}, 0)
            return
        found: list[tuple[Place, Silence, bool]] = []
        for place in self.failovers.places():
            for hit in self.failovers.hit(effect, place):
                own = [s for s in self.silences.of(Scope(place=place)) if s.end > effect.begin] if hit else []
                found += [(place, s, s.begin < effect.healed) for s in own]
        clipped = [(place, s, s.end - max(s.begin, effect.begin)) for place, s, _ in found]
        during = [one for one, (_, _, before) in zip(clipped, found, strict=True) if before]
        allowed = {max((one[2] for one in some), default=None) for some in (clipped, during)}
        allowed |= {one[2] for one in clipped}  # up to the end of recovery, which the law does not define
        lengths = {None if one is None else one / MS for one in allowed}
        sure = {p for p in self.failovers.places() if self.failovers.hit(effect, p) == {True}}
        if all(length < SECOND for place, _, length in during if place in sure):
            lengths.add(None)
        yield equal(f"{words}: unavailable_ms", row["unavailable_ms"], lengths, 0.001)
        mine = [
            (p, s)
            for p, s, length in clipped
            if row["unavailable_ms"] is not None and abs(length / MS - row["unavailable_ms"]) < 0.001
        ]
        if mine:
            opinions_ = [
                self.ended_by(
                    f"{words}: unavailable_ended_by {row['unavailable_ended_by']}",
                    Scope(place=place),
                    silence._replace(begin=max(silence.begin, effect.begin)),
                    {silence.ended},
                    {"ended_by": row["unavailable_ended_by"]},
                )
                for place, silence in mine
            ]
            yield min(opinions_, key=lambda o: (TRUE, NOT_DECIDABLE, FALSE).index(o.verdict))

    def _stuck(self, words: str, row: Row, effect: Effect) -> Iterator[Opinion]:
        for group in self.tables.groups:
            told = (row.get("stuck") or {}).get(group, 0)
            if effect.healed == FOREVER:
                yield one_of(f"{words}: stuck of {group}", told, {0})
            else:
                yield one_of(f"{words}: stuck of {group}", told, self.groups.stuck(effect, group))

    def _backlog(self, words: str, row: Row, effect: Effect) -> Opinion:
        allowed: set[float | None] = set()
        sums: list[set[float | None]] = []
        for group in self.tables.groups:
            found = self.backlogs(effect, group)
            sums.append({after(b.to if b else None, effect) for b in found})
            if any(b is not None and b.to is None for b in found):
                allowed.add(None)
        allowed |= largest(sums)
        return equal(f"{words}: backlog_drained_ms", row["backlog_drained_ms"], allowed, 0.001)

    def _turned_at_the_heal(self, effect: Effect, group: str) -> bool:
        """Whether the heal lies between a sample in which a group's lag was greatest and the next one."""
        samples = self.groups.lag(group)
        greatest = {backlog.greatest for backlog in self.backlogs(effect, group) if backlog}
        for n, sample in enumerate(samples):
            if sample.at >= effect.begin and sample.lag in greatest:
                near = [s.at for s in samples[n : n + 2] if s.at - sample.at <= 3 * SECOND]
                if near[0] <= self.rebalances.serves(effect) <= near[-1]:
                    return True
        return False

    def _served_before_the_heal(self, effect: Effect, elections: dict[Place, set[Election | None]]) -> bool:
        """Whether groups got something of each partition with a new leader that this one had taken."""
        epochs = {p: min(e.epoch for e in found if e) for p, found in elections.items() if any(found)}
        taken = {
            (place, r["offset"])
            for r in self.tables.rows("log")
            if (place := self.tables.place(r)) in epochs and (r["leader_epoch"] or 0) >= epochs[place]
        }
        early = (d for d in self.tables.rows("deliveries") if d["polled_ns"] < self.rebalances.serves(effect))
        served = {place for d in early if ((place := self.tables.place(d)), d["offset"]) in taken}
        return bool(epochs) and served == epochs.keys()

    def backlogs(self, effect: Effect, group: str) -> set[Backlog | None]:
        """A group's backlog after a fault."""
        later = (e for e in self.effects.all if e.begin > effect.begin)
        nexts = [e.begin for e in later if self.groups.can_reach(e, group, e.begin)]
        recovered = {FOREVER} if effect.healed == FOREVER else set[int]()
        recovered |= self._over(effect)
        return self.groups.backlogs(effect, min(nexts, default=FOREVER), recovered, group)

    def _over(self, effect: Effect) -> set[int]:
        """When a fault was over: healed, and every ISR that it shrank full again."""
        full = Figures(self).full_again(effect)
        return {effect.healed + round((ms or 0) * MS) if effect.healed < FOREVER else FOREVER for ms in full}

    def _shared(self, words: str, row: Row, effect: Effect) -> Iterator[Opinion]:
        """Which faults may have a part in the backlog of the group that drained last."""
        found = {group: self.backlogs(effect, group) for group in self.tables.groups}
        if any(len(one) > 1 for one in found.values()):
            return
        drained = {group: b.to for group, one in found.items() for b in one if b is not None}
        allowed: set[tuple[str, ...]] = {()}
        if drained and None not in drained.values():
            end, group = max((to or 0, group) for group, to in drained.items())
            sampled = [s.at for s in self.groups.lag(group) if s.whole and s.at < effect.begin]
            for other in sorted(self.effects.all, key=lambda e: (e.asked, e.id)):
                reaches = other.id != effect.id and self.groups.can_reach(other, group, end)
                mine = {
                    reaches and other.begin < end and max(over, other.begin) > max(sampled, default=0)
                    for over in self._over(other)
                }
                allowed = {(*one, other.id) if yes else one for one in allowed for yes in mine}
        yield one_of(f"{words}: backlog_shared_with", tuple(row.get("backlog_shared_with") or ()), allowed)

    # Leaders.

    def _rebalances(self) -> Iterator[Opinion]:
        before: dict[str, Row] = {}
        for row in self.findings.get("rebalances") or []:
            group, begin, end = row["group"], row["started_ns"], row["ended_ns"]
            words = f"rebalance of {group} at {begin}"
            begins = {e["at_ns"] for e in self.groups.changes(group)} | self.members_lost(group)
            yield Opinion(words, TRUE if begin in begins else FALSE, "no partition changed hands then")
            unowned = {self.rebalances.unowned(group, begin, end)}
            yield equal(f"{words}: unowned", row["unowned_partition_seconds"], unowned, 1e-6)
            previous = before.get(group)
            known, why = self.rebalances.trigger(
                group,
                row["trigger"],
                begin,
                end,
                previous and (previous["ended_ns"] or previous["started_ns"]),
            )
            yield Opinion(f"{words}: trigger {row['trigger']}", TRUE if known else FALSE, why)
            before[group] = row

    def members_lost(self, group: str) -> set[int]:
        """When a fault took effect on a member of a group: it is lost before the group knows."""
        return {
            e.begin for e in self.effects.all if re.fullmatch(rf"members? .*of {re.escape(group)}", e.target)
        }

    def _leader_changes(self) -> Iterator[Opinion]:
        sums: dict[Place, int] = {}
        for row in self.findings.get("leader_changes") or []:
            place = self.tables.place_of(row.get("cluster"), row["topic"], row["partition"])
            words = f"leader change of {place} to epoch {row['epoch']}"
            yield from self._leader_change(words, place, row)
            sums[place] = sums.get(place, 0) + row["deposed_acks"]
        for place in self.failovers.places():
            total = self.failovers.deposed_total(place)
            if total is not None:
                yield equal(f"deposed_acks of {place} together", sums.get(place, 0), {total}, 0)

    def _leader_change(self, words: str, place: Place, row: Row) -> Iterator[Opinion]:
        events = [e for e in self.tables.events_of(place) if e["kind"] == "leader"]
        mine = [e for e in events if e["leader_epoch"] == row["epoch"] and e["leader"] == row["leader"]]
        if row["leader"] < 0:
            yield Opinion(words, FALSE, "no leader is not a new leader")
            return
        if mine:
            yield equal(f"{words}: elected_ns", row["elected_ns"], {e["at_ns"] for e in mine}, 0)
            if self.failovers.had_no_term(place, mine[0]["at_ns"], row["epoch"]) and not row["deposed_acks"]:
                yield Opinion(words, FALSE, "the next leader came before it could lead")
        elif events:
            yield Opinion(words, NOT_DECIDABLE, "no event has this leader and epoch")
        yield one_of(f"{words}: leader_was", row.get("leader_was"), self._leader_was(row))
        bounds = self.failovers.overwritten_by(place, row["epoch"])
        if bounds is not None:
            allowed = set(range(bounds[0], bounds[1] + 1))
            yield one_of(f"{words}: deposed_acks", row["deposed_acks"], allowed)
        if mine and row["first_ack_ns"] is not None:
            election = Election(row["elected_ns"], row["leader"], row["epoch"])
            firsts = self.failovers.first_acks(place, election)
            yield one_of(f"{words}: first_ack_ns", row["first_ack_ns"], firsts)
        if row["last_deposed_ack_ns"] is not None:
            length = (row["last_deposed_ack_ns"] - row["elected_ns"]) / MS
            allowed_ms = {length} if length > 0 else {0.0, None}
            yield equal(f"{words}: two_leaders_ms", row["two_leaders_ms"], allowed_ms, 0.001)

    def _leader_was(self, row: Row) -> set[str | None]:
        """Whether a new leader was there: its process, and after a restart its registration."""
        leader, at = row["leader"], row["elected_ns"]
        if {self.effects.is_up(leader, at - 1), self.effects.is_up(leader, at + MS)} == {True, False}:
            return {"down", "starting", None}
        if not self.effects.is_up(leader, at):
            return {"down"}
        boots = self.effects.boots.get(leader, ())
        if any(end // MS == at // MS for _, end in boots):
            return {None}
        return {"starting"} if self.effects.is_booting(leader, at) else {None}

    def _partition_tables(self) -> Iterator[Opinion]:
        for table in self.findings.get("partition_tables") or []:
            for row in table["partitions"]:
                place = self.tables.place_of(row.get("cluster"), row["topic"], row["partition"])
                allowed = self.failovers.leaders_at(place, table["at_ns"])
                words = f"leader of {place} {table['when']}"
                if not allowed:
                    allowed = {(None, None)}
                yield one_of(
                    words,
                    (row["leader"], row["leader_epoch"]),
                    allowed | {(None, None)} if table["when"] == "before" else allowed,
                )


def _without_blinks(waits: list[Wait]) -> list[Wait]:
    """Without stretches that the order of two records may have made; what they kept apart is one again."""
    found: list[Wait] = []
    for wait in waits:
        if wait.end - wait.begin <= BLINK:
            continue
        if found and found[-1].condition == wait.condition and wait.begin - found[-1].end <= BLINK:
            found[-1] = found[-1]._replace(end=wait.end)
        else:
            found.append(wait)
    return found


def _joined(waits: list[Wait]) -> list[Wait]:
    """Neighbours of one name as one, whatever time of the client's is between them, or a moment of another
    condition: a leader that is elected and fenced at once.
    """
    found: list[Wait] = []
    for number, wait in enumerate(waits):
        later = waits[number + 1].condition if number + 1 < len(waits) else None
        if found and found[-1].condition == later and wait.end - wait.begin <= MOMENT:
            continue
        if found and found[-1].condition == wait.condition:
            found[-1] = found[-1]._replace(end=wait.end)
        else:
            found.append(wait)
    return found


def _same_waits(claimed: list[Row], recomputed: list[Wait], tolerance: int) -> bool:
    """Whether the waits but the client's are the same, in the same order, and ended at the same times.

    Time in which every condition was met, and that no acknowledgement ended, may be the next wait's.
    """
    own = [w for w in claimed if w["condition"] not in ("client", "unknown")]
    mine = _joined(_without_blinks([Wait(w["condition"], w["from_ns"], w["to_ns"]) for w in own]))
    recomputed = _joined(recomputed)
    if [w.condition for w in mine] != [w.condition for w in recomputed]:
        return False
    before = 0
    for one, other in zip(mine, recomputed, strict=True):
        if abs(one.end - other.end) > tolerance:
            return False
        if not before - tolerance <= one.begin <= other.begin + tolerance:
            return False
        before = other.end
    return True
