"""Which partition of __consumer_offsets keeps a group, as Kafka reckons it."""

from __future__ import annotations

import pytest

from fakes.cluster import FakeAdmin
from kaput.errors import LabError
from kaput.faults.resolving import _offsets_partition as offsets_partition
from kaput.scenario.transactions import partition_of


@pytest.mark.parametrize(
    ("group", "java_hash"),
    [
        ("a", 97),
        ("billing", -109829509),
        ("Aa", 2112),
        ("BB", 2112),
        ("polygenelubricants", -(2**31)),
        ("", 0),
    ],
)
def test_group_hash_equals_java_string_hashcode(group: str, java_hash: int) -> None:
    """Values of String.hashCode; the one that has no positive counterpart counts as 0."""
    assert partition_of(group, 2**31) == (0 if java_hash == -(2**31) else abs(java_hash))


@pytest.mark.parametrize(
    ("group", "partition"),
    [
        ("a", 47),
        ("billing", 9),
        ("polygenelubricants", 0),
        ("\N{SNOWMAN}", 31),
        ("\N{GRINNING FACE}", 49),
        ("\ud800", 46),
    ],
)
def test_offsets_partition_of_non_ascii_groups(group: str, partition: int) -> None:
    """Of UTF-16 units, also of halves of a pair, in 32 bits, as Java reckons it; without sign, modulo 50."""
    assert partition_of(group, 50) == partition


def test_offsets_partition_falls_back_to_the_topic() -> None:
    """Or in the topic, where nobody tells how many it has."""
    assert offsets_partition("billing", FakeAdmin()) == "__consumer_offsets/0"  # type: ignore[arg-type]
    mute = FakeAdmin(views=[LabError("no broker answered")])
    assert offsets_partition("billing", mute) == "__consumer_offsets"  # type: ignore[arg-type]
