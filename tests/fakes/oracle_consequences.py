"""What follows from messages that were overwritten, in plain Python: docs/decisions/0041, case by case.

Written from the definition, not from the analysis. Why a message is gone is in oracle_causes.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from fakes.histories import MS
from fakes.oracle import Oracle
from fakes.oracle_causes import Causes
from fakes.oracle_rows import Place, Row, named, place, spot, who
from fakes.oracle_shares import Shares

_LEAST_EXPLAINED_FIRST = ("unexplained", "leader-restarted", "deposed-leader", "unclean-election", "acks-0")


Spot = tuple[str, int, int]


class Overwritten(NamedTuple):
    """A message that was at an offset and is there no more, since an epoch began at or below it.

    begin: where that epoch begins; since_ns: when it began, None where that is not known.
    """

    place: Place
    offset: int
    who: tuple[int, int]
    begin: int
    since_ns: int | None
    cause: str
    permitted: bool

    def began_by(self, at_ns: int) -> bool:
        """Whether it may have been overwritten by then."""
        return self.since_ns is None or self.since_ns // MS <= at_ns // MS

    def reaches(self, at: Place, offset: int) -> bool:
        """Whether it is at the offset, or above it in what was overwritten with it."""
        return self.place == at and self.begin <= offset <= self.offset


def excused(behind: Iterable[Overwritten]) -> bool:
    """Whether a case that follows from these is permitted: the least explained ones decide, and of these the
    one that was promised most.
    """
    known = sorted(behind, key=lambda one: _LEAST_EXPLAINED_FIRST.index(one.cause))
    return bool(known) and all(one.permitted for one in known if one.cause == known[0].cause)


class Consequences:
    """How many cases of each anomaly are permitted, since the loss behind them is."""

    def __init__(self, oracle: Oracle, causes: Causes) -> None:
        self.oracle, self.causes = oracle, causes
        self.there = {(spot(r), who(r)) for r in oracle.records}
        self.acknowledged = [
            one
            for s in oracle.sends
            if s["outcome"] == "acked" and None not in (s["partition"], s["offset"])
            if (spot(s), who(s)) not in self.there
            for one in [self.overwritten(s)]
            if one is not None and self.causes.why(s).get("epoch") is not None
        ]

    def overwritten(self, claim: Row) -> Overwritten | None:
        """Of what is known to have been there: None where no epoch explains that it is there no more."""
        why = self.causes.why(claim)
        if why.get("epoch") is None and not why.get("either"):
            return None
        cause = "acks-0" if self.causes.acks(claim) == "0" else why["cause"]
        epoch = why.get("epoch") or {"at_ns": None}
        begin = min(epoch["start"], claim["offset"]) if why.get("by start") else claim["offset"]
        permitted = self.causes.permitted(why, claim)
        return Overwritten(place(claim), claim["offset"], who(claim), begin, epoch["at_ns"], cause, permitted)

    def handed(self, group: str | None) -> list[Overwritten]:
        """What a group (or any) was handed where the log has something else now, or nothing."""
        found = [self.overwritten(self._claim(d)) for d in self._odd(group)]
        return [one for one in found if one is not None]

    def _odd(self, group: str | None, read: bool = True) -> list[Row]:
        """A delivery of each message at each offset where the log has something else, or nothing; `read`: of
        partitions that were read to their end, or of the others.
        """
        odd = {
            (spot(d), who(d)): d
            for d in self.oracle.deliveries
            if group in (None, d["group"]) and named(d) and (place(d) in self.oracle.read_to_end) == read
            if (spot(d), who(d)) not in self.there
        }
        return list(odd.values())

    def _claim(self, delivery: Row) -> Row:
        """Its acknowledgement there, else what its first delivery there says, also of what was never sent."""
        unsent = {"producer": delivery["producer"], "seq": delivery["seq"], "outcome": "never sent"}
        send = self.oracle.sent.get(who(delivery), unsent)
        if send["outcome"] == "acked" and spot(send) == spot(delivery):
            return send
        same = (spot(delivery), who(delivery))
        first_ns = min(d["polled_ns"] for d in self.oracle.deliveries if (spot(d), who(d)) == same)
        where = {key: delivery[key] for key in ("topic", "partition", "offset")}
        sent_ns = send.get("attempt_ns") or first_ns  # a frozen member may show late what it had fetched
        return {**send, **where, "attempt_ns": sent_ns, "done_ns": first_ns}

    def of_run(self) -> dict[str, int]:
        """Of the run's own anomalies."""
        torn, lost = self.oracle.transactions.odd()
        offsets = [at for at, names in self.oracle.claims().items() if len(names) > 1]
        return {
            "torn-transaction": sum(self._by_loss(one) for one in torn),
            "lost-commit": sum(self._by_loss(one) for one in lost),
            "inconsistent-offset": sum(self._displaced(at) for at in offsets),
        }

    def _by_loss(self, transaction: Row) -> bool:
        """Whether nothing is wrong with a transaction but losses, all of which are permitted."""
        gone = self.oracle.transactions.gone(transaction)
        logged = {who(r) for r in self.oracle.records}
        if transaction["outcome"] == "aborted":
            return False
        if transaction["outcome"] == "unknown" and any(who(s) in logged for s in gone):
            return False
        return all(self.causes.permitted(self.causes.why(s), s) for s in gone)

    def _displaced(self, at: tuple[str, int, int]) -> bool:
        """By the acknowledgements that the log contradicts there, else by the deliveries. Where the log was
        not read, any but the best explained of all these may be there.
        """
        if any(self._anew(self._claim(d), at) for d in self._odd(None, read=False) if spot(d) == at):
            return True
        acks = [
            (self.causes.why(s), s)
            for s in self.oracle.sends
            if s["outcome"] == "acked" and spot(s) == at and (at, who(s)) not in self.there
        ]
        if not acks:
            claims = [self._claim(d) for d in self._odd(None) if spot(d) == at]
            unexplained = [claim for claim in claims if self.overwritten(claim) is None]
            old = [claim for claim in unexplained if self.oracle.in_old_topic(claim)]
            if old:
                return len(old) == len(unexplained) and not self._hole(at)
            return excused(one for one in self.handed(None) if (*one.place, one.offset) == at)
        ranked = [(self._rank(why, s, at), why, s) for why, s in acks]
        least, every = (min, all) if self._is_read(at) else (max, any)
        chosen = least(rank for rank, _, _ in ranked)
        return every(self._permits(why, s, at) for rank, why, s in ranked if rank == chosen)

    def _permits(self, why: Row, send: Row, at: Spot) -> bool:
        """Whether another message may be where one was acknowledged; that it was removed on purpose is no
        reason.
        """
        allowed = self.causes.permitted(why, send) and self.causes.removed_by(send) is None
        return self._anew(send, at) or allowed

    def _rank(self, why: Row, send: Row, at: Spot) -> int:
        if self._anew(send, at):
            return len(_LEAST_EXPLAINED_FIRST)
        return _LEAST_EXPLAINED_FIRST.index("acks-0" if self.causes.acks(send) == "0" else why["cause"])

    def _anew(self, send: Row, at: Spot) -> bool:
        """Whether what was there is explained by its topic: it was deleted, and offsets began anew."""
        old = self.causes.why(send)["cause"] == "unexplained" and self.oracle.in_old_topic(send)
        return old and not (self._is_read(at) and self._hole(at))

    def _is_read(self, at: Spot) -> bool:
        return at[:2] in {place_[-2:] for place_ in self.oracle.read_to_end}

    def _hole(self, at: Spot) -> bool:
        """Whether a log that goes on behind an offset has no record there: none of a new topic."""
        there = any(spot(record) == at for record in self.oracle.log)
        return not there and at[2] < self.causes.end((at[0], at[1]))

    def of_group(self, group: str) -> dict[str, int]:
        gone = self.handed(group)
        steps = {name: self._stepped(pairs, gone) for name, pairs in self.oracle.odd_steps(group).items()}
        jumps = [jump for jump in steps["poll-skip"] if jump[2]]
        found = {name: sum(excused(behind) for _, _, behind in rows) for name, rows in steps.items()}
        return {
            **found,
            "unseen": self._unseen(group, gone, jumps),
            "unprocessed": self._unprocessed(group, gone, jumps),
            "processed-twice": sum(
                excused(one for one in gone if (*one.place, one.offset) == at)
                for at in self.oracle.transactions.inputs_made(group)[0]
            ),
            "redelivered": self._redelivered(group, gone),
            "aborted-read": self._aborted_read(group),
            **self._shared(group, gone),
        }

    def _stepped(
        self, pairs: list[tuple[Row, Row]], gone: list[Overwritten]
    ) -> list[tuple[Row, Row, list[Overwritten]]]:
        """Steps from the delivery of a message that had been overwritten before the next one."""
        return [
            (one, two, [o for o in gone if _is_of(o, one) and o.began_by(two["polled_ns"])])
            for one, two in pairs
        ]

    def _passed(self, at: Place, offset: int, gone: list[Overwritten], jumps: list[Any]) -> bool:
        """Whether the group need not be delivered what is at an offset that it had come past."""
        behind = [one for one in gone if one.reaches(at, offset)]
        for one, two, others in jumps:
            if place(one) == at and one["offset"] < offset < two["offset"]:
                behind += others
        return excused(behind)

    def _unseen(self, group: str, gone: list[Overwritten], jumps: list[Any]) -> int:
        count = 0
        for copy in self.oracle.owed_unseen(group):
            count += self._passed(place(copy), copy["offset"], gone, jumps)
        return count

    def _unprocessed(self, group: str, gone: list[Overwritten], jumps: list[Any]) -> int:
        """Behind outputs that are lost, else passed by the group."""
        transactions, count = self.oracle.transactions, 0
        for at in transactions.inputs_made(group)[1]:
            lost = [s for s in transactions.outputs_of(group, at) if self._is_lost(s)]
            if lost:
                count += all(self.causes.permitted(self.causes.why(s), s) for s in lost)
            else:
                count += self._passed(at[:2], at[2], gone, jumps)
        return count

    def _is_lost(self, send: Row) -> bool:
        """Whether an output that was acknowledged, or that a commit promised, is not in the log any more."""
        state = self.oracle.transactions.outcome(send)
        promised = send["outcome"] == "acked" or (state == "committed" and send["outcome"] == "unknown")
        logged = any(who(r) == who(send) for r in self.oracle.records)
        unread = self.oracle.stored(send) == "unread"
        return promised and state != "aborted" and not (logged or unread)

    def _redelivered(self, group: str, gone: list[Overwritten]) -> int:
        """Behind a commit, but what was there, or what the commit was above, had been overwritten when the
        member got its position.
        """
        return sum(
            all(
                excused(
                    one
                    for one in gone
                    if one.place == at[:2]
                    and at[2] <= one.offset
                    and one.began_by(began_ns)
                    and (one.begin <= at[2] or one.begin < committed)
                )
                for began_ns, committed in told
            )
            for at, told in self.oracle.delivered_behind_commits(group).items()
        )

    def _aborted_read(self, group: str) -> int:
        """What is not in the log any more, and might be lost."""
        logged = {who(r) for r in self.oracle.records}
        claims = [
            self.causes.claim(group)(s)
            for s in self.oracle.transactions.read_too_early(group)
            if who(s) not in logged
        ]
        return sum(self.causes.permitted(self.causes.why(claim), claim) for claim in claims)

    def _shared(self, group: str, gone: list[Overwritten]) -> dict[str, int]:
        """Of a share group: what is wrong at an offset, but with no single record that was there."""
        shares = Shares(self.oracle.history, group)
        if not shares.is_share_group:
            return {}
        found = {}
        for name, cases in shares.cases().items():
            of_name = cases if name != "over-delivered" else set()
            found[name] = sum(self._of_several(shares, name, at, gone) for at in of_name)
        return found

    def _of_several(self, shares: Shares, name: str, at: Spot, gone: list[Overwritten]) -> bool:
        """Whether it is of several records that were at an offset one after the other, and excused by those
        that the group was handed, or (since they were acknowledged) may have been, between the first accept
        and the last time it was handed one.
        """
        rows = [e for e in shares.events if spot(e) == at]
        accepts = [e["at_ns"] // MS for e in rows if e["kind"] == "accepted"]
        handed = [e["at_ns"] // MS for e in rows if e["kind"] == "acquired"]
        acked = [o for o in self.acknowledged if (*o.place, o.offset) == at]
        mine = [o for o in gone if (*o.place, o.offset) == at]
        behind = mine + [
            o
            for o in acked
            if o.since_ns is not None
            and accepts
            and min(accepts) <= o.since_ns // MS <= max(handed, default=o.since_ns // MS)
        ]
        cuts = {None if o.since_ns is None else o.since_ns // MS for o in mine + acked}
        known = [cut for cut in cuts if cut is not None]
        alone = None not in cuts and all(_of_one(shares, name, rows, known, tie) for tie in (0, 1))
        return not alone and excused(behind)


def _of_one(shares: Shares, name: str, rows: list[Row], cuts: list[int], tie: int) -> bool:
    """Whether it is wrong with one record alone. `tie`: what happened in the ms of a cut comes after it (1).

    A record that came back and was overwritten then had nowhere to go.
    """
    turns: dict[int, list[Row]] = {}
    for row in rows:
        turns.setdefault(sum(cut < row["at_ns"] // MS + tie for cut in cuts), []).append(row)
    last = [turns.get(len(cuts), [])]
    return any(shares.is_odd(name, turn) for turn in (last if name == "lost-release" else turns.values()))


def _is_of(one: Overwritten, delivery: Row) -> bool:
    return (one.place, one.offset, one.who) == (place(delivery), delivery["offset"], who(delivery))
