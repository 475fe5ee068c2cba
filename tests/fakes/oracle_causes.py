"""Why acknowledged messages are gone, and whether that is permitted, in plain Python: docs/decisions/0019.

Written from the definitions, one acknowledgement at a time. Counts and fates are in oracle.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from fakes.oracle import Oracle
from fakes.oracle_rows import Place, Row, named, place, who
from fakes.oracle_survivors import all_lost, was_back

MS = 1_000_000


class Causes:
    """The causes of a history's losses."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle, self.rows = oracle, oracle.history.rows
        self.specs = [s for spec in oracle.history.producers for s in [spec] * spec.get("count", 1)]
        self.known = {place(row) for row in oracle.sends + oracle.log + oracle.deliveries}
        self.known |= {place(row) for row in self.rows["end_offsets"]}
        self.known |= {(t["name"], p) for t in oracle.history.topics for p in range(t.get("partitions", 1))}
        self._epochs: dict[Place, list[Row]] = {}
        gone = [s for s in oracle.sends if s["outcome"] == "acked" and oracle.stored(s) == "0"]
        oracle.removed = Counter(what for send in gone if (what := self.removed_by(send)) is not None)

    def lost(self) -> tuple[Counter[str], int]:
        """How many lost messages have which cause, and how many of all are permitted."""
        gone = [s for s in self.oracle.sends if s["outcome"] == "acked" and self.oracle.stored(s) == "0"]
        gone = [send for send in gone if self.removed_by(send) in (None, "step")]
        found = [(self.why(send), send) for send in gone]
        return Counter(self.called(*pair) for pair in found), sum(self.permitted(*pair) for pair in found)

    def vanished(self, group: str) -> tuple[Counter[str], int]:
        """The same of what was delivered to a group and is gone: first deliveries stand in for
        acknowledgements that were never given.
        """
        found = [(self.why(claim), claim) for claim in map(self.claim(group), self.oracle.vanished(group))]
        return Counter(self.called(*pair) for pair in found), sum(self.permitted(*pair) for pair in found)

    def called(self, why: dict[str, Any], send: Row) -> str:
        """The cause by which it is counted."""
        if self.acks(send) == "0":
            return "acks-0"
        removed = self.removed_by(send) if why["cause"] == "unexplained" else None
        return "deleted" if removed == "step" else removed or str(why["cause"])

    def removed_by(self, send: Row) -> str | None:
        """What removed a message as configured: a step, the compaction of its topic, or its retention; only
        if no leader epoch explains that it is gone.
        """
        if self.acks(send) != "0" and self.why(send)["cause"] != "unexplained":
            return None
        if self.deleted_by_step(send):
            return "step"
        if self._seen(send) and self._below_the_log(send):
            return "retention"
        return "compaction" if self._superseded(send) else None

    def _seen(self, send: Row) -> bool:
        oracle = self.oracle
        return any(named(r) and who(r) == who(send) for r in oracle.records + oracle.deliveries)

    def _config(self, topic: str) -> dict[str, Any]:
        return next((t.get("config", {}) for t in self.oracle.history.topics if t["name"] == topic), {})

    def _below_the_log(self, send: Row) -> bool:
        """Whether the log of its partition began above it when it was read."""
        ends = [e for e in self.rows["end_offsets"] if e["topic"] == send["topic"]]
        ends = [e for e in ends if send["partition"] in (None, e["partition"])]
        if send["offset"] is None:
            return any((e.get("start_offset") or 0) > 0 for e in ends)
        taken = [r for r in self.oracle.log if place(r) == place(send)]
        if any(r["offset"] == send["offset"] for r in taken) or send["offset"] >= self.end(place(send)):
            return False
        if any(e.get("start_offset") is not None for e in ends):
            return self.oracle.deleted(send)
        kept = any(self._config(send["topic"]).get(f"retention.{what}", -1) != -1 for what in ("ms", "bytes"))
        return kept and all(send["offset"] < r["offset"] for r in taken)

    def _superseded(self, send: Row) -> bool:
        """Whether its topic is compacted, and a later message with its key is stored behind it."""
        if "compact" not in str(self._config(send["topic"]).get("cleanup.policy", "")):
            return False
        if send["offset"] is None or any(
            place(r) == place(send) and r["offset"] == send["offset"] for r in self.oracle.log
        ):
            return False
        key = self._key(*who(send))
        return key is not None and any(
            place(r) == place(send) and r["offset"] > send["offset"] and self._key(*who(r)) == key
            for r in self.oracle.records
            if r.get("visible") is not False
        )

    def _key(self, producer: int, seq: int) -> int | None:
        """The key of a message, as the scenario has its producer make it."""
        key = self.specs[producer].get("key", "none") if producer < len(self.specs) else "none"
        return {"none": None, "producer": producer, "seq": seq}[key] if isinstance(key, str) else seq % key

    def claim(self, group: str) -> Callable[[Row], Row]:
        """Where a message was: by its acknowledgement, else by its first delivery."""

        def of(send: Row) -> Row:
            if send["outcome"] == "acked":
                return send
            polls = [
                d for d in self.oracle.deliveries if d["group"] == group and named(d) and who(d) == who(send)
            ]
            first = min(polls, key=lambda d: (d["polled_ns"], *place(d), d["offset"]))
            where = {key: first[key] for key in ("topic", "partition", "offset")}
            return {**send, **where, "done_ns": first["polled_ns"]}

        return of

    def acks(self, send: Row) -> str:
        """Whose acknowledgement its producer asked for."""
        return str(self.specs[send["producer"]].get("acks", "all"))

    def events(self, at: Place) -> list[Row]:
        """Leader and isr events in order: in one ms by epoch, and a leader before the ISR of its epoch."""
        mine = [e for e in self.rows["cluster_events"] if e["kind"] in ("leader", "isr") and place(e) == at]
        last = 1 << 60
        return sorted(
            mine if at in self.known else [],
            key=lambda e: (
                e["at_ns"],
                last if e["leader_epoch"] is None else e["leader_epoch"],
                e["kind"] == "isr",
                last if e["leader"] is None else e["leader"],
                e["isr"] or [],
            ),
        )

    def epochs(self, at: Place) -> list[Row]:
        """What is known of each epoch of a partition."""
        if at not in self._epochs:
            self._epochs[at] = self._find_epochs(at)
        return self._epochs[at]

    def _find_epochs(self, at: Place) -> list[Row]:
        logged = [r for r in self.oracle.log if place(r) == at and r["leader_epoch"] is not None]
        began: dict[int, Row] = {}
        isr: list[int] | None = None
        for event in self.events(at):
            if event["kind"] == "leader" and event["leader_epoch"] is not None:
                leads = event["leader"] is not None and event["leader"] >= 0
                unclean = leads and isr is not None and event["leader"] not in isr
                unclean = unclean and event["isr"] in (None, [event["leader"]])
                began.setdefault(event["leader_epoch"], {**event, "unclean": unclean})
            isr = isr if event["isr"] is None else event["isr"]
        found: list[Row] = []
        for number in sorted({*began, *(r["leader_epoch"] for r in logged)}):
            start = min([self.end(at), *(r["offset"] for r in logged if r["leader_epoch"] >= number)])
            behind = 1 + max([-1, *(r["offset"] for r in logged if r["leader_epoch"] < number)])
            event = began.get(number, {})
            found.append(
                {
                    "number": number,
                    "start": start,
                    "earliest": min(start, behind),
                    "logged": any(r["leader_epoch"] == number for r in logged),
                    "at_ns": event.get("at_ns"),
                    "unclean": event.get("unclean", False),
                    "told": event.get("leader"),
                }
            )
        for index, epoch in enumerate(found):
            epoch["leader"] = _first_that_led(found[index:])
            epoch["led"] = _first_that_led(found[index::-1])
            before = found[index - 1]["led"] if index else None
            both = None not in (before, epoch["leader"])
            epoch["changed"] = before != epoch["leader"] if both else None
        return found

    def end(self, at: Place) -> int:
        """The offset after the last."""
        told = [e["end_offset"] for e in self.rows["end_offsets"] if place(e) == at]
        last = max([-1, *(r["offset"] for r in self.oracle.log if place(r) == at)])
        return int(told[0]) if told else last + 1

    def own(self, send: Row, epochs: list[Row]) -> int:
        """The epoch that it was acknowledged under at the earliest: its producer never goes back."""
        earlier = [
            s
            for s in self.oracle.sends
            if (s["producer"], place(s), s["outcome"]) == (send["producer"], place(send), "acked")
            and s["done_ns"] < send["done_ns"]
        ]
        told = []
        for other in earlier:
            copies = [r for r in self.oracle.records if who(r) == who(other)]
            if copies:
                told.append(min(copies, key=lambda r: (r["offset"], *place(r)))["leader_epoch"])
        return int(max([number for number in told if number is not None], default=epochs[0]["number"]))

    def why(self, send: Row) -> dict[str, Any]:
        """The cause of one, and what else the verdict asks."""
        at, offset, done = place(send), send["offset"], send["done_ns"]
        taken = any(place(r) == at and r["offset"] == offset for r in self.oracle.log)
        epochs = self.epochs(at) if send["partition"] is not None else []
        leads = [e for e in self.events(at) if e["kind"] == "leader"]
        told = bool(leads) and all(None not in (e["leader"], e["leader_epoch"]) for e in leads)
        isrs = [e["isr"] for e in self.events(at) if e["isr"] is not None and e["at_ns"] // MS <= done // MS]
        known = {"cause": "unexplained", "leaders": told, "alone": bool(isrs) and len(isrs[-1]) == 1}
        # No epoch of a new topic overwrote what was in the old one.
        if not epochs or offset is None or self.oracle.in_old_topic(send):
            return known
        own = self.own(send, epochs)
        begun = [e["number"] for e in epochs if e["at_ns"] is not None and e["at_ns"] <= done]
        given = max([own, *begun]) if not taken and offset < self.end(at) else own
        # A copy in another partition may tell an epoch that this one never had.
        old = next((e["led"] for e in epochs if e["number"] == given), None)
        later = [e for e in epochs if e["number"] > given and e["start"] <= offset]
        sure = [e for e in later if e["logged"] or (None not in (old, e["leader"]) and e["leader"] != old)]
        may = [e for e in epochs if e["number"] > own and e["earliest"] <= offset] if taken else []
        if later:
            epoch = ([e for e in later if e["unclean"]] + sure + later)[0]
            same = None if None in (old, epoch["leader"]) else epoch["leader"] == old
        elif may:
            epoch = _by_time(may, done)
            same = None if epoch["changed"] is None else not epoch["changed"]
        else:
            # A hole may be a later leader's, and nothing tells who gave the acknowledgement.
            others = [e for e in epochs if e["number"] > own and e["earliest"] <= offset]
            hole = not taken and offset < self.end(at)
            return known | {"either": hole and any(e["changed"] is not False for e in others)}
        cause = "unclean-election" if epoch["unclean"] else "leader-restarted" if same else "deposed-leader"
        return known | {
            "cause": cause,
            "leaders": same is not None,
            "epoch": epoch,
            "by start": bool(later),
            "unsynced": self.unsynced(epoch["leader"], epoch, send),
            "all lost": all_lost(
                self.events(at), self.rows["faults"], send["attempt_ns"], done, epoch["at_ns"]
            ),
        }

    def unsynced(self, broker: int | None, epoch: Row, send: Row) -> bool:
        """Whether a broker may have lost what it had not synced, between acknowledgement and epoch."""
        at = self.events(place(send))
        return epoch["at_ns"] is not None and any(
            f["fault"] in ("power-loss", "disk-loss")
            and f["bit"]
            and broker is not None
            and broker in f["brokers"]
            and f["effective_ns"] // MS <= epoch["at_ns"] // MS
            and (f["healed_ns"] is None or send["done_ns"] <= f["healed_ns"])
            and not was_back(at, broker, f["effective_ns"], send["attempt_ns"], send["done_ns"])
            for f in self.rows["faults"]
        )

    def unclean_allowed(self, topic: str) -> bool:
        """Whether a replica that lacks something may lead the topic's partitions."""
        configs = [t.get("config", {}) for t in self.oracle.history.topics if t["name"] == topic]
        return any(config.get("unclean.leader.election.enable") is True for config in configs)

    def permitted(self, why: dict[str, Any], send: Row) -> bool:
        """Whether the configuration does not promise to prevent it (min.insync.replicas 1)."""
        acks, cause = self.acks(send), why["cause"]
        if self.removed_by(send) is not None:
            return True
        if cause == "unclean-election" and self.unclean_allowed(send["topic"]):
            return True
        if acks == "1":
            crashed = cause == "leader-restarted" and why["unsynced"]
            return cause == "unclean-election" or bool(
                why["leaders"] and (cause == "deposed-leader" or crashed)
            )
        return acks == "0" or (cause != "unexplained" and why["all lost"] is True)

    def deleted_by_step(self, send: Row) -> bool:
        """Whether the timeline deleted it, or its topic, and it was seen before, or is known to be there: it
        was acknowledged while the topic was being deleted, or its partition had had one leader only.
        """
        oracle, at = self.oracle, place(send)
        seen = [r for r in oracle.records + oracle.deliveries if named(r) and who(r) == who(send)]
        if oracle.in_old_topic(send):
            gone_ns = max(oracle.recreated(send))
            began = [f["injected_ns"] for f in self.rows["faults"] if f["effective_ns"] == gone_ns]
            if seen or send["done_ns"] is None or send["done_ns"] > gone_ns:
                return bool(seen)
            leads = [e for e in self.rows["cluster_events"] if e["kind"] == "leader" and place(e) == at]
            epochs = [e["leader_epoch"] for e in leads if e["at_ns"] // 10**6 <= gone_ns // 10**6]
            return min(began) <= send["done_ns"] or (epochs == [0] and self.acks(send) != "0")
        hit = any(
            f["fault"] == "delete-records" and f["bit"] and f["target"] == f"topic {send['topic']}"
            for f in self.rows["faults"]
        )
        taken = any(place(r) == at and r["offset"] == send["offset"] for r in oracle.log)
        below = send["offset"] is not None and send["offset"] < self.end(at)
        return hit and below and not taken and oracle.deleted(send) and bool(seen)


def _first_that_led(epochs: list[Row]) -> int | None:
    """The leader of the first of them that has one, looking past those without a leader."""
    for epoch in epochs:
        if epoch["told"] is None or epoch["told"] >= 0:
            leader: int | None = epoch["told"]
            return leader
    return None


def _by_time(may: list[Row], done: int) -> Row:
    """Where records tell no epoch: the first change after it, the last before it, else the same leader's."""
    after = [e for e in may if e["at_ns"] is not None and e["at_ns"] >= done]
    before = [e for e in may if e not in after]
    unclean = [e for e in may if e["unclean"]]
    changes = [e for e in after if e["changed"]] + [e for e in before if e["changed"]][::-1]
    return (unclean + changes + after + before[::-1])[0]
