"""Histories of two clusters, made from a seed: a mirror that leaves out, doubles, reorders and brings back,
producers that go on in the other cluster, and a group that moves there.

Several share one folder, each with two clusters of its own: a scenario has room for few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from fakes.histories import History

SIDE_BY_SIDE = 4  # a scenario has up to nine clusters


class _Record(NamedTuple):
    partition: int
    producer: int
    seq: int


class Twin:
    """Two producers and a group, in the clusters `aN` and `bN`."""

    def __init__(self, seed: int, number: int) -> None:
        self.seed, self.number = seed, number
        self.random = Random(f"{seed}/{number}/twin")
        self.one, self.other = f"a{number % SIDE_BY_SIDE}", f"b{number % SIDE_BY_SIDE}"
        self.topic, self.group = f"t{number}", f"g{number}"
        self.partitions = self.random.choice((1, 1, 2))
        self.policy = self.random.choice(("identity", "identity", "default"))
        self.mirror = f"{self.one}->{self.other}"
        self.back = self.random.random() < 0.45
        self.late = self.random.random() < 0.3  # its group reads from the end
        self.deletes = self.random.random() < 0.4  # records of the one, at some time
        # When its topic was deleted and created again; a group's offsets would mean two topics.
        # Not in every folder: whatever is missing beside a fault is said to be missing because of it.
        possible = not self.deletes and number // SIDE_BY_SIDE % 4 == 3
        self.recreated_ms = self.random.choice((2, 4, 6)) if possible else None
        self.switch = self.random.choice((4, 6, 99))  # from which message on producers send to the other

    @property
    def copied(self) -> str:
        """The name of the topic in the other cluster."""
        return self.topic if self.policy == "identity" else f"{self.one}.{self.topic}"

    def mirrors(self) -> list[dict[str, Any]]:
        exactly = self.random.random() < 0.3
        there = {"from": self.one, "to": self.other, "topics": [self.topic]}
        found = [{**there, "policy": self.policy, "exactly-once": exactly}]
        if self.back:
            found.append({"from": self.other, "to": self.one, "topics": [self.copied], "policy": "identity"})
        return found

    def topics(self) -> list[dict[str, Any]]:
        """As in the scenario: the mirror makes the other."""
        return [{"name": self.topic, "partitions": self.partitions, "cluster": self.one}]

    def producers(self) -> list[dict[str, Any]]:
        return [{"topic": self.topic, "acks": "all", "cluster": self.one}] * 2

    def block(self) -> dict[str, Any]:
        """What the scenario says of its group."""
        late = {"config": {"auto.offset.reset": "latest"}} if self.late else {}
        return {"cluster": self.one, **late}

    def play(self, history: History, first: int) -> None:
        source, later = self._send(history, first)
        copies = self._through(source)
        if self.recreated_ms is not None:
            gone = self.recreated_ms
            copies = [record for record in copies if record.seq < gone or self.random.random() < 0.3]
            source = self._in_new_topic(history, source, gone)
        target = self._merged(copies, later)
        if self.back:
            source += self._through([r for r in target if self.random.random() < 0.5])
        self.starts = [self.random.randint(1, 8) if self.deletes else None for _ in range(self.partitions)]
        if self.deletes:
            history.deleted(f"{self.one}:{self.topic}", 35, bit=self.random.random() < 0.7)
        ends = {
            self.one: self._log(history, self.one, self.topic, source),
            self.other: self._log(history, self.other, self.copied, target),
        }
        self._life(history, ends[self.one])
        self._read(history, ends)
        self._drain(history, ends)

    def _send(self, history: History, first: int) -> tuple[list[_Record], list[_Record]]:
        """What the log of the one has, and what is sent to the other."""
        own: list[_Record] = []
        later: list[_Record] = []
        for seq in range(self.random.randint(3, 9)):
            for producer in (first, first + 1):
                moved = seq >= self.switch
                partition = self.random.randrange(self.partitions)
                outcome = self.random.choice(("acked",) * 5 + ("unknown", "failed"))
                where = (self.other, self.copied) if moved else (self.one, self.topic)
                often = self.random.choice((0, 1, 1, 1, 1, 1, 1, 2) if outcome == "acked" else (0, 0, 1))
                (later if moved else own).extend([_Record(partition, producer, seq)] * often)
                history.sent(
                    producer, seq, None, outcome, cluster=where[0], topic=where[1], partition=partition
                )
        if self.random.random() < 0.2:
            self.random.shuffle(own)
        return own, later

    def _through(self, records: Sequence[_Record]) -> list[_Record]:
        """What a mirror makes of a log."""
        kind = self.random.choice(("right", "right", "stops", "loses", "doubles", "reorders", "all"))
        found: list[_Record] = []
        for number, record in enumerate(records):
            if kind in ("stops", "all") and number > 0.7 * len(records):
                break
            chance = self.random.random()
            often = 0 if kind in ("loses", "all") and chance < 0.2 else 1
            often = 2 if kind in ("doubles", "all") and chance > 0.8 else often
            at = len(found)
            if kind in ("reorders", "all") and found and self.random.random() < 0.2:
                at = self.random.randrange(len(found))
            found[at:at] = [record] * often
        return found

    def _merged(self, copies: list[_Record], later: list[_Record]) -> list[_Record]:
        """The log of the other: what is sent there while the mirror still copies, or after that."""
        if self.random.random() < 0.5:
            return copies + later
        found, rest = list(copies), list(later)
        for record in rest:
            found.insert(self.random.randint(len(found) // 2, len(found)), record)
        return found

    def _in_new_topic(self, history: History, records: Sequence[_Record], gone_ms: int) -> list[_Record]:
        """What is sent after the topic was created again; the rest was acknowledged in the old one."""
        proven = self.random.random() < 0.8
        history.deleted(f"{self.one}:{self.topic}", gone_ms, fault="recreate", bit=proven)
        old = [record for record in records if record.seq < gone_ms]
        offsets = Counter[int]()
        for record in old:
            self._acknowledged_at(history, record, offsets[record.partition])
            offsets[record.partition] += 1
        return [record for record in records if record.seq >= gone_ms]

    def _log(
        self, history: History, cluster: str, topic: str, records: Sequence[_Record]
    ) -> list[list[tuple[int, _Record]]]:
        """By partition, its records and their offsets."""
        found: list[list[tuple[int, _Record]]] = [[] for _ in range(self.partitions)]
        for record in records:
            here = found[record.partition]
            # A control record now and then, as those of a mirror with exactly-once.
            offset = (here[-1][0] + 1 if here else 0) + (self.random.random() < 0.1)
            where = {"cluster": cluster, "topic": topic, "partition": record.partition}
            visible = self.random.random() < 0.95
            here.append((offset, record))
            start = self.starts[record.partition] if cluster == self.one else None
            if start is not None or (cluster == self.one and self.recreated_ms is not None):
                self._acknowledged_at(history, record, offset)
            if start is None or offset >= start:
                history.stored(offset, record.producer, record.seq, **where, visible=visible)
        return found

    def _acknowledged_at(self, history: History, record: _Record, offset: int) -> None:
        """Its producer knows where its first copy is."""
        for row in history.rows["sends"]:
            mine = (row["producer"], row["seq"]) == (record.producer, record.seq)
            if mine and row["outcome"] == "acked" and row["cluster"] == self.one and row["offset"] is None:
                row["offset"] = offset

    def _life(self, history: History, source: list[list[tuple[int, _Record]]]) -> None:
        """How the mirror began and ended, and what it says of itself."""
        killed = ("started", "killed")
        stopped = ("started", "stopped")
        kinds = self.random.choice((("started",), stopped, stopped, killed, (*killed, "started"), ()))
        begun = self.random.choice((3, 20, 20))  # what is acknowledged later than its end owes it nothing
        for number, kind in enumerate(kinds):
            history.mirrored(kind, begun + number, self.mirror)
        for partition, records in enumerate(source):
            if records and self.random.random() < 0.4:
                offset = self.random.randint(0, records[-1][0] + 1)
                where = {"topic": self.copied, "partition": partition}
                history.mirrored("drained", 30, self.mirror, source_offset=offset, **where)
        history.drained[self.mirror] = self.random.random() < (0.15 if self.recreated_ms is None else 0.6)

    def _read(self, history: History, ends: dict[str, list[list[tuple[int, _Record]]]]) -> None:
        """A group that reads the one and goes on in the other."""
        mine = {"group": self.group, "member": f"{self.group}-m"}
        moves = self.random.random() < 0.7
        for partition in range(self.partitions):
            records = ends[self.one][partition]
            upto = self.random.randint(0, len(records) // (1 + self.back)) if moves else len(records)
            first = self.random.randint(0, 3) if self.late else 0
            self._given(history, self.one, self.topic, records[first:upto], 40, mine)
            if not moves:
                continue
            there = ends[self.other][partition]
            begin = self.random.randint(0, there[-1][0] + 1 if there else 0)
            where = {"topic": self.copied, "partition": partition}
            told = {"group": self.group, "target_offset": begin}
            history.mirrored("translated", 60, self.mirror, **told, **where)
            if self.random.random() < 0.8:
                event = {**where, **mine, "cluster": self.other}
                # Before what it reads there, and before or after the mirror's row.
                history.event("assigned", self.random.choice((59, 61)), begin, **event)
            rest = [one for one in there if one[0] >= begin and self.random.random() < 0.95]
            self._given(history, self.other, self.copied, rest, 70, mine)
            if self.back:
                self._come_back(history, records, partition, mine)

    def _come_back(
        self, history: History, records: list[tuple[int, _Record]], partition: int, mine: dict[str, str]
    ) -> None:
        """The group goes on in the one, perhaps behind what the other never had."""
        end = records[-1][0] + 1 if records else 0
        begin = self.random.randint(end // 2, end)
        told = {"group": self.group, "target_offset": begin, "topic": self.topic, "partition": partition}
        history.mirrored("translated", 90, f"{self.other}->{self.one}", **told)
        rest = [one for one in records if one[0] >= begin and self.random.random() < 0.95]
        self._given(history, self.one, self.topic, rest, 95, mine)

    def _given(
        self,
        history: History,
        cluster: str,
        topic: str,
        records: Sequence[tuple[int, _Record]],
        ms: int,
        mine: dict[str, str],
    ) -> None:
        for number, (offset, record) in enumerate(records):
            where = {"cluster": cluster, "topic": topic, "partition": record.partition}
            history.handed(offset, record.producer, record.seq, ms + number / 10, **where, **mine)

    def _drain(self, history: History, ends: dict[str, list[list[tuple[int, _Record]]]]) -> None:
        for cluster, topic in ((self.one, self.topic), (self.other, self.copied)):
            for partition, records in enumerate(ends[cluster]):
                end = records[-1][0] + 1 if records else 0
                drained = end if self.random.random() < 0.95 else max(end - 1, 0)
                where = {"cluster": cluster, "topic": topic, "partition": partition}
                start = self.starts[partition] if cluster == self.one else None
                end, drained = max(end, start or 0), max(drained, start or 0)
                history.add("end_offsets", end_offset=end, drained_to=drained, start_offset=start, **where)


def beside(parts: Sequence[Twin]) -> History:
    """One folder's history of a few."""
    history = History(
        producers=[spec for part in parts for spec in part.producers()],
        topics=[topic for part in parts for topic in part.topics()],
        groups={part.group: True for part in parts},
        subscriptions={part.group: [part.topic] for part in parts},
        blocks={part.group: part.block() for part in parts},
        clusters={name: {} for part in parts for name in (part.one, part.other)},
        mirrors=[mirror for part in parts for mirror in part.mirrors()],
    )
    for number, part in enumerate(parts):
        part.play(history, 2 * number)
    if parts[0].random.random() < 0.5:
        history.fault(1, 2, 5)
    return history
