"""Which partition of __consumer_offsets keeps a group, as Kafka reckons it."""

from __future__ import annotations

import pytest

from fakes.cluster import FakeAdmin
from kaput.errors import LabError
from kaput.faults.coordinators import kept_in, partition_of


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
def test_the_hash_is_javas(group: str, java_hash: int) -> None:
    """Values of String.hashCode; the one that has no positive counterpart counts as 0."""
    assert partition_of(group, 2**31) == (0 if java_hash == -(2**31) else abs(java_hash))


def test_a_group_is_kept_in_one_of_the_partitions() -> None:
    """Or in the topic, where nobody tells how many it has."""
    assert kept_in("billing", FakeAdmin()) == "__consumer_offsets/0"  # type: ignore[arg-type]
    mute = FakeAdmin(views=[LabError("no broker answered")])
    assert kept_in("billing", mute) == "__consumer_offsets"  # type: ignore[arg-type]
