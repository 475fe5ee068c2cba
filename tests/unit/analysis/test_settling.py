"""The compiled loops against plain Python, on whatever Hypothesis thinks of."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kaput.analysis.dense import settling
from kaput.analysis.dense.by_chunk import by_chunk
from kaput.analysis.dense.context import ACKED
from kaput.analysis.dense.counting import order
from kaput.analysis.dense.held import held
from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.dense.pack import unpack
from kaput.analysis.dense.scan import zones
from kaput.analysis.dense.settling import Facts, Offsets

PLACE = st.sampled_from([NULL, 0, 1, 2])
RECORD = st.tuples(st.integers(0, 7), st.integers(0, 2), st.integers(0, 5), st.integers(-1, 2))


def _ints(values: list[int]) -> Ints:
    return np.array(values, np.int64)


def _columns(rows: list[tuple[int, ...]], width: int) -> list[Ints]:
    return [_ints([row[i] for row in rows]) for i in range(width)]


@given(st.lists(RECORD, max_size=40), st.lists(st.tuples(PLACE, st.integers(0, 5)), min_size=8, max_size=8))
def test_first_copies_are_those_with_the_least_offset(
    records: list[tuple[int, int, int, int]], claims: list[tuple[int, int]]
) -> None:
    """Each message's copies are counted; the first is that of the least offset, then place."""
    claimed, stored, borne_out = _columns(list(claims), 2), np.zeros(8, np.int64), np.zeros(8, bool)
    place, offset, epoch, most = settling.store(*_columns(list(records), 4), *claimed, stored, borne_out)
    for slot in range(8):
        copies = [(o, p, e) for s, p, o, e in records if s == slot]
        assert stored[slot] == len(copies)
        assert borne_out[slot] == (claims[slot] in [(p, o) for o, p, _ in copies])
        if not copies:
            assert (place[slot], offset[slot], epoch[slot]) == (NULL, NULL, NULL)
            continue
        assert (offset[slot], place[slot]) == min(copy[:2] for copy in copies)
        told = {e if e >= 0 else NULL for copy in copies for e in [copy[2]] if copy[:2] == min(copies)[:2]}
        assert epoch[slot] in told
    assert most == max(stored)


@given(st.lists(RECORD, max_size=40), st.lists(st.tuples(PLACE, st.integers(0, 5)), min_size=8, max_size=8))
def test_deliveries_from_elsewhere_are_unsettled(
    rows: list[tuple[int, int, int, int]], first: list[tuple[int, int]]
) -> None:
    """Each message's deliveries are counted, the earliest is kept, and one from elsewhere is marked."""
    unsettled = np.zeros(8, bool)
    times, first_ns = settling.hand(*_columns(list(rows), 4), *_columns(list(first), 2), unsettled)
    for slot in range(8):
        mine = [row for row in rows if row[0] == slot]
        assert times[slot] == len(mine)
        assert first_ns[slot] == min((row[3] for row in mine), default=NULL)
        assert unsettled[slot] == any((p, o) != first[slot] for _, p, o, _ in mine)


@given(st.lists(st.tuples(st.integers(0, 300), PLACE, st.booleans()), max_size=400))
def test_streams_are_numbered_as_they_come(rows: list[tuple[int, int, bool]]) -> None:
    """One number a (topic, place); what did not run has the number after the last."""
    topic, place = _columns([row[:2] for row in rows], 2)
    number, first = settling.streams(topic, place, np.array([row[2] for row in rows], bool))
    keys = list(dict.fromkeys(row[:2] for row in rows if row[2]))
    assert [(topic[at], place[at]) for at in first] == keys
    assert number.tolist() == [keys.index(row[:2]) if row[2] else len(keys) for row in rows]


MESSAGE = st.tuples(
    st.integers(0, 3),  # stream; 3: none
    st.integers(0, 2),  # outcome
    st.sampled_from([NULL, 5, 6, 7]),  # done
    st.integers(0, 3),  # times stored
    st.integers(0, 9),  # offset of the first copy
    st.sampled_from([NULL, 0, 1]),  # its epoch
    st.booleans(),  # whether it stands where it was sent
    st.integers(0, 3),  # times delivered
    st.integers(-2000, 3000),  # how long that took
)


@given(st.lists(MESSAGE, max_size=40))
def test_a_chunks_sums_are_those_of_its_messages(rows: list[tuple[int, ...]]) -> None:
    """Fates, further copies and phantoms, per group as well, and the durations in whole microseconds."""
    stream, outcome, _, stored, _, _, _, times, took = _columns(list(rows), 9)
    cells, further, phantoms = settling.fates(stream, 3, outcome, stored)
    ran = [row for row in rows if row[0] < 3]
    expected = Counter(9 * row[0] + 3 * row[1] + min(row[3], 2) for row in ran)
    assert {at: n for at, n in enumerate(cells.tolist()) if n} == dict(expected)
    assert further == sum(max(row[3] - 1, 0) for row in ran)
    assert phantoms == sum(row[3] for row in rows if row[0] == 3)
    cells, took_us = settling.group_fates(stream, 3, outcome, stored, times, took, np.zeros_like(took))
    expected = Counter(27 * r[0] + 9 * r[1] + 3 * min(r[3], 2) + min(r[7], 2) for r in ran)
    assert {at: n for at, n in enumerate(cells.tolist()) if n} == dict(expected)
    assert took_us.tolist() == [int(row[8] / 1000) for row in ran if row[7]]


