"""Refuses settings that nothing would read, before anything starts.

Brokers and Java's clients ignore names that they do not know, and librdkafka stops the client. Names are
compared with those of the version in use. Not here: settings that kaput sets itself (scenario/).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from confluent_kafka import Consumer, KafkaException, Producer

from kaput.cluster.distribution import Distribution, cached, has_additional_jars, with_additional_jars
from kaput.cluster.lock import version_with
from kaput.cluster.mirrors.node import JARS as MIRRORS
from kaput.cluster.setting_names import (
    DYNAMIC,
    judge_values,
    setting_names,
    unknown_setting,
    wrong_mirror_settings,
    wrong_settings,
)
from kaput.errors import DistributionError, JavaError, UsageError
from kaput.java import Java, find_java
from kaput.scenario.block import Found, at
from kaput.scenario.clients import LIBRDKAFKA_ONLY, java_settings
from kaput.scenario.cluster import release_of
from kaput.scenario.fault_kinds import ChangeConfigOptions
from kaput.scenario.mistakes import Mistake
from kaput.scenario.model import Config, Group, Producers, Scenario
from kaput.scenario.nearest import nearest
from kaput.scenario.origin import origin_of
from kaput.scenario.source import DataPath
from kaput.workload.librdkafka.client_setup import quiet_logger
from kaput.workload.librdkafka.versions import environment
from kaput.workload.supervision.launches import member_config, producer_config

_UNKNOWN = "No such configuration property"
_NO_PLUGINS = " (librdkafka refuses what it does not know, also with --allow-unknown)"
DistributionOf = Callable[[str], Distribution]
WithMirrors = Callable[[Distribution, str, Java], Distribution]


def check_settings(
    scenarios: Sequence[Scenario],
    java: Java,
    distribution_of: DistributionOf | None,
    *,
    allow_unknown: bool = False,
    with_mirrors: WithMirrors | None = with_additional_jars,
) -> None:
    """Raises UsageError with a line for each setting that its reader does not know or whose value it refuses,
    and DistributionError. `distribution_of`: the jars of a version that the scenarios' clusters or Java
    clients have; None: only what librdkafka reads is checked (an existing cluster answers for itself).
    `allow_unknown`: whether Kafka's brokers and Java clients may get names that they do not know;
    `with_mirrors` adds MirrorMaker's jars; None: its settings are not checked.
    """
    if distribution_of is not None:
        _judge_at_once(scenarios, java, distribution_of)
    check = _Check(java, distribution_of, allow_unknown, with_mirrors)
    if lines := [line for scenario in scenarios for line in check.lines(scenario)]:
        raise UsageError("\n".join(dict.fromkeys(lines)))


def _judge_at_once(scenarios: Iterable[Scenario], java: Java, distribution_of: DistributionOf) -> None:
    """Asks Kafka's definitions about all settings of these scenarios, with one JVM for each version, whose
    answers are kept. Raises DistributionError.
    """
    asked: dict[str, list[tuple[str, Config]]] = {}
    for scenario in scenarios:
        for _, config, kind, version in _kafkas(scenario):
            asked.setdefault(version, []).append((kind, config))
        groups = scenario.workload.groups
        members = [((), "consumer", each.as_member(n)) for each in groups for n in each.member_config]
        for _, kind, client in [*_clients(scenario), *members]:
            if client.client == "java":
                version = client.client_version or scenario.cluster_of(client).kafka
                asked.setdefault(version, []).append((kind, java_settings(client.config)))
    for version, configs in asked.items():
        if any(config for _, config in configs):
            judge_values(configs, distribution_of(version), java)


def wrong_here(scenario: Scenario, *, allow_unknown: bool = False) -> list[str] | str:
    """What `check_settings` would say, with the jars that are on this machine; why it could not check, as a
    text, if they or Java are missing, or cannot be asked.
    """
    versions = {*scenario.kafka_versions(), *scenario.java_versions()}
    here = {version: jars for version in versions if (jars := cached(version)) is not None}
    if versions - here.keys():
        return "the jars of its Kafka are not here"
    try:
        maker = maker_of(scenario)
        add: WithMirrors | None = None
        if maker is not None and has_additional_jars(maker, MIRRORS) and (jars := cached(maker)) is not None:
            here[maker], add = jars, with_additional_jars
        jars_of = here.__getitem__
        check_settings([scenario], find_java(), jars_of, allow_unknown=allow_unknown, with_mirrors=add)
    except (JavaError, DistributionError) as error:
        return str(error)
    except UsageError as error:
        return str(error).splitlines()
    return []


def maker_of(scenario: Scenario) -> str | None:
    """The version of MirrorMaker that the scenario's mirrors have; None: there are none."""
    if not scenario.mirrors:
        return None
    return version_with(MIRRORS, max(scenario.kafka_versions(), key=release_of))


