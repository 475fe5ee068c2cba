"""The judgement in plain Python: what docs/GLOSSARY.md says, row by row, with no thought of speed.

Written from the definitions, not from the Spark code; the property tests hold the two against each other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise

from fakes.histories import History
from fakes.oracle_late import Late
from fakes.oracle_mirrors import Mirrors, cluster_of, of_clusters
from fakes.oracle_rows import Place, Row, decided, named, owned_before, place, skips, sought, spot, who
from fakes.oracle_shares import Shares
from fakes.oracle_stores import Stores
from fakes.oracle_transactions import Transactions, visible

FEW = {0: "0", 1: "1"}


class Oracle:
    """Fates and anomaly counts of a history."""

    def __init__(self, history: History) -> None:
        self.history = history = of_clusters(history)
        self.sends, self.log = history.rows["sends"], history.rows["log"]
        self.deliveries, self.events = history.rows["deliveries"], history.rows["group_events"]
        self.sent = {(s["producer"], s["seq"]): s for s in self.sends}
        self.records = [r for r in self.log if named(r)]
        self.mirrors = Mirrors(self)
        self.own = [r for r in self.records if self.mirrors.at_home(r)]
        self.copies = Counter(who(r) for r in self.own if visible(r))
        self.read_to_end = {
            place(e) for e in history.rows["end_offsets"] if e["end_offset"] == e["drained_to"]
        }
        self.shared = history.rows["share_events"]
        self.groups = sorted(
            {*history.groups, *(d["group"] for d in self.deliveries + self.events + self.shared)}
            | {o["group"] for o in history.rows["outputs"]}
        )
        self.transactions = Transactions(self)
        self.removed: Counter[str] = Counter()  # by what: filled in by Causes, which needs this oracle

    def places_of(self, topic: str) -> set[Place]:
        """The known partitions of a topic."""
        rows = [*self.sends, *self.log, *self.deliveries, *self.history.rows["end_offsets"]]
        known = {place(r) for r in rows if r["partition"] is not None}
        known |= {(t["name"], p) for t in self.history.topics for p in range(t.get("partitions", 1))}
        return {p for p in known if p[0] == topic}

    def stored(self, send: Row) -> str:
        """0, 1, n, unread or uncommitted."""
        copies = self.copies[who(send)]
        if copies:
            return FEW.get(copies, "n")
        places = {place(send)} if send["partition"] is not None else self.places_of(send["topic"])
        if not places or not places <= self.read_to_end:
            return "unread"
        return "uncommitted" if self.transactions.uncommitted(send) else "0"

    def delivered(self, group: str) -> Counter[tuple[int, int]]:
        """How often each message was handed to the group."""
        return Counter(who(d) for d in self.deliveries if d["group"] == group and named(d))

    def isolation(self, group: str) -> str | None:
        """What the scenario says; None of a group that it does not have."""
        if group not in self.history.groups:
            return None
        block = self.history.blocks.get(group, {})
        if block.get("type") == "share":
            return str(block.get("group-config", {}).get("share.isolation.level", "read_uncommitted"))
        return str(block.get("config", {}).get("isolation.level", "read_committed"))

    def topics(self) -> set[str]:
        tables = ("sends", "log", "deliveries", "group_events", "share_events", "outputs", "end_offsets")
        rows = [row for table in tables for row in self.history.rows[table]]
        named = {row["topic"] for row in rows if row["topic"] is not None}
        return named | {t["name"] for t in self.history.topics}

    def unread_partitions(self) -> set[Place]:
        """The partitions of the run that were not read to their end."""
        rows = [*self.sends, *self.log, *self.history.rows["end_offsets"]]
        known = {place(r) for r in rows if r["partition"] is not None}
        known |= {(t["name"], p) for t in self.history.topics for p in range(t.get("partitions", 1))}
        return known - self.read_to_end

    def fates(self) -> Counter[tuple[str, str]]:
        """Messages by (outcome, stored)."""
        return Counter((s["outcome"], self.stored(s)) for s in self.sends)

    def group_fates(self, group: str) -> Counter[tuple[str, str, str]]:
        """Messages by (outcome, stored, delivered)."""
        handed = self.delivered(group)
        return Counter((s["outcome"], self.stored(s), FEW.get(handed[who(s)], "n")) for s in self.sends)

    def run_counts(self) -> dict[str, int]:
        fates = self.fates()
        return (
            {
                "lost": fates["acked", "0"] - sum(self.removed[what] for what in ("compaction", "retention")),
                "removed": self.removed.total(),
                "duplicate": sum(n for (_, stored), n in fates.items() if stored == "n"),
                "recovered": fates["unknown", "1"] + fates["unknown", "n"],
                "ghost": sum(
                    n for (o, stored), n in fates.items() if o in ("failed", "refused") and stored in "1n"
                ),
                "lost-in-store": Stores(self).fates().get("lost_in_store", 0),
                "phantom": sum(who(r) not in self.sent for r in self.records),
                "corrupt": len({spot(r) for r in self.log + self.deliveries if not r["intact"]}),
                "reordered": len(self.reordered()),
                "inconsistent-offset": sum(len(names) > 1 for names in self.claims().values()),
            }
            | self.transactions.counts()
            | self.mirrors.run_counts()
        )

    def reordered(self) -> set[tuple[int, int]]:
        """Messages that stand behind a later one of theirs."""
        first: dict[tuple[int, Place, int], int] = {}
        for r in self.own:
            if who(r) in self.sent and visible(r):
                key = (r["producer"], place(r), r["seq"])
                first[key] = min(first.get(key, r["offset"]), r["offset"])
        late = set()
        for (producer, at, seq), offset in first.items():
            others = [s for (p, a, s), o in first.items() if (p, a) == (producer, at) and o < offset]
            if others and max(others) > seq:
                late.add((producer, seq))
        return late

    def claims(self) -> dict[tuple[str, int, int], set[tuple[int, int]]]:
        """The messages that claim each offset."""
        claims = defaultdict(set)
        acks = [
            s for s in self.sends if s["outcome"] == "acked" and None not in (s["partition"], s["offset"])
        ]
        for row in acks + self.records + [d for d in self.deliveries if named(d)]:
            claims[spot(row)].add(who(row))
        return claims

    def group_counts(self, group: str) -> dict[str, int]:
        """The anomalies of one group."""
        mine, events, read = self.order_of(group)
        shares = Shares(self.history, group)
        return (
            shares.counts()
            | self.transactions.pipe(group)
            | {
                "unseen": len(self.unseen(group)),
                "aborted-read": self.transactions.aborted_read(group),
                "redelivered": sum(n > 1 for n in Counter(map(spot, mine)).values()),
                **{name: len(pairs) for name, pairs in self.odd_steps(group).items()},
                "commit-ahead": sum(
                    self.ahead(e, mine, events, read) for e in events if e["kind"] == "committed"
                ),
                "unassigned-delivery": self.unassigned(mine, events),
                "vanished": len(self.vanished(group)),
                "translated-ahead": len(self.mirrors.ahead(group)),
                "translated-behind": len(self.mirrors.behind(group)),
            }
        )

    def order_of(self, group: str) -> tuple[list[Row], list[Row], list[Row]]:
        """What a group was delivered, its events and the log that it reads. Of a share group neither of the
        first: order is not promised, and redelivery is no anomaly.
        """
        mine = [d for d in self.deliveries if d["group"] == group]
        events = [e for e in self.events if e["group"] == group]
        if Shares(self.history, group).is_share_group:
            mine, events = [], []
        mine = [d for d in mine if not self.recreated(d) or self.is_stored(d)]
        events = [e for e in events if e["kind"] != "committed" or self.of_new_topic(e, mine)]
        read = [r for r in self.log if visible(r) or self.isolation(group) == "read_uncommitted"]
        return mine, events, read

    def odd_steps(self, group: str) -> dict[str, list[tuple[Row, Row]]]:
        """Its polls that jumped, and those that went back: the deliveries before and after each."""
        mine, events, read = self.order_of(group)
        late = Late(self, group)

        def skipped(one: Row, two: Row) -> bool:
            start = late.removed_to(place(one))
            return skips(read, one, two) and (start is None or one["offset"] + 1 >= start)

        return {
            "poll-skip": self.steps(mine, events, skipped),
            "nonmonotonic-poll": self.steps(mine, events, lambda one, two: two["offset"] <= one["offset"]),
        }

    def deleted(self, send: Row) -> bool:
        """Whether a message was acknowledged below where its log begins now."""
        starts = [e.get("start_offset") for e in self.history.rows["end_offsets"] if place(e) == place(send)]
        return send["offset"] is not None and any(s is not None and send["offset"] < s for s in starts)

    def recreated(self, row: Row) -> list[int]:
        """When steps deleted a row's topic, to create it again."""
        return [
            f["effective_ns"]
            for f in self.history.rows["faults"]
            if f["fault"] in ("recreate", "delete-topic")
            and f["bit"]
            and f["target"] == f"topic {row['topic']}"
        ]

    def of_new_topic(self, commit: Row, delivered: list[Row]) -> bool:
        """Whether a commit refers to the topic as it was created last: the old one was gone, and the group
        had been delivered something from the new one. `delivered`: what the group was, from the new one.
        """
        gone = max(self.recreated(commit), default=None)
        if gone is None:
            return True
        here = [d["polled_ns"] for d in delivered if place(d) == place(commit)]
        return commit["at_ns"] > gone and any(at <= commit["at_ns"] for at in here)

    def is_stored(self, delivery: Row) -> bool:
        """Whether the log has this message at this offset."""
        return any(spot(r) == spot(delivery) and who(r) == who(delivery) for r in self.log)

    def in_old_topic(self, send: Row) -> bool:
        """Whether it was attempted before a step deleted its topic, to create it again."""
        return any(send["attempt_ns"] <= gone_ns for gone_ns in self.recreated(send))

    def unseen(self, group: str) -> list[Row]:
        """The sends of what is stored and was never handed to a group that read to the end."""
        if not self.history.groups.get(group, False):
            return []
        topics = self.history.subscriptions.get(group, [t["name"] for t in self.history.topics])
        handed = self.delivered(group)
        acquired = {spot(e) for e in self.shared if (e["group"], e["kind"]) == (group, "acquired")}
        acquired -= {spot(d) for d in self.deliveries if d["group"] == group}
        handed.update(who(r) for r in self.records if spot(r) in acquired)
        return [
            s
            for s in self.sends
            if self.copies[who(s)] > 0 and handed[who(s)] == 0 and self.mirrors.home(s) in topics
        ]

    def too_early(self, group: str) -> int:
        """What of it the group never had to read."""
        left = self.mirrors.left_behind(group)
        return Late(self, group).early([send for send in self.unseen(group) if send not in left])

    def skipped(self, group: str) -> list[Row]:
        """What of it the group was moved past on purpose: past every copy."""
        return [
            s
            for s in self.unseen(group)
            if all(
                r["offset"] in self.passed_over(group, place(r))
                for r in self.records
                if who(r) == who(s) and visible(r)
            )
        ]

    def passed_over(self, group: str, at: Place, by_ns: int = 1 << 62) -> set[int]:
        """The offsets that it was moved past by then, and to which it had not gone back before that."""
        events = sorted((e for e in self.events if e["group"] == group), key=lambda e: e["at_ns"])
        came = ("joined", "assigned", "revoked", "lost", "left", "killed")
        found: set[int] = set()
        for e in events:
            gone = max(self.recreated(e), default=0) if e["topic"] is not None else 0
            if (e["kind"], place(e)) != ("skipped", at) or not gone <= e["at_ns"] <= by_ns:
                continue
            later = [o for o in events if e["at_ns"] < o["at_ns"] < by_ns]
            past = set(range(e["offset"], e["until"]))
            for o in later:
                on_its_way = o["kind"] == "committed" and o["offset"] <= e["offset"]
                on_its_way &= not any(c["kind"] in came and c["at_ns"] < o["at_ns"] for c in later)
                moves = o["kind"] in ("committed", "seek") and o["offset"] is not None
                if moves and place(o) == at and not on_its_way:
                    past = {offset for offset in past if offset < o["offset"]}
            found |= past
        return found

    def begins(self, group: str, at: Place) -> int:
        """From which offset on anything was for the group."""
        return Late(self, group).start(at)

    def owed_unseen(self, group: str) -> list[Row]:
        """The first copies of what of it was for the group."""
        late, past = Late(self, group), self.skipped(group)
        copies = [(late.copy(s), s) for s in self.unseen(group) if s not in past]
        return [
            r
            for r, s in copies
            if r is not None
            if late.back_ns is None or late.ruling(r["offset"], s, place(r)) == "owed"
        ]

    def vanished(self, group: str) -> list[Row]:
        """The sends of what was handed to a group and is stored nowhere."""
        handed = self.delivered(group)
        gone = [s for s in self.sends if handed[who(s)] and self.stored(s) == "0"]
        return [s for s in gone if not self.history.clusters or not self.mirrors.copies(s)]

    def redelivered_after_commit(self, group: str) -> int:
        """Offsets handed out more than once, and to
        a member that came after a commit that covers them."""
        return len(self.delivered_behind_commits(group))

    def delivered_behind_commits(self, group: str) -> dict[tuple[str, int, int], list[tuple[int, int]]]:
        """By offset, of the deliveries to those: when each began, and what was committed by then."""
        mine, events, _ = self.order_of(group)
        commits = [e for e in events if e["kind"] == "committed"]
        again = defaultdict(list)
        for d in mine:
            others = [e for e in mine if e is not d and spot(e) == spot(d)]
            began = self.began(d)
            by_then = [c for c in commits if place(c) == place(d) and c["at_ns"] <= began]
            if others and decided(by_then, began) > d["offset"]:
                again[spot(d)].append((began, decided(by_then, began)))
        return again

    def began(self, delivery: Row) -> int:
        """When its member was assigned the partition last, by then; its own time where that is unknown. Of
        what happened at the moment of the delivery, what came before it is not known. Before every commit, if
        it went there by itself since.
        """
        mine = [e for e in self.events if e["group"] == delivery["group"]]
        given = [
            e
            for e, owned in owned_before(mine, delivery)
            if e["kind"] == "assigned" and not owned and e["at_ns"] <= delivery["polled_ns"]
        ]
        had = [e for e in given if e["at_ns"] < delivery["polled_ns"]]
        at_once = [e for e, owned in owned_before(mine, delivery) if e["at_ns"] == delivery["polled_ns"]]
        owned = any(owned for e, owned in owned_before(mine, delivery) if e in at_once[:1])
        times = [e["at_ns"] for e in (had if had and owned else given)]
        went = [at_ns for at_ns in self.seeks(mine, delivery) if at_ns <= delivery["polled_ns"]]
        if max(went, default=-(2**63)) >= max(times, default=-(2**62)):
            return -(2**63)
        return int(max(times, default=delivery["polled_ns"]))

    def seeks(self, events: list[Row], delivery: Row) -> list[int]:
        """When the member of a delivery went elsewhere in its partition by itself."""
        known = [e for e in events if e["kind"] == "seek"] + self.transactions.went_back(delivery["group"])
        return [e["at_ns"] for e in known if sought(e, delivery)]

    def steps(
        self, mine: list[Row], events: list[Row], odd: Callable[[Row, Row], bool]
    ) -> list[tuple[Row, Row]]:
        """Odd steps between a member's consecutive deliveries from a partition, its assignment unchanged."""
        readers = defaultdict(list)
        members = {row["member"] for row in [*mine, *events]}
        assigned = {place(e) for e in events if e["kind"] == "assigned" and None not in place(e)}
        # Of several members, another may have had a partition of which no assignment is known.
        mine = [d for d in mine if len(members) == 1 or place(d) in assigned]
        # What was polled at one moment is one poll, in the order of its offsets.
        for d in sorted(mine, key=_in_turn):
            readers[d["member"], place(d)].append(d)
        return [
            (one, two)
            for polls in readers.values()
            for one, two in pairwise(polls)
            if odd(one, two) and not self.reassigned(one, two, events)
        ]

    def reassigned(self, one: Row, two: Row, events: list[Row]) -> bool:
        """Whether the member's assignment of that partition may have changed between two deliveries, or
        whether it went elsewhere by itself. What it is assigned and has already changes nothing.
        """
        changes = [
            e["at_ns"] for e, owned in owned_before(events, one) if e["kind"] != "assigned" or not owned
        ]
        changes += self.seeks(events, one)
        return any(one["polled_ns"] <= at_ns <= two["polled_ns"] for at_ns in changes)

    def unassigned(self, mine: list[Row], events: list[Row]) -> int:
        """Records handed to a member that does not own their partition, where anybody was assigned it."""
        assigned = {place(e) for e in events if e["kind"] == "assigned" and None not in place(e)}
        return sum(place(d) in assigned and not self.owns(d, events) for d in mine)

    def owns(self, delivery: Row, events: list[Row]) -> bool:
        """Whether the member had the partition at that moment, before or after what happened at it."""
        then = delivery["polled_ns"]
        past = [e for e, _ in owned_before(events, delivery) if e["at_ns"] <= then]
        before = [e["kind"] for e in past if e["at_ns"] < then]
        now = [e["kind"] for e in past if e["at_ns"] == then]
        return before[-1:] == ["assigned"] or "assigned" in now

    def ahead(self, commit: Row, mine: list[Row], events: list[Row], log: list[Row]) -> bool:
        """Whether a commit passes a stored record that the group had not been handed by then."""
        here = [d for d in mine if place(d) == place(commit)]
        first = self.began_at(commit, here, events)
        by_then = {d["offset"] for d in here if d["polled_ns"] <= commit["at_ns"]}
        owed = {
            r["offset"] for r in log if place(r) == place(commit) and first <= r["offset"] < commit["offset"]
        }
        return bool(owed - by_then - self.passed_over(commit["group"], place(commit), commit["at_ns"]))

    def began_at(self, commit: Row, here: list[Row], events: list[Row]) -> int:
        """Where the group began in the partition of a commit, when it was last new there: at its first
        assignment there, or at the first since it was assigned anything in another cluster. Anew, if the log
        may have removed its position.
        """
        if Late(self, commit["group"]).removed_to(place(commit)) is not None:
            return self.begins(commit["group"], place(commit))
        moved = [(e["at_ns"], e["target_offset"]) for e in self.mirrors.returns(commit)]
        given = [e for e in events if e["kind"] == "assigned" and None not in place(e)]
        given.sort(key=lambda e: e["at_ns"])
        new: dict[int, list[int | None]] = {}
        for number, e in enumerate(given):
            mine = [p for p in range(number) if place(given[p]) == place(e)]
            elsewhere = [p for p in range(number) if cluster_of(given[p]) != cluster_of(e)]
            if place(e) == place(commit):
                at_once = bool(mine) and given[mine[-1]]["at_ns"] == e["at_ns"] and e["at_ns"] in new
                if not mine or at_once or (elsewhere and elsewhere[-1] > mine[-1]):
                    new.setdefault(e["at_ns"], []).append(e["offset"])
        begun = {at_ns: max((o for o in told if o is not None), default=None) for at_ns, told in new.items()}
        for at_ns, offset in moved:
            begun[at_ns] = offset if begun.get(at_ns) is None else begun[at_ns]
        past = [at_ns for at_ns in begun if at_ns <= commit["at_ns"]]
        since = max(past) if past else min(begun, default=None)
        if since is not None and begun[since] is not None:
            return int(begun[since])  # type: ignore[arg-type]
        after = [at_ns for at_ns in begun if since is not None and at_ns > since]
        first = [at_ns for at_ns in begun if since is not None and at_ns < since]
        then = [
            (d["polled_ns"], d["offset"])
            for d in here
            if (not first or d["polled_ns"] >= (since or 0)) and (not after or d["polled_ns"] < min(after))
        ]
        return min(then)[1] if then else self.begins(commit["group"], place(commit))


def _in_turn(delivery: Row) -> tuple[int, int, int, int]:
    """Of one moment by offset, and of one offset by message, those without an identity first."""
    least = -(2**63)
    producer, seq = (least if delivery[name] is None else delivery[name] for name in ("producer", "seq"))
    return delivery["polled_ns"], delivery["offset"], producer, seq
