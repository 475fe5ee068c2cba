"""Filters against plain definitions, on generated traffic: every decision of every filter."""

from __future__ import annotations

from collections import Counter

import pytest
from dedup_scoring import FILTERS, Score, decisions, first_copies, score, score_of, troubles
from dedup_traffic import CLAIM, Delivery, Memory, Traffic
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.plain_filters import DEFINITIONS

SEEDS = range(4)
KINDS = list(troubles(0))
# Kinds of trouble in which a filter makes no mistake, for its definition says so.
RIGHT = {
    "every id": set(KINDS) - {"it comes back with new ids and numbers"},
    "mark per topic-partition": {
        "none",
        "retries, one request in flight",
        "a producer writes to three partitions",
        "a producer writes to three topics",
        "a producer comes back with its memory",
        "two producers share a partition",
    },
    "one producer per partition": {
        "none",
        "retries, one request in flight",
        "a producer writes to three partitions",
        "a producer writes to three topics",
        "a producer comes back with its memory",
        "it comes back and counts from 0",
        "it comes back as a new producer",
        "a partition moves, and zombies write",
    },
}


@st.composite
def traffics(draw: st.DrawFn) -> Traffic:
    share = st.sampled_from([0.0, 0.05, 0.3])
    return Traffic(
        seed=draw(st.integers(0, 2**32)),
        messages=draw(st.integers(10, 80)),
        producers=draw(st.integers(1, 3)),
        topics=draw(st.integers(1, 2)),
        partitions=draw(st.integers(1, 3)),
        in_flight=draw(st.integers(1, 5)),
        lost_requests=draw(share),
        lost_acks=draw(share),
        elsewhere=draw(st.booleans()),
        crashes=draw(st.sampled_from([0.0, 0.05])),
        memory=draw(st.sampled_from(Memory)),
        moves=draw(st.sampled_from([0.0, 0.05])),
        claims=draw(st.booleans()),
        shared=draw(st.booleans()),
    )


@given(traffics())
@settings(max_examples=60)
def test_every_filter_decides_as_its_definition_says(traffic: Traffic) -> None:
    """Delivery for delivery, whatever happened."""
    deliveries = traffic.read()
    records = [one.record for one in deliveries]
    for name, definition in DEFINITIONS.items():
        expected = [definition(records, at) for at in range(len(records))]
        assert decisions(FILTERS[name](), deliveries) == expected, name


@given(traffics())
@settings(max_examples=60)
def test_every_id_filter_is_right_while_ids_last(traffic: Traffic) -> None:
    """And a filter that remembers every id is right, in any trouble but that of new ids."""
    deliveries = [one for one in traffic.read() if one.message != CLAIM]
    if traffic.memory is not Memory.NOTHING or not traffic.crashes:
        assert decisions(FILTERS["every id"](), deliveries) == first_copies(deliveries)


@pytest.mark.parametrize("kind", KINDS)
def test_filters_are_right_exactly_for_their_documented_troubles(kind: str) -> None:
    """Over a few seeds no mistake at all, or at least one."""
    for name, kinds in RIGHT.items():
        scores = [score_of(FILTERS[name](), troubles(seed)[kind].read()) for seed in SEEDS]
        wrong = sum(one.passed + one.dropped for one in scores)
        assert (wrong == 0) == (kind in kinds), (name, scores)


def test_filter_without_fencing_drops_messages_after_a_zombie() -> None:
    """The same filter without it drops messages of the new producer."""
    logs = [troubles(seed)["a partition moves, and zombies write"].read() for seed in SEEDS]
    assert sum(score_of(FILTERS["the same without fencing"](), log).dropped for log in logs) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_traffic_has_every_message_and_offsets_in_order(kind: str) -> None:
    """A message that was never written would not count as dropped; offsets have no gaps."""
    traffic = troubles(3)[kind]
    deliveries = traffic.read()
    times = Counter(one.message for one in deliveries)
    # A producer that writes to three partitions leaves the remainder of a thousand out.
    assert len(times.keys() - {CLAIM}) >= traffic.messages - 3
    assert (max(times.values()) > 1) == (kind != "none")
    ends: Counter[tuple[str, int]] = Counter()
    for one in deliveries:
        place = (one.record.topic, one.record.partition)
        assert one.record.offset == ends[place]
        ends[place] += 1


def test_the_same_seed_makes_the_same_traffic() -> None:
    """So that a table can be made again."""
    assert (
        troubles(5)["it comes back as a new producer"].read()
        == troubles(5)["it comes back as a new producer"].read()
    )
    assert troubles(5)["none"].read() != troubles(6)["retries, one request in flight"].read()


def test_score_counts_messages_and_not_claims() -> None:
    """Two effects of message 1, none of message 2, and a claim that passed."""
    record = troubles(0)["none"].read()[0].record
    deliveries = [Delivery(record, message) for message in (1, 1, 2, CLAIM)]
    assert score(deliveries, [1, 1, CLAIM]) == Score(passed=1, dropped=1)
