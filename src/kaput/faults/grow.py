"""grow: the cluster gets more brokers under load. Nothing moves to them by itself.

Topics keep the replicas they were created with (reassign.py gives them more).
"""

from __future__ import annotations

from kaput.faults.fault import ClusterChange, Effect, ms, now_ns
from kaput.scenario.fault_kinds import GrowOptions

_ANSWER_S = 30.0


class Grow(ClusterChange):
    """One injection of it.

    Proof: every new broker answers, all brokers know it, and it still answers at the end.
    """

    name = "grow"
    options: GrowOptions

    def inject(self, hit: None) -> Effect:
        """Starts the brokers, and waits until all brokers know each other. Raises LabError."""
        began = now_ns()
        self._added = self.scene.grow(self.options.brokers)
        ready = now_ns()
        who = ", ".join(f"broker {broker}" for broker in self._added)
        silent = self._silent()
        details = f"{who} added, known to all brokers after {ms(began, ready)}"
        if not self._added:
            return Effect(ready, False, "no broker was added")
        if silent:
            return Effect(ready, False, f"{details}, but {silent} did not answer")
        return Effect(ready, True, details)

    def heal(self, hit: None, effect: Effect) -> tuple[int | None, Effect]:
        """Does nothing: the brokers stay. Raises LabError."""
        if effect.effective_ns is None:
            return now_ns(), effect
        silent = self.wait_until_complete(self._silent, _ANSWER_S)
        there = not silent and effect.confirmed
        details = f"{silent} did not answer at the end" if silent else "there at the end"
        return effect.effective_ns if there else None, effect.with_proof(details, there)

    def _silent(self) -> str:
        mute = [broker for broker in self._added if not self.scene.admin.answers(broker)]
        return ", ".join(f"broker {broker}" for broker in mute)
