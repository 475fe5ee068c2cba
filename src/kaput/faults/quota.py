"""quota: brokers limit how fast each client may send or fetch, or how much of their time it may take, as by
kafka-configs --entity-type clients; at the heal the earlier quotas return.

Brokers slow clients down by answering late; nothing is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from kaput.errors import LabError
from kaput.faults.fault import ClusterChange, Effect, now_ns
from kaput.scenario.fault_kinds import QuotaOptions

_SEEN_S = 15.0
_EVERY_CLIENT = "client-id <default>"


class Quota(ClusterChange):
    """One injection. It holds for each client id without a quota of its own, at each broker.

    Proof: the quotas as a broker describes them, before and after it, and again after the heal.
    """

    name = "quota"
    options: QuotaOptions

    def inject(self, hit: None) -> Effect:
        """Sets them. Raises LabError."""
        self._wanted = self.options.rates
        self._before: dict[str, float | None] = {}
        now = self._now()
        self._before = {key: now.get(key) for key in self._wanted}
        if self._before == self._wanted:
            self._before = {}
            raise LabError(f"{_named(self._wanted)} was set already")
        self.scene.admin.set_quotas(self._wanted)
        there = self.wait(lambda: self._seen() == self._wanted, _SEEN_S)
        proof = f"every client id: {_named(self._before)} became {_named(self._seen())}"
        return Effect(now_ns(), there, proof)

    def heal(self, hit: None, effect: Effect) -> tuple[int | None, Effect]:
        """Sets those that were set before. Raises LabError."""
        if not self._before:
            return now_ns(), effect
        self.insist(lambda: self.scene.admin.set_quotas(self._before))
        there = self.wait(lambda: self._seen() == self._before, _SEEN_S)
        return (now_ns() if there else None), effect.with_proof(f"{_named(self._seen())} at the end", there)

    def _seen(self) -> dict[str, float | None]:
        now = self._now()
        return {key: now.get(key) for key in self._wanted}

    def _now(self) -> dict[str, float]:
        return self.scene.admin.quotas().get(_EVERY_CLIENT, {})


def _named(quotas: Mapping[str, float | None]) -> str:
    return ", ".join(
        f"{key}={'none' if rate is None else format(rate, ',.0f')}" for key, rate in quotas.items()
    )
