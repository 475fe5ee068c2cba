"""What Kafka removes from topics by itself, as far as the scenario asks for it: retention, and compaction.

Its place: the verdict, the drain and the checks ask here. Not here: records deleted by a step of the timeline
(options.py: DELETE_RECORDS).
"""

from __future__ import annotations

from kaput.scenario.model import Scenario

# The brokers' names for a topic's retention.ms and retention.bytes.
_RETENTION = {
    "ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "bytes": ("log.retention.bytes",),
}


def deletes(scenario: Scenario, topic: str) -> bool:
    """Whether records of the topic may be deleted, rather than compacted alone."""
    return "delete" in _policy(scenario, topic)


def compacts(scenario: Scenario, topic: str) -> bool:
    """Whether the topic keeps only the last message of a key."""
    return "compact" in _policy(scenario, topic)


def retains_little(scenario: Scenario, topic: str) -> bool:
    """Whether the scenario asks for a retention, and does not compact instead of deleting."""
    limits = [
        scenario.topic_setting(topic, f"retention.{what}", _of_brokers(scenario, topic, *names) or "-1")
        for what, names in _RETENTION.items()
    ]
    return deletes(scenario, topic) and any(limit != "-1" for limit in limits)


def _policy(scenario: Scenario, topic: str) -> str:
    return scenario.topic_setting(
        topic, "cleanup.policy", _of_brokers(scenario, topic, "log.cleanup.policy") or "delete"
    )


def _of_brokers(scenario: Scenario, topic: str, *names: str) -> str | None:
    """What the topic's cluster has under the first of these names."""
    found = scenario.topic(topic)
    cluster = scenario.cluster_of(found) if found else scenario.cluster
    given = (cluster.config.get(name) for name in names)
    return next((str(value) for value in given if value is not None), None)
