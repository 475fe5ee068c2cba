"""Silences on a few rows: which are found, which are shown, and around which fault each is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from kaput.analysis.engine.spells import DONE, FAILED, LONG, PRODUCERS, WAITING, pauses
from kaput.analysis.facts.waits import Story
from kaput.analysis.questions import silences
from kaput.analysis.questions.availability import NOBODY, NOWHERE
from kaput.analysis.questions.silences import Silences
from kaput.core import TopicPartition
from kaput.evidence.findings_claims import Wait

S = 1_000_000_000
PLACES = {7: TopicPartition("orders", 0), 8: TopicPartition("orders", 1)}
GROUP = 0
_SPELLS = ("group", "producer", "place", "kind", "first_ns", "last_ns")
_FOUND = ("group", "place", "from_ns", "to_ns")


def _spells(*rows: tuple[int, int, int, int, float, float]) -> pl.DataFrame:
    """Rows of group, producer, place, kind, and times in seconds."""
    timed = [(*row[:4], int(row[4] * S), int(row[5] * S)) for row in rows]
    return pl.DataFrame(timed, schema=dict.fromkeys(_SPELLS, pl.Int64), orient="row")


def _acks(producer: int, place: int, *spells: tuple[float, float], until: float) -> list[Any]:
    """Some of a producer's messages wait all the time from the first one to `until`, in the end in vain;
    others are acknowledged in these spells.
    """
    waiting = [(PRODUCERS, producer, place, kind, spells[0][0], until) for kind in (WAITING, FAILED)]
    return [*waiting, *((PRODUCERS, producer, place, DONE, *spell) for spell in spells)]


def _reach(fault: str, since: float | None, until: float | None, *places: int) -> Any:
    of = SimpleNamespace(id=fault, effective_ns=None if since is None else int(since * S), healed_ns=None)
    restored = None if until is None else int(until * S)
    hit = [PLACES[code] for code in places]
    return SimpleNamespace(fault=of, recovered_ns=lambda ended_ns: restored or ended_ns, hit=hit)


def _run(spells: pl.DataFrame, *reaches: Any, untimed: int = 0) -> Any:
    """A run whose silences all wait for an election until a second before their end."""

    def story(place: TopicPartition, from_ns: int, to_ns: int, *_: object) -> Story:
        wait = Wait(condition="election", from_ns=from_ns, to_ns=to_ns - S)
        return Story([wait], "election", True)

    codes = {place: code for code, place in PLACES.items()}
    empty = dict.fromkeys(("group", "place", "messages", "within_1s", "within_timeout"), pl.Int64)
    return SimpleNamespace(
        sums={
            "service_spells": spells,
            "service_counts": pl.DataFrame(schema=empty),
            "untimed_acks": pl.DataFrame({"place": [7], "n": [untimed]}),
            "sent": pl.DataFrame({"last_attempt_ns": [0]}),
        },
        reaches=list(reaches),
        names=SimpleNamespace(code=codes.__getitem__, located=PLACES.__getitem__),
        given=SimpleNamespace(
            ended_ns=100 * S, faults=[], groups=["billing"], clients=[], scenario=None, cluster_events=[],
            plan=[],
        ),
        leader_history=SimpleNamespace(changes={}),
        rebalances=SimpleNamespace(found=[]),
        story=story,
    )  # fmt: skip


def _reported(run: Any) -> dict[str, Any]:
    """Findings, facts, and faults by id."""
    found: dict[str, Any] = {"claims": [], "faults": {}}
    for section, key, fields in Silences().report(run):
        if section == "fault":
            found["faults"][key] = fields
        else:
            found["claims"] += fields.get("claims", [])
            found |= {name: value for name, value in fields.items() if name != "claims"}
    return found


def _of(one: Any) -> tuple[Any, ...]:
    return one.partition, one.from_ns / S, one.to_ns / S, one.ended_by


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # From the attempt of the first one that waits, though nothing had come since 0 s.
        ([(DONE, 0, 0), (LONG, 3, 9), (DONE, 9, 9)], [(3, 9, True)]),
        # From the last acknowledgement, if that is later.
        ([(LONG, 3, 9), (DONE, 5, 6), (DONE, 9, 9)], [(3, 5, True), (6, 9, True)]),
        ([(LONG, 3, 9), (DONE, 3.1, 5), (DONE, 5.9, 9)], []),
        # A spell that began before the wait lasted until within it.
        ([(DONE, 0, 4), (LONG, 3, 9), (DONE, 9, 9)], [(4, 9, True)]),
        # Of waits that overlap, to the end of the last; of others each by itself.
        ([(LONG, 0, 2), (LONG, 1, 4), (DONE, 4, 4)], [(0, 4, True)]),
        ([(LONG, 0, 2), (DONE, 2, 2), (LONG, 5, 7), (DONE, 7, 7)], [(0, 2, True), (5, 7, True)]),
        # One after the other: each is acknowledged when the next one is attempted.
        ([(LONG, 0, 2), (DONE, 2, 2), (LONG, 2, 4), (DONE, 4, 4)], [(0, 2, True), (2, 4, True)]),
        # What waits for less than a second makes no silence, nor do messages that come rarely.
        ([(WAITING, 0, 30), (DONE, 0, 0), (DONE, 15, 15), (DONE, 30, 30)], []),
        # In vain: until an acknowledgement comes, if that is less than a second later ...
        ([(FAILED, 0, 5), (DONE, 5.9, 7)], [(0, 5.9, True)]),
        ([(FAILED, 0, 5), (DONE, 6, 7)], [(0, 5, False)]),
        # ... or until the next one begins to wait in vain or for a second.
        ([(FAILED, 0, 5), (FAILED, 5.9, 8)], [(0, 8, False)]),
        ([(FAILED, 0, 5), (LONG, 5.9, 8), (DONE, 8, 8)], [(0, 8, True)]),
        ([(FAILED, 0, 5), (FAILED, 6, 8)], [(0, 5, False), (6, 8, False)]),
        # Failed at once, one after the other: waiting all the time.
        ([(FAILED, n / 2, n / 2) for n in range(7)] + [(DONE, 3.5, 3.5)], [(0, 3.5, True)]),
        ([(FAILED, 2 * n, 2 * n) for n in range(7)], []),
    ],
)
def test_silence_is_while_a_message_waits(
    rows: list[tuple[int, float, float]], expected: list[tuple[float, float, bool]]
) -> None:
    """At least a second without an acknowledgement, of what waits for a second or more, or in vain."""
    found = pauses(_spells(*((PRODUCERS, 0, 7, *row) for row in rows)), ["group", "place"], S)
    times = ((from_ns / S, to_ns / S, ended) for _, _, from_ns, to_ns, ended in found.iter_rows())
    assert list(times) == expected


def test_silence_lasts_a_second_and_ends_with_an_acknowledgement() -> None:
    """Half a second is none; what no acknowledgement ended has no end cause and no waits."""
    spells = _spells(*_acks(0, 7, (0, 10), (11, 20), (20.5, 30), until=40))
    found = _reported(_run(spells))
    of_partition = [one for one in found["standstills"] if one.partition is not None]
    assert [_of(one) for one in of_partition] == [(0, 10, 11, "election"), (0, 30, 40, None)]
    assert [len(one.waited_for) for one in of_partition] == [1, 0]
    claims = [one for one in found["claims"] if one.kind == "silence" and one.partition is not None]
    assert [(one.ended_by, one.decidable, one.why) for one in claims] == [
        ("election", True, ""),
        (None, True, claims[1].why),
    ]
    assert claims[1].why and claims[0].figures == {"length_ms": 1_000}


def test_another_partition_or_producer_ends_no_silence_of_this_one() -> None:
    """All together are silent only while all are; each producer is by itself."""
    spells = _spells(
        *_acks(0, 7, (0, 10), (20, 30), until=30),
        *_acks(1, 7, (0, 12), (15, 30), until=30),
        *_acks(1, 8, (0, 13), (19, 30), until=30),
    )
    found = _reported(_run(spells))
    assert [_of(one) for one in found["standstills"]] == [
        (None, 13, 15, "election"),
        (0, 12, 15, "election"),
        (1, 13, 19, "election"),
    ]
    assert [(u.producer, u.partition, u.longest_ms) for u in found["unavailability"]] == [
        (0, 0, 10_000),
        (1, 0, 3_000),
        (1, 1, 6_000),
    ]
    of_producers = [one for one in found["claims"] if one.kind == "unavailable"]
    assert [(one.producer, one.partition) for one in of_producers] == [(0, 0), (1, 0), (1, 1)]


def test_producer_that_was_never_silent_has_no_unavailability() -> None:
    """Its longest pause was under a second; so was that of the run."""
    found = _reported(_run(_spells(*_acks(0, 7, (0, 10), (10.9, 30), until=30)), _reach("f", 5, 20, 7)))
    assert (found["standstills"], found["unavailability"], found["faults"]) == ([], [], {})
    assert (found["unavailable_ms"], found["standstill_ms"]) == (0, 0)


def test_longest_silence_of_each_producer_is_the_first_of_equals() -> None:
    spells = _spells(*_acks(0, 7, (0, 10), (12, 20), (22, 30), until=30))
    (one,) = _reported(_run(spells))["unavailability"]
    assert (one.from_ns, one.to_ns) == (10 * S, 12 * S)


def test_messages_without_a_partition_wait_with_all_partitions() -> None:
    """They are given up after 20 s; no single partition was silent."""
    spells = _spells(*((PRODUCERS, 0, NOWHERE, kind, 0, 20) for kind in (WAITING, FAILED)))
    found = _reported(_run(spells))
    assert [_of(one) for one in found["standstills"]] == [(None, 0, 20, None)]
    assert found["unavailability"] == []


def test_group_is_silent_by_its_own_deliveries() -> None:
    """Acknowledgements went on; its first deliveries did not."""
    rows = [
        (GROUP, NOBODY, 7, WAITING, 0, 30),
        (GROUP, NOBODY, 7, LONG, 0, 30),
        (GROUP, NOBODY, 7, DONE, 0, 10),
        (GROUP, NOBODY, 7, DONE, 25, 30),
    ]
    found = _reported(_run(_spells(*_acks(0, 7, (0, 30), until=30), *rows)))
    silent = [(one.group, *_of(one)) for one in found["standstills"]]
    assert silent == [("billing", None, 10, 25, "election"), ("billing", 0, 10, 25, "election")]


_FAULT_SPELLS = _spells(
    *_acks(0, 7, (0, 10), (30, 40), (43, 51), (54, 55), until=56),
    *_acks(0, 8, (0, 20), (60, 90), until=90),
)


@pytest.mark.parametrize(
    ("reach", "expected"),
    [
        (_reach("f", 10, 60, 7), (10, 30)),
        (_reach("f", 15, 60, 7), (15, 30)),  # from the fault on
        (_reach("f", 30, 60, 7), (40, 43)),  # what ended then was before
        (_reach("f", 29.5, 60, 7), (40, 43)),  # of that, less than a second was left
        (_reach("f", 10, 60, 7, 8), (20, 60)),  # the longest of all that it hit
        (_reach("f", 50, 55, 7), (51, 54)),  # what begins at the end is no more of it
        (_reach("f", 55, None, 7), (55, 56)),  # never in the ISR again: until the end of the run
        (_reach("f", 44, 51, 7), None),
        (_reach("f", None, 60, 7), None),
        (_reach("f", 10, 60), None),  # it hit no partition
    ],
)
def test_longest_silence_of_a_fault(reach: Any, expected: tuple[float, float] | None) -> None:
    """Of the partitions that it hit, of all producers together, up to the end of recovery."""
    found = _reported(_run(_FAULT_SPELLS, reach))
    claims = [one for one in found["claims"] if one.fault == "f"]
    if expected is None:
        hit = reach.hit and reach.fault.effective_ns is not None
        assert (found["faults"], claims, found["unavailable_ms"]) == ({}, [], 0 if hit else None)
        return
    from_s, to_s = expected
    (claim,) = claims
    assert (claim.kind, claim.from_ns / S, claim.to_ns / S) == ("unavailable", from_s, to_s)
    fault = found["faults"]["f"]
    assert fault["unavailable_ms"] == found["unavailable_ms"] == (to_s - from_s) * 1e3
    assert fault["unavailable_ended_by"] == claim.ended_by
    assert fault["unavailable_waited_for"] == claim.waited_for
    assert claim.ended_by == (None if from_s == 55 else "election")


def test_acknowledgements_without_times_are_one_claim() -> None:
    """How many there are; without any, there is no such claim."""
    spells = _spells(*_acks(0, 7, (0, 10), until=10))
    (claim,) = [one for one in _reported(_run(spells, untimed=12))["claims"] if one.kind == "times-unknown"]
    assert (claim.figures, claim.decidable) == ({"messages": 12}, False)
    assert "times-unknown" not in [one.kind for one in _reported(_run(spells))["claims"]]


def _found(*rows: tuple[int, int, int, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict.fromkeys(_FOUND, pl.Int64), orient="row")


def test_the_longest_silences_of_each_group_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of equally long ones those of the first partitions, and there the earliest."""
    monkeypatch.setattr(silences, "_MAX_SHOWN", 3)
    alike = [(0, 2, 0, 10), (0, 1, 5, 15), (0, 1, 0, 10), (0, 3, 0, 10)]
    found = _found(*alike, (0, 0, 100, 101), (1, 7, 100, 101), (0, 9, 0, 11))
    assert silences._longest(found).filter(group=0).rows() == [(0, 9, 0, 11), alike[2], alike[1]]
    assert silences._longest(found).filter(group=1).rows() == [(1, 7, 100, 101)]


def test_silence_of_all_partitions_has_the_story_of_the_first_that_resumed() -> None:
    """Of those acknowledged at its end the first by name; not known if none was silent until then."""
    run = _run(_spells())
    asked: list[TopicPartition] = []
    run.story = lambda place, *_: asked.append(place) or Story([], "unknown", False)
    found = _found((PRODUCERS, 8, 0, 10 * S), (PRODUCERS, 7, 5 * S, 10 * S), (PRODUCERS, 8, 12 * S, 14 * S))
    every = _found((PRODUCERS, silences._ALL_PLACES, 5 * S, 10 * S))
    stories = silences._Stories(run, pl.concat([found, every]))
    for end_s in (10, 14):
        stories.of(PRODUCERS, silences._ALL_PLACES, None, 5 * S, end_s * S, True)
    assert asked == [PLACES[7], PLACES[8]]
    none = stories.of(PRODUCERS, silences._ALL_PLACES, None, 5 * S, 11 * S, True)
    assert (none.ended_by, none.story.decidable, len(asked)) == ("unknown", False, 2)
