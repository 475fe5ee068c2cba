"""Standing clusters (kaput up) as the dashboard has them: which there are, how each is, faults by request.

All of it is asked of the cluster's daemon, over its socket: what it does for a page it does for the command
line. Not here: who may ask for a change (guard.py).
"""

from __future__ import annotations

from typing import Annotated, Any

import yaml
from pydantic import Field

from kaput.dashboard.changes import Wanted
from kaput.dashboard.watching.subscribers import WholePicture
from kaput.errors import LabError, UsageError
from kaput.operate.registry import call, find, running
from kaput.scenario.values import parse_duration_ms

_ANSWER_S = 10.0  # for a question that the daemon answers at once
_Text = Annotated[str, Field(max_length=300)]


def names() -> list[str]:
    """Of the clusters that run."""
    return [entry.name for entry in running()]


def kinds(name: str) -> Any:
    """The faults that this cluster's nodes can be hit with. Raises UsageError, LabError."""
    return call(find(name), {"do": "kinds"}, _ANSWER_S)


class ClusterReader:
    """Asks the daemon of the cluster of that name."""

    def __init__(self, name: str) -> None:
        self._name, self._version = name, 0

    def look(self) -> WholePicture:
        """How it is. Raises UsageError where no such cluster runs any more."""
        entry = find(self._name)
        self._version += 1
        try:
            return WholePicture(self._version, call(entry, {"do": "observe"}, _ANSWER_S))
        except LabError as error:
            return WholePicture(self._version, {"trouble": str(error)})

    def close(self) -> None:
        """Nothing is kept open."""


class Inject(Wanted):
    """A fault as the page asks for it; what it means is checked where all faults are."""

    fault: _Text
    target: _Text
    options: dict[_Text, _Text] = Field(default_factory=dict)
    for_: _Text = Field(default="", alias="for")

    def asked(self) -> dict[str, object]:
        """Of the daemon. Raises UsageError for text that is no value."""
        options = {name: _value(name, text) for name, text in self.options.items() if text}
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


class Heal(Wanted):
    """One fault: without its id the daemon would heal all."""

    fault: Annotated[str, Field(min_length=1, max_length=300)]

    def asked(self) -> dict[str, object]:
        """Of the daemon."""
        return {"do": "heal", "fault": self.fault}


def change(name: str, kind: type[Inject] | type[Heal], body: bytes) -> Any:
    """Has the daemon do it; returns when that is proven. Raises UsageError, LabError."""
    return call(find(name), kind.read(body).asked())


def _value(name: str, text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise UsageError(f"{name}: {text} is not valid YAML") from None
