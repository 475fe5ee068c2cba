"""The claims of findings.json, by their kinds: each is held against what the raw tables say of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from second_opinion import load
from second_opinion.answers import FALSE, NOT_DECIDABLE, TRUE, Opinion, after, equal, one_of
from second_opinion.effects import FOREVER, Effect
from second_opinion.raw import MS, SECOND, Place, Row
from second_opinion.silences import Scope, Silence
from second_opinion.story import Reading

if TYPE_CHECKING:
    from second_opinion.opinion import Examiner


_OPEN = re.compile(
    r"transaction ([\d,]+) of producer (\d+) was open for ([\d,.]+) (s|ms) of it, "
    r"and the group reads only what is committed(?:; the transaction coordinator of .+)?"
)


_LEADERLESS = re.compile(
    r"(\S+)/(\d+), to which producer (\d+) sends in its transactions, had no leader that runs for "
    r"([\d,.]+) (s|ms) of it"
)


class Claims:
    """Of one document."""

    def __init__(self, examiner: Examiner) -> None:
        self.of = examiner
        self.claims: list[Row] = examiner.findings.get("claims") or []
        self.checks: dict[str, Any] = {
            "silence": self._silence,
            "cause": self._cause,
            "unavailable": self._unavailable,
            "election": self._election,
            "first-ack": self._first_ack,
            "affected": self._affected,
            "stuck": self._stuck,
            "backlog": self._backlog,
            "within-1s": self._within_1s,
            "load": self._load,
            "rebalance": self._rebalance,
            "times-unknown": self._times_unknown,
        }

    def all(self) -> Iterator[Opinion]:
        """Of every claim, and of those that are missing; findings of an older kaput have none."""
        for claim in self.claims:
            check = self.checks.get(claim["kind"])
            if check is None:
                yield Opinion(_words(claim), NOT_DECIDABLE, "a kind without a definition")
            else:
                yield from check(claim)
        if self.claims:
            yield from self._missing()
            yield from self._missing_causes()

    def _place(self, claim: Row) -> Place | None:
        if claim["topic"] is None:
            return None
        return self.of.tables.place_of(claim["cluster"], claim["topic"], claim["partition"])

    def _effect(self, claim: Row) -> Effect | None:
        return None if claim["fault"] is None else self.of.effect(claim["fault"])

    # Silences.

    def _silence(self, claim: Row) -> Iterator[Opinion]:
        scope = self.of.scope(claim)
        length = {"length_ms": claim["figures"].get("length_ms")}
        yield from self.of.silence(_words(claim), scope, {**claim, **length})
        if transaction := _OPEN.fullmatch(claim["why"]):
            yield self._open_transaction(claim, *(text.replace(",", "") for text in transaction.groups()))

        if leaderless := _LEADERLESS.fullmatch(claim["why"]):
            yield self._leaderless(claim, *leaderless.groups())

    def _leaderless(
        self, claim: Row, topic: str, partition: str, producer: str, length: str, unit: str
    ) -> Opinion:
        """Whether one of a producer's partitions had no leader for so long, as far as one decimal tells."""
        cluster, _, name = topic.rpartition(":")
        place = self.of.tables.place_of(cluster or None, name, int(partition))
        mine = [s for s in self.of.tables.sends_in(place) if s["producer"] == int(producer)]
        known = [r for r in self.of.tables.rows("transactions") if r["producer"] == int(producer)]
        begin, end = claim["from_ns"], claim["to_ns"]
        states, effects = self.of.story(place, Reading()).states, self.of.effects
        moments = {begin, end, *(at for at, _ in states), *effects.moments()}
        total = 0
        for at, until in pairwise(t for t in sorted(moments) if begin <= t <= end):
            leader = next((state.leader for when, state in reversed(states) if when <= at), None)
            up = leader is None or (leader >= 0 and effects.is_up(leader, at))
            if leader is not None and (not up or effects.is_booting(leader, at)):
                total += until - at
        told = float(length.replace(",", "")) * (SECOND if unit == "s" else MS)
        right = abs(total - told) <= 0.1 * SECOND and 2 * total >= end - begin and mine and known
        return Opinion(f"{_words(claim)}: {claim['why']}", TRUE if right else FALSE, f"recomputed: {total}")

    def _open_transaction(self, claim: Row, number: str, producer: str, length: str, unit: str) -> Opinion:
        """Whether it was open for so long of a silence, as far as one decimal tells."""
        rows = [r for r in self.of.tables.rows("transactions") if str(r["producer"]) == producer]
        spans = [
            min(r["end_ns"], claim["to_ns"]) - max(r["begin_ns"], claim["from_ns"])
            for r in rows
            if r["end_ns"] is not None and str(r["transaction"]) == number
        ]
        told = float(length) * (SECOND if unit == "s" else MS)
        near = [span for span in spans if abs(span - told) <= (0.051 * SECOND if unit == "s" else 0.51 * MS)]
        most = [span for span in near if 2 * span >= claim["to_ns"] - claim["from_ns"]]
        return Opinion(f"{_words(claim)}: {claim['why']}", TRUE if most else FALSE, f"recomputed: {spans}")

    def _unavailable(self, claim: Row) -> Iterator[Opinion]:
        effect = self._effect(claim)
        if effect is None:
            yield from self._silence(claim)
            longest = max((s.end - s.begin for s in self.of.silences.of(self.of.scope(claim))), default=0)
            length = claim["figures"]["length_ms"]
            yield equal(f"{_words(claim)}: the longest", length, {longest / MS}, 0.001)
            return
        place = self._place(claim)
        assert place is not None
        silences = self.of.silences.of(Scope(place=place))
        begin, end = claim["from_ns"], claim["to_ns"]
        clipped = {(max(s.begin, effect.begin), s.end): s for s in silences if s.end > effect.begin}
        if (begin, end) not in clipped:
            yield Opinion(_words(claim), FALSE, f"recomputed: {sorted(clipped)[:4]}")
            return
        yield one_of(f"{_words(claim)}: hit", True, self.of.failovers.hit(effect, place))
        yield equal(f"{_words(claim)}: length_ms", claim["figures"]["length_ms"], {(end - begin) / MS}, 0.001)
        ended = clipped[begin, end].ended
        silence = Silence(begin, end, ended)
        yield self.of.ended_by(f"{_words(claim)}: ended_by", Scope(place=place), silence, {ended}, claim)

    def _cause(self, claim: Row) -> Iterator[Opinion]:
        """A fault that hit what waited, or whose heal it waited for; a rebalance; a step of the plan."""
        words, scope = _words(claim), self.of.scope(claim)
        begin, end = claim["from_ns"], claim["to_ns"]
        own = [s[:2] for found in self.of.silences.readings(scope) for s in found]
        if (begin, end) not in own:
            yield Opinion(words, FALSE, "there was no such silence")
            return
        since = claim["figures"]["since_ns"]
        if claim["fault"] is not None:
            effect = self._effect(claim)
            if effect is None or effect.begin >= end or effect.fault == "noop":
                yield Opinion(words, FALSE, "the fault was not in effect before its end")
                return
            healed = self._healed(claim) if effect.healed > begin else set()
            yield one_of(words, True, self._caused(claim, effect) | healed)
        elif any(row["started_ns"] == since for row in self.of.tables.rows("plan")):
            kinds = ("move-groups", "fail-back") if scope.group else ("fence", "move-producers", "fail-back")
            steps = [row for row in self.of.tables.rows("plan") if row["started_ns"] == since]
            known = any(row["kind"] in kinds and (row["ended_ns"] or FOREVER) > begin for row in steps)
            yield Opinion(words, TRUE if known and since < end else FALSE, f"{steps}")
        else:
            begins = {e["at_ns"] for e in self.of.groups.changes(scope.group or "")}
            begins |= self.of.members_lost(scope.group or "")
            known = since in begins and since < begin + SECOND
            yield Opinion(words, TRUE if known else FALSE, "no rebalance within its first second")

    def _silence_of(self, claim: Row) -> Row:
        """The claim of the silence that a claim of its cause is about (checked there)."""
        same = ("cluster", "topic", "partition", "group", "producer", "from_ns", "to_ns")
        found = (one for one in self.claims if one["kind"] == "silence")
        return next((one for one in found if all(one[key] == claim[key] for key in same)), claim)

    def _healed(self, claim: Row) -> set[bool]:
        """Whether the silence of this claim waited for the fault's heal."""
        waits = self._silence_of(claim)["waited_for"]
        return {True} if any(claim["fault"] in wait["faults"] for wait in waits) else set()

    def _caused(self, claim: Row, effect: Effect) -> set[bool]:
        """Whether a fault hit a partition in its own silence, and did not come later, in each reading."""
        ended = self._silence_of(claim)["ended_by"] is not None
        whole = Silence(claim["from_ns"], claim["to_ns"], ended)
        found: set[bool] = set()
        for scope, own in self.of.causes.singly(self.of.scope(claim), whole):
            if effect.begin < own.end and effect.healed > own.begin:
                hit = self.of.causes.hit(effect, scope, own)
                if self._is_late(own, effect, whole):
                    mine = {one and unmet for one in hit for unmet in self._unmet(scope, own, effect, whole)}
                else:
                    copies = self.of.causes.hit_copies(effect, scope, own)
                    mine = {one or other for one in hit for other in copies}
                if mine == {True}:
                    return mine
                found |= mine
        return found | {False}

    def _is_late(self, own: Silence, effect: Effect, whole: Silence) -> bool:
        """Whether a fault came after a second of silence, or was over when all were silent."""
        return own.ended and (effect.asked >= own.begin + SECOND or effect.healed <= whole.begin)

    def _unmet(self, scope: Scope, own: Silence, effect: Effect, whole: Silence) -> set[bool]:
        """Whether a condition was unmet then that the fault may have been behind."""
        told = (one for one in self.claims if one["kind"] == "silence" and self.of.scope(one) == scope)
        silence = next((one for one in told if (one["from_ns"], one["to_ns"]) == own[:2]), None)
        if silence is None:  # what it waited for is not among the claims
            return {True, False}
        since = whole.begin if effect.healed <= whole.begin else effect.begin
        later = [one for one in silence["waited_for"] if one["to_ns"] > since]
        if effect.fault == "quota":
            return {False}
        if effect.brokers or effect.target == "cluster" or effect.target.startswith("topic "):
            own = ("client", "reread", "transaction", "unknown")
            mine = [one for one in later if one["condition"] not in own]
        else:
            mine = [one for one in later if one["condition"] == "rebalance"]
            mine = mine if effect.target.startswith("member") else []
        long = sum(one["to_ns"] - max(one["from_ns"], since) for one in mine) >= SECOND
        return {long or (effect.healed > since and any(effect.id in one["faults"] for one in later))}

    # Failovers.

    def _election(self, claim: Row) -> Iterator[Opinion]:
        effect, place = self._effect(claim), self._place(claim)
        if effect is None or place is None:
            yield Opinion(_words(claim), FALSE, "no fault took effect")
            return
        found = self.of.failovers.elections(effect, place)
        figures = claim["figures"]
        told = claim["to_ns"] // MS, figures.get("leader"), figures.get("epoch")
        yield one_of(_words(claim), told, {(e.at // MS, e.leader, e.epoch) if e else None for e in found})
        length = (claim["to_ns"] - effect.begin) / MS
        yield equal(f"{_words(claim)}: election_ms", figures["election_ms"], {length}, 0.001)
        yield one_of(f"{_words(claim)}: from", claim["from_ns"], {effect.begin})

    def _first_ack(self, claim: Row) -> Iterator[Opinion]:
        effect, place = self._effect(claim), self._place(claim)
        if effect is None or place is None:
            yield Opinion(_words(claim), FALSE, "no fault took effect")
            return
        found: set[int | None] = set()
        for election in self.of.failovers.elections(effect, place):
            found |= self.of.failovers.first_acks(place, election) if election else {None}
        yield one_of(_words(claim), claim["to_ns"], found)
        length = claim["figures"].get("first_ack_after_ms")
        if length is not None:
            words = f"{_words(claim)}: first_ack_after_ms"
            yield equal(words, length, {after(claim["to_ns"], effect)}, 0.001)

    def _affected(self, claim: Row) -> Iterator[Opinion]:
        effect, place = self._effect(claim), self._place(claim)
        if effect is None or place is None:
            yield Opinion(_words(claim), FALSE, "no fault took effect")
            return
        if True not in self.of.failovers.hit(effect, place):
            yield Opinion(_words(claim), FALSE, "the fault did not hit this partition")
            return
        windows = self.of.failovers.windows(effect, place)
        told = claim["to_ns"], claim["figures"]["sent"], claim["figures"]["affected"]
        yield one_of(_words(claim), told, {(w.end, w.sent, w.affected) if w else None for w in windows})

    # Groups.

    def _stuck(self, claim: Row) -> Iterator[Opinion]:
        effect = self._effect(claim)
        if effect is None or effect.healed == FOREVER:
            yield Opinion(_words(claim), FALSE, "no heal is recorded")
            return
        figures = claim["figures"]
        said = (
            next(iter(figures.values()))
            if len(figures) == 1
            else figures.get("stuck", figures.get("messages"))
        )
        yield one_of(_words(claim), said, self.of.groups.stuck(effect, claim["group"]))

    def _backlog(self, claim: Row) -> Iterator[Opinion]:
        effect = self._effect(claim)
        if effect is None:
            yield Opinion(_words(claim), FALSE, "no fault took effect")
            return
        figures = claim["figures"]
        told = figures["before"], figures["greatest"], figures.get("greatest_at_ns"), claim["to_ns"]
        found = self.of.backlogs(effect, claim["group"])
        allowed = {(b.before, b.greatest, b.greatest_at, b.to) if b else None for b in found}
        near = {
            one
            for one in allowed
            if one
            and one[:2] == told[:2]
            and one[3] == told[3]
            and told[2] in (None, *self._peaks(claim, one))
        }
        if near:
            yield Opinion(_words(claim), TRUE if len(allowed) == 1 else NOT_DECIDABLE, "")
        else:
            yield Opinion(_words(claim), FALSE, f"{told}; recomputed: {sorted(allowed, key=str)[:4]}")

    def _peaks(self, claim: Row, backlog: tuple[Any, ...]) -> set[int]:
        """When the lag was greatest: more than once, perhaps."""
        samples = self.of.groups.lag(claim["group"])
        return {s.at for s in samples if s.lag == backlog[1] and s.at >= backlog[2]}

    def _within_1s(self, claim: Row) -> Iterator[Opinion]:
        scope = self.of.scope(claim)
        if scope.group is None:
            if not self.of.tables.acked_times_known:
                yield Opinion(_words(claim), FALSE, "no acknowledgement has a time")
                return
            quick = self.of.groups.producers_quick(scope.place)
        else:
            quick = self.of.groups.quick(scope.group, scope.place)
        told = claim["figures"]["messages"], claim["figures"]["within_1s"]
        yield one_of(_words(claim), told, {tuple(q) for q in quick})

    def _rebalance(self, claim: Row) -> Iterator[Opinion]:
        """Begins with a change of owner; ends with one, or with the first delivery afterwards."""
        group = claim["group"]
        changes = self.of.groups.changes(group)
        begins = {e["at_ns"] for e in changes} | self.of.members_lost(group)
        yield Opinion(
            f"{_words(claim)}: from",
            TRUE if claim["from_ns"] in begins else FALSE,
            f"no partition of {group} changed hands at {claim['from_ns']}",
        )
        if claim["to_ns"] is None:
            return
        ends = {at for times in self.of.groups.deliveries_of(group).values() for at in times} | begins
        known = claim["to_ns"] in ends and claim["to_ns"] >= claim["from_ns"]
        yield Opinion(
            f"{_words(claim)}: to", NOT_DECIDABLE if known else FALSE, "neither a change nor a delivery"
        )

    # The run.

    def _load(self, claim: Row) -> Iterator[Opinion]:
        figures, words, begin, end = claim["figures"], _words(claim), claim["from_ns"], claim["to_ns"]
        known = load.times(self.of.tables, self.of.effects)
        mine = load.load(self.of.tables, begin, end)
        if (
            known is None
            or mine is None
            or begin != known[0]
            or not 0 <= known[1] - end < (1 if known[2] else SECOND)
        ):
            yield Opinion(f"{words}: times", FALSE, f"recomputed: {known}, {mine}")
            return
        seconds = (end - begin) / SECOND
        yield equal(f"{words}: asked_per_s", figures["asked_per_s"], {mine.asked / seconds}, 1e-6)
        yield equal(f"{words}: sent_per_s", figures["sent_per_s"] * seconds, set(mine.sent), 1e-3)
        yield one_of(f"{words}: burst", figures["burst"], {mine.burst})
        # The step of the last attempt is counted in whole.
        acked = mine.acked_with_step if known[2] else {mine.acked}
        yield equal(f"{words}: reached_per_s", figures["reached_per_s"] * seconds, acked, 1e-3)

    def _times_unknown(self, claim: Row) -> Iterator[Opinion]:
        acked = [s for s in self.of.tables.rows("sends") if s["outcome"] == "acked"]
        untimed = sum(s["done_ns"] is None for s in acked)
        yield one_of(_words(claim), claim["figures"].get("messages"), {untimed} - {0})

    # What should have been claimed.

    def _missing(self) -> Iterator[Opinion]:
        told = {(c["kind"], c["fault"], self._place(c), c["group"]) for c in self.claims}
        for effect in self.of.judged_effects():
            for place in self.of.failovers.places():
                yield from self._missing_of(effect, place, told)
            for group in self.of.tables.groups:
                stuck = self.of.groups.stuck(effect, group) if effect.healed != FOREVER else {0}
                if 0 not in stuck and ("stuck", effect.id, None, group) not in told:
                    yield Opinion(f"no stuck of {effect.id} for {group}", FALSE, f"recomputed: {stuck}")

    def _missing_causes(self) -> Iterator[Opinion]:
        """Of each silence that is told: faults that hit it in every reading."""
        same = ("cluster", "topic", "partition", "group", "from_ns", "to_ns")
        told = {(*(one[key] for key in same), one["fault"]) for one in self.claims if one["kind"] == "cause"}
        for claim in self.claims:
            if claim["kind"] != "silence":
                continue
            for effect in self.of.effects.all:
                if effect.fault == "noop" or effect.begin >= claim["to_ns"]:
                    continue
                hit = self._caused(claim, effect)
                if hit == {True} and (*(claim[key] for key in same), effect.id) not in told:
                    yield Opinion(f"{_words(claim)}: no cause {effect.id}", FALSE, "it hit what waited")

    def _missing_of(self, effect: Effect, place: Place, told: set[Any]) -> Iterator[Opinion]:
        elections = self.of.failovers.elections(effect, place)
        if None not in elections and ("election", effect.id, place, None) not in told:
            yield Opinion(f"no election of {effect.id} in {place}", FALSE, f"recomputed: {elections}")
        if not self.of.tables.acked_times_known or False in self.of.failovers.hit(effect, place):
            return
        windows = self.of.failovers.windows(effect, place)
        some = all(w is not None and w.affected and w.end - w.begin >= SECOND for w in windows)
        if some and ("affected", effect.id, place, None) not in told:
            yield Opinion(f"no affected of {effect.id} in {place}", FALSE, f"recomputed: {windows}")


def _words(claim: Row) -> str:
    parts = [claim["kind"]]
    if claim["fault"] is not None:
        parts.append(f"of {claim['fault']}")
    if claim["topic"] is not None:
        parts.append(f"in {claim['topic']}/{claim['partition']}")
    for key in ("group", "producer"):
        if claim[key] is not None:
            parts.append(f"{key} {claim[key]}")
    return "claim: " + " ".join(parts)
