"""When partitions of a group changed hands, how long they had no owner, and possible triggers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from second_opinion.effects import FOREVER, Effect, Effects, hits_member
from second_opinion.raw import MS, SECOND, Place, Row, RunTables

_SESSION = 45 * SECOND
_TAKES = ("revoked", "lost", "left", "killed")
_COMES = ("joined", "left", "killed")
_BROKERS, _FAULTS, _BACK, _MEMBERS, _MOVED = range(5)  # from the least to the most direct


class Gap(NamedTuple):
    """A partition without an owner. `end`: FOREVER if it never had one again."""

    place: Place
    begin: int
    end: int


class Candidate(NamedTuple):
    """What may have begun a rebalance. `sure`: it came before it for certain, and so must be considered."""

    at: int
    rank: int
    words: tuple[str, str]
    sure: bool


class Rebalances:
    """Of one run."""

    def __init__(self, tables: RunTables, effects: Effects) -> None:
        self.tables, self.effects = tables, effects

    def gaps(self, group: str) -> list[Gap]:
        """Every time in which a partition had lost its owner, and had no other."""
        owners: dict[Place, dict[str, int]] = {}
        since: dict[Place, int] = {}
        found: list[Gap] = []
        for event in self._events(group):
            where, member, at = self.tables.place(event), event["member"], event["at_ns"]
            if event["kind"] == "assigned":
                if where is None or member in owners.get(where, ()):
                    continue
                for other in [p for p in owners if p.cluster != where.cluster]:
                    found += [Gap(other, since.pop(other), at)] if other in since else []
                    del owners[other]
                before = {} if self._is_shared(group) else owners.get(where, {})
                begin = since.pop(where, None)
                if before:
                    begin = max(self._frozen(group, one, from_, at) for one, from_ in before.items())
                found += [Gap(where, begin, at)] if begin is not None else []
                owners[where] = {**({} if before else owners.get(where, {})), member: at}
            else:
                for place, mine in owners.items():
                    if member in mine and self._takes(event, place):
                        del mine[member]
                        if not mine:
                            since[place] = at
        return found + [Gap(place, begin, FOREVER) for place, begin in since.items()]

    def _events(self, group: str) -> list[Row]:
        kinds = ("assigned", *_TAKES)
        events = [e for e in self.tables.rows("group_events") if e["group"] == group and e["kind"] in kinds]
        return sorted(events, key=lambda e: (e["at_ns"], e["kind"] == "assigned"))

    def _is_shared(self, group: str) -> bool:
        if "share" in str((self.tables.group_specs.get(group) or {}).get("type", "")):
            return True
        return any(
            g["group"] == group and g.get("type") == "share" for g in self.tables.manifest.get("groups") or []
        )

    def _takes(self, event: Row, place: Place) -> bool:
        if event["kind"] in ("left", "killed") or event["topic"] is None:
            return True
        same = (event["cluster"], event["topic"]) == place[:2]
        return same and event["partition"] in (None, place.partition)

    def _frozen(self, group: str, member: str, since: int, at: int) -> int:
        """Since when a member that had a partition was frozen, if it was; else when another got it."""
        pauses = [e for e in self.effects.all if e.fault == "pause" and since <= e.begin <= at]
        return max((e.begin for e in pauses if hits_member(e, group, member)), default=at)

    def unowned(self, group: str, begin: int, end: int | None) -> float:
        """Partition-seconds without an owner that a rebalance from `begin` to `end` (null: it never ended)
        put an end to.
        """
        last = self.tables.manifest.get("ended_ns") or max(
            (e["at_ns"] for e in self._events(group)), default=0
        )
        total = 0
        for gap in self.gaps(group):
            if end is None and gap.end == FOREVER and gap.begin >= begin:
                total += max(0, last - gap.begin)
            elif begin <= gap.begin and gap.end <= (FOREVER - 1 if end is None else end):
                total += gap.end - gap.begin
        return total / SECOND

    # Triggers.

    def trigger(
        self, group: str, words: str, begin: int, end: int | None, before: int | None
    ) -> tuple[bool, str]:
        """Whether a trigger may be the right one, and why not. `before`: the last change of the rebalance
        before.
        """
        low = begin - self._session(group)
        if before is not None:
            low = max(low, min(before, begin - 1))
        every = list(self._candidates(group, begin, low))
        sure = [one for one in every if one.sure]
        last = max((one.at for one in sure), default=None)
        if words.endswith(_STAYED) != self._all_went_back(group, begin, end):
            return False, "not whether each partition of a static member went back to it"
        kind, who = _parsed(words.removesuffix(_STAYED))
        new = self._new(group, begin, FOREVER if end is None else end)
        if kind == "new":
            return last is None and self._named(who) == new, f"{sure[-3:]} came before it, or {new} were new"
        if kind in ("unknown", "lost"):
            return last is None and not new, f"{sure[-3:]} came before it, or {new} were new"
        if kind in ("moved", "came back"):
            return self._moved_or_back(group, kind, who, begin), "not by its assignments"
        mine = [one for one in every if one.words[0] == kind and one.words[1] in who]
        if not mine:
            return False, f"not on record in time; candidates: {every[-4:]}"
        best = max(mine)
        if last is not None and best.at < last - SECOND:
            return False, f"{[one for one in sure if one.at == last]} came later"
        close = [one for one in sure if last is not None and one.at >= last - SECOND]
        direct = [one for one in close if one.rank > best.rank and one.at >= best.at - SECOND]
        return not direct, f"{direct} are more direct"

    def _all_went_back(self, group: str, begin: int, end: int | None) -> bool:
        """Whether each partition that a static member gave up went to the next process of that member."""
        if end is None or not (self.tables.group_specs.get(group) or {}).get("static"):
            return False
        had: dict[Place, str] = {}
        before, kept = set[Place](), list[bool]()
        for event in self._events(group):
            if event["kind"] != "assigned" or (place := self.tables.place(event)) is None:
                continue
            if event["at_ns"] > end:
                break
            if event["at_ns"] < begin:
                before.add(place)
            elif place in before:
                kept.append(_slot(had[place]) == _slot(event["member"]))
            had[place] = event["member"]
        return bool(kept) and all(kept)

    def _session(self, group: str) -> int:
        config = (self.tables.group_specs.get(group) or {}).get("config") or {}
        cluster = self.tables.cluster_spec(self.tables.first_cluster).get("config") or {}
        known = config.get("session.timeout.ms") or cluster.get("group.consumer.session.timeout.ms")
        return int(known) * MS if known else _SESSION

    def _candidates(self, group: str, begin: int, low: int) -> Iterator[Candidate]:
        for event in self.tables.rows("group_events"):
            at = event["at_ns"]
            joined = event["kind"] == "joined"
            last = self._whole(event, begin) if joined else self._given_up(event, begin)
            if joined and at > begin and self._succeeds(event, begin):
                continue
            if event["group"] == group and event["kind"] in _COMES and low < at <= last + SECOND:
                sure = event["kind"] == "killed" and low < at <= begin
                yield Candidate(min(at, begin), _MEMBERS, (event["kind"], event["member"]), sure)
        for effect in self.effects.all:
            topics = ("resize",)
            concerned = effect.brokers or effect.target.endswith(f" of {group}") or effect.fault in topics
            if effect.fault == "noop" or not concerned:
                continue
            words = f"{effect.fault} {effect.target}"
            sure = effect.begin <= begin and effect.fault not in topics
            injected = self._injected(effect.id)
            if effect.begin > low and injected // MS <= begin // MS:
                yield Candidate(min(effect.begin, begin), _FAULTS, ("fault", words), sure)
            end = self.serves(effect)
            if low < end and end // MS <= begin // MS and effect.fault not in topics:
                yield Candidate(end, _FAULTS, ("end", words), end <= begin)
        for event in self.tables.rows("cluster_events"):
            at = event["at_ns"]
            if event["kind"] == "stopped" and low < at and at // MS <= begin // MS:
                yield Candidate(at, _BROKERS, ("stopped", str(event["broker"])), at <= begin)

    def _succeeds(self, event: Row, begin: int) -> bool:
        """Whether it is about the next process of a member that gave up partitions since the beginning."""
        slot, mine = _slot(event["member"]), self._events(event["group"])
        gone = {e["member"] for e in mine if e["kind"] in _TAKES and begin <= e["at_ns"] <= event["at_ns"]}
        return any(one != event["member"] and _slot(one) == slot for one in gone)

    def _given_up(self, event: Row, begin: int) -> int:
        """When a member first gave up a partition in a rebalance; else its beginning."""
        mine = (e for e in self._events(event["group"]) if e["member"] == event["member"])
        taken = (e["at_ns"] for e in mine if e["kind"] in _TAKES and e["at_ns"] >= begin)
        return min(taken, default=begin)

    def _whole(self, event: Row, begin: int) -> int:
        """When every partition first had an owner again; of a member that was assigned nothing until then
        the end is left open.
        """
        gaps, at = self.gaps(event["group"]), begin
        while (end := max((gap.end for gap in gaps if gap.begin <= at < gap.end), default=at)) > at:
            at = end
        mine = (e for e in self._events(event["group"]) if e["member"] == event["member"])
        given = any(e["kind"] == "assigned" and e["at_ns"] <= event["at_ns"] + SECOND for e in mine)
        return at if given else FOREVER

    def serves(self, effect: Effect) -> int:
        """When a broker whose process a fault ended was unfenced again, if the cluster records that."""
        unfenced = [e for e in self.tables.rows("cluster_events") if e["kind"] == "unfenced"]
        mine = [e["at_ns"] for e in unfenced if e["broker"] in effect.brokers]
        if (
            effect.fault not in ("kill", "stop", "power-loss", "disk-loss")
            or not mine
            or effect.healed == FOREVER
        ):
            return effect.healed
        return min((at for at in mine if at > effect.begin), default=FOREVER)

    def _injected(self, fault: str) -> int:
        return min(row["injected_ns"] for row in self.tables.rows("faults") if row["id"] == fault)

    def _new(self, group: str, begin: int, end: int) -> set[tuple[str | None, str, int]]:
        """How many partitions of each cluster's topic a group was first assigned in a rebalance, if it had
        others.
        """
        first: dict[Place, int] = {}
        for event in self._events(group):
            place = self.tables.place(event)
            if event["kind"] == "assigned" and place is not None:
                first.setdefault(place, event["at_ns"])
        had_others = min(first.values(), default=begin) < begin
        new = [place[:2] for place, at in first.items() if had_others and begin <= at <= end]
        return {(*topic, new.count(topic)) for topic in new}

    def _named(self, counts: list[str]) -> set[tuple[str | None, str, int]]:
        """As `_new`, from words like `4 of dc2:orders`."""
        each = [one.split(" of ", 1) for one in counts]
        return {(*self.tables.place_of(None, topic, 0)[:2], int(count)) for count, topic in each}

    def _moved_or_back(self, group: str, kind: str, who: list[str], begin: int) -> bool:
        given = [e for e in self._events(group) if e["kind"] == "assigned" and e["at_ns"] >= begin]
        if kind == "moved":
            there = max((e["at_ns"] for e in given if e["cluster"] in who), default=None)
            earlier = [e for e in self._events(group) if there is not None and e["at_ns"] <= there]
            return any(e["cluster"] not in who for e in earlier)
        gone = {
            e["member"] for e in self._events(group) if e["kind"] in ("lost", "revoked", "killed", "left")
        }
        taken = {one for one in who if self._taken_over(group, one, begin)}
        return all(any(e["member"] == one for e in given) and one in gone | taken for one in who)

    def _taken_over(self, group: str, member: str, begin: int) -> bool:
        """Whether another member was assigned what this one had."""
        mine: set[Place | None] = set()
        for event in self._events(group):
            if event["at_ns"] > begin:
                break
            if event["kind"] == "assigned" and event["member"] == member:
                mine.add(self.tables.place(event))
            elif event["kind"] == "assigned" and self.tables.place(event) in mine:
                return True
        return False


_STAYED = " (static: each partition went back to the member that had it)"


def _slot(member: str) -> str:
    """Its name without the number of its process."""
    return re.sub(r"\.\d+$", "", member)


def _parsed(words: str) -> tuple[str, list[str]]:
    """The kind of a trigger, and whom it is about."""
    patterns = {
        r"(.+) joined": "joined",
        r"(.+) left": "left",
        r"(.+) (?:was|were) killed": "killed",
        r"(.+) came back": "came back",
        r"(.+) lost (?:its|their) partitions": "lost",
        r"the group was moved to (.+)": "moved",
        r"broker (\d+) stopped": "stopped",
        r"partitions new to the group: (.+)": "new",
        r"(unknown)": "unknown",
    }
    for pattern, kind in patterns.items():
        match = re.fullmatch(pattern, words)
        if match is not None:
            return kind, match[1].split(", ")
    if words.startswith("end of "):
        return "end", [words.removeprefix("end of ")]
    return "fault", [words]
