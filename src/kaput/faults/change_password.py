"""change-password: the password of a user changes while its clients are connected, as by kafka-configs
--entity-type users; at the heal it is the old one again.

Brokers check a password only when a client signs in: connections that are there go on, unless the brokers'
`connections.max.reauth.ms` ends them; a client that has to connect anew (to a new leader, to a broker that is
back) is refused.
"""

from __future__ import annotations

import secrets

from kaput.core import plural
from kaput.errors import LabError
from kaput.faults.fault import ClusterChange, Effect, now_ns
from kaput.scenario.fault_kinds import ChangePasswordOptions

_SEEN_S = 15.0


class ChangePassword(ClusterChange):
    """One injection.

    Proof: no broker that is up lets the user sign in with the password that its clients have, which all did
    before, and all do so again after the heal.
    """

    name = "change-password"
    options: ChangePasswordOptions

    def inject(self, hit: None) -> Effect:
        """Sets a random one, and waits until every broker that is up has it. Raises LabError."""
        user, self._changed = self.options.user, False
        if not self.wait(lambda: bool(self._seen()), _SEEN_S):
            raise LabError(f"a broker did not answer when {user} signed in before")
        if not all(self._let_in.values()):
            raise LabError(f"{user} was refused before by {self._brokers(False)}")
        self._changed = True  # even if the answer is lost
        self.scene.admin.set_password(user, secrets.token_urlsafe(32))
        there = self.wait(lambda: self._seen() == {False}, _SEEN_S)
        proof = f"the password of {user} changed: the old one is refused by {self._brokers(False)}"
        return Effect(now_ns(), there, proof)

    def heal(self, hit: None, effect: Effect) -> tuple[int | None, Effect]:
        """Sets that of its clients again, unless it was not changed. Raises LabError."""
        if not self._changed:
            return now_ns(), effect
        self.insist(lambda: self.scene.admin.set_password(self.options.user))
        back = self.wait(lambda: self._seen() == {True}, _SEEN_S)
        return (now_ns() if back else None), effect.with_proof(
            f"accepted again by {self._brokers(True)}", back
        )

    def _brokers(self, let_in: bool) -> str:
        """How many of those that answered last let the user in, or refused it."""
        return f"{list(self._let_in.values()).count(let_in)} of {plural(len(self._let_in), 'broker')}"

    def _seen(self) -> set[bool]:
        """Whether brokers let the user in; empty while a live broker does not answer."""
        admin = self.scene.admin
        self._let_in = admin.let_in(self.options.user)
        return set(self._let_in.values()) if admin.live([])[0] <= set(self._let_in) else set()
