"""deny: an ACL denies an operation on a topic to the clients' user, as when rights are withdrawn under load;
at the heal it is deleted.

What is sent meanwhile is refused: clients do not try it again.
"""

from __future__ import annotations

from kaput.errors import LabError
from kaput.faults.fault import Effect, TopicChange, now_ns
from kaput.scenario.fault_kinds import DenyOptions

_SEEN_S = 15.0


class Deny(TopicChange):
    """One injection on one topic.

    Proof: every broker lists the ACL, which none did before, and none lists it after the heal.
    """

    name = "deny"
    options: DenyOptions

    def inject(self, topic: str) -> Effect:
        """Creates the ACL, and waits until every broker has it. Raises LabError."""
        options, admin = self.options, self.scene.admin
        self._rule, self._made = (topic, options.principal, options.operation), False
        if any(admin.denied_by(*self._rule).values()):
            raise LabError(f"{options.operation} on {topic} was denied to {options.principal} already")
        self._made = True
        admin.deny(*self._rule)
        there = self.wait(lambda: self._lists() == {True}, _SEEN_S)
        who = f"{sum(self._listed.values())} of {len(self._listed)} brokers"
        proof = f"{options.operation} on {topic} denied to {options.principal} by {who}"
        return Effect(now_ns(), there, proof)

    def heal(self, topic: str, effect: Effect) -> tuple[int | None, Effect]:
        """Deletes the ACL, unless another made it. Raises LabError."""
        if not self._made:
            return now_ns(), effect
        self.insist(lambda: self.scene.admin.deny_no_more(*self._rule))
        gone = self.wait(lambda: self._lists() == {False}, _SEEN_S)
        details = "no broker lists it any more" if gone else "a broker still lists it"
        return (now_ns() if gone else None), effect.with_proof(details, gone)

    def _lists(self) -> set[bool]:
        """Whether brokers list the ACL; empty while a live broker does not answer."""
        admin = self.scene.admin
        self._listed = admin.denied_by(*self._rule)
        return set(self._listed.values()) if admin.live([])[0] <= set(self._listed) else set()
