"""What findings tell more than once, or in words: the same wait in each of its places, the records that met
conditions, what each member and each producer's transactions did, plain counts.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from second_opinion.answers import FALSE, NOT_DECIDABLE, TRUE, Opinion, equal, one_of
from second_opinion.effects import FOREVER, Effect
from second_opinion.raw import MS, SECOND, Place, Row
from second_opinion.silences import Silence
from second_opinion.transactions import LEARNED, Coordinators

if TYPE_CHECKING:
    from second_opinion.opinion import Examiner

_LED = re.compile(r"broker (\d+) led (\S+) from epoch (\d+) on.*")
_ISR = re.compile(r"ISR of (\S+): ([\d, ]+|empty)")
_STARTED = re.compile(r"broker ([\d, ]+) started again")
_ASSIGNED = re.compile(r"a member of (.+) was assigned (\S+)")
_AGAIN = re.compile(r"(.+) had read (\S+) again")
_OF_TRANSACTION = r"transaction (?P<number>[\d,]+) of producer (?P<producer>\d+)"
_ENDED = re.compile(_OF_TRANSACTION + " was (?P<outcome>committed|aborted)")
_PASSED = re.compile(r"the last stable offset of (?P<place>\S+) went past " + _OF_TRANSACTION)
_LAST_ACK = re.compile(r", ([\d,.]+) (s|ms) after the last acknowledgement in it, on ([^\s,]+)(?= \(|$)")
_DOWN = re.compile(r" \(its coordinator was down for ([\d,.]+) (s|ms) of it\)$")
_EARLIER = re.compile(r" \([\d,.]+ s before\)| ?, seen up to [\d,]+ ms later")

_CAUSE = re.compile(
    r"(?P<id>\S+) \((?P<target>.*?)\) (?P<when>took effect .*? it began|had been in effect"
    r"|was injected before it began, and proven [\d,.]+ s after that"
    r"|was in effect(?: until [\d,.]+ s before its end)?)(?P<how>[;,].*)?"
)
_HIT = re.compile(
    r"broker (\d+) (led|was in the ISR of|had left the ISR of|was the last that had acknowledged anything in)"
    r" (\S+/\d+)"
)
_PLACES = re.compile(r"[^\s,]+/\d+")


def _when(effect: Effect, silence: Row) -> set[str]:
    """When a fault was in effect, seen from a silence; a change that never ends only began."""
    begin, end = silence["from_ns"], silence["to_ns"]
    late = effect.begin - begin
    if late >= SECOND:
        length = f"{late / SECOND:,.1f} s after"
        if effect.asked <= begin:
            return {f"was injected before it began, and proven {length} that"}
        return {f"took effect {length} it began"}
    if effect.healed == effect.begin:
        apart = abs(late)
        length = f"{apart / SECOND:,.1f} s" if apart >= 0.1 * SECOND else f"{apart / MS:.0f} ms"
        return {f"took effect {length} {'after' if late >= 0 else 'before'} it began"}
    if effect.healed <= begin:
        return {"had been in effect"}
    over = end - effect.healed
    return {"was in effect" + (f" until {over / SECOND:,.1f} s before its end" if over >= SECOND else "")}


class Statements:
    """Of one run."""

    def __init__(self, of: Examiner) -> None:
        self.of, self.tables, self.findings = of, of.tables, of.findings
        self.transactions, self.rereads = of.transactions, of.rereads
        self.coordinators = Coordinators(of.tables, of.effects)

    def all(self) -> Iterator[Opinion]:
        """Every opinion."""
        yield from self._copies()
        yield from self._causes()
        for claim in self.findings.get("claims") or []:
            if claim["kind"] == "cause" and claim["fault"] is not None:
                yield from self._cause(claim)
            for wait in claim.get("waited_for") or []:
                yield from self._record(claim, wait)
        for row in self.findings.get("rebalances") or []:
            yield from self._members(row)
            for handover in row["handovers"]:
                yield from self._handover(row, handover)
        for row in self.findings.get("groups") or []:
            yield from self._group(row)
        for row in self.findings.get("faults") or []:
            yield from self._isr_ended_by(row)
        for row in self.findings.get("availability") or []:
            share = row["within_1s"] / row["messages"] if row["messages"] else None
            yield equal("availability: within_1s_share", row["within_1s_share"], {share}, 1e-9)
        yield from self._totals()

    # One wait is told in several places.

    def _copies(self) -> Iterator[Opinion]:
        claims = self.findings.get("claims") or []
        scope = ("topic", "partition", "group", "from_ns", "to_ns")
        silences = {tuple(c[k] for k in scope): c for c in claims if c["kind"] == "silence"}
        for row in self.findings.get("standstills") or []:
            claim = silences.get(tuple(row[k] for k in scope))
            yield self._same(f"standstill at {row['from_ns']}", row, claim, "waited_for")
        streams = ("producer", "topic", "partition", "from_ns", "to_ns")
        mine = [c for c in claims if c["kind"] == "unavailable"]
        alone = {tuple(c[k] for k in streams): c for c in mine if c["fault"] is None}
        for row in self.findings.get("unavailability") or []:
            claim = alone.get(tuple(row[k] for k in streams))
            yield self._same(f"unavailability at {row['from_ns']}", row, claim, "waited_for")
        faults = {c["fault"]: c for c in mine}
        for row in self.findings.get("faults") or []:
            claim = faults.get(row["id"])
            if claim is not None or row.get("unavailable_ms") is not None:
                yield self._same(f"fault {row['id']}", row, claim, "unavailable_waited_for")

    def _same(self, words: str, row: Row, claim: Row | None, name: str) -> Opinion:
        told = claim and [{**wait} for wait in claim["waited_for"]]
        return Opinion(f"{words}: {name}", TRUE if row[name] == told else FALSE, f"the claim: {told}")

    # Causes.

    def _causes(self) -> Iterator[Opinion]:
        """A standstill names the first of its causes, or none if it has none."""
        scope = ("topic", "partition", "group", "from_ns", "to_ns")
        causes: dict[tuple[Row, ...], list[str]] = defaultdict(list)
        for claim in self.findings.get("claims") or []:
            if claim["kind"] == "cause":
                causes[tuple(claim[k] for k in scope)].append(claim["why"])
        for row in self.findings.get("standstills") or []:
            mine = causes[tuple(row[k] for k in scope)]
            allowed = {"; ".join(mine[:n]) for n in range(1, len(mine) + 1)} or {None}
            known = row["cause"] in allowed
            yield Opinion(f"standstill at {row['from_ns']}: cause", TRUE if known else FALSE, f"{mine}")

    def _cause(self, claim: Row) -> Iterator[Opinion]:
        """When a fault was in effect, seen from a silence, and what it hit."""
        effect, text, words = self.of.effect(claim["fault"]), claim["why"], f"cause: {claim['why']}"
        if effect is None:
            return  # it is no cause (claims.py)
        found = _CAUSE.fullmatch(text)
        if found is None or (found["id"], found["target"]) != (effect.id, effect.target):
            yield Opinion(words, FALSE, "other words, or of another fault")
            return
        right, how = _when(effect, claim), found["how"] or ""
        yield Opinion(words, TRUE if found["when"] in right else FALSE, f"{right}")
        at = max(effect.begin, claim["from_ns"])
        for broker, role, name in _HIT.findall(how):
            place, turns = self._named(name), effect.fault.startswith("rolling-")
            states = {
                "led": {leader for leader, _ in self.of.failovers.leaders_at(place, at)},
                "was in the ISR of": set().union(*self.of.failovers.isr_at(place, at)),
                "had left the ISR of": self.of.causes.left(effect, place, at),
                "was the last that had acknowledged anything in": {self.of.causes.asked(place, at)},
            }
            known = int(broker) in effect.brokers and int(broker) in states[role]
            verdict = TRUE if known else NOT_DECIDABLE if turns else FALSE
            yield Opinion(f"{words}: {broker} {role}", verdict, f"{states}")
        healed = any(claim["fault"] in wait["faults"] for wait in self._waits_of(claim))
        if "it waited for the heal" in how:
            yield Opinion(f"{words}: the heal", TRUE if healed else FALSE, "it did not wait for that")
        for place in map(self._named, _PLACES.findall(how.partition(", and hit ")[2])):
            whole = Silence(claim["from_ns"], claim["to_ns"], True)
            mine = [
                own
                for scope, own in self.of.causes.singly(self.of.scope(claim), whole)
                if scope.place == place
            ]
            yield Opinion(f"{words}: {place}", TRUE if mine else FALSE, "nothing waited there")

    def _waits_of(self, claim: Row) -> list[Row]:
        """What the silence that a claim is about waited for."""
        scope = ("topic", "partition", "group", "producer", "from_ns", "to_ns")
        silences = [c for c in self.findings["claims"] if c["kind"] == "silence"]
        return [w for c in silences if all(c[k] == claim[k] for k in scope) for w in c["waited_for"]]

    # The records that met conditions.

    def _record(self, claim: Row, wait: Row) -> Iterator[Opinion]:
        for text in filter(None, wait["record"].split("; ")):
            words = f"claim: {claim['kind']} at {claim['from_ns']}: {text}"
            plain = _EARLIER.sub("", text)
            if found := _LED.fullmatch(plain):
                known = [
                    e
                    for e in self._events(found[2])
                    if (e["kind"], e["leader"], e["leader_epoch"]) == ("leader", int(found[1]), int(found[3]))
                ]
            elif found := _ISR.fullmatch(plain):
                isr = [] if found[2] == "empty" else [int(one) for one in found[2].split(", ")]
                known = [e for e in self._events(found[1]) if e["isr"] == isr]
            elif found := _STARTED.fullmatch(plain):
                nodes = {int(one) for one in found[1].split(", ")}
                rows = self.tables.rows("cluster_events")
                known = [e for e in rows if e["kind"] in ("started", "unfenced") and e["broker"] in nodes]
            elif found := _ASSIGNED.fullmatch(plain):
                events = self.tables.rows("group_events")
                mine = [e for e in events if (e["group"], e["kind"]) == (found[1], "assigned")]
                known = [e for e in mine if self.tables.place(e) == self._named(found[2])]
            elif found := _ENDED.match(plain):
                yield self._last_ack(words, text, found, wait)
                yield self._coordinator(words, text, found, claim, wait)
                rows = self._ended(found, found["outcome"])
                known = [{"at_ns": min(r["end_ns"], wait["to_ns"])} for r in rows]
            elif found := _PASSED.match(plain):
                yield self._last_ack(words, text, found, wait)
                yield self._coordinator(words, text, found, claim, wait)
                known = self._passed(found, claim)
            elif found := _AGAIN.fullmatch(plain):
                span = claim["from_ns"], claim["to_ns"]
                spans = self.rereads.within(self._named(found[2]), found[1], *span)
                known = [{"at_ns": until} for _, until in spans]
            elif wait["condition"] in ("election", "isr", "rebalance", "reread", "transaction"):
                known = []  # such a sentence is of one of these forms
            else:
                continue
            near = [e for e in known if claim["from_ns"] - MS < e["at_ns"] < wait["to_ns"] + MS]
            near = near or [e for e in known if e.get("within_ns") and e["at_ns"] > claim["from_ns"]]
            yield Opinion(words, TRUE if near else FALSE, f"recorded: {known[:4]}")

    def _ended(self, named: re.Match[str], outcome: str | None = None) -> list[Row]:
        """The transaction that a sentence names."""
        number, producer = int(named["number"].replace(",", "")), int(named["producer"])
        rows = self.tables.rows("transactions")
        mine = [r for r in rows if (r["transaction"], r["producer"]) == (number, producer)]
        return [r for r in mine if outcome in (None, r["outcome"])]

    def _passed(self, named: re.Match[str], claim: Row) -> list[Row]:
        """When samples, or the delivery behind it, show that; none if its producer learned its end before,
        and no sample after that contradicts it.
        """
        place, found = self._named(named["place"]), []
        for row in self._ended(named):
            first = self.transactions.first_record(row, place)
            if first is not None:
                at = self.transactions.until(row, place, first["offset"], claim["to_ns"])
                learned = row["outcome"] in LEARNED and at == row["end_ns"]
                found += [{"at_ns": at}] * (at is not None and not learned)
        return found

    def _coordinator(self, words: str, text: str, named: re.Match[str], claim: Row, wait: Row) -> Opinion:
        """Whether its coordinator was down for so long while it held the group back, if the text says so."""
        found = _DOWN.search(text)
        if found is None:
            return Opinion(words, TRUE, "no coordinator is named")
        if claim["topic"] is None:
            return Opinion(words, NOT_DECIDABLE, "of which partition is not known")
        unit = SECOND if found[2] == "s" else MS
        told = float(found[1].replace(",", "")) * unit
        lengths: list[int | None] = []
        for row in self._ended(named):
            place = self.tables.place_of(claim["cluster"], claim["topic"], claim["partition"])
            first = self.transactions.first_record(row, place)
            since = claim["from_ns"] if first is None else self.transactions.attempted(first)
            lengths.append(self.coordinators.down(row, max(since, claim["from_ns"]), wait["to_ns"]))
        if None in lengths:
            return Opinion(words, NOT_DECIDABLE, "a fault of another kind hit brokers")
        off = 0.051 * SECOND if unit == SECOND else 0.51 * MS
        near = any(length is not None and abs(length - told) <= off for length in lengths)
        return Opinion(words, TRUE if near else FALSE, f"its coordinator was down for {lengths} ns")

    def _last_ack(self, words: str, text: str, named: re.Match[str], wait: Row) -> Opinion:
        """Whether the last acknowledgement in it was so long before, and there, if the text says so."""
        found = _LAST_ACK.search(text)
        if found is None:
            return Opinion(words, TRUE, "no acknowledgement is named")
        told = float(found[1].replace(",", "")) * (SECOND if found[2] == "s" else MS)
        times: set[bool] = set()
        for row in self._ended(named):
            sends = [s for s in self.tables.rows("sends") if s["producer"] == row["producer"]]
            mine = [s for s in sends if row["first_seq"] <= s["seq"] <= row["last_seq"] and s["done_ns"]]
            last_ns = max(s["done_ns"] for s in mine)
            places = {self.tables.place(s) for s in mine if s["done_ns"] == last_ns}
            near = abs(wait["to_ns"] - last_ns - told) <= 0.051 * (SECOND if found[2] == "s" else MS * 10)
            times.add(near and self._named(found[3]) in places)
        return Opinion(words, TRUE if True in times else FALSE, "the last acknowledgement in it was another")

    def _named(self, text: str) -> Place:
        topic, _, partition = text.rpartition("/")
        return self.tables.place_of(None, topic, int(partition))

    def _events(self, text: str) -> list[Row]:
        return self.tables.events_of(self._named(text))

    # Members.

    def _events_of(self, group: str, *kinds: str) -> list[Row]:
        return [e for e in self.tables.rows("group_events") if e["group"] == group and e["kind"] in kinds]

    def _members(self, row: Row) -> Iterator[Opinion]:
        """Those of its handovers had joined, and changed partitions in it."""
        begin, end = row["started_ns"], row["ended_ns"]
        kinds = ("assigned", "revoked", "lost", "left", "killed")
        changed = [
            e["member"]
            for e in self._events_of(row["group"], *kinds)
            if begin <= e["at_ns"] <= (end or begin)
        ]
        told = [one["member"] for one in row["handovers"]]
        strange = sorted(set(told) - set(changed))
        words = f"rebalance of {row['group']} at {begin}: handovers"
        yield Opinion(words, FALSE if strange or len(told) != len({*told}) else TRUE, f"not of {strange}")

    def _handover(self, row: Row, one: Row) -> Iterator[Opinion]:
        words = f"rebalance of {row['group']} at {row['started_ns']}: {one['member']}"
        begin, end = row["started_ns"], row["ended_ns"] or FOREVER
        taken = self._events_of(row["group"], "revoked", "lost", "left", "killed")
        given = self._events_of(row["group"], "assigned")
        mine = {
            name: [e for e in events if e["member"] == one["member"] and begin <= e["at_ns"] <= end]
            for name, events in (("assigned_ns", given), ("revoked_ns", taken))
        }
        for name, events in mine.items():
            if one[name] is not None:
                yield one_of(f"{words}: {name}", one[name], {e["at_ns"] for e in events})
        if one["first_record_ns"] is not None:
            last = max((e["at_ns"] for e in mine["assigned_ns"]), default=0)
            since = {self.tables.place(e): last for e in mine["assigned_ns"] if e["at_ns"] == last}
            times = [
                d["polled_ns"]
                for d in self.tables.rows("deliveries")
                if (d["group"], d["member"]) == (row["group"], one["member"])
                and d["polled_ns"] >= since.get(self.tables.place(d), FOREVER)
            ]
            yield one_of(f"{words}: first_record_ns", one["first_record_ns"], {min(times, default=None)})

    # Counts.

    def _group(self, row: Row) -> Iterator[Opinion]:
        name = row["group"]
        delivered = [d for d in self.tables.rows("deliveries") if d["group"] == name]
        sent = {(s["producer"], s["seq"]) for s in self.tables.rows("sends")}
        messages = {(d["producer"], d["seq"]) for d in delivered} & sent
        yield one_of(f"group {name}: delivered_messages", row["delivered_messages"], {len(messages)})
        polled = Counter(d["member"] for d in delivered)
        refused = Counter(e["member"] for e in self._events_of(name, "refused"))
        for one in row["members"]:
            if "accepted" not in one:
                yield one_of(f"group {name}: {one['member']}", one["delivered"], {polled[one["member"]]})
                words = f"group {name}: {one['member']}: commits_refused"
                yield one_of(words, one["commits_refused"], {refused[one["member"]]})
        times = sorted(e["at_ns"] for e in self._events_of(name, "committed"))
        gap = max((later - at for at, later in pairwise(times)), default=None)
        longest = None if gap is None else gap / MS
        yield equal(f"group {name}: longest_commit_gap_ms", row["longest_commit_gap_ms"], {longest}, 0.001)

    def _isr_ended_by(self, row: Row) -> Iterator[Opinion]:
        if (restored := row["isr_restored_ms"]) is not None:
            ended = {"heal" if restored > 0 else "unknown"}
            yield one_of(f"fault {row['id']}: isr_ended_by", row["isr_ended_by"], ended)

    def _totals(self) -> Iterator[Opinion]:
        totals = self.findings["totals"]
        outcomes = Counter(s["outcome"] for s in self.tables.rows("sends"))
        for name, count in (("sent", outcomes.total()), ("acked", outcomes["acked"])):
            yield one_of(f"totals: {name}", totals[name], {count})
        told = self.findings.get("transactions")
        rows = self.tables.rows("transactions")
        if told is not None and rows:
            ended = Counter(r["outcome"] for r in rows)
            for name in ("committed", "aborted", "unknown"):
                yield one_of(f"transactions: {name}", told[name], {ended[name]})
            messages = sum(r["last_seq"] - r["first_seq"] + 1 for r in rows)
            yield one_of("transactions: messages", told["messages"], {messages})
