"""change-config: settings of a topic or of brokers change while they are in use, as by kafka-configs; at the
heal the earlier values return.

Only what Kafka can change without a restart: it refuses the rest, with its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kaput.cluster.admin import requests
from kaput.cluster.admin.resources import ResourceSettings
from kaput.errors import LabError
from kaput.faults.fault import Effect, Fault, now_ns
from kaput.scenario.fault_kinds import ChangeConfigOptions
from kaput.scenario.nearest import nearest
from kaput.scenario.targets import TOPIC

_SEEN_S = 15.0
_BACK_S = 60.0


class ChangeConfig(Fault[Any]):
    """One injection. `hit`: the ids of brokers.

    Proof: every broker that has the settings shows the new values, and the earlier ones after the heal.
    """

    name = "change-config"
    kind = requests.BROKER
    options: ChangeConfigOptions

    def inject(self, hit: Sequence[int]) -> Effect:
        """Changes them, and waits until brokers show it. Raises LabError."""
        self._wanted = requests.config_values(self.options.config)
        self._before: dict[str, dict[str, str | None]] = {}  # by name, what was set for it
        old = {name: self._shown(name) for name in map(str, hit)}
        if all(shown == self._wanted for shown in old.values()):
            return Effect(None, False, f"{_named(self._wanted)} was set already")
        for name in old:
            own = self._seen(name)[0].own
            self._before[name] = {key: own.get(key) for key in self._wanted}
            self.scene.admin.alter_settings(self.kind, name, self._wanted)
        there = self.wait(lambda: all(self._shown(name) == self._wanted for name in old), _SEEN_S)
        proof = "; ".join(
            f"{self._title(name)}: {_named(old[name])} became {_named(self._shown(name))}" for name in old
        )
        return Effect(now_ns(), there, proof)

    def heal(self, hit: Sequence[int], effect: Effect) -> tuple[int | None, Effect]:
        """Sets what was set before; a broker that is down has time to come back. Raises LabError."""
        pending = dict(self._before)

        def lacks() -> str:
            refused = []
            for name in list(pending):
                try:
                    self.scene.admin.alter_settings(self.kind, name, pending[name])
                    del pending[name]
                except LabError as error:
                    refused.append(str(error))
            there = not refused and all(self._restored(name) for name in self._before)
            return "" if there else "; ".join(refused) or f"still {self._now()}"

        details = self.wait_until_complete(lacks, _BACK_S)
        if self._before:
            effect = effect.with_proof(details or f"{self._now()} again", not details)
        return (None if details else now_ns()), effect

    def _now(self) -> str:
        return "; ".join(_named(self._shown(name)) for name in self._before)

    def _restored(self, name: str) -> bool:
        return all(
            {key: seen.own.get(key) for key in self._wanted} == self._before[name]
            for seen in self._seen(name)
        )

    def _seen(self, name: str) -> list[ResourceSettings]:
        return list(self.scene.admin.seen_settings(self.kind, name).values())

    def _shown(self, name: str) -> dict[str, str]:
        """The values that all brokers show; different ones are joined. Raises LabError."""
        wanted, seen = self._wanted, [each.every for each in self._seen(name)]
        known = {key for each in seen for key in each}
        if unknown := [key for key in wanted if key not in known]:
            near = nearest(unknown[0], known)
            proposed = f"; did you mean {near[0]}?" if near else ""
            raise LabError(f"{self._title(name)} shows no {', '.join(unknown)}{proposed}")
        return {
            key: " and ".join(sorted({each.get(key, "nothing") for each in seen})) for key in self._wanted
        }

    def _title(self, name: str) -> str:
        return f"topic {name}" if self.kind == requests.TOPIC else f"broker {name}"


class ChangeTopicConfig(ChangeConfig):
    """One injection on one topic."""

    on = TOPIC
    kind = requests.TOPIC

    def inject(self, hit: str) -> Effect:  # type: ignore[override]
        return super().inject([hit])  # type: ignore[list-item]


def _named(settings: dict[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items())
