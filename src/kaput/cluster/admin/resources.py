"""Requests about what is in a cluster: topics and their ids, settings, groups, rights and quotas; and levels
of features, such as metadata.version.

Its place: a base of Admin. Topics are deleted by id, never by a name that another topic may have by now. Not
here: partitions and their state (cluster_admin.py).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kaput.cluster.admin import requests
from kaput.cluster.admin.broadcast import ANSWER_TIMEOUT_S
from kaput.cluster.admin.groups import GroupAdmin
from kaput.cluster.protocol import admin
from kaput.cluster.security import ITERATIONS, salted_password
from kaput.cluster.wire import AccessRefused, Endpoint, Unanswered, ask, error_name, trouble
from kaput.errors import LabError
from kaput.scenario.model import Config, Topic

_UNKNOWN_TOPIC, _UNKNOWN_TOPIC_ID, _GROUP_NOT_FOUND = 3, 100, 69
TOPIC_EXISTS = 36
_NO_AUTHORIZER = 54
# As Kafka numbers them.
_RESOURCES = {2: "topic", 3: "group", 4: "cluster", 5: "transactional id", 6: "delegation token", 7: "user"}
_PATTERNS = {3: "literal", 4: "prefixed"}
_OPERATIONS = {
    2: "All", 3: "Read", 4: "Write", 5: "Create", 6: "Delete", 7: "Alter", 8: "Describe", 9: "ClusterAction",
    10: "DescribeConfigs", 11: "AlterConfigs", 12: "IdempotentWrite", 13: "CreateTokens",
    14: "DescribeTokens", 15: "TwoPhaseCommit",
}  # fmt: skip
_PERMISSIONS = {2: "Deny", 3: "Allow"}


@dataclass(frozen=True)
class ResourceSettings:
    """Effective settings by name, without secrets; `own`: those that were set, not defaults."""

    every: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)


class AccessRule(NamedTuple):
    """An ACL, in Kafka's words."""

    resource: str
    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str


