"""What reports say of leader changes, recoveries, groups and rates beyond the claims, from the raw tables."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from second_opinion.answers import NOT_DECIDABLE, Opinion, after, equal, one_of
from second_opinion.effects import FOREVER, Effect
from second_opinion.failovers import Election
from second_opinion.raw import MS, Place, Row

if TYPE_CHECKING:
    from second_opinion.opinion import Examiner


class Figures:
    """Of one run."""

    def __init__(self, of: Examiner) -> None:
        self.of, self.tables, self.findings = of, of.tables, of.findings

    def all(self) -> Iterator[Opinion]:
        """Every opinion."""
        for row in self.findings.get("leader_changes") or []:
            if row["leader"] >= 0:
                yield from self._leader_change(row)
        for row in self.findings.get("faults") or []:
            effect = self.of.effect(row["id"])
            if effect is not None and effect in self.of.judged_effects():
                yield self._first_delivery(row, effect)
                if effect.fault != "move-replicas":  # the set is another one then
                    yield self._isr_restored(row, effect)
        for row in self.findings.get("rebalances") or []:
            yield from self._read_again(row)
        for row in self.findings.get("availability") or []:
            if row["group"] is None and row["within_timeout"] is not None:
                yield self._within_timeout(row)

    def _leader_change(self, row: Row) -> Iterator[Opinion]:
        """Who led before, for how long there was no leader, and for how long two acknowledged."""
        place = self.tables.place_of(row.get("cluster"), row["topic"], row["partition"])
        words = f"leader change of {place} to epoch {row['epoch']}"
        events = [e for e in self.tables.events_of(place) if e["leader"] is not None]
        here = [
            n
            for n, e in enumerate(events)
            if (e["at_ns"], e["leader_epoch"]) == (row["elected_ns"], row["epoch"])
        ]
        if here:
            before = events[: here[0]]
            led = [
                e["leader"]
                for e in before
                if e["leader"] >= 0
                and not self.of.failovers.had_no_term(place, e["at_ns"], e["leader_epoch"] or 0)
            ]
            yield self._unclean(words, place, row, events[here[0]])
            yield one_of(f"{words}: old_leader", row.get("old_leader"), {led[-1] if led else None})
            since = None
            for event in reversed(before):
                if event["leader"] >= 0:
                    break
                since = event["at_ns"]
            length = None if since is None else (row["elected_ns"] - since) / MS
            yield equal(f"{words}: without_leader_ms", row.get("without_leader_ms"), {length}, 0.001)
        first, last = row["first_ack_ns"], row["last_deposed_ack_ns"]
        both = None if first is None or last is None or last < first else (last - first) / MS
        yield equal(f"{words}: overlap_ms", row.get("overlap_ms"), {both}, 0.001)
        if len(row.get("learned") or ()) == 1:  # all producers are of one kind of client
            yield self._learned(words, place, row, row["learned"][0])

    def _unclean(self, words: str, place: Place, row: Row, election: Row) -> Opinion:
        """Whether the last event before, or any at the same time, leaves the new leader eligible."""
        words = f"{words}: unclean"
        if any(f["fault"] in ("recreate", "delete-topic") for f in self.tables.rows("faults")):
            return Opinion(words, NOT_DECIDABLE, "a recreated topic has had no leader before its first")
        if any(f["fault"] in ("move-replicas", "reassign", "grow") for f in self.tables.rows("faults")):
            return Opinion(words, NOT_DECIDABLE, "an only replica may have moved")
        others = [e for e in self.tables.events_of(place) if e["isr"] is not None and e is not election]
        last_ns = max((e["at_ns"] for e in others if e["at_ns"] < election["at_ns"]), default=None)
        before = [e for e in others if e["at_ns"] in (last_ns, election["at_ns"])]
        allowed = {election["leader"] not in {*e["isr"], *(e.get("elr") or ())} for e in before} or {None}
        if election["isr"] not in (None, [election["leader"]]) and None not in allowed:
            allowed = {False}  # it is not alone
        return one_of(words, row.get("unclean"), {None} if election.get("within_ns") is not None else allowed)

    def _learned(self, words: str, place: Place, row: Row, learned: Row) -> Opinion:
        """The first acknowledgement of each producer from the new leader."""
        firsts: dict[int, int] = {}
        for send in self.tables.sends_of.get(place, []):
            done, who = send["done_ns"], send["producer"]
            record = self.tables.stored_at.get(place, {}).get(send["offset"])
            mine = record is not None and record["leader_epoch"] == row["epoch"]
            if (
                send["outcome"] == "acked"
                and done is not None
                and mine
                and (record["producer"], record["seq"]) == (who, send["seq"])
            ):
                firsts[who] = min(firsts.get(who, done), done)
        times = sorted(max(0.0, (at - row["elected_ns"]) / MS) for at in firsts.values())
        if not times:
            return Opinion(f"{words}: learned", NOT_DECIDABLE, "nothing is left of what it acknowledged")
        told = (learned["producers"], round(learned["first_ms"], 3), round(learned["last_ms"], 3))
        allowed = {(len(times), round(times[0], 3), round(times[-1], 3))}
        return one_of(f"{words}: learned", told, allowed)

    def _first_delivery(self, row: Row, effect: Effect) -> Opinion:
        """Of a message that a new leader took, in any of the partitions that the fault moved."""
        found: set[float | None] = set()
        choices: list[dict[Place, Election]] = [{}]
        for place in self.of.failovers.places():
            elections = self.of.failovers.elections(effect, place)
            choices = [{**some, place: one} if one else some for some in choices for one in elections][:64]
        for epochs in choices:
            times = [self._delivered(place, one, effect) for place, one in epochs.items()]
            found.add(after(min((at for at in times if at is not None), default=None), effect))
        return equal(
            f"fault {row['id']}: first_delivery_after_ms", row["first_delivery_after_ms"], found, 0.001
        )

    def _delivered(self, place: Place, election: Election, effect: Effect) -> int | None:
        stored = self.tables.stored_at.get(place, {})
        epochs = {o: r["leader_epoch"] or 0 for o, r in stored.items() if r["producer"] is not None}
        taken = {offset for offset, epoch in epochs.items() if epoch >= election.epoch}
        if self.tables.may_remove(place) and self.tables.all_acks(place) is True:
            # What was acknowledged after the election is the new leader's, also if the log has lost it; but
            # not before a record of an old leader, which goes on until it hears of the election.
            lowest = 1 + max((o for o, epoch in epochs.items() if epoch < election.epoch), default=-1)
            taken |= {
                s["offset"]
                for s in self.tables.sends_of.get(place, [])
                if s["outcome"] == "acked"
                and (s["offset"] or 0) >= lowest
                and (s["done_ns"] or 0) // MS > election.at // MS
            } - stored.keys()
        return min(
            (
                d["polled_ns"]
                for d in self.tables.rows("deliveries")
                if self.tables.place(d) == place and d["offset"] in taken and d["polled_ns"] >= effect.begin
            ),
            default=None,
        )

    def _isr_restored(self, row: Row, effect: Effect) -> Opinion:
        words = f"fault {row['id']}: isr_restored_ms"
        return equal(words, row["isr_restored_ms"], self.full_again(effect), 0.001)

    def full_again(self, effect: Effect) -> set[float | None]:
        """From the heal until each ISR that lost one of its brokers before their next fault was full (ms)."""
        nexts = [
            e.begin
            for e in self.of.effects.of_brokers
            if e.begin > effect.begin and e.brokers & effect.brokers and e.fault != "noop"
        ]
        until, ends, edge = min(nexts, default=None), set[int | None](), False
        for place in self.of.failovers.places():
            isrs = [(e["at_ns"], set(e["isr"])) for e in self.tables.events_of(place) if e["isr"] is not None]
            full = max((len(isr) for _, isr in isrs), default=0)
            lost = [
                at
                for (_, before), (at, isr) in pairwise(isrs)
                if (before - isr) & effect.brokers and at + MS > effect.begin
            ]
            if lost and (until is None or lost[0] <= until):
                edge = edge or (until is not None and lost[0] + MS > until)
                healed = max(lost[0], effect.healed)
                then = [isr for at, isr in isrs if at <= healed][-1]
                later = (at for at, isr in isrs if at > healed and len(isr) >= full)
                ends.add(healed if len(then) >= full else next(later, None))
        moves = effect.fault in ("elect-preferred", "move-leader", "move-replicas")
        if effect.healed == FOREVER or None in ends or not ends or moves:
            return {None}
        last = max(at for at in ends if at is not None)
        return {max(0, last - effect.healed) / MS} | ({None} if edge else set())

    def _read_again(self, row: Row) -> Iterator[Opinion]:
        """The first delivery to its new owner from the partition that was read again last."""
        group, begin, end = row["group"], row["started_ns"], row["ended_ns"]
        changes = self.of.groups.changes(group)
        clusters = {e["cluster"] for e in changes}
        if (
            (self.tables.group_specs.get(group) or {}).get("type") == "share"
            or end is None
            or len(clusters) > 1
        ):
            return
        deliveries = self.of.groups.deliveries_of(group)
        last: dict[Place, int | None] = {}
        for number, event in enumerate(changes):
            place, member, at = self.tables.place(event), event["member"], event["at_ns"]
            if event["kind"] != "assigned" or place is None or not begin <= at <= end:
                continue
            if not any(
                e["kind"] == "assigned" and self.tables.place(e) == place
                for e in changes[:number]
                if e["at_ns"] < begin
            ):
                continue  # its first owner
            until = self._until(changes[number + 1 :], place, member)
            times = [
                t for t in deliveries.get((member, place), []) if at <= t and (until is None or t <= until)
            ]
            last[place] = min(times, default=None)
        words = f"rebalance of {group} at {begin}"
        known = [at for at in last.values() if at is not None]
        yield one_of(f"{words}: resumed_ns", row["resumed_ns"], {max(known, default=None)})
        yield one_of(f"{words}: unresumed", row["unresumed_partitions"], {len(last) - len(known)})

    def _until(self, later: list[Row], place: Place, member: str) -> int | None:
        """When a member lost a partition."""
        for event in later:
            mine = self.tables.place(event) in (place, None) and event["member"] == member
            if (mine and event["kind"] != "assigned") or (
                event["kind"] == "assigned"
                and self.tables.place(event) == place
                and event["member"] != member
            ):
                return int(event["at_ns"])
        return None

    def _within_timeout(self, row: Row) -> Opinion:
        place = None
        if row["topic"] is not None:
            place = self.tables.place_of(row.get("cluster"), row["topic"], row["partition"])
        sends = self.tables.rows("sends") if place is None else self.tables.sends_of.get(place, [])
        acked = [s for s in sends if s["outcome"] == "acked" and s["done_ns"] is not None]
        count = sum(s["done_ns"] - s["attempt_ns"] <= self._timeout_ms(s["producer"]) * MS for s in acked)
        where = place or "all partitions"
        return one_of(f"availability of {where}: within_timeout", row["within_timeout"], {count})

    @cache  # noqa: B019
    def _timeout_ms(self, producer: int) -> int:
        """librdkafka's and Java's defaults; a pipe's numbers come after the producers', in turn."""
        specs = self.tables.producer_specs
        pipes = [g["produces"] for g in self.tables.group_specs.values() if g.get("produces")]
        spec = specs.get(producer) or (pipes[(producer - len(specs)) % len(pipes)] if pipes else {})
        config = spec.get("config") or {}
        in_transactions = producer not in specs or spec.get("transactions") or "transactional.id" in config
        default = 120_000 if spec.get("client") == "java" else 300_000
        if in_transactions and spec.get("client") != "java":
            default = int(config.get("transaction.timeout.ms", 60_000))
        if spec.get("on-failure"):
            default = 30_000
        names = (
            ["delivery.timeout.ms"]
            if spec.get("client") == "java"
            else ["message.timeout.ms", "delivery.timeout.ms"]
        )
        return next((int(config[name]) for name in names if name in config), default)
