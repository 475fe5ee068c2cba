"""Refuses settings that nothing would read, before anything starts.

Brokers and Java's clients ignore names that they do not know, and librdkafka stops the client. Names are
compared with those of the version in use. Not here: settings that kaput sets itself (scenario/).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping

from confluent_kafka import Consumer, KafkaException, Producer

from kaput.cluster.distribution import Distribution, cached
from kaput.cluster.setting_names import DYNAMIC, setting_names, unknown_setting, unknown_settings
from kaput.errors import DistributionError, JavaError, UsageError
from kaput.java import Java, find_java
from kaput.scenario.fault_kinds import ChangeConfigOptions
from kaput.scenario.model import Config, Group, Producers, Scenario
from kaput.scenario.nearest import nearest
from kaput.workload.librdkafka.versions import environment

_UNKNOWN = "No such configuration property"
# Names of librdkafka's that Java's clients do not share, for proposals.
_LIBRDKAFKA_NAMES = (
    "batch.num.messages", "debug", "fetch.message.max.bytes", "fetch.queue.backoff.ms", "fetch.wait.max.ms",
    "log_level", "max.in.flight", "message.max.bytes", "message.send.max.retries", "message.timeout.ms",
    "queue.buffering.max.kbytes", "queue.buffering.max.messages", "queue.buffering.max.ms",
    "queued.max.messages.kbytes", "queued.min.messages", "request.required.acks", "socket.keepalive.enable",
    "socket.timeout.ms", "statistics.interval.ms", "sticky.partitioning.linger.ms",
    "topic.metadata.refresh.interval.ms",
)  # fmt: skip


def check_settings(
    scenario: Scenario, java: Java, distribution_of: Callable[[str], Distribution] | None
) -> None:
    """Raises UsageError with a line for each setting that its reader does not know, and DistributionError.
    `distribution_of`: the jars of a version that the scenario's clusters or Java clients have; None: only
    what librdkafka reads is checked (an existing cluster answers for itself).
    """
    mistakes = list(_of_clients(scenario, java, distribution_of))
    if distribution_of is not None:
        mistakes = [*_of_clusters(scenario, java, distribution_of), *mistakes]
    if mistakes:
        raise UsageError("\n".join(mistakes))


def unknown_here(scenario: Scenario) -> list[str] | None:
    """What `check_settings` would say, with what is on this machine: nothing is fetched. None if Java, the
    jars or another version of librdkafka are missing.
    """
    versions = {*scenario.kafka_versions(), *scenario.java_versions()}
    here = {version: jars for version in versions if (jars := cached(version)) is not None}
    if versions - here.keys():
        return None
    try:
        check_settings(scenario, find_java(), here.__getitem__)
    except (JavaError, DistributionError):
        return None
    except UsageError as error:
        return str(error).splitlines()
    return []


def _of_clusters(
    scenario: Scenario, java: Java, distribution_of: Callable[[str], Distribution]
) -> Iterator[str]:
    for name, cluster in scenario.all_clusters.items():
        if cluster.config:
            place = f"clusters.{name}.config" if name else "cluster.config"
            yield from unknown_settings(place, cluster.config, "broker", distribution_of(cluster.kafka), java)
    for number, topic in enumerate(scenario.topics):
        if topic.config:
            version = scenario.cluster_of_topic(topic.name).kafka
            place = f"topics.{number}.config"
            yield from unknown_settings(place, topic.config, "topic", distribution_of(version), java)
    for number, step in enumerate(scenario.faults):
        if isinstance(step.options, ChangeConfigOptions):
            hit = step.target.whole_topic
            cluster = scenario.cluster if hit is None else scenario.cluster_of_topic(hit)
            kind, place = DYNAMIC if hit is None else "topic", f"faults.{number}.config"
            yield from unknown_settings(
                place, step.options.config, kind, distribution_of(cluster.kafka), java
            )
    for number, group in enumerate(scenario.workload.groups):
        if group.group_config:
            place = f"workload.groups.{number}.group-config"
            version = scenario.cluster_of(group).kafka
            yield from unknown_settings(place, group.group_config, "group", distribution_of(version), java)


def _of_clients(
    scenario: Scenario, java: Java, distribution_of: Callable[[str], Distribution] | None
) -> Iterator[str]:
    work = scenario.workload
    clients: list[tuple[str, str, Producers | Group]] = [
        *((f"workload.producers.{n}.config", "producer", each) for n, each in enumerate(work.producers)),
        *((f"workload.groups.{n}.config", "consumer", each) for n, each in enumerate(work.groups)),
    ]
    for place, kind, client in clients:
        if client.client == "java" and client.config and distribution_of is not None:
            version = client.client_version or scenario.cluster_of(client).kafka
            yield from unknown_settings(place, client.config, kind, distribution_of(version), java)
        elif client.client == "librdkafka" and client.config:
            names = set(_LIBRDKAFKA_NAMES)
            if distribution_of is not None:
                kafka = distribution_of(scenario.cluster_of(client).kafka)
                names |= setting_names(kafka, java).get(kind, frozenset())
            yield from _of_librdkafka(place, kind, client, names)


def _of_librdkafka(place: str, kind: str, client: Producers | Group, names: set[str]) -> Iterator[str]:
    """`names`: some that librdkafka may know, to propose."""
    version = client.client_version
    reasons = refused(kind, client.config, version)
    for name, reason in reasons.items():
        if not reason.startswith(_UNKNOWN):
            yield f"{place}: {name}={client.config[name]}: {reason}"
            continue
        near = [word for word in nearest(name, names, count=5) if _knows(kind, word, version)]
        which = f" (confluent-kafka {version})" if version is not None else ""
        yield unknown_setting(place, name, f"no {kind} setting of librdkafka{which}", near)


def _knows(kind: str, name: str, version: str | None) -> bool:
    reason = refused(kind, {name: ""}, version).get(name, "")
    return not reason.startswith(_UNKNOWN)


_QUIET = {"log_level": 0}
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
                Producer({**_QUIET, name: value})
            else:
                Consumer({**_QUIET, "group.id": "kaput", name: value}).close()
        except KafkaException as error:
            if not (reason := str(error.args[0].str())).startswith(_TOGETHER):
                reasons[name] = reason
        except (TypeError, ValueError) as error:
            reasons[name] = str(error)
    return reasons


if __name__ == "__main__":
    json.dump(_tried(*json.load(sys.stdin)), sys.stdout)
