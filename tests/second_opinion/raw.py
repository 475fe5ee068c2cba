"""A run folder as it was recorded: plain rows of its tables, and what the scenario says of the clients.

Not here: anything that has to be interpreted. No schema and no reader of kaput's is used.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import yaml

SECOND = 1_000_000_000
MS = 1_000_000
MOMENT = 100 * MS
Row = dict[str, Any]


class Place(NamedTuple):
    """A partition; `cluster`: null where there is only one."""

    cluster: str | None
    topic: str
    partition: int

    def __str__(self) -> str:
        prefix = f"{self.cluster}:" if self.cluster else ""
        return f"{prefix}{self.topic}/{self.partition}"


def _message(row: Row) -> tuple[int, int, str | None, str]:
    return row["producer"], row["seq"], row["cluster"], row["topic"]


def _place(row: Row) -> Place | None:
    if row.get("topic") is None or row.get("partition") is None:
        return None
    return Place(row["cluster"], row["topic"], row["partition"])


class RunTables:
    """Every table of one folder, read when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest: Row = json.loads((folder / "manifest.json").read_text())
        scenario = folder / "scenario.yaml"
        self.scenario: Row = (yaml.safe_load(scenario.read_text()) if scenario.exists() else None) or {}
        self._tables: dict[str, list[Row]] = {}

    def rows(self, table: str) -> list[Row]:
        """All rows of a table; a missing one is empty. Each has its cluster, null where there is only one."""
        if table not in self._tables:
            files = sorted((self.folder / "evidence" / table).glob("*.parquet"))
            rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
            for row in rows:
                row["cluster"] = row.get("cluster") or self.first_cluster
                row["place"] = _place(row)
                if isinstance(row.get("labels"), list):
                    row["labels"] = dict(row["labels"])
            self._tables[table] = rows
        return self._tables[table]

    @cached_property
    def first_cluster(self) -> str | None:
        """The name of the first of several clusters; null where there is only one."""
        return next(iter(self.scenario.get("clusters") or {}), None)

    def place(self, row: Row) -> Place | None:
        """The partition that a row is about; null if it names none."""
        place: Place | None = row["place"]
        return place

    def place_of(self, cluster: str | None, topic: str, partition: int) -> Place:
        """The partition that findings name, as `dc2:orders` or with the cluster apart."""
        names = self.scenario.get("clusters") or {}
        prefix, colon, rest = topic.partition(":")
        if colon and prefix in names:
            return Place(prefix, rest, partition)
        return Place(cluster or self.first_cluster, topic, partition)

    # What the scenario says.

    @cached_property
    def producer_specs(self) -> dict[int, Row]:
        """By producer's number: its entry in the scenario."""
        entries = (self.scenario.get("workload") or {}).get("producers") or []
        specs = [entry for entry in entries for _ in range(entry.get("count", 1))]
        return dict(enumerate(specs))

    @cached_property
    def group_specs(self) -> dict[str, Row]:
        """By group: its entry in the scenario."""
        return {g["id"]: g for g in (self.scenario.get("workload") or {}).get("groups") or []}

    def copies(self, home: Place) -> dict[Place, set[str]]:
        """The copies of a partition, and the mirrors through which they come."""
        found: dict[Place, set[str]] = {home: set()}
        todo = [home]
        for place in todo:
            for mirror in self.scenario.get("mirrors") or []:
                source, target = mirror["from"], mirror["to"]
                default = mirror.get("policy") == "default"
                copy = Place(target, f"{source}.{place.topic}" if default else place.topic, place.partition)
                if source == place.cluster and place.topic in mirror["topics"] and copy not in found:
                    found[copy] = found[place] | {f"{source}->{target}"}
                    todo.append(copy)
        return {copy: mirrors for copy, mirrors in found.items() if mirrors}

    @cached_property
    def topics(self) -> list[tuple[str | None, str]]:
        """The scenario's topics, each with its cluster."""
        specs = self.scenario.get("topics") or []
        return [(spec.get("cluster") or self.first_cluster, spec["name"]) for spec in specs]

    def voters(self, cluster: str | None) -> list[int]:
        """The nodes that elect leaders in a cluster: dedicated ones, else up to three of its brokers."""
        clusters = self.scenario.get("clusters") or {}
        spec = (clusters[cluster] if cluster is not None else self.scenario.get("cluster")) or {}
        above = 1000 * list(clusters).index(cluster) if cluster is not None else 0
        own, brokers = spec.get("controllers", "combined"), spec.get("brokers", 3)
        if spec.get("mode") == "zookeeper":
            return []
        if own != "combined":
            return [above + 101 + number for number in range(own)]
        return [above + 1 + number for number in range(3 if brokers >= 3 else 1)]

    def topic_spec(self, cluster: str | None, topic: str) -> Row:
        """A topic's entry in the scenario; empty if it has none."""
        for spec in self.scenario.get("topics") or []:
            if spec["name"] == topic and (spec.get("cluster") or self.first_cluster) == cluster:
                return spec
        return {}

    def cluster_spec(self, cluster: str | None) -> Row:
        """A cluster's entry in the scenario."""
        if cluster is None:
            return self.scenario.get("cluster") or {}
        return (self.scenario.get("clusters") or {}).get(cluster) or {}

    def setting(self, place: Place, name: str, default: Any = None) -> Any:
        """A topic's setting, else the one of its cluster (with `log.` before it where that is its name)."""
        own = self.topic_spec(place.cluster, place.topic).get("config") or {}
        whole = self.cluster_spec(place.cluster).get("config") or {}
        for config, key in ((own, name), (whole, name), (whole, f"log.{name}")):
            if key in config:
                return config[key]
        return default

    def min_isr(self, place: Place) -> int:
        """min.insync.replicas of a partition's topic, as configured; brokers require no more than it has."""
        return min(int(self.setting(place, "min.insync.replicas", 1)), self.most_replicas(place))

    def most_replicas(self, place: Place) -> int:
        """The replicas of a partition, with those that a step adds."""
        steps = self.scenario.get("faults") or []
        added = [int(step["replication-factor"]) for step in steps if "replication-factor" in step]
        return max([int(self.topic_spec(place.cluster, place.topic).get("replication-factor", 99)), *added])

    def sets_min_isr(self, step: Row, place: Place) -> int | None:
        """The value that a step of the scenario gives it; null if it is about something else."""
        value = (step.get("config") or {}).get("min.insync.replicas")
        kind, _, name = str(step.get("target")).partition(" ")
        if step.get("fault") != "change-config" or value is None:
            return None
        if kind == "topic" and self.place_of(None, name, place.partition) != place:
            return None
        own = self.topic_spec(place.cluster, place.topic).get("config") or {}
        if kind != "topic" and "min.insync.replicas" in own:
            return None
        return min(int(value), self.most_replicas(place))

    def all_acks(self, place: Place) -> bool | None:
        """Whether every producer that sent to the topic has acks=all; null if that of one is unknown."""
        senders = set(self._senders.get(place[:2], ()))
        senders |= {
            number
            for number, spec in self.producer_specs.items()
            if (spec.get("cluster") or self.first_cluster, spec.get("topic")) == place[:2]
        }
        found = {self.has_acks_all(number) for number in senders}
        if False in found:
            return False
        return None if None in found or not found else True

    def has_acks_all(self, producer: int) -> bool | None:
        """Whether a producer waits for all in-sync replicas; null if that is unknown."""
        spec = self.producer_specs.get(producer)
        if spec is None:  # a pipe's member has transactions, and so acks=all
            return True if self.rows("outputs") else None
        return str((spec.get("config") or {}).get("acks", spec.get("acks", "all"))) in ("all", "-1")

    # Indexes of rows.

    @cached_property
    def _senders(self) -> dict[tuple[str | None, str], set[int]]:
        found: dict[tuple[str | None, str], set[int]] = defaultdict(set)
        for send in self.rows("sends"):
            found[send["cluster"], send["topic"]].add(send["producer"])
        return found

    @cached_property
    def sends_of(self) -> dict[Place, list[Row]]:
        """By partition: the attempts, in their order."""
        found: dict[Place, list[Row]] = defaultdict(list)
        for send in sorted(self.rows("sends"), key=lambda s: s["attempt_ns"]):
            where = self.place(send)
            if where is not None:
                found[where].append(send)
        return found

    @cache  # noqa: B019
    def sends_in(self, place: Place) -> list[Row]:
        """The attempts that the client or, if it does not know, only the log places in a partition."""
        lost_track = (send for send in self.rows("sends") if self.place(send) is None)
        logged = [s for s in lost_track if any(self.place(one) == place for one in self.home_records(s))]
        return [*self.sends_of.get(place, []), *logged]

    @cached_property
    def stored_at(self) -> dict[Place, dict[int, Row]]:
        """By partition and offset: the record that the drain found."""
        found: dict[Place, dict[int, Row]] = defaultdict(dict)
        for record in self.rows("log"):
            where = self.place(record)
            assert where is not None
            found[where][record["offset"]] = record
        return found

    @cached_property
    def _home_records(self) -> dict[tuple[int, int, str | None, str], list[Row]]:
        found: dict[tuple[int, int, str | None, str], list[Row]] = defaultdict(list)
        for record in self.rows("log"):
            if record["producer"] is not None and record["seq"] is not None and record["intact"]:
                found[_message(record)].append(record)
        return found

    def home_records(self, send: Row) -> list[Row]:
        """The intact records of a message in the topic and cluster that it was sent to."""
        return self._home_records.get(_message(send), [])

    def visible(self, send: Row) -> bool:
        """Whether one of those is visible to readers of committed records."""
        return any(record.get("visible") is not False for record in self.home_records(send))

    def due(self, send: Row) -> bool:
        """Whether it is for readers: visible, and not of a transaction that was aborted (which Kafka may show
        all the same).
        """
        if "due" not in send:
            send["due"] = self.visible(send) and self.transaction_outcome(send) != "aborted"
        return bool(send["due"])

    @cache  # noqa: B019
    def first_acks(self, place: Place) -> dict[int, int]:
        """By the epoch of the record: when the first message of a partition was acknowledged."""
        found: dict[int, int] = {}
        for send in self.sends_of.get(place, []):
            if send["outcome"] == "acked" and send["done_ns"] is not None:
                for record in self.home_records(send)[:1]:
                    if record["leader_epoch"] is not None:
                        at = min(send["done_ns"], found.get(record["leader_epoch"], send["done_ns"]))
                        found[record["leader_epoch"]] = at
        return found

    def transaction_outcome(self, send: Row) -> str | None:
        """What became of a message's transaction; null if it has none."""
        mine = self._transactions.get(send["producer"], [])
        number = bisect_right(mine, send["seq"], key=lambda row: row["first_seq"])
        row = mine[number - 1] if number else None
        return str(row["outcome"]) if row is not None and send["seq"] <= row["last_seq"] else None

    @cached_property
    def _transactions(self) -> dict[int, list[Row]]:
        found: dict[int, list[Row]] = defaultdict(list)
        for row in sorted(self.rows("transactions"), key=lambda row: row["first_seq"]):
            found[row["producer"]].append(row)
        return found

    @cached_property
    def ends(self) -> dict[Place, Row]:
        """By partition: how far it was read."""
        return {where: row for row in self.rows("end_offsets") if (where := self.place(row)) is not None}

    def read_to_end(self, place: Place) -> bool:
        """Whether what the log does not have is known not to be there."""
        end = self.ends.get(place)
        return end is not None and end["drained_to"] >= end["end_offset"]

    @cache  # noqa: B019
    def may_remove(self, place: Place) -> bool:
        """Whether configuration or a step may have removed records: what is missing is then no loss."""
        policy = str(self.setting(place, "cleanup.policy", "delete"))
        kept = any(
            self.setting(place, name) not in (None, -1, "-1") for name in ("retention.ms", "retention.bytes")
        )
        steps = {f["fault"] for f in self.rows("faults")} & {"delete-records", "recreate", "delete-topic"}
        start = (self.ends.get(place) or {}).get("start_offset") or 0
        return "compact" in policy or kept or bool(steps) or start > 0

    def removed(self, send: Row) -> bool:
        """Whether a log that is compacted, or begins later than it did, lacks what it had acknowledged."""
        where = self.place(send)
        if where is None or send["outcome"] != "acked" or self.home_records(send):
            return False
        compacted = "compact" in str(self.setting(where, "cleanup.policy", "delete"))
        cleaned = compacted or ((self.ends.get(where) or {}).get("start_offset") or 0) > 0
        return cleaned and self.read_to_end(where) and self.transaction_outcome(send) in (None, "committed")

    @cached_property
    def first_delivery(self) -> dict[str, dict[tuple[int, int], int]]:
        """By group and message: when it was first delivered, in any cluster."""
        found: dict[str, dict[tuple[int, int], int]] = defaultdict(dict)
        for d in self.rows("deliveries"):
            if d["producer"] is None or d["seq"] is None or not d["intact"]:
                continue
            who, at = (d["producer"], d["seq"]), d["polled_ns"]
            mine = found[d["group"]]
            mine[who] = min(at, mine.get(who, at))
        return found

    @cached_property
    def acked_times_known(self) -> bool:
        """Whether any acknowledgement has a time."""
        return any(s["done_ns"] is not None for s in self.rows("sends") if s["outcome"] == "acked")

    @cached_property
    def groups(self) -> list[str]:
        """Every group that the scenario or the evidence names."""
        found = {row["group"] for table in ("deliveries", "group_events") for row in self.rows(table)}
        return sorted(found | set(self.group_specs))

    def events_of(self, place: Place) -> list[Row]:
        """Leader and ISR events of a partition, in the order of their times."""
        return self._events.get(place, [])

    @cached_property
    def _events(self) -> dict[Place, list[Row]]:
        found: dict[Place, list[Row]] = defaultdict(list)
        for event in self.rows("cluster_events"):
            where = self.place(event)
            if where is not None:
                found[where].append(event)
        for events in found.values():
            events.sort(key=lambda e: (e["at_ns"], -1 if e["leader_epoch"] is None else e["leader_epoch"]))
        return found

    def polled(self, place: Place) -> int:
        """How much earlier, in ns, an event of the partition may have happened than it says."""
        return max((e.get("within_ns") or 0 for e in self.events_of(place)), default=0)
