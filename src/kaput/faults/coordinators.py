"""Which partition of __consumer_offsets keeps a group: its leader coordinates that group."""

from __future__ import annotations

from kaput.cluster.admin import Admin
from kaput.cluster.group_admin import OFFSETS
from kaput.errors import LabError


def kept_in(group: str, admin: Admin) -> str:
    """`__consumer_offsets/13`; the topic alone where its partitions cannot be told."""
    try:
        count = len(admin.partitions([OFFSETS]))
    except LabError:
        return OFFSETS
    return f"{OFFSETS}/{partition_of(group, count)}"


def partition_of(group: str, count: int) -> int:
    """As Kafka reckons it: Java's hash of the group's id, without its sign, modulo the partitions."""
    value = 0
    units = group.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) % 2**32
    signed = value - 2**32 if value >= 2**31 else value
    return (0 if signed == -(2**31) else abs(signed)) % count
