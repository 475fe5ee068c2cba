"""All faults on group members; faults on nodes are in faults/catalogue.py."""

from __future__ import annotations

from kaput.faults.members.down import KillMember, StopMember
from kaput.faults.members.fault import MemberFault
from kaput.faults.members.join import Join
from kaput.faults.members.leave import Leave
from kaput.faults.members.pause import PauseMember
from kaput.faults.members.slow import Slow

_ALL: tuple[type[MemberFault], ...] = (KillMember, StopMember, PauseMember, Join, Leave, Slow)
MEMBER_CATALOGUE: dict[str, type[MemberFault]] = {fault.name: fault for fault in _ALL}
