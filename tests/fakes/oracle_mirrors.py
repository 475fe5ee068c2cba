"""What mirrors between clusters did to messages, in plain Python: the definitions of docs/GLOSSARY.md."""

from __future__ import annotations

from collections import Counter
from copy import copy
from itertools import product
from typing import TYPE_CHECKING, Any

from fakes.oracle_late import Late
from fakes.oracle_rows import Row, place, who
from fakes.oracle_transactions import visible

if TYPE_CHECKING:
    from fakes.histories import History
    from fakes.oracle import Oracle


def of_clusters(history: History) -> History:
    """The same history, its topics called by their clusters."""
    if not history.clusters:
        return history
    told = copy(history)
    told.rows = {
        table: [_called(row, row.get("cluster")) if table != "mirror" else row for row in rows]
        for table, rows in history.rows.items()
    }
    told.topics = [
        {"name": f"{cluster}:{name}", "partitions": n} for cluster, name, n in history.scenario_topics()
    ]
    first = next(iter(history.clusters))
    told.subscriptions = {}
    for group in history.groups:
        own = history.blocks.get(group, {}).get("cluster", first)
        names = history.subscriptions.get(group, [t["name"] for t in history.topics])
        rows = [row for table in ("deliveries", "group_events") for row in told.rows[table]]
        read = {row["topic"] for row in rows if row["group"] == group and row["topic"] is not None}
        told.subscriptions[group] = sorted({f"{own}:{name}" for name in names} | read)
    return told


def _called(row: Row, cluster: str | None) -> Row:
    topic = row.get("topic")
    return {**row, "topic": f"{cluster}:{topic}"} if topic is not None and cluster else row


def cluster_of(row: Row) -> str | None:
    """The cluster of a row's topic."""
    cluster, colon, _ = row["topic"].partition(":")
    return cluster if colon else None


