"""Standing clusters (kaput up) for the dashboard: their names, their state, and faults on request.

Every request goes to the cluster's daemon over its socket, as requests of the command line do. Not here:
authorization (guard.py).
"""

from __future__ import annotations

from typing import Annotated, Any

import yaml
from pydantic import Field

from kaput.dashboard.pages import ChangeRequest
from kaput.dashboard.watching.subscribers import FullSnapshot
from kaput.errors import LabError, UsageError
from kaput.operate.registry import call, find, running
from kaput.scenario.values import parse_duration_ms

_ANSWER_S = 10.0  # timeout of requests that the daemon answers at once
_Text = Annotated[str, Field(max_length=300)]


def names() -> list[str]:
    return [entry.name for entry in running()]


def kinds(name: str) -> Any:
    """The faults that can be injected into this cluster. Raises UsageError, LabError."""
    return call(find(name), {"do": "kinds"}, _ANSWER_S)


class ClusterReader:
    def __init__(self, name: str) -> None:
        self._name, self._version = name, 0

    def look(self) -> FullSnapshot:
        """The current state. Raises UsageError if the cluster is no longer running."""
        entry = find(self._name)
        self._version += 1
        try:
            return FullSnapshot(self._version, call(entry, {"do": "observe"}, _ANSWER_S))
        except LabError as error:
            return FullSnapshot(self._version, {"trouble": str(error)})

    def close(self) -> None:
        """Nothing is kept open."""


class Inject(ChangeRequest):
    """A request to inject a fault; the daemon checks its meaning, as for the command line."""

    fault: _Text
    target: _Text
    options: dict[_Text, _Text] = Field(default_factory=dict)
    for_: _Text = Field(default="", alias="for")

    def command(self) -> dict[str, object]:
        """The request to the daemon. Raises UsageError for an option that is not valid YAML."""
        options = {name: _value(name, text) for name, text in self.options.items() if text}
        if "config" in options:  # one of Kafka's settings loads libraries into a broker
            raise UsageError("a page changes no settings; write kaput fault inject change-config")
        try:
            for_ms = parse_duration_ms(self.for_) if self.for_ else None
        except ValueError as error:
            raise UsageError(f"for: {error}") from None
        return {
            "do": "inject",
            "fault": self.fault,
            "target": self.target,
            "options": options,
            "for_ms": for_ms,
        }


class Heal(ChangeRequest):
    """A request to heal a fault. The id is required: without one the daemon would heal all faults."""

    fault: Annotated[str, Field(min_length=1, max_length=300)]

    def command(self) -> dict[str, object]:
        """The request to the daemon."""
        return {"do": "heal", "fault": self.fault}


def change(name: str, kind: type[Inject] | type[Heal], body: bytes) -> Any:
    """Sends a change to the daemon; returns when it is proven. Raises UsageError, LabError."""
    return call(find(name), kind.read(body).command())


def _value(name: str, text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise UsageError(f"{name}: {text} is not valid YAML") from None
