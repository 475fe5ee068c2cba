"""The partition of __consumer_offsets of a group: its leader is the group's coordinator."""

from __future__ import annotations

from kaput.cluster.admin import Admin
from kaput.cluster.admin.groups import OFFSETS
from kaput.errors import LabError
from kaput.scenario.coordinators import partition_of


def offsets_partition(group: str, admin: Admin) -> str:
    """`__consumer_offsets/13`; only the topic if its partitions are unknown."""
    try:
        count = len(admin.partitions([OFFSETS]))
    except LabError:
        return OFFSETS
    return f"{OFFSETS}/{partition_of(group, count)}"
