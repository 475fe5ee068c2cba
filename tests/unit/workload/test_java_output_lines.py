"""What Kafka's Verifiable tools print, by lines that they have printed, and by others that nobody should."""

from __future__ import annotations

from typing import Any

import pytest

from kaput.workload.java.member import end_ns, parse_partitions, parse_with
from kaput.workload.java.share_member import _are_offsets

NOW_NS = 1_795_368_939_500_000_000
AT_MS = 1_795_368_938_418


def test_a_line_counts_to_the_end_of_its_millisecond() -> None:
    """Or to when it was read, if that was earlier, or if its time is none."""
    line = {"timestamp": AT_MS}
    assert end_ns(line, NOW_NS) == AT_MS * 1_000_000 + 999_999
    assert end_ns(line, AT_MS * 1_000_000 + 5) == AT_MS * 1_000_000 + 5
    assert end_ns({"timestamp": "soon"}, NOW_NS) == end_ns({"timestamp": 2**60}, NOW_NS) == NOW_NS


def test_partitions_and_offsets_are_parsed() -> None:
    """Lists of what has a topic and a partition."""
    good = [{"topic": "orders", "partition": 0, "offset": 5, "offsets": [7, 6]}]
    assert parse_partitions(good) == [("orders", 0)] and parse_partitions([]) == []
    assert parse_with(good, "offset") == [(("orders", 0), 5)]
    assert parse_with(good, "offsets", _are_offsets) == [(("orders", 0), [7, 6])]


@pytest.mark.parametrize(
    "bad", [None, {}, "x", [1], [{"topic": "t"}], [{"topic": 1, "partition": 0}], [None]]
)
def test_malformed_partitions_are_rejected(bad: Any) -> None:
    assert parse_partitions(bad) is parse_with(bad, "offset") is None


@pytest.mark.parametrize("more", [{}, {"offset": -1, "offsets": 5}, {"offset": "1", "offsets": ["1"]}])
def test_malformed_offsets_are_rejected(more: dict[str, Any]) -> None:
    """No numbers that are offsets."""
    lines = [{"topic": "t", "partition": 0, **more}]
    assert parse_with(lines, "offset") is parse_with(lines, "offsets", _are_offsets) is None
