"""The contracts of producers: whether what is stored twice or out of order is permitted, a violation, or
unclear. It depends on the producer's settings, and on what a store sent again.

Not here: what is lost or overwritten (contracts.py).
"""

from __future__ import annotations

from kaput.scenario.model import Producers, Scenario
from kaput.scenario.pipes import spec_of
from kaput.verdict.contracts import Ruling, without_producer
from kaput.verdict.facts import Reordered, ReplayedTwice

# librdkafka's and the Java client's names for the same settings.
_IN_FLIGHT = ("max.in.flight.requests.per.connection", "max.in.flight")
_RETRIES = ("retries", "message.send.max.retries")


def on_duplicate(scenario: Scenario, producer: int) -> Ruling:
    """Rules on messages of a producer that are stored more than once."""
    spec = spec_of(scenario, producer)
    if spec is None:
        return without_producer(producer)
    if _sends_again(spec):
        return Ruling(
            "permitted", "what failed is sent again as a new message (`resends`); Kafka may have it already"
        )
    if _idempotent(spec):
        return Ruling("violation", "an idempotent producer stores each message once")
    if _setting(spec, _RETRIES) == 0:
        return Ruling("violation", "retries are disabled, so nothing was sent twice on purpose")
    return Ruling("permitted", "retries without idempotence may store a message twice")


def on_replayed_twice(scenario: Scenario, found: ReplayedTwice) -> Ruling:
    """Rules on messages that a store had and that are stored more than once."""
    if scenario.replay is not None and scenario.replay.at_least_once:
        return Ruling("permitted", "a store kept {them|it}, and the replay sends each message at least once")
    if found.by_replay:
        return Ruling("violation", "replays stored {them|it} more than once, though each is sent once")
    if found.in_doubt:
        return Ruling(
            "permitted",
            "a store kept {them|it}, Kafka may have stored {them|it} before, and a replay sent {them|it} "
            "again",
        )
    return Ruling(
        "violation",
        "a store kept {them|it}, Kafka had not stored {them|it} before, and the replay sends each once",
    )


def on_reordered(scenario: Scenario, found: Reordered) -> Ruling:
    """Rules on messages of a producer that are stored out of order."""
    if found.replay:
        return _on_replayed_late(found)
    spec = spec_of(scenario, found.producer)
    if spec is None:
        return without_producer(found.producer)
    if _sends_again(spec) and not found.by_key:
        return Ruling("permitted", "what failed is sent again after newer messages (`resends`)")
    if _idempotent(spec):
        return Ruling("violation", "an idempotent producer keeps its order")
    in_flight = _setting(spec, _IN_FLIGHT)
    if in_flight is None or in_flight > 1:
        return Ruling("permitted", "retries with more than one request in flight may overtake each other")
    if found.across_leaders:
        return Ruling(
            "permitted", "a request to the old leader was retried after newer ones to the new leader"
        )
    return Ruling("violation", "one request in flight and no change of leader keep the order")


def _sends_again(spec: Producers) -> bool:
    """Whether kaput.keep (not the client) sends failed messages again."""
    return spec.on_failure is not None and spec.on_failure.resends > 0


def _on_replayed_late(found: Reordered) -> Ruling:
    if found.by_key:
        return Ruling(
            "violation",
            "a store kept {them|it}, and {their|its} producer is to keep the order of each key (`ordered`)",
        )
    return Ruling("permitted", "a store kept {them|it}, so that a replay sent {them|it} after later messages")


def _setting(spec: Producers, names: tuple[str, ...]) -> int | None:
    """A numeric client setting of the scenario; None if not set (the default is large) or not a number."""
    for name in names:
        if name in spec.config:
            try:
                return int(spec.config[name])
            except ValueError:
                return None
    return None


def _idempotent(spec: Producers) -> bool:
    return spec.idempotence or str(spec.config.get("enable.idempotence")).lower() == "true"
