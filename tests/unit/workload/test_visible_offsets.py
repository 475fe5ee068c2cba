"""What a reader with read_committed was given, offset by offset."""

from __future__ import annotations

from kaput.workload.drain import VisibleOffsets

ONE, TWO = ("payments", 0), ("payments", 1)


def test_only_consumed_offsets_are_visible() -> None:
    """And nothing else: neither holes nor what lies behind, nor the same offset of another partition."""
    shown = VisibleOffsets()
    for place, offset in ((ONE, 0), (TWO, 7), (ONE, 1), (ONE, 4), (TWO, 8)):
        shown.add(place, offset)
    assert [offset for offset in range(7) if shown.has(ONE, offset)] == [0, 1, 4]
    assert [offset for offset in range(12) if shown.has(TWO, offset)] == [7, 8]
    assert (shown.end(ONE), shown.end(TWO), shown.end(("payments", 2))) == (5, 9, 0)
    assert not shown.has(("payments", 2), 0)


def test_lookup_with_gaps_between_offsets() -> None:
    """Markers of transactions are no records: nobody asks for them."""
    shown = VisibleOffsets()
    for offset in (2, 3, 9):
        shown.add(ONE, offset)
    assert [shown.has(ONE, offset) for offset in (0, 3, 5, 9, 10)] == [False, True, False, True, False]
