"""Losses by fault, messages kept by stores, resized topics, and what the scenario expects."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from second_opinion.answers import NOT_DECIDABLE, Opinion, equal, one_of
from second_opinion.effects import FOREVER
from second_opinion.raw import MS, SECOND, Place, Row

if TYPE_CHECKING:
    from second_opinion.opinion import Examiner

_WHO = "producer", "seq"


class Accounts:
    """Of one run."""

    def __init__(self, of: Examiner) -> None:
        self.of, self.tables, self.findings = of, of.tables, of.findings

    def all(self) -> Iterator[Opinion]:
        """Every opinion."""
        yield from self._losses()
        yield from self._replicas()
        if (kept := self.findings.get("kept")) is not None:
            yield from self._kept(kept)
        for row in self.findings.get("resized") or []:
            yield from self._resized(row)
        yield from self._expectations()

    # Losses.

    @cached_property
    def lost(self) -> list[Row]:
        """Acknowledged, not stored, promised to be there, and not known to be removed."""
        found = []
        for send in self.tables.rows("sends"):
            place = self.tables.place(send)
            if send["outcome"] != "acked" or place is None or self.tables.visible(send):
                continue
            hidden = bool(self.tables.home_records(send)) and self.tables.transaction_outcome(send) is None
            aborted = self.tables.transaction_outcome(send) in ("aborted", "unknown")
            if self.tables.read_to_end(place) and not hidden and not aborted:
                found.append(send)
        return found

    def _losses(self) -> Iterator[Opinion]:
        """Of each fault: its loss window, and what was sent, acknowledged and lost in it."""
        faults = self.findings.get("faults") or []
        if any(self.tables.may_remove(p) for send in self.lost if (p := self.tables.place(send)) is not None):
            return
        total = sum(row["lost"] for row in faults)
        if total > len(self.lost):
            yield Opinion("losses of faults", "false", f"{total} of {len(self.lost)}")
        alone = len(self.lost) == total and sum(row["lost"] > 0 for row in faults) == 1
        for row in faults:
            yield from self._loss_window(f"fault {row['id']}", row, alone)

    def _loss_window(self, words: str, row: Row, alone: bool) -> Iterator[Opinion]:
        first, last = row["first_lost_ack_ns"], row["last_lost_ack_ns"]
        length = None if first is None or last is None else (last - first) / MS
        yield equal(f"{words}: loss_window_ms", row["loss_window_ms"], {length}, 0.001)
        if not row["lost"]:
            told = first, last, row["lost_share"], row["lost_after_heal"]
            yield one_of(f"{words}: without losses", told, {(None, None, None, 0)})
            return
        times = [send["done_ns"] for send in self.lost if send["done_ns"] is not None]
        if alone:
            yield one_of(
                f"{words}: loss window", (first, last), {(min(times, default=None), max(times, default=None))}
            )
        effect = self.of.effect(row["id"])
        if effect is not None:
            healed = None if effect.healed == FOREVER else effect.healed
            late = sum(healed is not None and at > healed for at in times)
            allowed = {late} if alone else set(range(late + 1))
            yield one_of(f"{words}: lost_after_heal", row["lost_after_heal"], allowed)
        if first is None or last is None:
            return
        inside = sum(first <= at <= last for at in times)
        if row["lost"] > inside + len(self.lost) - len(times):
            yield Opinion(f"{words}: lost", "false", f"{row['lost']}, and {inside} in the window")
        sends = self.tables.rows("sends")
        acked = sum(
            s["outcome"] == "acked" and s["done_ns"] is not None and first <= s["done_ns"] <= last
            for s in sends
        )
        sent = sum(first <= s["attempt_ns"] <= last for s in sends)
        counts = row["acked_in_loss_window"], row["sent_in_loss_window"]
        yield one_of(f"{words}: acked and sent in the loss window", counts, {(acked, sent)})
        yield equal(f"{words}: lost_share", row["lost_share"], {row["lost"] / acked if acked else None}, 1e-9)

    def _replicas(self) -> Iterator[Opinion]:
        """Which replicas were seen to hold what a leader change lost, where only one lost anything there."""
        changes = [row for row in self.findings.get("leader_changes") or [] if row.get("lost")]
        for row in changes:
            place = self.tables.place_of(row.get("cluster"), row["topic"], row["partition"])
            mine = [send for send in self.lost if self.tables.place(send) == place]
            logs = [r for r in self.tables.rows("replica_log") if self.tables.place(r) == place]
            # A leader that came back without them had held them all: that is not looked for.
            if not logs or row["lost"] != len(mine) or row["leader"] == row["old_leader"]:
                continue
            wanted = {(*_who(send), send["offset"]) for send in mine}
            seen: dict[int, set[tuple[int, ...]]] = defaultdict(set)
            for record in logs:
                key = record["producer"], record["seq"], record["offset"]
                if key in wanted and record["leader_epoch"] < row["epoch"]:
                    seen[record["broker"]].add(key)
            words = f"losses of {place} in epoch {row['epoch']}"
            told = {int(broker): n for broker, n in row["lost_seen"].items()}
            right = tuple(sorted((broker, len(keys)) for broker, keys in seen.items()))
            yield one_of(f"{words}: seen on replicas", tuple(sorted(told.items())), {right})
            unseen = len(wanted - set().union(*seen.values()))
            yield one_of(f"{words}: seen on none", row["lost_unseen"], {unseen})

    # Stores.

    def _kept(self, kept: Row) -> Iterator[Opinion]:
        rows = {table: self.tables.rows(table) for table in ("kept", "replayed", "left_in_store")}
        stores: dict[tuple[int, int], set[str]] = defaultdict(set)
        for table in rows.values():
            for row in table:
                stores[_who(row)].add(row["store"])
        left = {_who(row) for row in rows["left_in_store"]}
        sends = self.tables.rows("sends")
        mine = [s for s in sends if s["outcome"] != "acked" and (s["outcome"] == "kept" or _who(s) in stores)]
        fates = {_who(s): self._fate(s, stores[_who(s)], left) for s in mine}
        yield from self._fates("kept", kept, list(fates.values()))
        for one in kept["stores"]:
            of = [fate for who, fate in fates.items() if one["store"] in stores[who]]
            yield from self._fates(f"kept by {one['store']}", one, of)
            yield one_of(f"store {one['store']} was listed", one["read"], {one["store"] in self._listed})
        replayed = {_who(row) for row in rows["replayed"]}
        lost = [who for who, fate in fates.items() if fate == "lost_in_store"]
        after = sum(who in replayed for who in lost)
        yield one_of("kept: lost_after_replay", kept["lost_after_replay"], {after})
        doubted = {_who(row) for row in rows["kept"] if row["in_doubt"]}
        settled = {_who(row) for row in rows["kept"]}
        doubts = {sum(who in doubted or who not in settled for who in fates if stores[who])}
        yield one_of("kept: in_doubt", kept["in_doubt"], doubts)
        had = [s for s in sends if stores.get(_who(s))]
        copies = {_who(s): sum(r.get("visible") is not False for r in self._at_home(s)) for s in had}
        yield one_of("kept: duplicates", kept["duplicates"], {sum(n > 1 for n in copies.values())})
        both = sum(n > 0 and who in left for who, n in copies.items())
        yield one_of("kept: stored_and_left", kept["stored_and_left"], {both})
        yield one_of("kept: without_row", kept["without_row"], {sum(not stores[_who(s)] for s in mine)})
        yield from self._how_long(kept, rows, fates)

    def _fates(self, words: str, told: Row, fates: list[str]) -> Iterator[Opinion]:
        names = ("delivered_later", "waiting", "lost_in_store", "unclear")
        right = (len(fates), *(fates.count(name) for name in names))
        yield one_of(words, (told["kept"], *(told[name] for name in names)), {right})

    def _fate(self, send: Row, stores: set[str], left: set[tuple[int, int]]) -> str:
        if any(record.get("visible") is not False for record in self._at_home(send)):
            return "delivered_later"
        if _who(send) in left:
            return "waiting"
        listed = stores <= self._listed if stores else bool(self._known) and self._known <= self._listed
        return "lost_in_store" if listed and self._topic_read(*self._home(send)) else "unclear"

    def _home(self, send: Row) -> tuple[str | None, str]:
        """The topic that it was sent to, or that a replay sent it to where only that was acknowledged."""
        replayed = self._replayed.get(_who(send))
        if send["outcome"] != "acked" and replayed is not None:
            return replayed["cluster"], replayed["topic"]
        return send["cluster"], send["topic"]

    @cached_property
    def _replayed(self) -> dict[tuple[int, int], Row]:
        """The last replay of each message."""
        return {_who(row): row for row in self.tables.rows("replayed")}

    def _at_home(self, send: Row) -> list[Row]:
        cluster, topic = self._home(send)
        return self.tables.home_records({**send, "cluster": cluster, "topic": topic})

    @cached_property
    def _known(self) -> set[str]:
        found = {store["store"] for store in self.tables.manifest.get("stores") or []}
        tables = ("kept", "replayed", "left_in_store")
        return found | {row["store"] for table in tables for row in self.tables.rows(table)}

    @cached_property
    def _listed(self) -> set[str]:
        return {s["store"] for s in self.tables.manifest.get("stores") or [] if s["read"]}

    def _topic_read(self, cluster: str | None, topic: str) -> bool:
        tables = ("sends", "log", "end_offsets", "deliveries")
        places = {p for t in tables for r in self.tables.rows(t) if (p := self.tables.place(r)) is not None}
        count = self.tables.topic_spec(cluster, topic).get("partitions", 1)
        mine = {p for p in places if p[:2] == (cluster, topic)}
        mine |= {Place(cluster, topic, n) for n in range(count)}
        return all(self.tables.read_to_end(p) for p in mine)

    def _how_long(self, kept: Row, rows: dict[str, list[Row]], fates: dict[Any, str]) -> Iterator[Opinion]:
        """From a store's take to the first acknowledgement to a replay from it."""
        until: dict[tuple[str, int, int], int] = {}
        for row in rows["replayed"]:
            key = row["store"], *_who(row)
            until[key] = min(row["at_ns"], until.get(key, row["at_ns"]))
        times = [
            (until[row["store"], *_who(row)] - row["at_ns"]) / SECOND
            for row in rows["kept"]
            if _who(row) in fates and (row["store"], *_who(row)) in until
        ]
        if all(_who(row) in fates for row in rows["kept"]):
            longest = max(times, default=None)
            yield equal("kept: longest", kept["kept_for_max_s"], {longest}, 0.001)

    # Resized topics.

    def _resized(self, row: Row) -> Iterator[Opinion]:
        name, number = row["topic"], 0
        where = self.tables.place_of(None, name, number)[:2]
        words = f"resized {name}"
        before = self.tables.topic_spec(*where).get("partitions", 1)
        yield one_of(f"{words}: before", row["partitions_before"], {before})
        log = [r for r in self.tables.rows("log") if (r["cluster"], r["topic"]) == where]
        ends = {p.partition for p in self.tables.ends if p[:2] == where} | set(range(before))
        yield one_of(f"{words}: partitions", row["partitions"], {len(ends)})
        messages = {r["partition"] for r in log if r["producer"] is not None}
        yield one_of(f"{words}: written", row["partitions_written"], {len(messages)})
        keys = self._keys(where)
        shown: dict[int, set[int]] = defaultdict(set)
        for record in log:
            if (
                record["producer"] in keys
                and record["seq"] is not None
                and record.get("visible") is not False
            ):
                n = keys[record["producer"]]
                shown[record["seq"] % n if n else record["producer"]].add(record["partition"])
        moved = sum(len(places) > 1 for places in shown.values())
        right = (len(shown), moved) if keys else (None, None)
        yield one_of(f"{words}: keys, moved", (row["keys"], row["keys_moved"]), {right})
        for group in row["groups"]:
            yield from self._resized_for(words, where, group, keys)

    def _keys(self, where: tuple[str | None, str]) -> dict[int, int]:
        """By producer of a topic that repeats keys: how many it has; 0: its own number is its only one."""
        found = {}
        for number, spec in self.tables.producer_specs.items():
            key, to = spec.get("key"), (spec.get("cluster") or self.tables.first_cluster, spec["topic"])
            if to == where and (key == "producer" or isinstance(key, int)):
                found[number] = 0 if key == "producer" else key
        return found

    def _resized_for(
        self, words: str, where: tuple[str | None, str], group: Row, keys: dict[int, int]
    ) -> Iterator[Opinion]:
        name = group["group"]
        mine = [d for d in self.tables.rows("deliveries") if d["group"] == name]
        read = {d["partition"] for d in mine if (d["cluster"], d["topic"]) == where}
        yield one_of(f"{words}: read by {name}", group["partitions_read"], {len(read)})
        first: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        for d in mine:
            if d["producer"] in keys and d["seq"] is not None:
                n = keys[d["producer"]]
                of_key = first[d["producer"], d["seq"] % n if n else 0]
                of_key[d["seq"]] = min(d["polled_ns"], of_key.get(d["seq"], d["polled_ns"]))
        late = sum(
            any(other > seq and then < at for other, then in of_key.items())
            for of_key in first.values()
            for seq, at in of_key.items()
        )
        yield one_of(
            f"{words}: out of order for {name}", group["out_of_order_by_key"], {late if keys else None}
        )

    # What is expected.

    def _expectations(self) -> Iterator[Opinion]:
        wanted = self.tables.scenario.get("expect") or {}
        told = {row["name"]: row for row in self.findings.get("expectations") or []}
        for key in wanted:
            if key not in told and wanted[key] is not None:
                yield Opinion(f"expect {key}", "false", "nothing is told of it")
        sent = len(self.tables.rows("sends"))
        for name, row in told.items():
            if name in ("verdict", "mirror"):
                continue
            figure = self._figure(name)
            words = f"expect {name}"
            if figure is NOT_DECIDABLE:
                yield Opinion(words, NOT_DECIDABLE, "a figure that is not recomputed here")
                continue
            yield one_of(f"{words}: found", row["found"], {figure})
            if row["found"] is None:
                yield one_of(f"{words}: met", row["met"], {"unmet"})
            elif name in wanted:
                yield one_of(f"{words}: met", row["met"], {_met(str(wanted[name]), row["found"], sent)})

    def _figure(self, name: str) -> Any:
        """The figure of the document that an expectation limits."""
        found, faults = self.findings, self.findings.get("faults") or []
        counts = [a["count"] for a in found["anomalies"] if a["name"] == name]
        if counts:
            return sum(counts)
        if name in ("ack-p99-ms", "end-to-end-p99-ms"):
            of = "ack" if name.startswith("ack") else "end_to_end"
            return found["latency_ms"][of]["p99"]
        acked = any(s["outcome"] == "acked" for s in self.tables.rows("sends"))
        if name in ("stuck", "slump", "standstill-ms") and acked and not self.tables.acked_times_known:
            return None
        if name == "election-ms":
            return max((f["election_ms"] for f in faults if f["election_ms"] is not None), default=None)
        if name == "stuck":
            return max((sum(f["stuck"].values()) for f in faults), default=0)
        if name == "slump":
            every = all(s.get("rate", "max") != "max" for s in self.tables.producer_specs.values())
            longest = max((s["longest_s"] for s in found["rates"]["slumps"]), default=0)
            late = any(s.get("starts") for s in self.tables.producer_specs.values())
            return longest if every and not late else None
        if name == "standstill-ms":
            service = [a for a in found["availability"] if a["group"] is None and a["topic"] is None]
            return max((a["longest_standstill_ms"] for a in service), default=0)
        return NOT_DECIDABLE


def _who(row: Row) -> tuple[int, int]:
    return row["producer"], row["seq"]


def _met(wanted: str, figure: float, sent: int) -> str:
    """By the rules of EXPECT.md, exactly."""
    match = re.fullmatch(r"\s*(<=|>=|==|<|>)?\s*([0-9.]+)\s*(%)?\s*", wanted)
    assert match is not None, wanted
    sign, bound, value = match[1] or "==", Fraction(match[2]), Fraction(str(figure))
    if match[3]:
        bound = bound / 100 * sent
    held = {
        "<": value < bound,
        "<=": value <= bound,
        ">": value > bound,
        ">=": value >= bound,
        "==": value == bound,
    }[sign]
    if held:
        return "met"
    more = value > bound or (value == bound and sign == "<")
    return "exceeded" if more else "unmet"