def _kafkas(scenario: Scenario) -> Iterator[tuple[DataPath, Config, str, str]]:
    """Settings that brokers read: their path, kind, and the version of Kafka."""
    for name, cluster in scenario.all_clusters.items():
        path = ("clusters", name, "config") if name else ("cluster", "config")
        yield path, cluster.config, "broker", cluster.kafka
    for number, topic in enumerate(scenario.topics):
        version = scenario.cluster_of_topic(topic.name).kafka
        yield ("topics", number, "config"), topic.config, "topic", version
    for number, step in enumerate(scenario.faults):
        if isinstance(step.options, ChangeConfigOptions):
            hit = step.target.whole_topic
            cluster = scenario.cluster if hit is None else scenario.cluster_of_topic(hit)
            kind = DYNAMIC if hit is None else "topic"
            yield ("faults", number, "config"), step.options.config, kind, cluster.kafka
    for number, group in enumerate(scenario.workload.groups):
        version = scenario.cluster_of(group).kafka
        yield ("workload", "groups", number, "group-config"), group.group_config, "group", version


_Client = tuple[DataPath, str, Producers | Group]


def _clients(scenario: Scenario) -> list[_Client]:
    """Clients with settings: their path and kind; a group also for each other version of its members."""
    work = scenario.workload
    return [
        *((("workload", "producers", n, "config"), "producer", p) for n, p in enumerate(work.producers)),
        *(
            (("workload", "groups", n, "config"), "consumer", each)
            for n, group in enumerate(work.groups)
            for each in (group, *_other_versions(group))
        ),
    ]


@dataclass(frozen=True)
class _Check:
    """What reads settings (see check_settings)."""

    java: Java
    distribution_of: DistributionOf | None
    allow_unknown: bool
    with_mirrors: WithMirrors | None

    def lines(self, scenario: Scenario) -> list[str]:
        """A line for each mistake, in the order of the scenario's file."""
        placed = [origin_of(scenario).placed(Mistake(path, text)) for path, text in self._found(scenario)]
        return [text for _, text in sorted(placed, key=itemgetter(0))]

    def _found(self, scenario: Scenario) -> Found:
        if self.distribution_of is not None:
            for path, config, kind, version in _kafkas(scenario):
                if config:
                    yield from at(path, self._wrong(config, kind, self.distribution_of(version)))
            if self.with_mirrors is not None:
                yield from self._of_mirrors(scenario, self.distribution_of, self.with_mirrors)
        yield from self._of_clients(scenario, _clients(scenario))
        for n, group in enumerate(scenario.workload.groups):
            for number, config in group.member_config.items():
                place: DataPath = ("workload", "groups", n, "member-config", number)
                found = self._of_clients(scenario, [(place, "consumer", group.as_member(number))])
                # What is wrong with the whole group's settings is said there.
                yield from (each for each in found if each[0][-1] in config)

    def _wrong(self, config: Config, kind: str, jars: Distribution) -> Found:
        return wrong_settings(config, kind, jars, self.java, allow_unknown=self.allow_unknown)

    def _of_mirrors(
        self, scenario: Scenario, distribution_of: DistributionOf, with_mirrors: WithMirrors
    ) -> Found:
        maker = maker_of(scenario)
        if maker is None or not any(mirror.config for mirror in scenario.mirrors):
            return
        jars = with_mirrors(distribution_of(maker), MIRRORS, self.java)
        for number, mirror in enumerate(scenario.mirrors):
            ends = (mirror.from_, mirror.to)
            found = wrong_mirror_settings(
                mirror.config, ends, jars, self.java, allow_unknown=self.allow_unknown
            )
            yield from at(("mirrors", number, "config"), found)

    def _of_clients(self, scenario: Scenario, clients: Iterable[_Client]) -> Found:
        for path, kind, client in clients:
            if client.client == "java" and client.config and self.distribution_of is not None:
                jars = self.distribution_of(client.client_version or scenario.cluster_of(client).kafka)
                yield from at(path, self._wrong(java_settings(client.config), kind, jars))
            elif client.client == "librdkafka" and client.config:
                names = set(LIBRDKAFKA_ONLY)
                if self.distribution_of is not None:
                    kafka = self.distribution_of(scenario.cluster_of(client).kafka)
                    names |= setting_names(kafka, self.java).get(kind, frozenset())
                more = _NO_PLUGINS if self.allow_unknown else ""
                yield from at(path, _of_librdkafka(kind, client, names, more))


