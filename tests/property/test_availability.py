"""Standstills and availability against the oracle, on histories made from seeds; the same under any cut."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from fakes.histories import History, at
from fakes.in_process import InProcess
from fakes.oracle_standstills import Standstills
from kaput.analysis import document
from kaput.analysis.engine.pieces import Parts
from kaput.analysis.facts import inputs
from kaput.analysis.pipeline import count
from kaput.analysis.questions import questions
from kaput.analysis.run import BIG, Plan, plan
from kaput.analysis.runs.tables import units
from kaput.evidence.findings import Findings
from kaput.evidence.findings_claims import Standstill
from kaput.evidence.reading import check

SEED = 20_262
HISTORIES = 24
Outage = tuple[int, int, tuple[int, ...], bool]  # from, to (ms), partitions, whether all is in vain


def _history(number: int) -> History:
    """Two producers and two partitions; outages of one or of both, elections, heals, changes of the ISR, and
    messages that fail or are waited for in vain. Some are sent when the one before is acknowledged.
    """
    random = Random(f"{SEED}/{number}")
    history = History(
        producers=[{"topic": "orders", "acks": "all", "count": 2}],
        topics=[{"name": "orders", "partitions": 2}],
        groups={"billing": True, "audit": True},
    )
    outages: list[Outage] = []
    for _ in range(random.randrange(5)):
        begin = random.randrange(0, 40_000, 500)
        end = begin + random.choice([400, 999, 1_000, 1_500, 4_000, 9_000, 14_000])
        outages.append((begin, end, random.choice([(0,), (1,), (0, 1)]), random.random() < 0.3))
        _around(history, random, end, len(outages))
    offsets = [0, 0]
    for producer in range(2):
        ms = random.randrange(0, 3_000)
        for seq in range(random.randrange(5, 40)):
            partition = random.randrange(2)
            done = _message(history, random, (producer, seq, partition), ms, outages, offsets)
            pause = random.choice([0, 1, 50, 300, 998, 999, 1_000, 1_001, 2_500])
            ms = done if random.random() < 0.3 else ms + pause
    for partition in range(2):
        history.led(1, 0, -100, [1, 2, 3], partition=partition)
    return history.read_to_end()


def _around(history: History, random: Random, end: int, number: int) -> None:
    """What may have ended an outage."""
    before = random.choice([0, 1, 300, 4_900, 5_001, 10_000])
    partition = random.randrange(2)
    match random.choice(["heal", "late heal", "election", "election", "isr", "no leader", None]):
        case "heal":
            history.fault(1, max(0, end - before - 3_000), max(0, end - before))
        case "late heal":
            history.fault(1, max(0, end - before - 3_000), end + random.choice([1, 1_900, 2_100]))
        case "election":
            history.led(1 + number % 3, number, end - before, [1, 2, 3], partition=partition)
        case "isr":
            history.led(None, None, end - before, [1, 2], kind="isr", partition=partition)
        case "no leader":
            history.led(-1, number, end - before, [1], partition=partition)


def _message(
    history: History,
    random: Random,
    message: tuple[int, int, int],
    ms: int,
    outages: list[Outage],
    offsets: list[int],
) -> int:
    """One message, attempted at `ms`; when its outcome was known."""
    producer, seq, partition = message
    done = ms + random.choice([0, 1, 5, 40, 1_001])
    outcomes = ["acked"] * 9 + ["failed", "unknown"]
    for begin, end, where, in_vain in outages:
        if begin <= done < end and partition in where:
            done = end + random.choice([0, 1, 700])
            outcomes = ["failed", "unknown"] if in_vain else outcomes
    row = {"producer": producer, "seq": seq, "topic": "orders", "error": None, "attempt_ns": at(ms)}
    outcome = random.choice(outcomes)
    untimed = random.random() < 0.03
    if outcome != "acked":
        known = random.random() < 0.7
        lost_place = random.random() < 0.3
        row |= {"done_ns": at(done) if known else None, "partition": None if lost_place else partition}
        history.add("sends", **row, outcome=outcome, offset=None)
        return done
    offset = offsets[partition]
    offsets[partition] += 1
    row["done_ns"] = None if untimed else at(done)
    history.add("sends", **row, outcome=outcome, offset=offset, partition=partition)
    history.stored(offset, producer, seq, partition=partition)
    for group in history.groups:
        for copy in range(random.choice([0, 1, 1, 1, 2])):
            polled = done + copy + random.choice([0, 3, 30, 1_500])
            history.handed(offset, producer, seq, polled, group=group, partition=partition)
    return done


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.long) for first in range(6, HISTORIES, 6))]
)
def test_standstills_equal_oracle(first: int, tmp_path: Path) -> None:
    """When each began, how long it was and whether something came; what was acknowledged and delivered in
    time; the longest standstill of each producer.
    """
    for number in range(first, first + 6):
        history = _history(number)
        evidence = inputs.read(check(history.write(tmp_path / str(number))))
        oracle = Standstills(history)
        expected = oracle.found(), oracle.counts(), oracle.longest()
        for work in (plan(evidence.evidence), _cut(evidence, number)):
            found = document.findings(count(InProcess(), evidence, work), questions())
            assert _told(found) == expected, number


def test_histories_cover_every_end() -> None:
    """Agreement on what never happens would mean nothing."""
    every = [found for n in range(HISTORIES) for found in Standstills(_history(n)).found().items()]
    ends = Counter(came for _, (_, came) in every)
    assert min(ends[True], ends[False]) >= 3, ends
    whole = sum(place is None for (_, place, _), _ in every)
    assert whole > HISTORIES // 2
    untimed = [row for n in range(HISTORIES) for row in _history(n).rows["sends"] if row["done_ns"] is None]
    assert Counter(row["outcome"] for row in untimed)["acked"] >= 3


def _cut(evidence: inputs.Inputs, number: int) -> Plan:
    tasks = [[unit] for table in BIG for unit in units(evidence.evidence, table)]
    Random(number).shuffle(tasks)
    return Plan(tasks, Parts(3, 4))


def _told(found: Findings) -> tuple[object, object, object]:
    def where(one: object) -> tuple[object, object]:
        topic, partition = getattr(one, "topic"), getattr(one, "partition")  # noqa: B009
        return getattr(one, "group"), None if topic is None else (topic, partition)  # noqa: B009

    standstills = {
        (*where(one), one.from_ns): (one.to_ns - one.from_ns, one.ended_by is not None)
        for one in found.standstills
    }
    counts = {where(one): (one.messages, one.within_1s) for one in found.availability if one.messages}
    for one in found.availability:
        mine = [s for s in found.standstills if where(s) == where(one)]
        assert one.standstills == len(mine)
        assert one.standstill_s * 1e3 == pytest.approx(sum(s.length_ms for s in mine))
    for one in found.standstills:
        _check_waits(one)
    longest = {(u.producer, (u.topic, u.partition)): (u.from_ns, u.to_ns) for u in found.unavailability}
    return standstills, counts, longest


def _check_waits(one: Standstill) -> None:
    """What holds of every story: its waits cover the standstill in order, none is empty, and the last one
    that is not the client's ended it. If it is not known, there are none.
    """
    if one.ended_by in (None, "unknown"):
        assert one.waited_for == []
        return
    edges = [one.from_ns, *(wait.to_ns for wait in one.waited_for)]
    assert [wait.from_ns for wait in one.waited_for] == edges[:-1]
    assert edges[-1] == one.to_ns and edges == sorted(set(edges))
    conditions = [wait.condition for wait in one.waited_for]
    assert one.ended_by == next((c for c in reversed(conditions) if c != "client"), "client")
