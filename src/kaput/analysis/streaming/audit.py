"""Audits messages without numbers by counts: how many of each ten seconds of message time were acknowledged,
stored, mirrored, and consumed by each group.

If a later stage has fewer than an earlier one, the difference is *missing*; if it arrives after all, it is
*late* and no longer missing.

Spark counts the log. Clients report their counts (clients/audit.py); for groups, the larger of the report and
of what their committed offsets have passed counts, since a killed member consumed more than it reported. A
bucket is closed WAIT_MS after its end. As in Uber's Chaperone, equal counts do not prove that the messages
are the same: a loss and a duplicate in the same ten seconds cancel out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kaput.clients.audit_reports import BUCKET_MS, PRODUCED, CountReport, consumed_by

WAIT_MS = 20_000  # clients report every 5 s, and read a little later
KEEP_MS = 3_600_000  # what is missing after this remains missing
LOG, MIRROR, REPORT = "log", "mirror", "report"
STORED, MIRRORED = "stored", "mirrored"

Bucket = tuple[str, int]  # topic, begin (ms)


class Counted(NamedTuple):
    """`n` records of one partition in one bucket, counted by Spark. `side`: LOG or MIRROR."""

    side: str
    topic: str
    partition: int
    bucket_ms: int
    n: int
    last_offset: int
    newest_ms: int


# (side, topic, partition) -> offset
Offsets = Mapping[tuple[str, str, int], int]
# group -> (topic, partition) -> the next offset to read
Committed = Mapping[str, Mapping[tuple[str, int], int]]


class Row(NamedTuple):
    """A closed bucket: the messages of each stage, in order, and how many fewer than the stage before."""

    topic: str
    bucket_ms: int
    stages: Mapping[str, int]
    missing: Mapping[str, int]


@dataclass(frozen=True)
class Audit:
    """The state of an audit. `counted`: by partition and bucket, (count, offset after the last); `reported`:
    by client and bucket, the count. `missing`: by bucket and stage, the number at the last check; `late`: by
    stage, the number. `settled` (counts) and `gone` (missing): by (topic, stage), the sums of forgotten
    buckets; `since_ms`: buckets that began earlier are incomplete.
    """

    since_ms: int
    mirrored: bool = False
    counted: Mapping[tuple[str, str, int, int], tuple[int, int]] = field(default_factory=dict)
    reported: Mapping[tuple[str, str, str, int], int] = field(default_factory=dict)
    positions: Offsets = field(default_factory=dict)
    committed: Committed = field(default_factory=dict)
    missing: Mapping[tuple[str, int, str], int] = field(default_factory=dict)
    late: Mapping[str, int] = field(default_factory=dict)
    settled: Mapping[tuple[str, str], int] = field(default_factory=dict)
    gone: Mapping[tuple[str, str], int] = field(default_factory=dict)
    newest_ms: Offsets = field(default_factory=dict)

    def after(
        self, counted: Iterable[Counted], reported: Iterable[CountReport], committed: Committed
    ) -> Audit:
        """The audit after one more micro-batch, with the offsets that groups have committed by now."""
        counts, reports, positions = dict(self.counted), dict(self.reported), dict(self.positions)
        newest = dict(self.newest_ms)
        for side, topic, partition, bucket_ms, n, last, newest_ms in counted:
            place = (side, topic, partition)
            before, end = counts.get((*place, bucket_ms), (0, 0))
            counts[*place, bucket_ms] = (before + n, max(end, last + 1))
            positions[place] = max(positions.get(place, 0), last + 1)
            newest[place] = max(newest.get(place, 0), newest_ms)
        for report in reported:
            who = report[:4]
            reports[who] = max(reports.get(who, 0), report.n)
        return replace(
            self, counted=counts, reported=reports, positions=positions, newest_ms=newest, committed=committed
        )

    def checked_at(self, now_ms: int) -> tuple[list[Row], Audit]:
        """Every closed bucket that is not forgotten yet, and the audit with updated `missing` and `late`."""
        rows = list(self._rows(now_ms))
        missing = {(row.topic, row.bucket_ms, stage): n for row in rows for stage, n in row.missing.items()}
        late = Counter(self.late)
        for key, before in self.missing.items():
            late[key[2]] += max(0, before - missing.get(key, 0))
        before_ms = (now_ms - KEEP_MS) // BUCKET_MS * BUCKET_MS
        audit = replace(self, missing=missing, late=dict(late))._forgotten(rows, before_ms)
        return [row for row in rows if row.bucket_ms >= before_ms], audit

    def totals(self, rows: Iterable[Row]) -> dict[str, dict[str, dict[str, int]]]:
        """By topic and stage, in order: `count`, and `missing` compared to the previous stage."""
        by_topic: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
        for of, word in ((self.settled, "count"), (self.gone, "missing")):
            for (topic, stage), n in of.items():
                by_topic[topic][stage][word] += n
        for row in rows:
            for stage, n in row.stages.items():
                by_topic[row.topic][stage]["count"] += n
                by_topic[row.topic][stage]["missing"] += row.missing.get(stage, 0)
        return {
            topic: {stage: {"count": of["count"], "missing": of["missing"]} for stage, of in stages.items()}
            for topic, stages in sorted(by_topic.items())
        }

    def mirror_lag_ms(self) -> dict[str, int]:
        """By topic, how much older the newest record of the mirror is than that of the source, maximum over
        partitions; a mirror keeps timestamps. Skips topics of which the mirror has nothing.
        """
        lag_ms: dict[str, int] = {}
        for (side, topic, partition), newest in sorted(self.newest_ms.items()):
            there = self.newest_ms.get((MIRROR, topic, partition))
            if side == LOG and there is not None:
                lag_ms[topic] = max(lag_ms.get(topic, 0), newest - there)
        return lag_ms

    def _rows(self, now_ms: int) -> Iterator[Row]:
        sides: dict[Bucket, Counter[str]] = defaultdict(Counter)
        groups = {side for _, side, _, _ in self.reported if side != PRODUCED}
        groups |= {consumed_by(group) for group in self.committed}
        reporting_topics = {topic for _, side, topic, _ in self.reported if side == PRODUCED}
        passed = self._passed()
        for (side, topic, _, bucket_ms), (n, _) in self.counted.items():
            sides[topic, bucket_ms][STORED if side == LOG else MIRRORED] += n
        for (_, side, topic, bucket_ms), n in self.reported.items():
            sides[topic, bucket_ms][side] += n
        for (topic, bucket_ms), counts in sorted(sides.items()):
            if bucket_ms < self.since_ms or bucket_ms + BUCKET_MS + WAIT_MS > now_ms:
                continue
            stages = {PRODUCED: counts[PRODUCED]} if topic in reporting_topics else {}
            stages[STORED] = counts[STORED]
            if self.mirrored:
                stages[MIRRORED] = counts[MIRRORED]
            for group in sorted(groups):
                stages[group] = max(counts[group], passed.get((group, topic, bucket_ms), 0))
            yield Row(topic, bucket_ms, stages, _missing(stages))

    def _passed(self) -> Counter[tuple[str, str, int]]:
        """By group and bucket, the number of records below the group's committed offsets."""
        passed: Counter[tuple[str, str, int]] = Counter()
        for group, offsets in self.committed.items():
            for (side, topic, partition, bucket_ms), (n, end) in self.counted.items():
                if side == LOG and offsets.get((topic, partition), 0) >= end:
                    passed[consumed_by(group), topic, bucket_ms] += n
        return passed

    def _forgotten(self, rows: list[Row], before_ms: int) -> Audit:
        """The audit without buckets older than `before_ms`, of which only sums are kept."""
        old = [row for row in rows if row.bucket_ms < before_ms]
        if not old:
            return self
        settled, gone = Counter(self.settled), Counter(self.gone)
        for row in old:
            for stage, n in row.stages.items():
                settled[row.topic, stage] += n
                gone[row.topic, stage] += row.missing.get(stage, 0)
        return replace(
            self,
            counted={key: value for key, value in self.counted.items() if key[3] >= before_ms},
            reported={key: value for key, value in self.reported.items() if key[3] >= before_ms},
            missing={key: n for key, n in self.missing.items() if key[1] >= before_ms},
            since_ms=max(self.since_ms, before_ms),
            settled=dict(settled),
            gone=dict(gone),
        )


def _missing(stages: Mapping[str, int]) -> dict[str, int]:
    """By stage, how many fewer it has than the stage before: produced, stored, then mirrored or consumed."""
    before = {stage: STORED for stage in stages if stage not in (PRODUCED, STORED)}
    if PRODUCED in stages:
        before[STORED] = PRODUCED
    return {stage: n for stage, of in before.items() if (n := stages[of] - stages[stage]) > 0}
