"""Whether Kafka removes records by itself, according to the scenario: retention and compaction.

Used by the verdict, the drain and the checks. Not here: records deleted by a step of the timeline
(options.py: DELETE_RECORDS).
"""

from __future__ import annotations

from kaput.scenario.model import Scenario

# Broker settings that correspond to a topic's retention.ms and retention.bytes.
_RETENTION = {
    "ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "bytes": ("log.retention.bytes",),
}


def deletes(scenario: Scenario, topic: str) -> bool:
    """Whether the topic's cleanup policy deletes records, not only compacts them."""
    return "delete" in _policy(scenario, topic)


def compacts(scenario: Scenario, topic: str) -> bool:
    """Whether the topic keeps only the last message of a key."""
    return "compact" in _policy(scenario, topic)


def retains_little(scenario: Scenario, topic: str) -> bool:
    """Whether the scenario sets a retention for the topic, and its policy deletes."""
    limits = [
        scenario.topic_setting(topic, f"retention.{what}", "-1", *names) for what, names in _RETENTION.items()
    ]
    return deletes(scenario, topic) and any(limit != "-1" for limit in limits)


def _policy(scenario: Scenario, topic: str) -> str:
    return scenario.topic_setting(topic, "cleanup.policy", "delete", "log.cleanup.policy")
