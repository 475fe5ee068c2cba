"""Derives a space from a scenario without one: its own faults and the usual ones, its timeouts and settings.

Kafka's promises must hold. The scenario's expectations are left out: they are about its own timeline.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from kaput.errors import UsageError
from kaput.scenario.loader import find, resolve
from kaput.scenario.model import Scenario
from kaput.scenario.source import Source
from kaput.scenario.values import format_duration
from kaput.search.loading import from_text
from kaput.search.space import Space

_MOMENTS: list[Any] = ["10%", "30%", "50%", "70%", {"event": "election"}, {"event": "isr-shrink"}]
_SESSION_MS, _LAG_MS, _GROUP_SESSION_MS = 9_000, 30_000, 45_000  # Kafka's defaults


def derived(name_or_path: str) -> Space:
    """The space of a built-in scenario or a file. Raises UsageError."""
    name, source = find(name_or_path)
    scenario = resolve(source)
    own = [dict(step) for step in source.data.get("faults") or [] if _fits(source, {"faults": [step]})]
    settings = {
        key: kept
        for key, options in _settings(scenario).items()
        if (kept := [option for option in options if _fits(source, {"faults": [], key: option})])
    }
    data = {
        "version": 1,
        "title": f"Whatever breaks the promises of {name}",
        "base": source.data,
        "timeouts": {key: format_duration(ms) for key, ms in _timeouts(scenario).items()},
        "vary": {
            "faults": _unique([*map(_with_variations, own), *_usual_faults(scenario)]),
            "settings": settings,
        },
    }
    return from_text(name, name, yaml.safe_dump(data, sort_keys=False))


def _fits(source: Source, changes: Mapping[str, Any]) -> bool:
    """Whether the scenario is valid with these changes."""
    try:
        resolve(source, [f"{key}={json.dumps(value)}" for key, value in changes.items()])
    except UsageError:
        return False
    return True


def _timeouts(scenario: Scenario) -> dict[str, int]:
    found = {
        "session": _number(scenario.cluster.config.get("broker.session.timeout.ms"), _SESSION_MS),
        "lag": _number(scenario.cluster.config.get("replica.lag.time.max.ms"), _LAG_MS),
    }
    sessions = [
        _number(g.config.get("session.timeout.ms"), _GROUP_SESSION_MS) for g in scenario.workload.groups
    ]
    return found | ({"group-session": min(sessions)} if sessions else {})


def _number(value: object, default: int) -> int:
    return int(value) if isinstance(value, (int, str)) and str(value).isdecimal() else default


def _with_variations(step: dict[str, Any]) -> dict[str, Any]:
    """One of the scenario's own steps, with other start times and durations to choose from."""
    lasting = {"for": list(dict.fromkeys([step["for"], "session"]))} if "for" in step else {}
    return {**step, "at": [step["at"], *_MOMENTS], **lasting}


def _usual_faults(scenario: Scenario) -> Iterator[dict[str, Any]]:
    brokers = [f"leader-of {topic.full_name}/0" for topic in scenario.topics] + ["any"]
    if scenario.cluster.controllers != "combined":
        brokers.append("controller")
    brokers += [f"coordinator-of {g.id}" for g in scenario.workload.groups if g.type != "share"]
    for fault in ("kill", "pause", "stop"):
        yield {"fault": fault, "target": brokers, "at": _MOMENTS, "for": ["2s", "session"]}
    for group in scenario.workload.groups:
        if group.client != "command":
            yield {
                "fault": ["kill", "pause"], "target": f"any member of {group.id}", "at": _MOMENTS,
                "for": ["2s", "group-session"],
            }  # fmt: skip
    if scenario.cluster.network == "namespaces":
        yield {"fault": "isolate", "target": brokers, "at": _MOMENTS, "for": ["2s", "session", "lag"]}


def _settings(scenario: Scenario) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for index, producers in enumerate(scenario.workload.producers):
        if producers.client != "command" and not producers.transactions:
            found[f"workload.producers.{index}.acks"] = [1, "all"]
    for index, group in enumerate(scenario.workload.groups):
        if group.type == "classic":
            found[f"workload.groups.{index}.type"] = ["consumer"]
    return found


def _unique(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [step for index, step in enumerate(steps) if step not in steps[:index]]
