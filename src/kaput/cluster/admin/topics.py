"""Requests about a topic's id and its own settings.

Its place: a base of Admin. Not here: creating topics, and their partitions (cluster_admin.py).
"""

from __future__ import annotations

import uuid
from typing import Any

from kaput.cluster.admin import existing_requests as asked
from kaput.cluster.admin.groups import GroupAdmin
from kaput.scenario.model import Config


class TopicAdmin(GroupAdmin):
    """Requests about single topics. Methods raise LabError after `timeout_s`, and for unknown topics."""

    def topic_id(self, name: str) -> uuid.UUID:
        """The id of a topic; a topic created later under the same name has another."""
        (found,) = self._ask_any(lambda: asked.topics_with_ids([name]), f"the id of topic {name}").topics
        self._check(f"topic {name} cannot be described", found.error_code)
        id_: uuid.UUID = found.topic_id
        return id_

    def own_settings(self, name: str) -> Config:
        """The settings that were made for the topic itself, without the cluster's defaults."""
        what = f"the settings of topic {name}"
        (found,) = self._ask_any(lambda: asked.describe_configs(asked.TOPIC, [name]), what).results
        self._check(f"topic {name} cannot be described", found.error_code)
        return {each.name: each.value for each in found.configs if each.config_source == asked.OF_TOPIC}

    def _ask_any(self, make: Any, what: str) -> Any:
        return self._broadcaster.ask_any(self._cluster.broker_endpoints, make, what, self._timeout_s)
