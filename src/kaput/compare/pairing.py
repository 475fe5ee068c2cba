"""Chooses the topics to compare, and finds their names in the target.

Policy `identity`: as in the source; `default`: with the name of the source's cluster before it
(`dc1.orders`), as MirrorMaker names them by default.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from kaput.errors import UsageError
from kaput.scenario.nearest import hint

Policy = Literal["identity", "default"]


@dataclass(frozen=True)
class Naming:
    """A policy; `prefix`: of topic names in the target, such as `dc1.`."""

    policy: Policy
    prefix: str = ""

    def in_target(self, topic: str) -> str:
        """A topic's name in the target. Heartbeats of other clusters keep their name."""
        return self.prefix + topic


def wanted_topics(known: Collection[str], patterns: Sequence[str]) -> list[str]:
    """The topics to compare: those that match `patterns`; without patterns, all that are not internal.

    Raises UsageError for a pattern without a topic.
    """
    if not patterns:
        return sorted(topic for topic in known if not is_internal(topic))
    wanted: set[str] = set()
    for pattern in patterns:
        exact = {pattern} & set(known)
        matching = exact or {t for t in known if fnmatchcase(t, pattern) and not is_internal(t)}
        if not matching:
            raise UsageError(
                f"--topic {pattern}: the source has no such topic; {hint(pattern, sorted(known))}"
            )
        wanted |= matching
    return sorted(wanted)


def is_internal(topic: str) -> bool:
    """Whether it belongs to Kafka, Connect or a mirror, and is not mirrored (as MirrorMaker judges by
    name).
    """
    return (
        topic.startswith(("__", "mm2-", "mirrormaker2-"))
        or topic.endswith((".internal", "-internal", ".replica", ".heartbeats"))
        or topic == "heartbeats"
    )


def naming(
    topics: Sequence[str], source: Collection[str], target: Collection[str], policy: Policy | None, name: str
) -> Naming:
    """The given policy, else the one that finds more topics. `name`: the source cluster's name, as given.

    Raises UsageError if the policy is `default` and the prefix cannot be inferred.
    """
    here = set(target)
    by_prefix = _prefixes(topics, set(source), here)
    named = f"{name}."
    if policy == "identity":
        return Naming("identity")
    if named in by_prefix:
        best: str | None = named
    else:
        best = max(sorted(by_prefix), key=lambda prefix: by_prefix[prefix], default=None)
    identical = sum(topic in here for topic in topics)
    if policy == "default":
        if best is None:
            return Naming("default", named)
        return Naming("default", best)
    if best is not None and by_prefix[best] >= identical:
        return Naming("default", best)
    return Naming("identity")


def _prefixes(topics: Sequence[str], source: set[str], target: set[str]) -> Counter[str]:
    """The number of target topics that each prefix finds, without prefixes of the source's own topics."""
    counts: Counter[str] = Counter()
    for topic in topics:
        for candidate in target - source:
            if candidate.endswith(f".{topic}"):
                counts[candidate[: -len(topic)]] += 1
    return counts