def _other_versions(group: Group) -> list[Group]:
    """The group as its members with another version of the client know it, each version once."""
    others = (group.as_member(number) for number in group.member_versions)
    return list({each.client_version: each for each in others}.values())


def _of_librdkafka(kind: str, client: Producers | Group, names: set[str], more: str) -> Found:
    """`names`: some that librdkafka may know, to propose; `more`: about what it does not know."""
    version = client.client_version
    reasons = refused(kind, client.config, version)
    for name, reason in reasons.items():
        if not reason.startswith(_UNKNOWN):
            yield (name,), reason
            continue
        near = [word for word in nearest(name, names, count=5) if _knows(kind, word, version)]
        which = f" (confluent-kafka {version})" if version is not None else ""
        yield (name,), unknown_setting(f"{kind} setting of librdkafka{which}", near) + more
    if not reasons and version is None and (reason := _refused_together(client)):
        named = [name for name in client.config if name in reason]
        yield tuple(named[:1]), reason


def _refused_together(client: Producers | Group) -> str:
    """Why librdkafka refuses all settings of a client, each of which it takes; empty if it does not. Those of
    security are incomplete here: the run adds credentials.
    """
    if any(name.startswith(("security.", "sasl.", "ssl.")) for name in client.config):
        return ""
    try:
        if isinstance(client, Producers):
            Producer(producer_config("", 0, client), logger=quiet_logger())
        elif client.type != "share":
            Consumer(member_config("", client, "0"), logger=quiet_logger()).close()
    except KafkaException as error:
        reason = str(error.args[0].str()).strip().rpartition(f"{_TOGETHER} ")[2].partition(": ")[2]
        return reason.replace("`must", "` must")  # as librdkafka writes it
    return ""


def _knows(kind: str, name: str, version: str | None) -> bool:
    reason = refused(kind, {name: ""}, version).get(name, "")
    return not reason.startswith(_UNKNOWN)


_TOGETHER = "Failed to create"  # what a setting alone does not decide, such as session.timeout.ms


def refused(kind: str, settings: Config, version: str | None) -> Mapping[str, str]:
    """Why librdkafka refuses a setting, by name. `kind`: producer or consumer; `version`: of confluent-kafka,
    None for kaput's own. Raises DistributionError if that version cannot be asked.
    """
    if version is None:
        return _tried(kind, settings)
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name],
        input=json.dumps([kind, settings]),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment(version)},
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no error output"])[-1]
        raise DistributionError(f"confluent-kafka {version} cannot be started: {last}")
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


def _tried(kind: str, settings: Config) -> dict[str, str]:
    reasons = {}
    for name, value in settings.items():
        try:
            if kind == "producer":
                Producer({name: value}, logger=quiet_logger())
            else:
                Consumer({"group.id": "kaput", name: value}, logger=quiet_logger()).close()
        except KafkaException as error:
            if not (reason := str(error.args[0].str()).strip()).startswith(_TOGETHER):
                reasons[name] = reason
        except (TypeError, ValueError) as error:
            reasons[name] = str(error)
    return reasons


if __name__ == "__main__":
    json.dump(_tried(*json.load(sys.stdin)), sys.stdout)
