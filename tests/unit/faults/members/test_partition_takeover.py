"""When a group has given partitions to others, from what its members said."""

from __future__ import annotations

import pytest

from kaput.faults.members import taken_over_ns


def owned(*changes: tuple[int, str]) -> list[tuple[int, frozenset[tuple[str, int]]]]:
    """`(5, "01")`: from 5 ns on partitions 0 and 1."""
    return [(at_ns, frozenset(("orders", int(p)) for p in digits)) for at_ns, digits in changes]


@pytest.mark.parametrize(
    ("others", "since_ns", "given"),
    [
        ([owned((1, "2"), (20, "012"))], 10, 20),
        ([owned((1, "2"), (20, "02")), owned((1, "3"), (30, "13"))], 10, 30),
        ([owned((1, "2"), (20, "02"), (25, "2")), owned((1, "3"), (30, "13"))], 10, None),
        ([owned((1, "2"), (20, "02"))], 10, None),
        ([owned((1, "012"))], 10, 10),
        ([owned((1, "012"), (20, ""))], 10, 10),
        ([owned((1, "012"), (5, "")), owned((1, ""), (40, "01"))], 10, 40),
        ([owned((10, "01"))], 10, 10),
        ([owned((1, "01"))], 10, 10),
        ([owned((1, "01"), (20, ""))], 10, 10),
        ([owned((9, "01"), (10, ""))], 10, None),
        ([], 10, None),
    ],
)
def test_takeover_time_is_when_others_own_all_partitions_at_once(
    others: list[list[tuple[int, frozenset[tuple[str, int]]]]], since_ns: int, given: int | None
) -> None:
    """Together, and at the same moment; what they had before does not count when they gave it up."""
    places = frozenset({("orders", 0), ("orders", 1)})
    assert taken_over_ns(places, since_ns, others) == given