class ResourceAdmin(GroupAdmin):
    """Requests about what is in a cluster. Methods raise LabError after `timeout_s`."""

    def topic_id(self, name: str) -> uuid.UUID:
        """The id of a topic; a topic created later under the same name has another."""
        (topic,) = self._ask_any(lambda: requests.topics_with_ids([name]), f"the id of topic {name}").topics
        self._check(f"topic {name} cannot be described", topic.error_code)
        id_: uuid.UUID = topic.topic_id
        return id_

    def own_settings(self, name: str) -> Config:
        """The settings that were made for the topic itself, without the cluster's defaults."""
        what = f"the settings of topic {name}"
        (resource,) = self._ask_any(lambda: requests.describe_configs(requests.TOPIC, [name]), what).results
        self._check(f"topic {name} cannot be described", resource.error_code)
        return {each.name: each.value for each in resource.configs if each.config_source == requests.OF_TOPIC}

    def ids(self, topics: Iterable[str]) -> dict[str, uuid.UUID]:
        names = sorted(topics)
        answer = self._ask_any(lambda: requests.topics_with_ids(names), "the topics")
        for topic in answer.topics:
            if topic.error_code not in (0, _UNKNOWN_TOPIC):
                self._check(f"topic {topic.name} cannot be described", topic.error_code)
        return {topic.name: topic.topic_id for topic in answer.topics if not topic.error_code}

    def make_topics(self, topics: Sequence[Topic]) -> tuple[dict[str, uuid.UUID], list[str]]:
        """The ids of the created topics, and a sentence for each that could not be created."""
        answer, lost = self._broadcaster.ask_any(
            self._cluster.broker_endpoints,
            lambda: requests.create_topics(topics, self._timeout_s, version=7),
            "create topics",
            self._timeout_s,
        )
        did = TOPIC_EXISTS if lost else 0  # by the request whose answer was lost
        refused = [
            f"topic {topic.name} cannot be created: {topic.error_message or error_name(topic.error_code)}"
            for topic in answer.topics
            if topic.error_code not in (0, did)
        ]
        made = {topic.name: topic.topic_id for topic in answer.topics if not topic.error_code}
        there = [topic.name for topic in answer.topics if topic.error_code == did != 0]
        return {**made, **self._ids_of_all(there)}, refused

    def _ids_of_all(self, topics: Sequence[str]) -> dict[str, uuid.UUID]:
        """The ids of topics that exist; a broker may learn of a new one late. Raises LabError."""

        def ids() -> dict[str, uuid.UUID]:
            found = self.ids(topics)
            if unknown := sorted(set(topics) - found.keys()):
                raise LabError(f"no broker knows {', '.join(unknown)} yet")
            return found

        return self._broadcaster.retry(ids, f"the ids of topic {', '.join(topics)}") if topics else {}

    def delete_topics(self, ids: Mapping[str, uuid.UUID]) -> None:
        """Deletes topics by id; topics that no longer exist are no error."""
        if not ids:
            return
        answer = self._ask_any(lambda: requests.delete_topics(ids.values(), self._timeout_s), "delete topics")
        names = {id_: name for name, id_ in ids.items()}
        for topic in answer.responses:
            if topic.error_code not in (0, _UNKNOWN_TOPIC, _UNKNOWN_TOPIC_ID):
                why = topic.error_message or error_name(topic.error_code)
                raise LabError(f"topic {names.get(topic.topic_id, topic.name)} cannot be deleted: {why}")

    def delete_group(self, group: str, config: Iterable[str] = ()) -> None:
        """Deletes these settings of a group, then the group itself, which must have no members."""
        unset: dict[str, str | None] = dict.fromkeys(config)
        if unset:
            self._ask_any(
                lambda: requests.alter_configs(requests.GROUP, [group], unset), f"settings of group {group}"
            )

        def delete() -> None:
            endpoint = self._cluster.broker_endpoints[self.coordinator(group)]
            (result,) = ask(endpoint, requests.delete_group(group), ANSWER_TIMEOUT_S).results
            if result.error_code not in (0, _GROUP_NOT_FOUND):
                self._check(f"group {group} cannot be deleted", result.error_code)

        # Killed members stay in the group until their session times out.
        self._broadcaster.retry(delete, f"group {group} to be deleted")

    def every_group(self) -> set[str]:
        """The ids of all groups of any kind. Raises LabError unless every broker answers."""
        answers = self._ask_every_broker(requests.list_groups, "groups")
        return {group.group_id for answer in answers for group in answer.groups}

    def open_transactions(self) -> set[str]:
        """The transactional ids of all open transactions. Raises LabError unless every broker answers."""
        answers = self._ask_every_broker(requests.list_transactions, "transactions")
        return {one.transactional_id for answer in answers for one in answer.transaction_states}

    def _ask_every_broker(self, request: Callable[[], Any], what: str) -> list[Any]:
        brokers = self._cluster.broker_endpoints
        answers = self._broadcaster.ask_all(brokers, request, ANSWER_TIMEOUT_S)
        if silent := sorted(set(brokers) - set(answers)):
            raise LabError(f"cannot list all {what}: broker {', '.join(map(str, silent))} did not answer")
        for broker, answer in answers.items():
            self._check(f"the {what} of broker {broker}", answer.error_code)
        return list(answers.values())

    def topic_settings(self, topics: Iterable[str]) -> dict[str, ResourceSettings]:
        names = sorted(topics)
        answer = self._ask_any(lambda: requests.describe_configs(requests.TOPIC, names), "settings of topics")
        return {
            resource.resource_name: _settings(resource)
            for resource in answer.results
            if not resource.error_code
        }

    def broker_settings(self) -> dict[int, ResourceSettings]:
        """The settings of each broker that answers and that the user may describe."""
        settings: dict[int, ResourceSettings] = {}
        for broker, endpoint in self._cluster.broker_endpoints.items():
            with suppress(LabError):
                request = requests.describe_configs(requests.BROKER, [str(broker)])
                (answer,) = ask(endpoint, request, ANSWER_TIMEOUT_S).results
                if not answer.error_code:
                    settings[broker] = _settings(answer)
        return settings

    def seen_settings(self, kind: int, name: str) -> dict[int, ResourceSettings]:
        """The settings of a topic or broker, as each broker sees them (of a broker: only it itself), with
        `nothing` for those without a value; `own`: those that were set for it while the cluster ran. Raises
        LabError if none answers.
        """
        source = requests.OF_TOPIC if kind == requests.TOPIC else requests.OF_BROKER
        answers = self._broadcaster.ask_all(
            self._owners(kind, name), lambda: requests.describe_configs(kind, [name]), ANSWER_TIMEOUT_S
        )
        if not answers:
            raise LabError(f"no broker shows the settings of {name}")
        seen = {}
        for broker, answer in answers.items():
            (result,) = answer.results
            self._check(f"the settings of {name}", result.error_code, result.error_message)
            own = {each.name: each.value for each in result.configs if each.config_source == source}
            every = {
                each.name: "nothing" if each.value is None else each.value
                for each in result.configs
                if not each.is_sensitive
            }
            seen[broker] = ResourceSettings(every, own)
        return seen

    def alter_settings(self, kind: int, name: str, changes: Mapping[str, str | None]) -> None:
        """Sets these settings of a topic or a broker, or deletes them (None)."""
        answer, _ = self._broadcaster.ask_any(
            self._owners(kind, name),
            lambda: requests.alter_configs(kind, [name], changes),
            f"change settings of {name}",
            self._timeout_s,
        )
        for result in answer.responses:
            what = f"topic {name}" if kind == requests.TOPIC else f"broker {name}"
            self._check(f"{what} cannot be configured", result.error_code, result.error_message)

    def _owners(self, kind: int, name: str) -> Mapping[int, Endpoint]:
        """The brokers that have the settings of a topic, or of a broker: only it itself."""
        endpoints = self._cluster.broker_endpoints
        return endpoints if kind == requests.TOPIC else {int(name): endpoints[int(name)]}

    def deny(self, topic: str, principal: str, operation: str) -> None:
        """Creates an ACL that denies an operation on a topic to a principal."""
        number = _number_of(operation)
        answer = self._ask_any(lambda: requests.create_acl(topic, principal, number), "create an ACL")
        for result in answer.results:
            self._check("the ACL cannot be created", result.error_code, result.error_message)

    def deny_no_more(self, topic: str, principal: str, operation: str) -> None:
        """Deletes such an ACL."""
        number = _number_of(operation)
        answer = self._ask_any(lambda: requests.delete_acl(topic, principal, number), "delete an ACL")
        for result in answer.filter_results:
            self._check("the ACL cannot be deleted", result.error_code, result.error_message)

    def denied_by(self, topic: str, principal: str, operation: str) -> dict[int, bool]:
        """Whether there is such an ACL, by each broker that answers."""
        brokers = self._cluster.broker_endpoints
        answers = self._broadcaster.ask_all(brokers, requests.describe_acls, ANSWER_TIMEOUT_S)
        wanted = (topic, principal, _number_of(operation), "Deny")
        found = {}
        for broker, answer in answers.items():
            self._check("access rules cannot be described", answer.error_code, answer.error_message)
            found[broker] = wanted in {
                (each.resource_name, rule.principal, rule.operation, _PERMISSIONS.get(rule.permission_type))
                for each in answer.resources
                for rule in each.acls
            }
        return found

    def set_password(self, user: str, password: str | None = None) -> None:
        """Sets a user's password; without one, that of its clients."""
        given = self._cluster.access(user).librdkafka()["sasl.password"] if password is None else password
        salt = os.urandom(16)
        salted = salted_password(given, salt)
        answer = self._ask_any(
            lambda: requests.set_password(user, salted, salt, ITERATIONS), f"the password of {user}"
        )
        for result in answer.results:
            self._check(f"the password of {user} cannot be set", result.error_code, result.error_message)

    def let_in(self, user: str) -> dict[int, bool]:
        """Whether the user can sign in with the password of its clients, by each broker that answers."""
        access, found = self._cluster.access(user), {}
        for broker, endpoint in self._cluster.broker_endpoints.items():
            with suppress(Unanswered):
                try:
                    ask(endpoint._replace(access=access), requests.api_versions(), ANSWER_TIMEOUT_S)
                    found[broker] = True
                except AccessRefused:
                    found[broker] = False
        return found

    def set_quotas(self, changes: Mapping[str, float | None]) -> None:
        """Sets quotas of every client id without its own, or removes them (None)."""
        answer = self._ask_any(lambda: requests.alter_quotas(changes), "change the quotas")
        for result in answer.entries:
            self._check("quotas cannot be changed", result.error_code, result.error_message)

    def access_rules(self) -> frozenset[AccessRule] | None:
        """Every ACL; None if the cluster has no authorizer."""
        answer = self._ask_any(requests.describe_acls, "the access rules")
        if answer.error_code == _NO_AUTHORIZER:
            return None
        self._check("access rules cannot be described", answer.error_code, answer.error_message)
        return frozenset(
            AccessRule(
                _RESOURCES.get(resource.resource_type, str(resource.resource_type)),
                resource.resource_name,
                _PATTERNS.get(resource.pattern_type, str(resource.pattern_type)),
                rule.principal,
                rule.host,
                _OPERATIONS.get(rule.operation, str(rule.operation)),
                _PERMISSIONS.get(rule.permission_type, str(rule.permission_type)),
            )
            for resource in answer.resources
            for rule in resource.acls
        )

    def cluster_rights(self) -> list[str]:
        """The operations on the cluster that the user is allowed, in Kafka's capitals: `DESCRIBE`, ..."""
        allowed = self._ask_any(requests.cluster_operations, "the user's rights").authorized_operations
        return [name.upper() for number, name in _OPERATIONS.items() if number in allowed]

    def quotas(self) -> dict[str, dict[str, float]]:
        """The quotas of each entity, such as `user alice, client-id <default>`."""
        answer = self._ask_any(requests.describe_quotas, "the quotas")
        self._check("quotas cannot be described", answer.error_code, answer.error_message)
        return {
            ", ".join(
                f"{part.entity_type} {'<default>' if part.entity_name is None else part.entity_name}"
                for part in sorted(entry.entity, key=lambda part: str(part.entity_type))
            ): {value.key: value.value for value in entry.values}
            for entry in answer.entries or []
        }


