"""Times of messages against a Counter, on whatever Hypothesis thinks of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaput.analysis.dense import times
from kaput.analysis.dense.times import Key, Packed, Times

Row = tuple[int, int, bool]  # producer, seq, whether it is a message
_STRETCHES = st.lists(
    st.tuples(
        st.integers(0, 3), st.integers(-9, 90) | st.just(2**62), st.integers(1, 40), st.integers(0, 20)
    ),
    max_size=12,
).map(
    lambda drawn: [
        (producer, first + number, number != strange)
        for producer, first, length, strange in drawn
        for number in range(length)
    ]
)
_ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60), st.booleans()), max_size=200)


def _packed(units: Sequence[list[Row]], bits: int) -> dict[Key, list[Packed]]:
    """What some units hold, each of two handed on by itself."""
    found: dict[Key, list[Packed]] = {}
    held = Times(bits)
    for number, rows in enumerate(units):
        producer, seq, named = zip(*rows, strict=True) if rows else ((), (), ())
        held.count(7, np.array(producer, np.int32), np.array(seq, np.int64), np.array(named, bool))
        if number % 2:
            for key, piece in held.take():
                found.setdefault(key, []).append(piece)
    for key, piece in held.take():
        found.setdefault(key, []).append(piece)
    return found


def _expected(units: Sequence[list[Row]]) -> dict[tuple[int, int], int]:
    counts = Counter((producer, seq) for rows in units for producer, seq, named in rows if named)
    return {who: min(n, 2) for who, n in counts.items()}


@given(st.lists(_STRETCHES | _ROWS, max_size=5), st.sampled_from([2, 5, 16]))
def test_times_are_those_of_a_counter(units: list[list[Row]], bits: int) -> None:
    """Chunk by chunk, whether rows come in runs or in no order."""
    found = {
        (who, (chunk << bits) + place): many
        for (_, who, chunk), pieces in _packed(units, bits).items()
        for place, many in enumerate(times.laid(pieces, 1 << bits).tolist())
        if many
    }
    assert found == _expected(units)


@given(st.lists(_STRETCHES | _ROWS, max_size=5), st.integers(0, 99))
def test_wide_chunks_are_asked_place_by_place(units: list[list[Row]], step: int) -> None:
    """Also for places of which nothing is known."""
    bits = 40
    expected = _expected(units)
    for (_, who, chunk), pieces in _packed(units, bits).items():
        base = chunk << bits
        known = {seq - base for producer, seq in expected if producer == who and seq >> bits == chunk}
        asked = np.array(sorted(known | {step, step + 1000}), np.int64)
        found = times.found_at(pieces, asked).tolist()
        assert found == [expected.get((who, base + int(place)), 0) for place in asked]


@pytest.mark.parametrize(
    "seqs", [range(300_000), [*range(0, 300_000, 10)] * 2, [5] * 1000, [2**63 - 1, 7, 8]]
)
def test_large_units(seqs: Sequence[int]) -> None:
    """More rows than a block has, more copies than a byte holds, and the greatest number there is."""
    units = [[(0, seq, True) for seq in seqs]]
    found = _packed(units, 16)
    assert {chunk for _, _, chunk in found} == {seq >> 16 for seq in seqs}
    total = sum(int(times.laid(pieces, 1 << 16).sum()) for pieces in found.values())
    assert total == sum(_expected(units).values())


def test_all_that_come_once_cost_next_to_nothing() -> None:
    """A chunk that is whole is one stretch, in whatever order its batches came."""
    batches = [[(0, seq, True) for seq in range(start, start + 32)] for start in range(0, 65_536, 32)]
    rows = [row for batch in batches[1::2] + batches[::2] for row in batch]
    ((_, pieces),) = _packed([rows], 16).items()
    assert sum(len(part) for piece in pieces for part in piece) < 64
