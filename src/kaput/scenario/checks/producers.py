"""What must agree in the producers of a scenario: every mistake, with its path. Called by scenario.py."""

from __future__ import annotations

from kaput.scenario.checks.command import check_command
from kaput.scenario.checks.groups import Found, no_topic, reserved
from kaput.scenario.checks.java import check_java
from kaput.scenario.model import Producers, Scenario

# Client settings that kaput sets itself, and the scenario key that decides them (None: no key does).
_PRODUCER_KEYS = {
    "bootstrap.servers": None,
    "metadata.broker.list": None,
    "acks": "acks",
    "request.required.acks": "acks",
    "enable.idempotence": "idempotence",
    "partitioner": "partitioner",
    "transactional.id": "transactions",
}
_IN_FLIGHT = ("max.in.flight", "max.in.flight.requests.per.connection")
_TIMEOUT = "transaction.timeout.ms"
_LONGEST_TIMEOUT_MS = 900_000  # transaction.max.timeout.ms of brokers
_RETRIES = ("retries", "message.send.max.retries")


def check_producers(scenario: Scenario) -> Found:
    """The mistakes of every block of producers."""
    for index, spec in enumerate(scenario.workload.producers):
        place = ("workload", "producers", index)
        if scenario.topic(spec.topic) is None:
            yield (*place, "topic"), no_topic(spec.topic, scenario)
        if spec.messages is not None and spec.duration is not None:
            yield (*place, "duration"), "messages is given, too; write one of the two"
        if spec.messages is None and spec.duration is None:
            yield place, "neither messages nor duration is given; write one of the two"
        if spec.per_process > 1 and (spec.client != "librdkafka" or spec.transactions is not None):
            yield (*place, "per-process"), "only librdkafka's producers without transactions share a process"
        for path, text in (*check_config(spec), *check_command(spec), *check_java(spec, scenario)):
            yield (*place, *path), text


def check_config(spec: Producers) -> Found:
    """Settings that a scenario must not set, and contradictions."""
    yield from reserved(spec.config, _PRODUCER_KEYS)
    yield from _transactions(spec)
    if not spec.idempotence:
        return
    if spec.acks != "all":
        yield ("acks",), f"idempotence needs acks all, not {spec.acks}"
    for name in _IN_FLIGHT:
        if name in spec.config and not _at_most(spec.config[name], 5):
            yield (
                ("config", name),
                f"idempotence allows at most 5 requests in flight, not {spec.config[name]}",
            )
    for name in _RETRIES:
        if str(spec.config.get(name)) == "0":
            yield ("config", name), "idempotence needs retries"


def _transactions(spec: Producers) -> Found:
    given = spec.config.get(_TIMEOUT)
    if spec.transactions is None:
        if given is not None:
            yield (
                ("config", _TIMEOUT),
                "these producers do not use transactions; write transactions: {size: 10}",
            )
        return
    if not spec.idempotence:
        yield ("idempotence",), "transactions need idempotence; leave it out or write true"
    if given is not None and not _at_most(given, _LONGEST_TIMEOUT_MS):
        yield (
            ("config", _TIMEOUT),
            f"{given!r} is more than brokers allow: at most {_LONGEST_TIMEOUT_MS} (ms)",
        )


def _at_most(value: object, limit: int) -> bool:
    text = str(value)
    return text.isdigit() and int(text) <= limit
