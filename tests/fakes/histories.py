"""Histories written by hand: rows of the evidence tables, and the run folder they make.

Times are given in milliseconds after the start of the run; the folder has nanoseconds since the epoch.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from kaput.evidence.folder import GroupDrain, Manifest, MirrorEnd, RunFolder, StoreRead
from kaput.evidence.schemas import TABLES

START_NS = 1_700_000_000_000_000_000
MS = 1_000_000
Row = dict[str, Any]


def at(ms: float) -> int:
    """The time in ns, `ms` after the start of the run."""
    return START_NS + round(ms * MS)


@dataclass
class History:
    """One run's rows, in the order they were added. `groups`: whether each was drained; `blocks`: what else
    the scenario says of each; `stores`: whether each was listed at the end; `clusters` and `mirrors`: as in
    the scenario, and `drained`: whether each mirror was. Of several clusters rows name theirs.
    """

    producers: list[dict[str, Any]] = field(default_factory=lambda: [{"topic": "orders", "acks": "all"}])
    topics: list[dict[str, Any]] = field(default_factory=lambda: [{"name": "orders"}])
    groups: dict[str, bool] = field(default_factory=dict)
    subscriptions: dict[str, list[str]] = field(default_factory=dict)
    blocks: dict[str, dict[str, Any]] = field(default_factory=dict)
    stores: dict[str, bool] = field(default_factory=dict)
    cluster: dict[str, Any] = field(default_factory=dict)
    clusters: dict[str, dict[str, Any]] = field(default_factory=dict)
    mirrors: list[dict[str, Any]] = field(default_factory=list)
    drained: dict[str, bool] = field(default_factory=dict)
    faults: list[dict[str, Any]] = field(default_factory=list)
    plan: list[dict[str, Any]] = field(default_factory=list)
    expect: dict[str, Any] = field(default_factory=dict)
    state: str = "sealed"
    troubles: list[str] = field(default_factory=list)
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {name: [] for name in TABLES})

    def add(self, table: str, **row: Any) -> History:
        """A row as the table has it; columns left out are null."""
        self.rows[table].append(row)
        return self

    def sent(
        self, producer: int, seq: int, offset: int | None = None, outcome: str = "acked", **more: Any
    ) -> History:
        """A send of orders/0, attempted at `seq` ms and resolved one ms later, unless given."""
        row = {"topic": "orders", "partition": 0, "attempt_ns": at(seq), "done_ns": at(seq + 1)} | more
        return self.add("sends", producer=producer, seq=seq, outcome=outcome, offset=offset, **row)

    def stored(self, offset: int, producer: int | None, seq: int | None, **more: Any) -> History:
        """A record in the log."""
        row = {"topic": "orders", "partition": 0, "leader_epoch": 0, "timestamp_ms": 0, "intact": True} | more
        return self.add("log", offset=offset, producer=producer, seq=seq, **row)

    def hidden(self, producer: int, seq: int, offset: int) -> History:
        """A message that was acknowledged, and that a reader with read_committed is not given."""
        return self.sent(producer, seq, offset).stored(offset, producer, seq, visible=False)

    def acked(self, producer: int, seq: int, offset: int, **more: Any) -> History:
        """A message that was acknowledged and is stored where its acknowledgement says."""
        where = {key: more[key] for key in ("topic", "partition") if key in more}
        self.sent(producer, seq, offset, **{k: v for k, v in more.items() if k != "leader_epoch"})
        epoch = {"leader_epoch": more["leader_epoch"]} if "leader_epoch" in more else {}
        return self.stored(offset, producer, seq, **where, **epoch)

    def handed(self, offset: int, producer: int | None, seq: int | None, ms: float, **more: Any) -> History:
        """A delivery to member m1 of group billing, unless given."""
        row = {"group": "billing", "member": "m1", "topic": "orders", "partition": 0, "intact": True} | more
        return self.add("deliveries", offset=offset, producer=producer, seq=seq, polled_ns=at(ms), **row)

    def event(self, kind: str, ms: float, offset: int | None = None, **more: Any) -> History:
        """A group event of member m1 of group billing, of orders/0 unless given."""
        row = {"group": "billing", "member": "m1", "topic": "orders", "partition": 0} | more
        return self.add("group_events", kind=kind, at_ns=at(ms), offset=offset, **row)

    def shared(self, kind: str, offset: int, ms: float, count: int | None = None, **more: Any) -> History:
        """A share event of member m1 of group billing; what is acquired is a delivery as well."""
        row = {"group": "billing", "member": "m1", "topic": "orders", "partition": 0} | more
        if kind == "acquired":
            record = [r for r in self.rows["log"] if all(r[k] == row[k] for k in ("topic", "partition"))]
            found = next((r for r in record if r["offset"] == offset), {"producer": None, "seq": None})
            self.handed(offset, found["producer"], found["seq"], ms, **row)
        return self.add("share_events", kind=kind, offset=offset, at_ns=at(ms), delivery_count=count, **row)

    def transaction(
        self, number: int, first: int, last: int, outcome: str = "committed", producer: int = 0
    ) -> History:
        """A transaction of the messages `first` to `last`, begun at `first` ms."""
        row = {
            "transactional_id": f"t{producer}",
            "begin_ns": at(first),
            "end_ns": at(last + 5),
            "error": None,
        }
        messages = {"producer": producer, "transaction": number, "first_seq": first, "last_seq": last}
        return self.add("transactions", **messages, outcome=outcome, **row)

    def kept(self, producer: int, seq: int, store: str = "local", **more: Any) -> History:
        """A message that a store took, 2 ms after it was attempted, unless given."""
        row = {"error": "timed out", "tries": 1, "in_doubt": False, "at_ns": at(seq + 2)} | more
        return self.add("kept", producer=producer, seq=seq, store=store, **row)

    def replayed(self, producer: int, seq: int, ms: float, store: str = "local", **more: Any) -> History:
        """An acknowledgement to a replay."""
        row = {"topic": "orders", "partition": 0, "replay": 1} | more
        return self.add("replayed", producer=producer, seq=seq, store=store, at_ns=at(ms), **row)

    def mirrored(self, kind: str, ms: float, mirror: str = "dc1->dc2", **more: Any) -> History:
        """Something that happened to a mirror; of orders/0 where an offset is given."""
        told = {"topic": "orders", "partition": 0} if {"source_offset", "target_offset"} & more.keys() else {}
        return self.add("mirror", mirror=mirror, kind=kind, at_ns=at(ms), **told | more)

    def output(self, producer: int, seq: int, offset: int, **more: Any) -> History:
        """A message that member m1 of group billing made of the input at that offset of orders/0."""
        row = {"group": "billing", "member": "m1", "topic": "orders", "partition": 0} | more
        return self.add("outputs", producer=producer, seq=seq, offset=offset, **row)

    def stable(self, offset: int, watermark: int, ms: float, **more: Any) -> History:
        """A sample of the last stable offset of orders/0, and of its high watermark."""
        labels = list({"topic": "orders", "partition": "0", **more}.items())
        for name, value in (("last_stable_offset", offset), ("high_watermark", watermark)):
            self.add("samples", at_ns=at(ms), source="lab", name=name, labels=labels, value=float(value))
        return self

    def led(
        self, leader: int | None, epoch: int | None, ms: float, isr: list[int] | None = None, **more: Any
    ) -> History:
        """A leader event of orders/0."""
        row = {"topic": "orders", "partition": 0, "source": "history", "kind": "leader"} | more
        return self.add("cluster_events", leader=leader, leader_epoch=epoch, isr=isr, at_ns=at(ms), **row)

    def fault(self, broker: int, injected: float, healed: float | None = None, **more: Any) -> History:
        """A kill that bit at once."""
        row = {
            "id": f"{len(self.rows['faults']) + 1}-kill",
            "fault": "kill",
            "target": f"broker {broker}",
            "effective_ns": at(injected),
            "bit": True,
            "proof": "process gone",
        } | more
        healed_ns = None if healed is None else at(healed)
        return self.add("faults", brokers=[broker], injected_ns=at(injected), healed_ns=healed_ns, **row)

    def deleted(self, topic: str, ms: float, **more: Any) -> History:
        """A step that deleted records of a topic, as its proof shows."""
        row = {"id": f"{len(self.rows['faults']) + 1}-delete-records", "fault": "delete-records"} | more
        row |= {"target": f"topic {topic}", "proof": "log start offset of each partition"}
        times = dict.fromkeys(("injected_ns", "effective_ns", "healed_ns"), at(ms))
        return self.add("faults", brokers=[], **{"bit": True} | times | row)

    def read_to_end(self) -> History:
        """end_offsets for every partition that any row or the scenario names, all read to their end."""
        places = {
            (cluster, topic, p)
            for cluster, topic, partitions in self.scenario_topics()
            for p in range(partitions)
        }
        places |= {
            (row.get("cluster"), row["topic"], row["partition"])
            for table in ("sends", "log", "deliveries")
            for row in self.rows[table]
            if row["partition"] is not None
        }
        for cluster, topic, partition in sorted(places, key=lambda p: (p[0] or "", *p[1:])):
            offsets = [
                row["offset"]
                for row in self.rows["log"]
                if (row.get("cluster"), row["topic"], row["partition"]) == (cluster, topic, partition)
            ]
            end = max(offsets, default=-1) + 1
            where = {"topic": topic, "partition": partition, "cluster": cluster}
            self.add("end_offsets", end_offset=end, drained_to=end, **where)
        return self

    def scenario_topics(self) -> list[tuple[str | None, str, int]]:
        """Cluster (None: the only one), name and partitions of each topic, the copies of mirrors included."""
        first = next(iter(self.clusters), None)
        own = {(t.get("cluster", first), t["name"]): t.get("partitions", 1) for t in self.topics}
        copies: dict[tuple[str | None, str], int] = {}
        for _ in self.mirrors:
            for mirror in self.mirrors:
                for topic in mirror["topics"]:
                    name = topic if mirror.get("policy") != "default" else f"{mirror['from']}.{topic}"
                    source = (own | copies).get((mirror["from"], topic))
                    if source is not None:
                        copies.setdefault((mirror["to"], name), source)
        return [(*place, n) for place, n in {**copies, **own}.items()]

    def scenario(self) -> dict[str, Any]:
        """The scenario as its file has it."""
        groups = [
            {"id": group, "topics": self.subscriptions.get(group, [t["name"] for t in self.topics])}
            | self.blocks.get(group, {})
            for group in self.groups
        ]
        producers = [{"messages": 1, **spec} for spec in self.producers]
        used = {store for spec in producers for store in spec.get("on-failure", {}).get("stores", ())}
        return {
            "stores": {store: {"kind": "sqlite"} for store in used},
            "version": 1,
            "title": "A history",
            **({"clusters": self.clusters} if self.clusters else {"cluster": self.cluster}),
            "mirrors": self.mirrors,
            "topics": self.topics,
            "workload": {"producers": producers, "groups": groups},
            "faults": self.faults,
            **({"plan": self.plan} if self.plan else {}),
            "expect": self.expect,
        }

    def write(self, path: Path) -> RunFolder:
        """The run folder, with a scenario that has as many producers as the rows use."""
        folder = RunFolder(path)
        path.mkdir(parents=True, exist_ok=True)
        folder.write_manifest(
            Manifest(
                run_id=uuid.UUID(int=7),
                scenario="history",
                state=self.state,
                started_ns=START_NS,
                ended_ns=at(3_600_000),
                groups=[GroupDrain(group=g, drained=d) for g, d in self.groups.items()],
                stores=[StoreRead(store=s, kind="sqlite", read=read) for s, read in self.stores.items()],
                mirrors=[MirrorEnd(mirror=m, **_ends(m), drained=d) for m, d in self.drained.items()],
                troubles=self.troubles,
            )
        )
        folder.scenario_path.write_text(yaml.safe_dump(self.scenario()))
        for name, rows in self.rows.items():
            if rows or name in ("sends", "log"):
                write_table(folder, name, rows)
        return folder


def _ends(mirror: str) -> dict[str, str]:
    source, target = mirror.split("->")
    return {"from": source, "to": target}


def write_table(folder: RunFolder, name: str, rows: list[dict[str, Any]], file: str = "part-0") -> Path:
    """One Parquet file of a table."""
    path = folder.table(name) / f"{file}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=TABLES[name].schema), path)
    return path


def side_by_side(histories: list[History]) -> History:
    """Several histories as one run: topics, producers, groups and faults are of each, brokers are shared."""
    merged = History(producers=[], topics=[])
    for number, history in enumerate(histories):
        first = sum(spec.get("count", 1) for spec in merged.producers)
        merged.producers += [{**spec, "topic": f"{number}-{spec['topic']}"} for spec in history.producers]
        merged.topics += [{**topic, "name": f"{number}-{topic['name']}"} for topic in history.topics]
        merged.groups |= {f"{number}-{group}": drained for group, drained in history.groups.items()}
        merged.blocks |= {f"{number}-{group}": block for group, block in history.blocks.items()}
        for group in history.groups:
            names = history.subscriptions.get(group, [topic["name"] for topic in history.topics])
            merged.subscriptions[f"{number}-{group}"] = [f"{number}-{name}" for name in names]
        for table, rows in history.rows.items():
            merged.rows[table] += [_renamed(row, number, first) for row in rows]
    return merged


def _renamed(row: dict[str, Any], number: int, first_producer: int) -> dict[str, Any]:
    names = {key: f"{number}-{row[key]}" for key in ("topic", "group", "id") if row.get(key) is not None}
    producer = {} if row.get("producer") is None else {"producer": row["producer"] + first_producer}
    return {**row, **names, **producer}
