"""Which partition of __consumer_offsets keeps a group: its leader coordinates that group."""

from __future__ import annotations

from kaput.cluster.admin import Admin
from kaput.cluster.admin.groups import OFFSETS
from kaput.errors import LabError
from kaput.scenario.coordinators import partition_of


def kept_in(group: str, admin: Admin) -> str:
    """`__consumer_offsets/13`; the topic alone if its partitions are unknown."""
    try:
        count = len(admin.partitions([OFFSETS]))
    except LabError:
        return OFFSETS
    return f"{OFFSETS}/{partition_of(group, count)}"
