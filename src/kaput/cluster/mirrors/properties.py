"""The settings of one MirrorMaker process, made from a mirror of the scenario.

As for brokers, kaput makes things small and quick to start; settings that matter for what is mirrored when
(offset.lag.max, offset.flush.interval.ms, ...) keep MirrorMaker's defaults. Not here: starting it (node.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kaput.scenario.mirrors import Mirror

_POLICIES = {
    "identity": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "default": "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
}
_REPLICAS = 3


@dataclass(frozen=True)
class MirroredCluster:
    """What MirrorMaker must know of a cluster."""

    bootstrap_servers: str
    brokers: int

    @property
    def replicas(self) -> str:
        """Of internal topics."""
        return str(min(_REPLICAS, self.brokers))


def mirror_properties(
    mirror: Mirror,
    source: MirroredCluster,
    target: MirroredCluster,
    rest: str,
    opposite: Mirror | None = None,
) -> dict[str, str]:
    """Every setting; `rest`: the address of its own server, which exactly-once needs. `opposite`: the mirror
    that leads back, if there is one.
    """
    settings = {
        "clusters": f"{mirror.from_},{mirror.to}",
        f"{mirror.from_}.bootstrap.servers": source.bootstrap_servers,
        f"{mirror.to}.bootstrap.servers": target.bootstrap_servers,
        "replication.policy.class": _POLICIES[mirror.policy],
        # Looking through all classes for plug-ins takes longer than everything else at its start.
        "plugin.discovery": "service_load",
        f"{mirror.to}.plugin.discovery": "service_load",
        # For heartbeats MirrorMaker also runs a worker of the way back. Where that is mirrored as well, by
        # another process, the two would share its tasks, each with settings of its own: there that one emits.
        "emit.heartbeats.enabled": _text(mirror.heartbeats and opposite is None),
        f"{mirror.name}.emit.heartbeats.enabled": _text((opposite or mirror).heartbeats),
        "replication.factor": target.replicas,
        "offset-syncs.topic.replication.factor": source.replicas,
        "checkpoints.topic.replication.factor": target.replicas,
        "heartbeats.topic.replication.factor": target.replicas,
        **{f"{what}.storage.replication.factor": target.replicas for what in ("config", "offset", "status")},
        **_direction(mirror),
    }
    if mirror.exactly_once:
        settings |= {
            f"{mirror.to}.exactly.once.source.support": "enabled",
            "dedicated.mode.enable.internal.rest": "true",
            "listeners": rest,
        }
    return settings | _given(mirror)


def _direction(mirror: Mirror) -> dict[str, str]:
    """What holds for this direction."""
    translates = bool(mirror.groups)
    settings = {
        "enabled": "true",
        "topics": _names(mirror.topics),
        "groups": _names(mirror.groups),
        "refresh.topics.interval.seconds": _seconds(mirror.refresh),
        "refresh.groups.interval.seconds": _seconds(mirror.refresh),
        "emit.checkpoints.enabled": _text(translates),
        "emit.checkpoints.interval.seconds": _seconds(mirror.checkpoints),
        "sync.group.offsets.enabled": _text(translates),
        "sync.group.offsets.interval.seconds": _seconds(mirror.offset_sync),
        # Without authorizers there are no rules to copy.
        "sync.topic.acls.enabled": "false",
    }
    return {f"{mirror.name}.{key}": value for key, value in settings.items()}


def _given(mirror: Mirror) -> dict[str, str]:
    """The scenario's own settings: of the direction, of its worker, or as they are where they name either."""
    settings = {}
    for key, value in mirror.config.items():
        text = _text(value) if isinstance(value, bool) else str(value)
        own = "->" in key or key.startswith((f"{mirror.from_}.", f"{mirror.to}."))
        for name in [key] if own else [f"{mirror.name}.{key}", f"{mirror.to}.{key}"]:
            settings[name] = text
    return settings


def as_file(settings: Mapping[str, str]) -> str:
    """The text of the file; a backslash would begin an escape."""
    return "".join(f"{key}={value}\n".replace("\\", "\\\\") for key, value in settings.items())


def _names(names: list[str]) -> str:
    """MirrorMaker takes regular expressions, in which a dot is any character."""
    return ",".join(name.replace(".", "[.]") for name in names)


def _seconds(ms: int) -> str:
    return str(ms // 1000)


def _text(value: bool) -> str:
    return str(value).lower()
