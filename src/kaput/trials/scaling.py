"""Multiplies all times of a scenario by one factor, so that the same happens in a fraction of the time.

Scales timeouts, durations of faults and loads, and message counts and start times that represent times;
rates, sizes and limits of the lab (drain, warm-up, patience) stay. Confirmations use the unscaled scenario.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from kaput.errors import UsageError
from kaput.scenario.cluster import Cluster, release_of
from kaput.scenario.model import Config, Scenario
from kaput.scenario.values import format_duration, parse_duration_ms, share_of

# Kafka's defaults of brokers (org.apache.kafka.server.config and coordinator configs of 4.3 and 4.4).
_OF_BROKERS = {
    "broker.session.timeout.ms": 9_000,
    "broker.heartbeat.interval.ms": 2_000,
    "replica.lag.time.max.ms": 30_000,
    "replica.socket.timeout.ms": 30_000,
    "request.timeout.ms": 30_000,
    "controller.quorum.fetch.timeout.ms": 2_000,
    "controller.quorum.election.timeout.ms": 1_000,
    "controller.quorum.request.timeout.ms": 2_000,
    "offsets.commit.timeout.ms": 5_000,
    "group.min.session.timeout.ms": 6_000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 10_000,
    "leader.imbalance.check.interval.seconds": 300,
}
_OF_BROKERS_WITH_ZOOKEEPER = {"zookeeper.session.timeout.ms": 18_000}
_OF_GROUPS = {
    "session.timeout.ms": 45_000,
    "min.session.timeout.ms": 45_000,
    "heartbeat.interval.ms": 5_000,
    "min.heartbeat.interval.ms": 5_000,
}
_OF_SHARE_GROUPS = {**_OF_GROUPS, "record.lock.duration.ms": 30_000}
_FIRST_CONSUMER_GROUPS, _FIRST_SHARE_GROUPS = (3, 7), (4, 1)
# Defaults of producers by client; and of members of classic groups.
_OF_PRODUCERS = {
    "librdkafka": {"message.timeout.ms": 300_000, "request.timeout.ms": 30_000, "socket.timeout.ms": 60_000},
    "java": {"delivery.timeout.ms": 120_000, "request.timeout.ms": 30_000, "max.block.ms": 60_000},
}
_OF_TRANSACTIONS = {"transaction.timeout.ms": 60_000}
_OF_MEMBERS = {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 3_000, "max.poll.interval.ms": 300_000}
_TIMEOUT = re.compile(r"(?:.*\.)?(?:timeout|interval|lock\.duration|lag\.time\.max|block)(?:\.max)?\.ms")
# Pauses of a busy machine do not shrink with the factor: below these a quorum elects for no reason.
_LEAST = {
    "controller.quorum.fetch.timeout.ms": 1_000,
    "controller.quorum.election.timeout.ms": 500,
    "controller.quorum.request.timeout.ms": 1_000,
    "broker.session.timeout.ms": 1_500,
}
_OF_STEPS = ("for", "delay", "jitter", "up", "down", "processing", "timeout")


def scaled(scenario: Scenario, factor: float) -> Scenario:
    """The scenario with its times multiplied. Raises UsageError for plans and several clusters."""
    if factor == 1:
        return scenario
    if scenario.plan or scenario.clusters:
        raise UsageError("the times of a scenario with a plan or several clusters cannot be scaled")
    document = scenario.dump()
    defaults = _broker_defaults(scenario.cluster)
    document["cluster"]["config"] = _config(document["cluster"]["config"], defaults, factor)
    for block in document["workload"]["producers"]:
        _scale_producers(block, factor)
    for block in document["workload"].get("groups", ()):
        _scale_group(block, factor)
    for step in document.get("faults", ()):
        _scale_step(step, factor)
    try:
        return Scenario.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        why = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise UsageError(f"with its times multiplied by {factor:g}: {why}") from None


def _broker_defaults(cluster: Cluster) -> dict[str, int]:
    defaults = {**_OF_BROKERS, **(_OF_BROKERS_WITH_ZOOKEEPER if cluster.mode == "zookeeper" else {})}
    release = release_of(cluster.kafka)
    kinds = (
        ("consumer", _FIRST_CONSUMER_GROUPS, _OF_GROUPS),
        ("share", _FIRST_SHARE_GROUPS, _OF_SHARE_GROUPS),
    )
    for kind, first, of_kind in kinds:
        if release >= first and cluster.mode == "kraft":
            defaults |= {f"group.{kind}.{name}": value for name, value in of_kind.items()}
    return defaults


def _config(given: Mapping[str, Any], defaults: Mapping[str, int], factor: float) -> Config:
    """The settings with timeouts multiplied, including timeouts that have their defaults."""
    scaled_config: Config = dict(given)
    for name, value in {**defaults, **given}.items():
        if (name in defaults or _TIMEOUT.fullmatch(name)) and str(value).isdecimal():
            scaled_config[name] = max(_LEAST.get(name, 1), round(int(value) * factor)) if int(value) else 0
    return scaled_config


def _scale_producers(block: dict[str, Any], factor: float) -> None:
    defaults = dict(_OF_PRODUCERS.get(block["client"], {}))
    if block.get("transactions"):
        # librdkafka derives its other limits from that of the transaction.
        defaults = _OF_TRANSACTIONS
    block["config"] = _config(block["config"], defaults, factor)
    if block.get("messages"):
        block["messages"] = max(1, round(block["messages"] * factor))
    _scale(block, ("duration",), factor)


def _scale_group(block: dict[str, Any], factor: float) -> None:
    defaults = _OF_MEMBERS if block["type"] == "classic" and block["client"] != "command" else {}
    block["config"] = _config(block["config"], defaults, factor)
    block["group-config"] = _config(block["group-config"], {}, factor)
    _scale(block, ("processing",), factor)
    if block.get("produces"):
        block["produces"]["config"] = _config(block["produces"]["config"], {}, factor)


def _scale_step(step: dict[str, Any], factor: float) -> None:
    at = step["at"]
    if not isinstance(at, dict):
        step["at"] = _moment(at, factor)
    elif "message" in at:
        at["message"] = max(1, round(at["message"] * factor))
    elif "after" in at:
        at["after"] = _moment(at["after"], factor)
    _scale(step, _OF_STEPS, factor)


def _moment(at: str, factor: float) -> str:
    """A start time multiplied; a share of the load stays."""
    return at if share_of(at) is not None else format_duration(round(parse_duration_ms(at) * factor))


def _scale(block: dict[str, Any], names: tuple[str, ...], factor: float) -> None:
    """Scales durations in a dumped block, in ms or in words; 0 and missing ones stay."""
    for name in names:
        if block.get(name) and (ms := parse_duration_ms(block[name])):
            block[name] = format_duration(max(1, round(ms * factor)))