class Mirrors:
    """Which records are at home, and what mirrors did."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle, self.history = oracle, oracle.history
        self.ways = [(m["from"], m["to"]) for m in self.history.mirrors]
        self.events = self.history.rows["mirror"]

    def home(self, send: Row) -> str:
        """The topic where a message is at home."""
        if not self.history.clusters:
            return str(send["topic"])
        replayed = [r["topic"] for r in self.history.rows["replayed"] if who(r) == who(send)]
        return str(max(replayed)) if replayed and send["outcome"] != "acked" else str(send["topic"])

    def copies(self, send: Row) -> list[Row]:
        """Every record of a message."""
        return [r for r in self.oracle.records if who(r) == who(send)]

    def at_home(self, record: Row) -> bool:
        """Whether a record is the message's own, not a mirror's."""
        send = self.oracle.sent.get(who(record))
        return send is None or not self.history.clusters or record in self.own(send)

    def own(self, send: Row) -> list[Row]:
        """The records of a message at home, without those that are looped."""
        here = self._in_cluster(send)
        return here[:1] if self._leads_back(send) else here

    def looped(self, send: Row) -> bool:
        """Whether mirrors brought it back."""
        return self._leads_back(send) and len(self._in_cluster(send)) > 1

    def _in_cluster(self, send: Row) -> list[Row]:
        """In its own cluster, the first one first."""
        home = self.home(send)
        here = [r for r in self.copies(send) if cluster_of(r) == cluster_of({"topic": home})]
        return sorted(here, key=lambda r: (r["topic"] != home, not visible(r), r["offset"], place(r)))

    def _leads_back(self, send: Row) -> bool:
        cluster = cluster_of({"topic": self.home(send)})
        there = {cluster_of(r) for r in self.copies(send)}
        return any(target == cluster and source in there for source, target in self.ways)

    def away(self, send: Row) -> list[Row]:
        """The mirrored copies of a message that a reader is given."""
        cluster = cluster_of({"topic": self.home(send)})
        return [r for r in self.copies(send) if cluster_of(r) != cluster and visible(r)]

    def unmirrored(self, acked: bool = True) -> list[tuple[str, Row, str]]:
        """Mirror, send and cause of each that is missing in a target; `acked`: was acknowledged."""
        found = []
        for mirror, send in product(self.history.mirrors, self.oracle.sends):
            name = f"{mirror['from']}->{mirror['to']}"
            copied = {f"{mirror['from']}:{t}": self._copy(mirror, t) for t in mirror["topics"]}
            home, stored = self.home(send), self.oracle.stored(send)
            begun = mirror.get("start", "at-once") == "at-once" or any(
                e["mirror"] == name for e in self.events
            )
            if (acked and send["outcome"] != "acked") or stored in ("unread", "uncommitted") or not begun:
                continue
            target = copied.get(home)
            if target is None or any(visible(r) and cluster_of(r) == mirror["to"] for r in self.copies(send)):
                continue
            places = self.oracle.places_of(target)
            if places and places <= self.oracle.read_to_end:
                found.append((name, send, self._why(name, send, target)))
        return found

    def _copy(self, mirror: dict[str, Any], topic: str) -> str:
        own = f"{mirror['from']}.{topic}" if mirror.get("policy") == "default" else topic
        return f"{mirror['to']}:{own}"

    def _life(self, mirror: str) -> list[Row]:
        kinds = ("started", "stopped", "killed")
        return [e for e in self.events if e["mirror"] == mirror and e["kind"] in kinds]

    def _why(self, mirror: str, send: Row, target: str) -> str:
        shown = [r for r in self.own(send) if visible(r)]
        gone = self.oracle.deleted(send) or self.oracle.in_old_topic(send)
        if not shown and not gone:
            return "not-retained"
        life = sorted(self._life(mirror), key=lambda e: (e["at_ns"], e["kind"] == "started", e["kind"]))
        ended = bool(life) and life[-1]["kind"] != "started"
        if ended and send["done_ns"] is not None and send["done_ns"] >= life[-1]["at_ns"]:
            return "after-end"
        if not shown:
            return "deleted"
        first = min(shown, key=lambda r: (r["offset"], place(r)))
        drained = [
            e["source_offset"]
            for e in self.events
            if (e["mirror"], e["kind"]) == (mirror, "drained")
            and (f"{mirror.split('->')[1]}:{e['topic']}", e["partition"]) == (target, first["partition"])
        ]
        if first["offset"] < max(drained, default=0) or self.history.drained.get(mirror, False):
            return "recreated" if first["offset"] < self._old_end(first) else "unexplained"
        if ended:
            return "stopped" if life[-1]["kind"] == "stopped" else "fault"
        return "fault" if any(f["bit"] for f in self.history.rows["faults"]) else "behind"

    def _old_end(self, record: Row) -> int:
        """How far its partition reached in a topic that was deleted, by its producers' acknowledgements."""
        old = [s for s in self.oracle.sends if s["outcome"] == "acked" and place(s) == place(record)]
        ends = [s["offset"] + 1 for s in old if s["offset"] is not None and self.oracle.in_old_topic(s)]
        return max(ends, default=0)

    def twice(self) -> list[tuple[Row, str, str]]:
        """Send, home's cluster and topic elsewhere, where that has more copies than the home."""
        found = []
        for send in self.oracle.sends if self.history.clusters else ():
            counts = Counter(r["topic"] for r in self.away(send))
            most = max(1, len(self.own(send)))
            cluster = self.home(send).partition(":")[0]
            found += [(send, cluster, topic) for topic, n in counts.items() if n > most]
        return found

    def late(self) -> list[Row]:
        """The first mirrored copies that are behind one with a greater offset in their source partition."""
        first: dict[tuple[Any, ...], tuple[int, Row]] = {}
        for send in self.oracle.sends if self.history.clusters else ():
            own = self.own(send)
            # Where a message is first at home, visible records come before others.
            source = min(own, key=lambda r: (not visible(r), r["offset"], place(r)), default=None)
            for r in self.away(send) if source is not None else ():
                key = (place(r), place(source), source["offset"])  # type: ignore[arg-type,index]
                if key not in first or r["offset"] < first[key][1]["offset"]:
                    first[key] = source["offset"], r  # type: ignore[index]
        return [
            r
            for (at, from_, offset), (_, r) in first.items()
            if any(
                other_at == at and other_from == from_ and o["offset"] < r["offset"] and other > offset
                for (other_at, other_from, other), (_, o) in first.items()
            )
        ]

    def run_counts(self) -> dict[str, int]:
        """The anomalies of the run."""
        sends = self.oracle.sends if self.history.clusters else []
        return {
            "unmirrored": len(self.unmirrored()),
            "mirrored-twice": len(self.twice()),
            "mirror-reordered": len(self.late()),
            "looped": sum(self.looped(s) for s in sends),
        }

    def permitted(self) -> dict[str, int]:
        """How many of them are."""
        exactly = {(m["from"], m["to"]) for m in self.history.mirrors if m.get("exactly-once")}
        twice = [(home, topic.partition(":")[0]) for _, home, topic in self.twice()]
        identity = {m["to"] for m in self.history.mirrors if m.get("policy") != "default"}
        back = [self.home(s).partition(":")[0] for s in self.oracle.sends if self.looped(s)]
        causes = [cause for _, _, cause in self.unmirrored()]
        return {
            "unmirrored": sum(cause not in ("unexplained", "behind") for cause in causes),
            "mirrored-twice": sum(way not in exactly for way in twice),
            "mirror-reordered": 0,
            "looped": sum(cluster in identity for cluster in back),
        }

    def moves(self, group: str) -> list[tuple[Row, tuple[str, int]]]:
        """Where a group began in other clusters."""
        mine = [e for e in self.events if (e["kind"], e.get("group")) == ("translated", group)]
        return [(e, (f"{e['mirror'].split('->')[1]}:{e['topic']}", e["partition"])) for e in mine]

    def ahead(self, group: str) -> set[tuple[int, int]]:
        handed = self.oracle.delivered(group)
        return {
            who(r)
            for e, at in self.moves(group)
            for r in self.oracle.records
            if place(r) == at and visible(r) and r["offset"] < e["target_offset"]
            if who(r) in self.oracle.sent and not handed[who(r)]
            if self._for(group, self.oracle.sent[who(r)])
        }

    def permitted_back(self, group: str) -> set[tuple[int, int]]:
        """Of these, what failing back costs, as far as it may: the cluster that it came back from never had
        them, since the mirror was stopped, killed or kept from copying them.
        """
        why = {(mirror, who(send)): cause for mirror, send, cause in self.unmirrored(acked=False)}
        ways_back = {(*e["mirror"].split("->"), at) for e, at in self.moves(group)}
        return {
            message
            for message in self.ahead(group)
            for source, target, at in ways_back
            if any(place(r) == at and visible(r) for r in self.copies(self.oracle.sent[message]))
            if why.get((f"{target}->{source}", message)) in ("after-end", "stopped", "fault", "recreated")
            if self.oracle.sent[message]["attempt_ns"] <= self._returned(group, source, at)
        }

    def _returned(self, group: str, left: str, at: tuple[str, int]) -> int:
        """From when on messages are new in the cluster to which it came back: the last attempt in the cluster
        that it left, and at most when it came back.
        """
        moves = [(e, to) for e, to in self.moves(group) if e["mirror"].startswith(f"{left}->")]
        came = max(self._began(e, to) for e, to in moves)
        there = [s["attempt_ns"] for s in self.oracle.sends if cluster_of(s) == left]
        return min(came, max(there, default=came))

    def _for(self, group: str, send: Row) -> bool:
        """Whether a late group had to read the message."""
        late = Late(self.oracle, group)
        copy = late.copy(send)
        if late.back_ns is None or copy is None:
            return True
        return late.ruling(copy["offset"], send, place(copy)) == "owed"

    def behind(self, group: str) -> set[tuple[int, int]]:
        """Messages that it read again."""
        mine = [d for d in self.oracle.deliveries if d["group"] == group and d["intact"]]
        return {
            who(r)
            for e, at in self.moves(group)
            for r in self.oracle.records
            if place(r) == at and visible(r) and r["offset"] >= e["target_offset"]
            if who(r) in self.oracle.sent
            if any(who(d) == who(r) and d["polled_ns"] < self._began(e, at) for d in mine)
        }

    def _began(self, event: Row, at: tuple[str, int]) -> int:
        """When the group began there: its first assignment since it was assigned anything in the source."""
        mine = [
            e
            for e in self.oracle.events
            if (e["group"], e["kind"]) == (event["group"], "assigned") and None not in place(e)
        ]
        mine = [e for e in mine if e["at_ns"] <= event["at_ns"]]
        source = event["mirror"].split("->")[0]
        before = [e["at_ns"] for e in mine if cluster_of(e) == source]
        told = [e["at_ns"] for e in mine if place(e) == at and e["at_ns"] > max([-1, *before])]
        return int(min(told, default=event["at_ns"]))

    def returns(self, commit: Row) -> list[Row]:
        """Where the group began by a move in the partition of its commit, with the time at which it did."""
        moves = [(e, at) for e, at in self.moves(commit["group"]) if at == place(commit)]
        return [e | {"at_ns": self._began(e, at)} for e, at in moves]

    def left_behind(self, group: str) -> list[Row]:
        """Of what is unseen, what the cluster where it was at last does not have."""
        if not self.history.clusters:
            return []
        been = [
            (row.get("polled_ns") or row["at_ns"], cluster_of(row) or "")
            for table in ("deliveries", "group_events")
            for row in self.history.rows[table]
            if row["group"] == group and None not in place(row)
            if row.get("kind", "assigned") in ("assigned", "committed")
        ]
        if len({cluster for _, cluster in been}) < 2:
            return []
        ends = {cluster for at_ns, cluster in been if at_ns == max(been)[0]}
        return [
            s
            for s in self.oracle.unseen(group)
            if any(
                not self.home(s).startswith(f"{last}:")
                and not any(visible(r) and cluster_of(r) == last for r in self.copies(s))
                for last in ends
            )
        ]
