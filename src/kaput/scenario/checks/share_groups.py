"""What must agree in the share groups of a scenario; called by groups.py."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kaput.scenario.model import Config, Group, Scenario
from kaput.scenario.source import DataPath

_FIRST_KAFKA = (4, 2)  # 4.1 has share groups as a preview, which must be switched on
_EXPLICIT = ("release-every", "reject-every")
_OF_SHARE_GROUPS = ("acknowledge", *_EXPLICIT, "group-config")
_OF_OTHERS = ("assignor", "static", "commit", "commit-mode", "commit-every")
_LIMIT = "share.delivery.count.limit"


def check_share(group: Group, scenario: Scenario) -> Iterator[tuple[DataPath, str]]:
    """The mistakes of a share group, and settings of share groups in others."""
    if group.type != "share":
        for key in _given(group, _OF_SHARE_GROUPS):
            yield (key,), f"{key} is for share groups; write type: share, or leave it out"
        return
    kafka = scenario.cluster.kafka
    release = re.match(r"(\d+)\.(\d+)\.", kafka)
    if release and (int(release[1]), int(release[2])) < _FIRST_KAFKA:
        first = ".".join(map(str, _FIRST_KAFKA))
        yield ("type",), f"Kafka {kafka} has no share groups; they need {first} or newer"
    for key in _given(group, _OF_OTHERS):
        yield (key,), f"a share group has no {key}: it assigns no partitions, and commits no offsets"
    if "share.acknowledgement.mode" in group.config:
        yield ("config", "share.acknowledgement.mode"), "kaput sets this itself; use the key acknowledge"
    if group.acknowledge == "implicit":
        for key in _given(group, _EXPLICIT):
            yield (key,), f"{key} needs acknowledge: explicit; the next poll accepts everything"
    yield from check_limit(group.group_config, _LIMIT, ("group-config",))


def check_limit(config: Config, key: str, place: DataPath) -> Iterator[tuple[DataPath, str]]:
    """Checks that a delivery limit is a number."""
    value = config.get(key)
    if value is not None and not (str(value).isdigit() and int(value) > 0):
        yield (*place, key), f"{value!r} is not a number of deliveries"


def _given(group: Group, keys: tuple[str, ...]) -> list[str]:
    """The keys whose values are not the default."""
    plain = Group(id=group.id, topics=group.topics)
    fields = {key: key.replace("-", "_") for key in keys}
    return [key for key, field in fields.items() if getattr(group, field) != getattr(plain, field)]
