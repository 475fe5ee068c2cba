"""change-password: the password of a user changes while its clients are connected, as by kafka-configs
--entity-type users; at the heal it is the old one again.

Brokers check a password only when a client signs in: connections that are there go on, unless the brokers'
`connections.max.reauth.ms` ends them; a client that has to connect anew (to a new leader, to a broker that is
back) is refused.
"""

from __future__ import annotations

import secrets

from kaput.errors import LabError
from kaput.faults.fault import ClusterChange, Effect, now_ns
from kaput.scenario.fault_kinds import ChangePasswordOptions

_SEEN_S = 15.0


class ChangePassword(ClusterChange):
    """One injection.

    Proof: no broker lets the user sign in with the password that its clients have, which all did before, and
    all do so again after the heal.
    """

    name = "change-password"
    options: ChangePasswordOptions

    def inject(self, hit: None) -> Effect:
        """Sets a random one, and waits until every broker has it. Raises LabError."""
        user = self.options.user
        if self._seen() != {True}:
            raise LabError(f"{user} could not sign in before")
        self.scene.admin.set_password(user, secrets.token_urlsafe(32))
        there = self.wait(lambda: self._seen() == {False}, _SEEN_S)
        refused = f"{list(self._let_in.values()).count(False)} of {len(self._let_in)} brokers"
        return Effect(now_ns(), there, f"the password of {user} changed: {refused} refuse the old one")

    def heal(self, hit: None, effect: Effect) -> tuple[int | None, Effect]:
        """Sets that of its clients again. Raises LabError."""
        if effect.effective_ns is None:
            return now_ns(), effect
        self.insist(lambda: self.scene.admin.set_password(self.options.user))
        back = self.wait(lambda: self._seen() == {True}, _SEEN_S)
        details = "every broker accepts it again" if back else "a broker still refuses it"
        return (now_ns() if back else None), effect.with_proof(details, back)

    def _seen(self) -> set[bool]:
        """Whether brokers let the user in; empty while a live broker does not answer."""
        admin = self.scene.admin
        self._let_in = admin.let_in(self.options.user)
        return set(self._let_in.values()) if admin.live([])[0] <= set(self._let_in) else set()