@given(st.lists(MESSAGE, max_size=40))
def test_a_streams_facts_are_those_of_its_messages(rows: list[tuple[int, ...]]) -> None:
    """Losses at the edges and their islands, first acknowledgements, offsets and their order."""
    stream, outcome, done, stored, offset, epoch, here, _, _ = _columns(list(rows), 9)
    lost = (outcome == ACKED) & (stored == 0)
    place = np.where(here == 1, 4, NULL)
    first = np.full(len(rows), 4)
    table, islands, elsewhere = settling.facts(stream, 3, outcome, done, place, stored, first, epoch, lost)
    assert elsewhere == any(row[0] < 3 and row[3] and not row[6] for row in rows)
    copies = settling.offsets(stream, 3, stored, offset)
    for number in range(3):
        mine = [(at, row) for at, row in enumerate(rows) if row[0] == number]
        gone = [bool(lost[at]) for at, _ in mine]
        found, told = Facts(*table[number].tolist()), Offsets(*copies[number].tolist())
        starts = [is_lost and not (i and gone[i - 1]) for i, is_lost in enumerate(gone)]
        assert (found.first_lost, found.last_lost) == ((gone[0], gone[-1]) if gone else (0, 0))
        assert found.islands == sum(starts)
        assert [islands[at] for (at, _), is_lost in zip(mine, gone, strict=True) if is_lost] == [
            sum(starts[: i + 1]) - 1 for i, is_lost in enumerate(gone) if is_lost
        ]
        acks = [r for _, r in mine if r[1] == ACKED and r[3] and r[2] != NULL and r[5] != NULL]
        assert found.acks == len(acks)
        if acks:
            assert found.done_ns == min(row[2] for row in acks)
            assert found.epochs == (len({row[5] for row in acks}) > 1)
        offsets = [row[4] for _, row in mine if row[3]]
        assert told.held == len(offsets)
        if offsets:
            assert (told.low, told.high) == (min(offsets), max(offsets))
            assert told.inverted == (offsets != sorted(offsets))


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 200), st.booleans(), st.integers(0, 99)), max_size=60
    ),
    st.booleans(),
)
def test_rows_come_apart_by_chunk(rows: list[tuple[int, int, bool, int]], sparse: bool) -> None:
    """Each named row is with its chunk once, in its order, also where chunks are too many to be counted."""
    wide = 2**40 if sparse else 1
    producer, seq, _, more = _columns(list(rows), 4)
    named = np.array([row[2] for row in rows], bool)
    found: dict[tuple[int, int], list[tuple[int, int, int, int]]] = {}
    for who, chunk, payload in by_chunk(producer * wide, seq, named, 4, (more, -more, more * 7)):
        found.setdefault((who, chunk), []).extend(zip(*unpack([payload], 4).tolist(), strict=True))
    expected: dict[tuple[int, int], list[tuple[int, int, int, int]]] = {}
    for who, at, is_named, value in rows:
        if is_named:
            expected.setdefault((who * wide, at >> 4), []).append((at & 15, value, -value, value * 7))
    assert found == expected


@given(st.lists(st.integers(0, 5), max_size=60))
def test_counted_order_is_stable(codes: list[int]) -> None:
    """Positions by code, then as they stood; each code's begin is told."""
    positions, starts = order(_ints(codes), 6)
    assert positions.tolist() == sorted(range(len(codes)), key=lambda row: codes[row])
    assert starts.tolist() == [sum(c < code for c in codes) for code in sorted(set(codes))]


@given(
    st.dictionaries(
        st.integers(0, 4),
        st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), min_size=1, max_size=8),
        min_size=1,
    ),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 70)), max_size=60),
)
def test_held_rows_are_those_in_a_zone_of_their_place(
    spans: dict[int, list[tuple[int, int]]], rows: list[tuple[int, int]]
) -> None:
    """In whatever order places and offsets come."""
    known = {
        place: zones(_ints([low for low, _ in some]), _ints([low + size for low, size in some]))
        for place, some in spans.items()
    }
    place, offset = _columns(list(rows), 2)
    expected = [
        at
        for at, (where, there) in enumerate(rows)
        if any(low <= there < low + size for low, size in spans.get(where, []))
    ]
    assert held(place, offset, known).tolist() == expected
