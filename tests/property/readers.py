"""Who reads in a mixture (mixtures.py): members of groups, those of a pipe, and those of a share group.

They read what the leader has, and so also what an election overwrites later. Where a log was cut they go
back, go on, begin anew or go to the end, as clients do by their settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakes.histories import at
from property.replicated import Partition, Record

if TYPE_CHECKING:
    from property.mixtures import Play

CAME_MS = 300.0  # when the group comes that begins at the end: in every history, since it is one group


class Reader:
    """A group in one partition: one member at a time, and its position."""

    def __init__(self, play: Play, group: str, partition: Partition) -> None:
        self.play, self.group, self.partition = play, group, partition
        self.random = play.random
        self.incarnation, self.position, self.committed = 0, 0, -1
        self.since: float | None = None  # when it polled last
        self.raw, self.late = group == "raw", group == "end"

    def turn(self, steady: bool = False) -> bool:
        """It does something, once it has come: whether there was anything to read."""
        if self.late and self.play.ms < CAME_MS:
            return False
        if self.since is None:
            self._begin()
        if not steady and self.random.random() < 0.2:
            self._change()
        if not steady and self.random.random() < 0.35:
            self.committed = self.position
            self._event("committed", self.position)
            self.play.ms += 1
        self._look()
        records = self._next()
        if self.play.goes_wrong("passed") and len(records) > 1:
            del records[0]
        if self.play.goes_wrong("back") and self.position > 1:
            self.position -= self.random.randint(1, self.position)
            records = self._next()
        self._deliver(records[: self.random.randint(1, 5)])
        return bool(records)

    @property
    def _who(self) -> dict[str, Any]:
        member = f"{self.play.of.number}-{self.partition.where['partition']}-{self.incarnation}"
        return {"group": self.group, "member": member}

    def _event(self, kind: str, offset: int | None = None) -> None:
        self.play.history.event(kind, self.play.ms, offset, **self._who, **self.partition.where)

    def _begin(self) -> None:
        if self.late:
            # Every history's members of this group come at one moment.
            who = {"group": self.group, "member": "watch", "topic": None, "partition": None}
            self.play.history.event("joined", CAME_MS, **who)
        self.position = self._reset()
        self.since = self.play.ms
        self._event("assigned", self.position if self.random.random() < 0.7 else None)
        self.play.ms += 1

    def _reset(self) -> int:
        return self.partition.watermark if self.late else 0

    def _change(self) -> None:
        """Another member takes over, from what was committed."""
        self._event("revoked")
        self.play.ms += 1
        self.incarnation += 1
        self.position = self.committed if self.committed >= 0 else self._reset()
        if self.position > self.partition.end:
            self.position = self._reset()
        self._event("assigned", self.position if self.random.random() < 0.7 else None)
        self.play.ms += 1

    def _look(self) -> None:
        """Where the log was cut since it polled last it goes to the cut, begins anew or goes on."""
        cut = [length for ms, length in self.partition.cuts if self.since is not None and ms >= self.since]
        way = self.random.random()
        if cut and way < 0.5:
            self.position = min(self.position, *cut)
        elif self.position > self.partition.end or (cut and way < 0.75 and self.position > min(cut)):
            # It was beyond the end, if only until more was written.
            self.position = self._reset() if self.random.random() < 0.5 else self.partition.watermark
        self.since = self.play.ms

    def _next(self) -> list[Record]:
        found = []
        for record in self.partition.log[self.position : self.partition.watermark]:
            if (self.raw and record.producer is not None) or self.partition.is_visible(record):
                found.append(record)
        return found

    def _deliver(self, records: list[Record]) -> None:
        for r in records:
            where = {**self._who, **self.partition.where}
            self.play.history.handed(r.offset, r.producer, r.seq, self.play.ms, **where)
        self.position = records[-1].offset + 1 if records else max(self.position, self.partition.watermark)


class Pipe(Reader):
    """The same, and what it makes of what it reads, in transactions; after one that aborts it goes back."""

    def _deliver(self, records: list[Record]) -> None:
        before = self.position
        super()._deliver(records)
        if not records:
            return
        out = self.play.partitions[-1]
        self.play.ms += 1
        commits, seqs = self.play.in_transaction(2, [out] * len(records))
        for seq, record in zip(seqs, records, strict=True):
            made = {**self._who, **self.partition.where}
            self.play.history.output(self.play.first + 2, seq, record.offset, **made)
        if commits:
            self.committed = self.position
            self._event("committed", self.position)
        else:
            self.position = before
            self._event("seek", before)
        self.since = self.play.ms
        self.play.ms += 1


class Queue:
    """A share group in one partition. What was accepted, by offset, outlives the records there or not."""

    def __init__(self, play: Play, partition: Partition) -> None:
        self.play, self.partition = play, partition
        self.accepted: set[int] = set()
        self.counts: dict[int, int] = {}
        self.since = 0.0

    def turn(self, steady: bool = False) -> bool:
        """One record is handed out, and accepted or not: whether there was one."""
        play, random = self.play, self.play.random
        cut = [length for ms, length in self.partition.cuts if ms >= self.since]
        if cut and random.random() < 0.7:
            self.accepted = {offset for offset in self.accepted if offset < min(cut)}
            self.counts = {offset: n for offset, n in self.counts.items() if offset < min(cut)}
        elif cut:
            self.accepted |= {offset for offset in self.counts if offset >= min(cut)}
        self.since = play.ms
        log = self.partition.log[: self.partition.watermark]
        free = [r for r in log if r.producer is not None and r.offset not in self.accepted]
        again = [r for r in log if r.offset in self.accepted and r.producer is not None]
        if again and play.goes_wrong("accepted twice"):
            self._share(random.choice(again), "accepted")
            return True
        if not free:
            return False
        how = "accepted" if steady or random.random() < 0.7 else random.choice(("released", "rejected"))
        self._share(free[0] if random.random() < 0.7 else random.choice(free), how)
        return True

    def _share(self, record: Record, how: str) -> None:
        offset = record.offset
        count = self.counts[offset] = self.counts.get(offset, 0) + 1
        who = {"group": "shared", "member": f"{self.play.of.number}-s"}
        row = {**who, **self.partition.where, "offset": offset}
        ms = self.play.ms
        self.play.history.handed(offset, record.producer, record.seq, ms, **who, **self.partition.where)
        asking = {"accepted": "accepting", "released": "releasing", "rejected": "rejecting"}[how]
        for kind, later in (("acquired", 0.0), (asking, 0.3), (how, 0.6)):
            n = count if kind == "acquired" else None
            self.play.history.add("share_events", kind=kind, at_ns=at(ms + later), delivery_count=n, **row)
        self.play.ms += 2
        if how != "released" or self.play.goes_wrong("kept"):
            self.accepted.add(offset)
