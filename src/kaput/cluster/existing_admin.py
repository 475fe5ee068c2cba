"""What is asked of a cluster that was there before, and what is made and unmade there.

Everything that is made is deleted by what it is, and never by a name that somebody else's may have by now.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kaput.cluster import existing_requests as asked
from kaput.cluster import requests
from kaput.cluster.admin import Admin, PartitionState, newest
from kaput.cluster.broadcast import ANSWER_TIMEOUT_S, LATECOMERS_S
from kaput.cluster.wire import ask, error_name
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.scenario.model import Topic

_UNKNOWN_TOPIC, _UNKNOWN_TOPIC_ID, _GROUP_NOT_FOUND = 3, 100, 69


@dataclass(frozen=True)
class Settings:
    """Effective settings by name, without secrets; `own`: those that somebody has set."""

    every: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """The cluster at one look: brokers that take part in it, and partitions."""

    brokers: frozenset[int]
    partitions: Mapping[TopicPartition, PartitionState]


class ExistingAdmin(Admin):
    """Asks one cluster that is not kaput's. Methods raise LabError, as those of Admin do."""

    def seen(self, topics: Sequence[str]) -> Seen:
        """One look at everything, of brokers that answer right now."""
        views = self._asker.ask_all(
            self._cluster.broker_endpoints, lambda: requests.metadata(topics), LATECOMERS_S
        )
        if not views:
            raise LabError("no broker answered")
        told = Counter(broker.node_id for view in views.values() for broker in view.brokers)
        # One that was cut off goes on naming those that it knew.
        alive = frozenset(broker for broker, times in told.items() if 2 * times > len(views))
        return Seen(alive, newest(views, list(topics)))

    def ids(self, topics: Iterable[str]) -> dict[str, uuid.UUID]:
        """The ids of those topics that there are."""
        names = sorted(topics)
        answer = self._any(lambda: asked.topics_with_ids(names), "the topics")
        for topic in answer.topics:
            if topic.error_code not in (0, _UNKNOWN_TOPIC):
                raise self._trouble(f"topic {topic.name} cannot be looked at", topic.error_code)
        return {topic.name: topic.topic_id for topic in answer.topics if not topic.error_code}

    def make_topics(self, topics: Sequence[Topic]) -> tuple[dict[str, uuid.UUID], list[str]]:
        """The ids of those that were made, and a sentence for each that was not."""
        answer = self._any(lambda: asked.create_topics(topics, self._timeout_s), "create topics")
        made = {topic.name: topic.topic_id for topic in answer.topics if not topic.error_code}
        refused = [
            f"topic {topic.name} cannot be created: {topic.error_message or error_name(topic.error_code)}"
            for topic in answer.topics
            if topic.error_code
        ]
        return made, refused

    def await_in_sync(self, topics: Iterable[str]) -> None:
        """Waits until every broker sees every partition with a leader and its full ISR."""
        names = set(topics)
        self._asker.retry(
            lambda: self._all_in_sync(names), f"topics {', '.join(sorted(names))} to be in sync"
        )

    def delete_topics(self, ids: Mapping[str, uuid.UUID]) -> None:
        """Deletes topics of these ids; one that is not there any more is what was wanted."""
        if not ids:
            return
        answer = self._any(lambda: asked.delete_topics(ids.values(), self._timeout_s), "delete topics")
        names = {found: name for name, found in ids.items()}
        for topic in answer.responses:
            if topic.error_code not in (0, _UNKNOWN_TOPIC, _UNKNOWN_TOPIC_ID):
                why = topic.error_message or error_name(topic.error_code)
                raise LabError(f"topic {names.get(topic.topic_id, topic.name)} cannot be deleted: {why}")

    def delete_group(self, group: str, config: Iterable[str] = ()) -> None:
        """Deletes a group without members, and first those of its settings; one that is not there is fine."""
        keys = list(config)
        if keys:
            self._any(lambda: asked.forget_group_config(group, keys), f"settings of group {group}")

        def delete() -> None:
            endpoint = self._cluster.broker_endpoints[self.coordinator(group)]
            (found,) = ask(endpoint, asked.delete_group(group), ANSWER_TIMEOUT_S).results
            if found.error_code not in (0, _GROUP_NOT_FOUND):
                raise self._trouble(f"group {group} cannot be deleted", found.error_code)

        # Members that were killed are members until their session has run out.
        self._asker.retry(delete, f"group {group} to be deleted")

    def every_group(self) -> set[str]:
        """The ids of all groups of any kind. Raises LabError unless every broker answers."""
        brokers = self._cluster.broker_endpoints
        answers = self._asker.ask_all(brokers, requests.list_groups, ANSWER_TIMEOUT_S)
        if silent := sorted(set(brokers) - set(answers)):
            raise LabError(f"the groups are not known: broker {', '.join(map(str, silent))} did not answer")
        for broker, answer in answers.items():
            if answer.error_code:
                raise self._trouble(f"the groups of broker {broker}", answer.error_code)
        return {group.group_id for answer in answers.values() for group in answer.groups}

    def topic_settings(self, topics: Iterable[str]) -> dict[str, Settings]:
        """Of each topic; of one that may not be looked at, none."""
        names = sorted(topics)
        answer = self._any(lambda: asked.describe_configs(asked.TOPIC, names), "settings of topics")
        return {found.resource_name: _settings(found) for found in answer.results if not found.error_code}

    def broker_settings(self) -> dict[int, Settings]:
        """Of each broker that tells; what may not be looked at is left out."""
        found: dict[int, Settings] = {}
        for broker, endpoint in self._cluster.broker_endpoints.items():
            with suppress(LabError):
                request = asked.describe_configs(asked.BROKER, [str(broker)])
                (told,) = ask(endpoint, request, ANSWER_TIMEOUT_S).results
                if not told.error_code:
                    found[broker] = _settings(told)
        return found

    def in_kraft_mode(self) -> bool:
        """Whether a metadata quorum answers."""
        try:
            self._quorum_leader()
        except LabError:
            return False
        return True

    def _any(self, make: Any, what: str) -> Any:
        return self._asker.ask_any(self._cluster.broker_endpoints, make, what, self._timeout_s)


def _settings(found: Any) -> Settings:
    told = [each for each in found.configs if each.value is not None and not each.is_sensitive]
    return Settings(
        {each.name: each.value for each in told},
        {each.name: each.value for each in told if each.config_source != asked.KAFKAS_DEFAULT},
    )
