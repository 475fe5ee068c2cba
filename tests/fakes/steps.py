"""Steps and scenes of faults, from the words of a scenario."""

from __future__ import annotations

from typing import Any

from kaput.faults.fault import Scene
from kaput.scenario.fault_kinds import KINDS, LOG_DIRS, NETWORK, NO_VOTER, Options
from kaput.scenario.targets import parse_target
from kaput.scenario.timeline import AfterStart, AtAttempt, AtEvent, Step

NETWORK_FAULTS = {kind.name for kind in KINDS.values() if kind.needs == NETWORK}
DISK_FAULTS = {
    kind.name for kind in KINDS.values() if kind.of_disk and kind.needs not in (LOG_DIRS, NO_VOTER)
}


def options_of(fault: str, **given: Any) -> Options:
    """The fault's options, with its defaults for what is not given; times in ms."""
    return KINDS[fault].options().model_copy(update=given)


def step_of(
    name: str,
    fault: str,
    target: str = "any",
    trigger: AfterStart | AtAttempt | AtEvent = AfterStart(0),  # noqa: B008 - frozen
    duration_ms: int | None = None,
    seed: int = 1,
    options: dict[str, Any] | None = None,
) -> Step:
    """A step of a timeline."""
    kind_options = options_of(fault, **(options or {}))
    return Step(name, fault, parse_target(target), trigger, duration_ms, seed, kind_options)


def scene_of(
    fault: str, options: dict[str, Any], *, target: str = "any", name: str = "", **around: Any
) -> Scene:
    """What that fault finds around it; `around`: as of Scene."""
    return Scene(step=step_of(name or f"1-{fault}", fault, target, options=options), **around)
