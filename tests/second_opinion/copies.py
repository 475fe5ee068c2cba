"""What mirrors copied between clusters, and how long clients waited that a plan moved (RPO and RTO)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from typing import TYPE_CHECKING

from second_opinion.answers import NOT_DECIDABLE, Opinion, equal, one_of
from second_opinion.effects import FOREVER
from second_opinion.raw import SECOND, Place, Row

if TYPE_CHECKING:
    from second_opinion.opinion import Examiner

MOVES = ("move-producers", "move-groups", "fail-back")
PERMITTED_IF_MISSING = (
    *("not-retained", "after-end", "deleted", "unexplained", "maybe-removed", "stopped", "fault", "behind"),
)


class Copies:
    """Of one run: its mirrors and its plan."""

    def __init__(self, of: Examiner) -> None:
        self.of, self.tables, self.findings = of, of.tables, of.findings
        self.names: list[str] = list(self.tables.scenario.get("clusters") or {})

    def all(self) -> Iterator[Opinion]:
        """Every opinion."""
        for row in self.findings.get("mirrors") or []:
            yield from self._mirror(row)
        if (plan := self.findings.get("plan")) is not None:
            yield from self._plan(plan)

    # Mirrors.

    def _mirror(self, row: Row) -> Iterator[Opinion]:
        words, name = f"mirror {row['mirror']}", row["mirror"]
        events = [e for e in self.tables.rows("mirror") if e["mirror"] == name]
        ends = self._ends(events)
        yield one_of(f"{words}: ended", (row["ended_ns"], row["ended"]), ends)
        starts = sum(e["kind"] == "started" for e in events)
        yield one_of(f"{words}: restarts", row["restarts"], {max(starts - 1, 0)})
        drained = [m["drained"] for m in self.tables.manifest.get("mirrors") or [] if m["mirror"] == name]
        yield one_of(f"{words}: drained", row["drained"], {drained[0] if drained else False})
        lags = self.lags(row)
        yield one_of(f"{words}: lag_max", row["lag_max"], {round(max(lags.values())) if lags else None})
        if self.tables.rows("replayed") or any(
            f["fault"] in ("recreate", "delete-topic") for f in self.tables.rows("faults")
        ):
            yield Opinion(words, NOT_DECIDABLE, "replays and recreated topics have rules of their own")
            return
        for ended_ns, ended in ends:
            yield from self._missing(words, row, events, ended_ns, ended)
        yield from self._copied(words, row)

    def lags(self, row: Row) -> dict[int, float]:
        """The lag of a mirror in findings, by the time of each sample."""
        lags: dict[int, float] = defaultdict(float)
        own_writes = self._own_writes(row)  # what is written to a copy from then on would count as mirrored
        for event in self.tables.rows("mirror"):
            mine = event["mirror"] == row["mirror"] and event["kind"] == "lag" and event["at_ns"] < own_writes
            if mine and event["value"] is not None and event["value"] >= 0:
                lags[event["at_ns"]] += event["value"]
        return lags

    def _ends(self, events: list[Row]) -> set[tuple[int | None, str | None]]:
        """When it ended for good, and why; at the same time a start is taken to come last."""
        kinds = {"stopped": "stopped", "killed": "fault"}
        life = [e for e in events if e["kind"] in ("started", *kinds)]
        last = max((e["at_ns"] for e in life), default=None)
        lasts = {e["kind"] for e in life if e["at_ns"] == last}
        if last is None or "started" in lasts:
            return {(None, None)}
        return {(last, kinds[kind]) for kind in lasts}

    def _missing(
        self, words: str, row: Row, events: list[Row], ended_ns: int | None, ended: str | None
    ) -> Iterator[Opinion]:
        """Counts of what is in the target, and of what is not, by cause."""
        spec = self._spec(row["mirror"])
        if spec.get("start", "at-once") != "at-once" and not events:
            return
        counts: dict[str, list[Row]] = defaultdict(list)
        superseded: dict[Place, list[tuple[str, Row]]] = defaultdict(list)
        for send in self.tables.rows("sends"):
            if send["outcome"] == "acked" and self._is_copied(spec, send):
                fate = self._fate(row, spec, send, events, ended_ns, ended)
                removed, there = None, self._place_there(row, spec, send)
                if there is not None and fate in PERMITTED_IF_MISSING:
                    removed = self._removed_there(row, there, send)
                if removed == "superseded" and there is not None:
                    superseded[there].append((fate, send))
                    continue
                if removed == "removed" or (removed and fate in ("unexplained", "behind")):
                    fate = removed
                counts[fate].append(send)
        for there, mine in superseded.items():
            for fate, send in mine:
                counts[self._if_superseded(spec, there, len(mine), fate, send)].append(send)
        counts.pop("none", None)
        missing = {cause: len(mine) for cause, mine in counts.items() if cause in PERMITTED_IF_MISSING}
        total = sum(len(mine) for mine in counts.values())
        yield one_of(f"{words}: acknowledged", row["acknowledged"], {total})
        yield one_of(f"{words}: mirrored", row["mirrored"], {len(counts["mirrored"])})
        yield one_of(f"{words}: removed", row["removed"], {len(counts["removed"])})
        yield one_of(f"{words}: unmirrored", row["unmirrored"], {sum(missing.values())})
        yield one_of(
            f"{words}: causes", tuple(sorted(row["causes"].items())), {tuple(sorted(missing.items()))}
        )
        before = [
            send
            for cause in missing
            for send in counts[cause]
            if ended_ns is None or send["done_ns"] is None or send["done_ns"] < ended_ns
        ]
        unknown = bool(counts["unread"])
        yield one_of(f"{words}: rpo_messages", row["rpo_messages"], {None if unknown else len(before)})
        since = min((s["done_ns"] for s in before if s["done_ns"] is not None), default=None)
        yield one_of(f"{words}: unmirrored_since_ns", row["unmirrored_since_ns"], {since})
        until = ended_ns or self.tables.manifest.get("ended_ns")
        age = None if until is None else (until - since) / SECOND if since is not None else 0.0
        if since is None and not before:
            age = 0.0
        yield equal(f"{words}: rpo_s", row["rpo_s"], {None if unknown else age}, 1e-6)
        gone = [s["done_ns"] for s in counts["deleted"] if s["done_ns"] is not None]
        told = row["deleted_first_ns"], row["deleted_last_ns"]
        yield one_of(f"{words}: deleted", told, {(min(gone, default=None), max(gone, default=None))})

    def _copied(self, words: str, row: Row) -> Iterator[Opinion]:
        """What the target has more than once, in another order, or back in its own cluster."""
        source, target = row["source"], row["target"]
        twice, looped = [0, 0], 0
        # A copy of what its own cluster shows to no reader: whether that has an order is left open.
        orders: list[dict[tuple[Place, Place], list[tuple[int, int]]]] = [
            defaultdict(list),
            defaultdict(list),
        ]
        for send in self.tables.rows("sends"):
            every = self._copies(send)
            own = [r for r in every if r["cluster"] == send["cluster"]]
            ways = [m for m in self.tables.scenario.get("mirrors") or [] if m["to"] == send["cluster"]]
            back = any(r["cluster"] == m["from"] for r in every for m in ways)
            looped += send["cluster"] == target and back and len(own) > 1
            if send["cluster"] != source:
                continue
            there = [r for r in every if r["cluster"] == target and r.get("visible") is not False]
            topics = Counter(r["topic"] for r in there)
            for number, at_home in enumerate((own[:1] if back else own, own)):
                twice[number] += sum(n > max(len(at_home), 1) for n in topics.values())
            firsts: dict[Place, int] = {}
            for record in there:
                place = self.tables.place(record)
                assert place is not None
                firsts[place] = min(record["offset"], firsts.get(place, record["offset"]))
            for copies, home in zip(orders, self._firsts(send), strict=True):
                for place, offset in firsts.items() if home is not None else ():
                    assert home is not None
                    copies[place, home[0]].append((offset, home[1]))
        yield one_of(f"{words}: mirrored twice", row["mirrored_twice"], set(twice))
        late = {sum(map(behind, copies.values())) for copies in orders}
        yield one_of(f"{words}: reordered", row["reordered"], late)
        yield one_of(f"{words}: looped", row["looped"], {looped})

    def _firsts(self, send: Row) -> list[tuple[Place, int] | None]:
        """Where the first copy at home is: of those that readers are given, and of all."""
        every = sorted(self.tables.home_records(send), key=lambda r: (r["offset"], r["partition"]))
        shown = [r for r in every if r.get("visible") is not False]
        firsts = [next(iter(some), None) for some in (shown, shown or every)]
        places = [None if first is None else self.tables.place(first) for first in firsts]
        return [
            None if first is None or place is None else (place, first["offset"])
            for first, place in zip(firsts, places, strict=True)
        ]

    def _spec(self, name: str) -> Row:
        for spec in self.tables.scenario.get("mirrors") or []:
            if f"{spec['from']}->{spec['to']}" == name:
                return dict(spec)
        return {}

    def _own_writes(self, row: Row) -> int:
        """When producers begin to write to a topic of the target that has copies, or one of its topics is
        deleted and created again.
        """
        spec, work = self._spec(row["mirror"]), self.tables.scenario.get("workload") or {}
        prefix = f"{spec.get('from')}." if spec.get("policy") == "default" else ""
        copies = {prefix + topic for topic in spec.get("topics", ())}
        pipes = [
            {**g["produces"], "cluster": g.get("cluster")}
            for g in work.get("groups") or []
            if g.get("produces")
        ]
        written = {
            (one.get("cluster") or self.tables.first_cluster, one["topic"])
            for one in [*(work.get("producers") or []), *pipes]
        }
        if written & {(row["target"], topic) for topic in copies}:
            return 0
        mine = {(spec.get("from"), topic) for topic in spec.get("topics", ())}
        mine |= {(row["target"], topic) for topic in copies}
        again = [f for f in self.tables.rows("faults") if f["fault"] in ("recreate", "delete-topic")]
        places = [self.tables.place_of(None, f["target"].removeprefix("topic "), 0) for f in again]
        gone = [f["injected_ns"] for f, p in zip(again, places, strict=True) if (p.cluster, p.topic) in mine]
        moves = [step["started_ns"] for step in self.tables.rows("plan") if step["kind"] == "move-producers"]
        return min([*gone, *(moves if copies & {topic for _, topic in written} else [])], default=FOREVER)

    def _is_copied(self, spec: Row, send: Row) -> bool:
        return send["cluster"] == spec.get("from") and send["topic"] in spec.get("topics", ())

    def _fate(
        self, row: Row, spec: Row, send: Row, events: list[Row], ended_ns: int | None, ended: str | None
    ) -> str:
        """Whether the target has a copy, and if not, why; `none`: it did not have to have one."""
        home = [r for r in self.tables.home_records(send) if r.get("visible") is not False]
        if not home and not self._gone_for_sure(send):
            return "none"
        if any(r["cluster"] == row["target"] and r.get("visible") is not False for r in self._copies(send)):
            return "mirrored"
        topic = send["topic"] if spec.get("policy") != "default" else f"{row['source']}.{send['topic']}"
        if not self._topic_read(row["target"], topic):
            return "unread"
        place = self.tables.place(send)
        start = (self.tables.ends.get(place) or {}).get("start_offset") if place is not None else None
        deleted = not home and send["offset"] is not None and start is not None and send["offset"] < start
        if not home and not deleted:
            return "not-retained"
        if ended_ns is not None and send["done_ns"] is not None and send["done_ns"] >= ended_ns:
            return "after-end"
        if deleted:
            return "deleted"
        first = min(home, key=lambda r: (r["offset"], r["partition"]))
        upto = [
            e["source_offset"]
            for e in events
            if (e["kind"], e["topic"], e["partition"]) == ("drained", topic, first["partition"])
        ]
        if row["drained"] or first["offset"] < max(upto, default=0):
            return "unexplained"
        if ended is not None:
            return ended
        broken = [f for f in self.tables.rows("faults") if f["bit"] and f["effective_ns"] is not None]
        return "fault" if any(f["fault"] != "noop" for f in broken) else "behind"

    def _if_superseded(self, spec: Row, there: Place, n: int, fate: str, send: Row) -> str:
        """What became of one of `n` messages that compaction has removed there, if they were there."""
        gaps = self._gaps(there)
        handed = (there.cluster, send["producer"], send["seq"]) in self._handed
        if handed or (gaps >= n and not spec.get("exactly-once")):
            return "removed"
        return "maybe-removed" if gaps > 0 and fate in ("unexplained", "behind") else fate

    @cache  # noqa: B019
    def _gaps(self, there: Place) -> int:
        """How many offsets from 0 to its end have no record."""
        offsets = {r["offset"] for r in self.tables.rows("log") if self.tables.place(r) == there}
        return len(set(range((self.tables.ends.get(there) or {}).get("end_offset") or 0)) - offsets)

    def _place_there(self, row: Row, spec: Row, send: Row) -> Place | None:
        """The partition of its copy."""
        source, _ = self._in_source(send)
        if source is None:
            return None
        topic = source.topic if spec.get("policy") != "default" else f"{row['source']}.{source.topic}"
        return Place(row["target"], topic, source.partition)

    def _removed_there(self, row: Row, there: Place, send: Row) -> str | None:
        """`removed`: the target has removed it as configured; `superseded`: if it was there; `maybe-removed`:
        it may have.
        """
        source, offset = self._in_source(send)
        assert source is not None
        latest, newest, lowest, own = self._left_there(source, there)
        key, known = self._key(send)
        if offset is None:
            later = newest.get((key, send["producer"]), -1) > send["seq"]
        else:
            later = latest.get(key, -1) > offset
        mine = self.tables.topic_spec(there.cluster, there.topic) or self.tables.topic_spec(
            source.cluster, source.topic
        )
        policy = (mine.get("config") or {}).get("cleanup.policy")
        compacted = "compact" in str(policy or self.tables.setting(there, "cleanup.policy", "delete"))
        begins_later = ((self.tables.ends.get(there) or {}).get("start_offset") or 0) > 0
        trimmed = begins_later and (offset is None or lowest is None or offset < lowest)
        handed = (row["target"], send["producer"], send["seq"]) in self._handed
        if trimmed and handed:
            return "removed"
        if compacted and key is not None and later:
            return "superseded"
        unknown = compacted and (not known or key in own) and self._gaps(there) > 0
        return "maybe-removed" if trimmed or unknown else None

    @cache  # noqa: B019
    def _left_there(
        self, source: Place, there: Place
    ) -> tuple[dict[int, int], dict[tuple[int | None, int], int], int | None, set[int]]:
        """What a partition has of another: by key the last offset there, by key and producer the last number,
        and the lowest offset; the keys of what it has of its own cluster.
        """
        latest: dict[int, int] = {}
        newest: dict[tuple[int | None, int], int] = {}
        lowest, own = None, set()
        for send in self.tables.rows("sends"):
            records = [r for r in self._copies(send) if self.tables.place(r) == there]
            if all(r.get("visible") is False for r in records):
                continue
            (place, offset), (key, _) = self._in_source(send), self._key(send)
            if send["cluster"] == there.cluster and key is not None:
                own.add(key)
            if place != source:
                continue
            newest[key, send["producer"]] = max(newest.get((key, send["producer"]), -1), send["seq"])
            if offset is not None:
                lowest = offset if lowest is None else min(lowest, offset)
                if key is not None:
                    latest[key] = max(latest.get(key, -1), offset)
        return latest, newest, lowest, own

    def _in_source(self, send: Row) -> tuple[Place | None, int | None]:
        """Where a message is in its own cluster, else where it was acknowledged."""
        first = next((one for one in self._firsts(send) if one is not None), None)
        return (self.tables.place(send), send["offset"]) if first is None else first

    def _key(self, send: Row) -> tuple[int | None, bool]:
        """The number of its key, none without one; and whether it is known."""
        key = self.tables.producer_specs.get(send["producer"], {}).get("key", "none")
        words = {"none": None, "producer": send["producer"], "seq": send["seq"]}
        number = words[key] if isinstance(key, str) else send["seq"] % key
        return number, send["producer"] in self.tables.producer_specs

    @cached_property
    def _handed(self) -> set[tuple[str | None, int, int]]:
        """Cluster and message of each delivery."""
        rows = self.tables.rows("deliveries")
        return {(d["cluster"], d["producer"], d["seq"]) for d in rows if d["intact"] and d["seq"] is not None}

    def _gone_for_sure(self, send: Row) -> bool:
        """Of a message that no reader at home is given: whether it was promised to be there, and is not."""
        place, outcome = self.tables.place(send), self.tables.transaction_outcome(send)
        known = self.tables.read_to_end(place) if place is not None else self._topic_read(*_topic(send))
        hidden = bool(self.tables.home_records(send)) and outcome is None
        return known and outcome not in ("aborted", "unknown") and not hidden

    def _topic_read(self, cluster: str | None, topic: str) -> bool:
        """Whether every known partition of a topic was read to its end."""
        places = {p for p in self._places if (p.cluster, p.topic) == (cluster, topic)}
        return bool(places) and all(self.tables.read_to_end(p) for p in places)

    @cached_property
    def _places(self) -> set[Place]:
        tables = ("sends", "log", "end_offsets", "deliveries")
        found = {p for t in tables for r in self.tables.rows(t) if (p := self.tables.place(r)) is not None}
        sizes: dict[tuple[str | None, str], int] = {}
        for cluster, topic in self.tables.topics:
            sizes[cluster, topic] = int(self.tables.topic_spec(cluster, topic).get("partitions", 1))
        for _ in self.names:
            for spec in self.tables.scenario.get("mirrors") or []:
                for topic in spec["topics"]:
                    copy = topic if spec.get("policy") != "default" else f"{spec['from']}.{topic}"
                    if (spec["from"], topic) in sizes:
                        sizes.setdefault((spec["to"], copy), sizes[spec["from"], topic])
        return found | {Place(*where, number) for where, n in sizes.items() for number in range(n)}

    def _copies(self, send: Row) -> list[Row]:
        return self._records.get((send["producer"], send["seq"]), [])

    @cached_property
    def _records(self) -> dict[tuple[int, int], list[Row]]:
        found: dict[tuple[int, int], list[Row]] = defaultdict(list)
        for record in self.tables.rows("log"):
            if record["producer"] is not None and record["seq"] is not None and record["intact"]:
                found[record["producer"], record["seq"]].append(record)
        return found

    # The plan.

    def _plan(self, plan: Row) -> Iterator[Opinion]:
        rows = sorted(self.tables.rows("plan"), key=lambda r: (r["started_ns"], r["step"]))
        told = [(s["step"], s["outcome"], s["started_ns"]) for s in plan["steps"]]
        yield one_of(
            "plan: steps", tuple(told), {tuple((r["step"], r["outcome"], r["started_ns"]) for r in rows)}
        )
        for step, row in zip(plan["steps"], rows, strict=False):
            length = None if row["ended_ns"] is None else (row["ended_ns"] - row["started_ns"]) / SECOND
            yield equal(f"plan: {step['step']} took", step["seconds"], {length}, 1e-6)
            if row["kind"] in ("move-groups", "fail-back") and row["outcome"] == "done":
                yield from self._continued(f"plan: {row['step']}", row, step)
        ways = self._ways()
        if ways is None:
            return
        yield one_of("plan: source and target", (plan["source"], plan["target"]), {ways})
        moments = self._moments(rows, ways[0])
        acks = [
            (s["cluster"], s["done_ns"], s["producer"])
            for s in self.tables.rows("sends")
            if s["outcome"] == "acked" and s["done_ns"] is not None
        ]
        yield from self._waited("plan: rto_writes", plan["rto_writes"], acks, ways, moments[0])
        for group in plan["groups"]:
            mine = [d for d in self.tables.rows("deliveries") if d["group"] == group["group"]]
            times = [(d["cluster"], d["polled_ns"], 0) for d in mine]
            words = f"plan: rto of {group['group']}"
            yield from self._waited(words, group["rto"], times, ways, moments[1])

    def _continued(self, words: str, row: Row, step: Row) -> Iterator[Opinion]:
        """Where groups are said to have continued, and where they began by the mirror's rows of that time."""
        began = {
            (e["group"], e["topic"], e["partition"], e["target_offset"])
            for e in self.tables.rows("mirror")
            if e["kind"] == "translated" and row["started_ns"] <= e["at_ns"] <= row["ended_ns"]
        }
        for group, cluster, places in re.findall(r"(\S+) continued in (\w+): ([^;(]+)", step["proof"]):
            for topic, partition, offset in re.findall(r"(\S+)/(\d+) at ([\d,]+\d|\d)", places):
                told = group, topic, int(partition), int(offset.replace(",", ""))
                yield one_of(f"{words}: {group} in {cluster} at {topic}/{partition}", told in began, {True})

    def _ways(self) -> tuple[str, str] | None:
        """Where the first step that moves clients moves them from and to; null: the scenario has none."""
        steps = self.tables.scenario.get("plan") or []
        for number, step in enumerate(steps):
            if step["step"] in MOVES and step.get("to"):
                fenced = [s["cluster"] for s in steps[:number] if s["step"] == "fence"]
                work = self.tables.scenario.get("workload") or {}
                clients = [] if step["step"] == "move-groups" else list(work.get("producers") or [])
                clients += work.get("groups") or []
                homes = [one.get("cluster") or self.tables.first_cluster for one in clients]
                source = next(
                    (c for c in [*fenced, *homes, *self.names] if c not in (None, step["to"])), None
                )
                return None if source is None else (source, step["to"])
        return None

    def _moments(self, rows: list[Row], source: str) -> list[tuple[list[int], int | None]]:
        """Of producers, and of groups: faults on the source's nodes no later than the first step that moved
        clients, and when they were kept from going on there.
        """
        done = [r for r in rows if r["outcome"] == "done"]
        first = min((r["started_ns"] for r in done if r["kind"] in MOVES), default=None)
        number = self.names.index(source) if source in self.names else 0
        faults = [
            e.begin
            for e in self.of.effects.all
            if e.fault != "noop" and e.bit and any(node // 1000 == number for node in e.brokers)
        ]
        faults = sorted(at for at in faults if first is None or at <= first)
        starts = [
            min((r["started_ns"] for r in done if r["kind"] in (kind, "fail-back")), default=None)
            for kind in ("move-producers", "move-groups")
        ]
        fences = [r for r in done if r["kind"] == "fence" and (first is None or r["started_ns"] <= first)]
        if fences:
            starts[0] = fences[0]["ended_ns"] or fences[0]["started_ns"]
        return [(faults, start) for start in starts]

    def _waited(
        self,
        words: str,
        told: Row | None,
        times: list[tuple[str | None, int, int]],
        ways: tuple[str, str],
        moments: tuple[list[int], int | None],
    ) -> Iterator[Opinion]:
        """From the last in the source to the first in the target, around the fault that ended it there."""
        faults, kept = moments
        rights: set[tuple[int, int] | None] = set()
        for fault in [*faults, None]:
            moment = kept if fault is None else fault
            if moment is None:
                rights.add(None)
                break
            movers = {who for cluster, at, who in times if cluster == ways[1] and at >= moment}
            there = [at for cluster, at, _ in times if cluster == ways[1] and at >= moment]
            here = [at for cluster, at, who in times if cluster == ways[0] and who in movers]
            later = [at for at in here if kept is not None and at <= kept]
            if fault is not None and later and max(later) >= fault + SECOND:
                continue  # it was not what they waited for
            before = [at for at in here if at <= moment]
            rights.add((max(before), min(there)) if before and there else None)
            break
        yield one_of(words, None if told is None else (told["from_ns"], told["to_ns"]), rights)
        if told is not None:
            length = (told["to_ns"] - told["from_ns"]) / SECOND
            yield equal(f"{words}: seconds", told["seconds"], {length}, 1e-6)


def behind(numbers: Iterable[tuple[int, int]]) -> int:
    """How many numbers are below the greatest before them, of (offset, number)."""
    late, top = 0, -1
    for _, number in sorted(numbers):
        late += number < top
        top = max(top, number)
    return late


def _topic(send: Row) -> tuple[str | None, str]:
    return send["cluster"], send["topic"]
