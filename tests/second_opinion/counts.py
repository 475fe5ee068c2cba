"""Counts of messages and records by what became of them, and the rows that are named behind counts."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from second_opinion.answers import FALSE, NOT_DECIDABLE, TRUE, Opinion, equal, one_of
from second_opinion.copies import behind
from second_opinion.effects import FOREVER
from second_opinion.raw import MS, SECOND, Place, Row

if TYPE_CHECKING:
    from second_opinion.opinion import Examiner

Spot = tuple[Place | None, int]
Who = tuple[int, int]


_NEVER_PERMITTED = ("phantom", "corrupt", "ghost", "aborted-read", "lost-in-store", "mirror-reordered")


class Counts:
    """Of one run. With mirrors, fates are those of mirrors' own definitions (copies.py)."""

    def __init__(self, of: Examiner) -> None:
        self.of, self.tables, self.findings = of, of.tables, of.findings
        self.removes = any(self.tables.may_remove(place) for place in self.tables.ends)
        self.plain = not self.tables.rows("replayed") and not self.tables.scenario.get("mirrors")
        self.deleted = {f["fault"] for f in self.tables.rows("faults")} & {"recreate", "delete-topic"}

    def all(self) -> Iterator[Opinion]:
        """Every opinion."""
        yield from self._totals()
        if self.plain:
            yield from self._fates()
            yield from self._anomalies()
        for row in self.findings.get("groups") or []:
            yield from self._group(row["group"], row)
        for anomaly in self.findings["anomalies"]:
            for example in anomaly["examples"]:
                yield from self._example(anomaly, example)
        for row in self.findings.get("rebalances") or []:
            yield from self._rebalance(row)
        for row in self.findings.get("leader_changes") or []:
            yield from self._leader_change(row)
        yield from self._used_twice()
        yield from self._transactions()
        yield from self._errors()
        yield from self._requests()
        yield from self._manifest()
        for row in (self.findings.get("plan") or {}).get("groups") or []:
            yield from self._switch(row)

    # Fates.

    @cached_property
    def _fate_of(self) -> dict[Who, tuple[str, str]]:
        """By message: its outcome, and how often readers find it, or why it is not known or not promised."""
        return {(s["producer"], s["seq"]): (s["outcome"], self._stored(s)) for s in self.tables.rows("sends")}

    @cached_property
    def _copies(self) -> dict[Who, list[Row]]:
        """By message: its copies that readers are given."""
        return {
            (s["producer"], s["seq"]): [
                r for r in self.tables.home_records(s) if r.get("visible") is not False
            ]
            for s in self.tables.rows("sends")
        }

    def _stored(self, send: Row) -> str:
        shown = len(self._copies[send["producer"], send["seq"]])
        if shown:
            return "1" if shown == 1 else "n"
        records = self.tables.home_records(send)
        place, outcome = self.tables.place(send), self.tables.transaction_outcome(send)
        if place is not None:
            read = self.tables.read_to_end(place)
        else:
            mine = [p for p in self.tables.ends if p[:2] == (send["cluster"], send["topic"])]
            read = bool(mine) and all(map(self.tables.read_to_end, mine))
        if not read and not records:
            return "unread"
        hidden = bool(records) and outcome is None
        return "uncommitted" if hidden or outcome in ("aborted", "unknown") else "0"

    def _fates(self) -> Iterator[Opinion]:
        told = {(row["outcome"], row["stored"]): row["count"] for row in self.findings["fates"]}
        yield _same("fates", told, Counter(self._fate_of.values()))
        for row in self.findings.get("groups") or []:
            name = row["group"]
            got = Counter(
                (d["producer"], d["seq"])
                for d in self.tables.rows("deliveries")
                if d["group"] == name and d["intact"] and d["producer"] is not None
            )
            right = Counter(
                (*fate, {0: "0", 1: "1"}.get(got[who], "n")) for who, fate in self._fate_of.items()
            )
            mine = {(one["outcome"], one["stored"], one["delivered"]): one["count"] for one in row["fates"]}
            yield _same(f"fates of {name}", mine, right)

    def _totals(self) -> Iterator[Opinion]:
        told, log = self.findings["totals"], self.tables.rows("log")
        outcomes = Counter(s["outcome"] for s in self.tables.rows("sends"))
        for name in ("failed", "unknown") if self.plain else ():
            yield one_of(f"totals: {name}", told[name], {outcomes[name]})
        yield one_of("totals: log_records", told["log_records"], {len(log)})
        foreign = sum(r["intact"] and (r["producer"] is None or r["seq"] is None) for r in log)
        yield one_of("totals: foreign_records", told["foreign_records"], {foreign})
        if not self.plain:
            return
        fates = Counter(stored for _, stored in self._fate_of.values())
        for name in ("unread", "uncommitted"):
            yield one_of(f"totals: {name}", told[name], {fates[name]})
        shown = (
            r for r in log if r["intact"] and r["producer"] is not None and r.get("visible") is not False
        )
        stored = {(r["producer"], r["seq"]) for r in shown}
        yield one_of(
            "totals: stored_messages", told["stored_messages"], {len(stored), fates["1"] + fates["n"]}
        )
        yield from self._arithmetic()

    def _arithmetic(self) -> Iterator[Opinion]:
        told, ends = self.findings["high_watermark_arithmetic"], self.tables.rows("end_offsets")
        acked = sum(s["outcome"] == "acked" for s in self.tables.rows("sends"))
        end = sum(row["end_offset"] for row in ends)
        difference = told["acked"], told["end_offsets"], told["difference"]
        yield one_of("high-watermark arithmetic", difference, {(acked, end, acked - end)})
        stored = {(r["place"], r["offset"]) for r in self.tables.rows("log")}
        holes = end - sum(1 for place, offset in stored if offset < self._end(place))
        yield one_of("high-watermark arithmetic: holes", told["holes"], {holes, None})
        markers = sum(told["markers"].values())
        yield one_of("high-watermark arithmetic: markers", markers, {0, told["holes"] or 0})

    def _end(self, place: Place) -> int:
        row = self.tables.ends.get(place)
        return -1 if row is None else int(row["end_offset"])

    # Anomalies.

    def _anomalies(self) -> Iterator[Opinion]:
        told = {(row["name"], row["group"]): row for row in self.findings["anomalies"]}
        fates = Counter(self._fate_of.values())
        right = {
            "ghost": sum(fates[o, n] for o in ("failed", "refused") for n in ("1", "n")),
            "recovered": fates["unknown", "1"] + fates["unknown", "n"],
            "duplicate": sum(n for (_, stored), n in fates.items() if stored == "n"),
            "corrupt": sum(not r["intact"] for r in self.tables.rows("log")),
            "reordered": self._late.total(),
        }
        if not self.removes:
            right["lost"] = fates["acked", "0"]
        for name, count in right.items():
            if (name, None) in told and not self.tables.rows("kept"):
                yield one_of(f"anomaly {name}", told[name, None]["count"], {count})
        extra = sum(len(records) - 1 for records in self._copies.values() if len(records) > 1)
        yield one_of("anomaly duplicate: extra copies", told["duplicate", None]["extra_copies"], {extra})
        for row in told.values():
            rest = row["count"] - row["permitted"] - row["unclear"]
            words = f"anomaly {row['name']}: {row['group'] or 'the run'}"
            yield Opinion(words, TRUE if rest >= 0 else FALSE, "more is permitted than there is")
            causes = sum(row["causes"].values())
            whole = row["name"] in ("lost", "vanished") and not self.deleted
            known = causes == row["count"] if whole else 0 <= causes <= row["count"]
            yield Opinion(f"{words}: causes", TRUE if known else FALSE, f"{causes} of {row['count']}")
            least, most = self._permitted(row)
            right = least <= row["permitted"] <= most
            yield Opinion(f"{words}: permitted", TRUE if right else FALSE, f"from {least} to {most}")

    def _permitted(self, row: Row) -> tuple[int, int]:
        """How many of an anomaly are permitted at least, and at most, by its causes and the settings."""
        if row["name"] in _NEVER_PERMITTED:
            return 0, 0
        if row["name"] in ("duplicate", "reordered") and not self.tables.rows("kept"):
            return self._retried(row["name"])
        if row["name"] != "lost" or self.deleted or self.removes:
            return 0, row["count"]
        sends = [who for who, fate in self._fate_of.items() if fate == ("acked", "0")]
        specs = [self.tables.producer_specs.get(producer) or {} for producer, _ in sends]
        acks = {str((spec.get("config") or {}).get("acks", spec.get("acks", "all"))) for spec in specs}
        faults = {fault["fault"] for fault in self.tables.rows("faults")}
        causes, polled = Counter(row["causes"]), any(map(self.tables.polled, self.tables.ends))
        least, most = causes["acks-0"], row["count"]
        if "delete-records" not in faults:
            most -= causes["unexplained"]
        if not faults & {"power-loss", "disk-loss", "command"}:
            most -= causes["leader-restarted"]
        if acks == {"1"} and not polled:
            least += causes["deposed-leader"]
        places, unclean = self.tables.ends, "unclean.leader.election.enable"
        allowed = [str(self.tables.setting(place, unclean, "false")).lower() == "true" for place in places]
        if acks <= {"all", "-1"} and not any(allowed) and "change-config" not in faults:
            most -= causes["deposed-leader"]
        return least, most

    def _retried(self, name: str) -> tuple[int, int]:
        """Of messages that are stored twice or late, those of producers whose settings permit it."""
        counts = self._late
        if name == "duplicate":
            counts = Counter(who[0] for who, (_, stored) in self._fate_of.items() if stored == "n")
        least = most = 0
        for producer, n in counts.items():
            spec = self.tables.producer_specs.get(producer)
            config = (spec or {}).get("config") or {}
            given = {key: str(value).lower() for key, value in config.items()}
            if spec is None:
                most += n
            elif (spec.get("on-failure") or {}).get("resends"):
                least, most = least + n, most + n
            elif (
                spec.get("idempotence")
                or spec.get("transactions")
                or given.get("enable.idempotence") == "true"
            ):
                continue
            elif name == "duplicate":
                permitted = n * ("0" not in (given.get("retries"), given.get("message.send.max.retries")))
                least, most = least + permitted, most + permitted
            else:
                one = "1" in map(given.get, ("max.in.flight", "max.in.flight.requests.per.connection"))
                least, most = least + n * (not one), most + n  # of one request, changes of leader decide
        return least, most

    @cached_property
    def _late(self) -> Counter[int]:
        """By producer: first copies in a partition that come after one with a higher number."""
        firsts: dict[tuple[int, Place], dict[int, int]] = defaultdict(dict)
        for (producer, seq), records in self._copies.items():
            for record in records:
                mine = firsts[producer, record["place"]]
                mine[seq] = min(record["offset"], mine.get(seq, record["offset"]))
        late: Counter[int] = Counter()
        for (producer, _), one in firsts.items():
            late[producer] += behind((offset, seq) for seq, offset in one.items())
        return late

    # Groups.

    def _group(self, name: str, row: Row) -> Iterator[Opinion]:
        told = {one["name"]: one for one in self.findings["anomalies"] if one["group"] == name}
        share = (self.tables.group_specs.get(name) or {}).get("type") == "share"
        again = [spot for spot, times in self._handed[name].items() if len(times) > 1]
        if not self.deleted:
            known = {0} if share else {len(again)}
            yield one_of(f"anomaly redelivered: {name}", told["redelivered"]["count"], known)
        if self.plain:
            gone = {who for who, (_, stored) in self._fate_of.items() if stored == "0"}
            delivered = self.tables.first_delivery.get(name, {})
            yield one_of(
                f"anomaly vanished: {name}", told["vanished"]["count"], {len(gone & delivered.keys())}
            )
            if row["drained"] and not share:
                yield self._unseen(name, told["unseen"]["count"])
        for one in row["members"] if not share and not self.deleted else ():
            mine = sum(any(member == one["member"] for _, member in self._handed[name][s]) for s in again)
            words = f"anomaly redelivered: {name}: {one['member']}"
            yield one_of(words, one["anomalies"].get("redelivered", 0), {mine})
        both = (
            row["redelivered_after_commit"],
            told["redelivered"]["count"] - told["redelivered"]["permitted"],
        )
        yield one_of(f"redelivered after a commit: {name}", both[0], {both[1]})

    def _unseen(self, name: str, told: int) -> Opinion:
        delivered = self.tables.first_delivery.get(name, {})
        never = [
            s
            for s in self.tables.rows("sends")
            if self._fate_of[s["producer"], s["seq"]][1] in ("1", "n")
            and (s["producer"], s["seq"]) not in delivered
            and self.of.groups.topics(name, s["cluster"], s["topic"])
        ]
        return one_of(f"anomaly unseen: {name}", told, {len(never)})

    @cached_property
    def _handed(self) -> dict[str, dict[Spot, list[tuple[int, str]]]]:
        """By group and offset: when it was delivered, and to whom."""
        found: dict[str, dict[Spot, list[tuple[int, str]]]] = defaultdict(lambda: defaultdict(list))
        for d in self.tables.rows("deliveries"):
            found[d["group"]][self.tables.place(d), d["offset"]].append((d["polled_ns"], d["member"]))
        return found

    # Rows behind counts.

    def _example(self, anomaly: Row, row: Row) -> Iterator[Opinion]:
        """Whether the record has what an example names, and whether it is one of what is counted."""
        words = f"example of {anomaly['name']}: {row['story']}"
        place = None
        if row["topic"] is not None and row["partition"] is not None:
            place = self.tables.place_of(None, row["topic"], row["partition"])
        who = row["producer"], row["seq"]
        if None not in who:
            sent = who in self._fate_of
            yield Opinion(f"{words}: sent", TRUE if sent or anomaly["name"] == "phantom" else FALSE, f"{who}")
        if anomaly["name"] == "lost" and self.plain:
            known = self._fate_of.get(who) == ("acked", "0")
            yield Opinion(words, TRUE if known else FALSE, f"{self._fate_of.get(who)}")
        elif anomaly["name"] == "duplicate" and self.plain:
            yield Opinion(words, TRUE if len(self._copies.get(who, ())) > 1 else FALSE, "stored once")
        elif anomaly["name"] == "redelivered":
            times = self._handed[anomaly["group"]].get((place, row["offset"]), [])
            count = f" was delivered {len(times):,} times"
            known = len(times) > 1 and count in row["story"]
            yield Opinion(words, TRUE if known else FALSE, f"delivered {len(times)} times")
        elif anomaly["name"] == "unseen":
            known = who in self._fate_of and who not in self.tables.first_delivery.get(anomaly["group"], {})
            yield Opinion(words, TRUE if known else FALSE, "delivered, or not sent")
        elif anomaly["name"] == "reordered" and self.plain:
            spots = [(r["place"], r["offset"]) for r in self._copies.get(who, ())]
            yield Opinion(words, TRUE if (place, row["offset"]) in spots else FALSE, f"stored at {spots}")
        else:
            yield Opinion(words, NOT_DECIDABLE, "not looked for here")

    # Rebalances.

    def _rebalance(self, row: Row) -> Iterator[Opinion]:
        group, begin, end = row["group"], row["started_ns"], row["ended_ns"]
        words = f"rebalance of {group} at {begin}"
        claims = [c for c in self.findings.get("claims") or [] if c["kind"] == "rebalance"]
        same = [c for c in claims if (c["group"], c["from_ns"]) == (group, begin)]
        names = ("members", "unowned_partition_seconds", "unresumed_partitions")
        told = [{name: c["figures"].get(name) for name in names} for c in same]
        yield Opinion(
            f"{words}: its claim", TRUE if told == [{n: row[n] for n in names}] else FALSE, f"{told}"
        )
        if end is None or (self.tables.group_specs.get(group) or {}).get("type") == "share":
            return
        yield one_of(f"{words}: members", row["members"], self._members(group, end))
        if not self.deleted:
            yield one_of(f"{words}: redelivered", row["redelivered"], self._read_again(group, begin, end))

    def _members(self, group: str, end: int) -> set[int]:
        """Those that had come and not gone, a second later, or when those began to leave that left then."""
        found = set()
        rows = sorted(
            (e for e in self.tables.rows("group_events") if e["group"] == group), key=lambda e: e["at_ns"]
        )
        leaves = [e["at_ns"] for e in rows if e["kind"] in ("revoked", "lost", "left") and e["at_ns"] > end]
        for until in {end + SECOND, *(at - 1 for at in leaves[:1] if at <= end + SECOND)}:
            there = set()
            for event in rows:
                if event["at_ns"] > until:
                    break
                if event["kind"] in ("joined", "assigned"):
                    there.add(event["member"])
                elif event["kind"] in ("left", "killed"):
                    there.discard(event["member"])
            found.add(len(there))
        return found

    def _read_again(self, group: str, begin: int, end: int) -> set[int]:
        """Offsets delivered before and after an assignment in it, up to the next one, and never committed."""
        changes = [e for e in self.of.groups.changes(group) if e["kind"] == "assigned"]
        commits = [
            e for e in self.tables.rows("group_events") if (e["group"], e["kind"]) == (group, "committed")
        ]
        by_place: dict[Place | None, list[tuple[int, list[int]]]] = defaultdict(list)
        for (place, offset), times in self._handed[group].items():
            if len(times) > 1:
                by_place[place].append((offset, sorted(at for at, _ in times)))
        found = [set[Spot](), set[Spot]()]
        for number, event in enumerate(changes):
            place, at = self.tables.place(event), event["at_ns"]
            if not begin <= at <= end:
                continue
            after = changes[number + 1 :]
            until = min((e["at_ns"] for e in after if self.tables.place(e) == place), default=FOREVER)
            mine = [c for c in commits if self.tables.place(c) == place]
            for offset, times in by_place[place]:
                again = [one for one in times if at <= one < until and times[0] < at]
                for kept, upto in zip(found, (at, again[0] if again else at), strict=True):
                    passed = max((c["offset"] for c in mine if c["at_ns"] <= upto), default=0)
                    if again and offset >= passed:
                        kept.add((place, offset))
        return {len(one) for one in found}

    # Leaders.

    def _leader_change(self, row: Row) -> Iterator[Opinion]:
        place = self.tables.place_of(row.get("cluster"), row["topic"], row["partition"])
        words = f"leader change of {place} to epoch {row['epoch']}"
        late = row["deposed_acks_after_election"]
        known = 0 < late <= row["deposed_acks"] if (row["two_leaders_ms"] or 0) > 0 else late == 0
        yield Opinion(f"{words}: deposed_acks_after_election", TRUE if known else FALSE, f"{late}")
        before = [e for e in self.tables.events_of(place) if e["isr"] is not None]
        isrs = {tuple(e["isr"]) for e in before if e["at_ns"] // MS == row["elected_ns"] // MS}
        isrs |= {tuple(e["isr"]) for e in [e for e in before if e["at_ns"] <= row["elected_ns"]][-1:]}
        if row["old_leader"] is not None and row["old_leader_in_sync"] is not None:
            known_in = {row["old_leader"] in isr for isr in isrs}
            yield one_of(f"{words}: old_leader_in_sync", row["old_leader_in_sync"], known_in)
        if row["fault"] is not None:
            effect = self.of.effect(row["fault"])
            known = effect is not None and effect.asked <= row["elected_ns"] + MS
            yield Opinion(f"{words}: fault", TRUE if known else FALSE, "it came later")

    def _used_twice(self) -> Iterator[Opinion]:
        """Offsets that were acknowledged to another message than they hold, by partition. Such a record
        may be of a later epoch than the one that overwrote the acknowledged one.
        """
        changes: dict[Place, list[Row]] = defaultdict(list)
        for row in self.findings.get("leader_changes") or []:
            changes[self.tables.place_of(row.get("cluster"), row["topic"], row["partition"])].append(row)
        if self.removes or self.tables.rows("replayed"):
            return
        for place, rows in changes.items():
            stored, epochs = self.tables.stored_at.get(place, {}), {row["epoch"] for row in rows}
            twice = {
                s["offset"]
                for s in self.tables.sends_of.get(place, [])
                if s["outcome"] == "acked"
                and (r := stored.get(s["offset"])) is not None
                and r["leader_epoch"] in epochs
                and (r["producer"], r["seq"]) != (s["producer"], s["seq"])
            }
            found = sum(row["offsets_used_twice"] for row in rows)
            yield one_of(f"leader changes of {place}: offsets_used_twice", found, {len(twice)})

    # Transactions.

    def _transactions(self) -> Iterator[Opinion]:
        told = self.findings.get("transactions")
        if told is None:
            return
        stalls = self._stalls()
        longest = max(stalls.values(), default=None)
        yield equal(
            "transactions: longest standstill",
            told["longest_standstill_ms"],
            {None if longest is None else longest / MS},
            0.001,
        )
        if told["standstill_topic"] is not None:
            where = self.tables.place_of(None, told["standstill_topic"], told["standstill_partition"])
            known = stalls.get(where) == longest
            yield Opinion("transactions: where", TRUE if known else FALSE, f"{stalls}")

    def _stalls(self) -> dict[Place, int]:
        """By partition: the longest time from the first sample to the last of a last stable offset below the
        high watermark.
        """
        samples: dict[Place, dict[int, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
        for row in self.tables.rows("samples"):
            if row["name"] in ("last_stable_offset", "high_watermark"):
                labels = row["labels"]
                place = Place(row["cluster"], labels["topic"], int(labels["partition"]))
                samples[place][row["at_ns"]][row["name"]] = row["value"]
        found = {}
        for place, by_time in samples.items():
            spans: dict[float, list[int]] = {}
            for at, values in sorted(by_time.items()):
                stable, high = values.get("last_stable_offset"), values.get("high_watermark")
                if stable is not None and high is not None and stable < high:
                    spans.setdefault(stable, [at, at])[1] = at
            lengths = [last - first for first, last in spans.values() if last > first]
            if lengths:
                found[place] = max(lengths)
        return found

    # What else is recorded.

    def _errors(self) -> Iterator[Opinion]:
        """By client: of messages that were not acknowledged, and of transactions that did not commit."""
        told = {
            (row["client"], kind, error): n
            for row in self.findings.get("client_errors") or []
            for kind in ("messages", "transactions")
            for error, n in row[kind].items()
        }
        right: Counter[tuple[str, str, str]] = Counter()
        for table, kind, good in (
            ("sends", "messages", "acked"),
            ("transactions", "transactions", "committed"),
        ):
            for row in self.tables.rows(table):
                if row["outcome"] != good and (error := row.get("error")) is not None:
                    code, _, rest = error.partition(":")
                    named = error if rest and code in ("Local", "Broker") else code
                    right[self._client(row["producer"]), kind, named] += 1
        yield _same("errors of clients", told, right)

    def _requests(self) -> Iterator[Opinion]:
        """The versions of the requests of all producers, and of each group; and the clients' libraries."""
        names = {f"group {name}": rf"kaput-{re.escape(name)}-member-\d+" for name in self.tables.group_specs}
        names["producers"] = r"kaput-producer-\d+"
        rows = self.findings.get("requests") or []
        for who, pattern in names.items():
            mine = [row for row in rows if row["client"].startswith(f"{who} (")]
            told = {(api, v) for row in mine for api, versions in row["requests"].items() for v in versions}
            right = {
                (row["api"], row["version"])
                for row in self.tables.rows("requests")
                if re.fullmatch(pattern, row["client_id"].partition("@")[0])
            }
            yield _same(f"requests of {who}", told, right)
        libraries = self.tables.manifest.get("libraries") or {}
        told_of = {row["client"]: row["libraries"] for row in rows if row["libraries"]}
        yield _same("libraries of clients", told_of, libraries)

    def _client(self, producer: int) -> str:
        """The kind of client that a producer is; those of pipes are no entries of the scenario."""
        spec = self.tables.producer_specs.get(producer)
        if spec is None:
            return "producers (pipe)"
        version = spec.get("client_version")
        return f"producers ({spec.get('client') or 'librdkafka'}{f' {version}' if version else ''})"

    def _manifest(self) -> Iterator[Opinion]:
        manifest, run = self.tables.manifest, self.findings["run"]
        right = {
            "id": manifest["run_id"],
            "scenario": manifest["scenario"],
            "seed": manifest["seed"],
            "mode": manifest["mode"],
            "started_ns": manifest["started_ns"],
            "ended_ns": manifest["ended_ns"],
            "kafka": (manifest.get("versions") or {}).get("kafka"),
            "title": self.tables.scenario.get("title", ""),
        }
        for name, value in right.items():
            yield one_of(f"run: {name}", run[name], {value})
        levels, at_end = manifest.get("features") or {}, manifest.get("features_at_end") or {}
        for row in self.findings.get("features") or []:
            key = row["cluster"] or ""
            mine, later = levels.get(key, {}), at_end.get(key, {})
            yield _same(f"features {key}", row["levels"], {n: level for n, level in mine.items() if level})
            changed = {n: later.get(n, 0) for n in mine.keys() | later.keys() if mine.get(n) != later.get(n)}
            yield _same(f"features {key}: changed", row["changed"], changed if later else {})

    # Groups that a plan moved.

    def _switch(self, row: Row) -> Iterator[Opinion]:
        """By its translated positions: what it was given again, and what it never was given."""
        name = row["group"]
        first = self.tables.first_delivery.get(name, {})
        again, never = set[Who](), set[Who]()
        moves = [e for e in self.tables.rows("mirror") if (e["kind"], e["group"]) == ("translated", name)]
        given = [e for e in self.of.groups.changes(name) if e["kind"] == "assigned"]
        for event in moves:
            cluster = event["mirror"].partition("->")[2]
            place = Place(cluster, event["topic"], event["partition"])
            mine = [
                e["at_ns"] for e in given if self.tables.place(e) == place and e["at_ns"] <= event["at_ns"]
            ]
            moved = max(mine, default=event["at_ns"])
            for offset, record in self.tables.stored_at.get(place, {}).items():
                who = record["producer"], record["seq"]
                if None in who or record.get("visible") is False:
                    continue
                if offset < event["target_offset"] and who not in first:
                    never.add(who)
                if offset >= event["target_offset"] and first.get(who, FOREVER) < moved:
                    again.add(who)
        yield one_of(f"plan: {name} read twice", row["read_twice"], {len(again)})
        yield one_of(f"plan: {name} skipped", row["skipped"], {len(never)})


def _same(words: str, told: object, right: object) -> Opinion:
    return Opinion(words, TRUE if told == right else FALSE, f"{told}; recomputed: {right}")