def _number_of(operation: str) -> int:
    return next(number for number, name in _OPERATIONS.items() if name == operation)


def _settings(resource: Any) -> ResourceSettings:
    known = [each for each in resource.configs if each.value is not None and not each.is_sensitive]
    return ResourceSettings(
        {each.name: each.value for each in known},
        {each.name: each.value for each in known if each.config_source != requests.KAFKAS_DEFAULT},
    )


METADATA_VERSION = "metadata.version"
_UPGRADE = 1
_TIMEOUT_S = 20.0


def levels(endpoint: Endpoint) -> dict[str, int]:
    """The active levels, as this node knows them, without features at level 0. Raises LabError."""
    return {
        feature.name: int(feature.max_version_level) for feature in _features(endpoint).finalized_features
    }


def level(endpoint: Endpoint, name: str) -> int:
    """The active level of one feature. Raises LabError."""
    known = levels(endpoint)
    if name not in known:
        raise LabError(f"{endpoint.host}:{endpoint.port} has no level of {name}")
    return known[name]


def common_level(endpoints: Iterable[Endpoint], name: str) -> int:
    """The highest level that all of these nodes support. Raises LabError."""
    could: list[int] = []
    for endpoint in endpoints:
        known = {feature.name: feature for feature in _features(endpoint).supported_features}
        if name not in known:
            raise LabError(f"{endpoint.host}:{endpoint.port} has no {name}")
        could.append(int(known[name].max_version))
    return min(could)


def raise_level(endpoint: Endpoint, name: str, to: int) -> None:
    """UpdateFeatures; a broker forwards it to the controller. Raises LabError."""
    update = admin.UpdateFeaturesRequest.FeatureUpdateKey(
        feature=name, max_version_level=to, upgrade_type=_UPGRADE
    )
    request = admin.UpdateFeaturesRequest(
        version=1, timeout_ms=int(_TIMEOUT_S * 1000), feature_updates=[update], validate_only=False
    )
    answer = ask(endpoint, request, _TIMEOUT_S)
    # If a feature is refused, its own entry has the reason.
    for result in [*answer.results, answer]:
        if result.error_code:
            raise trouble(f"{name} cannot become {to}", result.error_code, result.error_message)


def _features(endpoint: Endpoint) -> Any:
    answer = ask(endpoint, requests.api_versions(), ANSWER_TIMEOUT_S)
    if answer.error_code:
        raise trouble(f"{endpoint.host}:{endpoint.port}: its features", answer.error_code)
    return answer
