"""leave: a member leaves cleanly, and the group reassigns its partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kaput.faults.fault import Effect
from kaput.faults.members import Down
from kaput.faults.stop import Stop

if TYPE_CHECKING:
    from kaput.workload.supervision.client_process import MemberSlot


class Leave(Down):
    """Proof: the process has ended after SIGTERM, and other members own its partitions."""

    name = "leave"
    ends = Stop

    def inject(self, members: Sequence[MemberSlot]) -> Effect:
        effect = super().inject(members)
        since_ns = effect.effective_ns
        if not effect.confirmed or since_ns is None or not self._places:
            return effect
        taken_over = self.wait(lambda: self.taken_over_ns(self._places, since_ns, self._hit) is not None)
        return effect.with_proof(self.takeover_text(since_ns), still_confirmed=taken_over)
