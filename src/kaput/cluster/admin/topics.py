"""Requests about what is a topic's own: its id and its settings.

Its place: a base of admin.Admin. Not here: creating topics, and their partitions (cluster_admin.py).
"""

from __future__ import annotations

import uuid
from typing import Any

from kaput.cluster.admin import existing_requests as asked
from kaput.cluster.admin.groups import GroupAdmin
from kaput.scenario.model import Config


class TopicAdmin(GroupAdmin):
    """Requests about single topics. Every method raises LabError after `timeout_s`, and for unknown ones."""

    def topic_id(self, name: str) -> uuid.UUID:
        """The id of a topic, which one that is created later under its name does not have."""
        (found,) = self._any(lambda: asked.topics_with_ids([name]), f"the id of topic {name}").topics
        self._check(f"topic {name} cannot be described", found.error_code)
        id_: uuid.UUID = found.topic_id
        return id_

    def own_settings(self, name: str) -> Config:
        """The settings that a topic was given, and not its cluster."""
        what = f"the settings of topic {name}"
        (found,) = self._any(lambda: asked.describe_configs(asked.TOPIC, [name]), what).results
        self._check(f"topic {name} cannot be described", found.error_code)
        return {each.name: each.value for each in found.configs if each.config_source == asked.OF_TOPIC}

    def _any(self, make: Any, what: str) -> Any:
        return self._broadcaster.ask_any(self._cluster.broker_endpoints, make, what, self._timeout_s)
