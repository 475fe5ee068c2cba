"""The contracts: decides from a scenario's configuration whether a finding is permitted, a violation, or
unclear.

Small functions from one kind of finding and the scenario to a ruling: first what is lost or overwritten, then
what is stored twice or out of order. Not here: the verdict (judge.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from kaput.scenario.model import Producers, Scenario, retains_little, spec_of
from kaput.verdict.facts import Loss, Removal, Reordered, ReplayedTwice

Word = Literal["permitted", "violation", "unclear"]
# Why messages that are gone were removed as configured.
REMOVED: Mapping[Removal, str] = {
    "step": "the timeline deleted {them|it} on purpose, and {they were|it was} there before",
    "compaction": "{their|its} topic is compacted, and a later message with the same key is stored",
    "retention": "the log begins above {them|it} now (retention or kafka-delete-records), and "
    "{they were|it was} there before",
}


class Ruling(NamedTuple):
    """A word and its reason, a clause that follows a count: `12 messages are lost: a store kept them`. What
    depends on the count is written as {them|it} (core.py: counted).
    """

    word: Word
    why: str


def permitted(why: str) -> Ruling:
    return Ruling("permitted", why)


def violation(why: str) -> Ruling:
    """What it forbids."""
    return Ruling("violation", why)


def unclear(why: str) -> Ruling:
    """What the record does not decide."""
    return Ruling("unclear", why)


def on_loss(scenario: Scenario, loss: Loss) -> Ruling:
    """Rules on lost acknowledged messages."""
    # Regardless of who led the partition: a record that was there was not lost by its leader.
    if loss.known.removed_by is not None:
        return permitted(REMOVED[loss.known.removed_by])
    ruling = on_overwritten(scenario, loss)
    if ruling.word == "violation" and _deleted(scenario, loss):
        return unclear(
            "retention, kafka-delete-records or a deletion of the topic removed {their offsets|its offset} "
            "before the log was read: whether {they were|it was} there is not known"
        )
    if ruling.word == "violation" and loss.known.maybe_compacted:
        return unclear(
            "{their|its} topic is compacted, and nothing is at {their offsets|its offset}: "
            "later messages with the same keys may have taken {their|its} place"
        )
    return ruling


def on_inconsistent_offset(scenario: Scenario, displaced: Loss) -> Ruling:
    """Rules on offsets that were given to more than one message."""
    ruling = on_overwritten(scenario, displaced)
    # If the log began above them, nothing would be at these offsets now (`hole`).
    anew = displaced.known.deleted and not displaced.known.hole and displaced.cause == "unexplained"
    if ruling.word != "permitted" and anew:
        return permitted(
            "the timeline deleted {their|its} topic and created it again, so that offsets began anew"
        )
    return ruling


def on_overwritten(scenario: Scenario, loss: Loss) -> Ruling:
    """Rules on acknowledgements that the log contradicts."""
    spec = spec_of(scenario, loss.producer)
    if loss.producer is not None and spec is None:
        return without_producer(loss.producer)
    if spec is not None and spec.acks == "0":
        return permitted("acks=0 promises nothing")
    if loss.cause == "unclean-election" and unclean_allowed(scenario, loss.topic):
        return permitted("unclean leader election is enabled, and an unclean election overwrote {them|it}")
    if spec is None:
        return violation(f"no acknowledgement explains it (cause: {loss.cause})")
    if spec.acks == "1":
        return _on_loss_of_acks_one(scenario, loss)
    explained = loss.cause != "unexplained"
    if (explained and loss.known.isr_unsynced) or ((explained or loss.known.hole) and loss.known.isr_unsure):
        return _on_loss_by_every_replica(scenario, loss)
    if loss.cause == "deposed-leader" and _may_lack_a_shrink(scenario, loss):
        return unclear(
            "min.insync.replicas=1 and an ISR of the leader alone: how another leader was elected is not "
            "recorded"
        )
    if loss.cause in ("deposed-leader", "leader-restarted") and _maybe_unclean(scenario, loss):
        return unclear(
            "unclean leader election is enabled, and it is not recorded whether this election was unclean"
        )
    if loss.cause == "unclean-election":
        return violation("acks=all, and a leader outside the ISR was elected though that is not enabled")
    if loss.cause == "deposed-leader":
        return violation("acks=all must survive a change of leader")
    if loss.cause == "leader-restarted":
        return violation(
            "acks=all, and the leader came back with an empty disk, though other replicas had {them|it}"
            if loss.known.disk_lost
            else "acks=all, and the same leader came back without what it had acknowledged"
        )
    if _maybe_unclean(scenario, loss):
        return unclear(
            "it is unknown what overwrote {their offsets|its offset}: possibly an unclean election, which is "
            "enabled"
        )
    return violation("acks=all, and no change of leader explains it")


def _on_loss_by_every_replica(scenario: Scenario, loss: Loss) -> Ruling:
    if _syncs_first(scenario, loss.topic) and not loss.known.isr_disk_lost:
        return violation(
            "flush.messages=1 syncs each message before it is acknowledged, and {they are|it is} gone"
        )
    what = "its disk" if loss.known.isr_disk_lost else "what it had not synced"
    if loss.known.isr_unsure:
        return unclear(f"acks=all, and whether every in-sync replica lost {what} is not known")
    if loss.known.isr_of_one and min_isr(scenario, loss.topic) <= 1:
        return permitted(
            "min.insync.replicas=1 let acks=all mean one replica: the ISR was the leader alone at the time, "
            f"and the leader lost {what}"
        )
    if loss.known.isr_disk_lost:
        return permitted("acks=all promises copies on in-sync replicas, and all of those lost their disks")
    return permitted(
        "acks=all promises copies in the memory of every in-sync replica, and all of those lost what they "
        "had not synced"
    )


def _may_lack_a_shrink(scenario: Scenario, loss: Loss) -> bool:
    """Whether an unrecorded election may have bypassed the only replica in the ISR. If every election is
    recorded and none was unclean, the new leader was in the ISR and had everything.
    """
    alone = loss.known.isr_of_one and min_isr(scenario, loss.topic) <= 1
    return alone and not loss.known.leaders_known


def _maybe_unclean(scenario: Scenario, loss: Loss) -> bool:
    return loss.known.maybe_unclean and unclean_allowed(scenario, loss.topic)


def _on_loss_of_acks_one(scenario: Scenario, loss: Loss) -> Ruling:
    across = permitted("acks=1 promises nothing across a change of leader")
    if loss.known.disk_lost and loss.cause in ("leader-restarted", "unclean-election"):
        return permitted("acks=1 promises one copy, and the leader lost the disk that had {them|it}")
    if loss.cause == "unclean-election":
        return across
    if not loss.known.leaders_known:
        return unclear("acks=1, and who led {their|its} partition is not recorded")
    if loss.cause == "deposed-leader":
        return across
    if _unsynced(scenario, loss):
        return permitted("acks=1 promises nothing of what the leader had not synced when its machine failed")
    if loss.cause == "leader-restarted":
        return violation(
            "acks=1, and the same leader came back without what it had acknowledged: "
            "that must survive a process crash, though not a machine crash"
        )
    what = "disk loss" if loss.known.disk_lost else "power loss"
    possible = loss.known.disk_lost or (loss.known.unsynced and not _syncs_first(scenario, loss.topic))
    if loss.known.hole and possible:
        return unclear(
            f"acks=1, and {{their offsets are|its offset is}} unknown: a {what} may have removed {{them|it}}"
        )
    if loss.known.either_leader:
        return unclear(
            "acks=1, and nothing is stored at {their offsets|its offset}: it is unknown whether a deposed "
            "leader or its successor assigned {them|it}"
        )
    return violation("acks=1, and no change of leader explains it")


def _unsynced(scenario: Scenario, loss: Loss) -> bool:
    lost = loss.cause == "leader-restarted" and loss.known.unsynced
    return lost and not _syncs_first(scenario, loss.topic)


def _syncs_first(scenario: Scenario, topic: str) -> bool:
    """Whether a replica syncs each message before it acknowledges it."""
    return set(scenario.topic_values(topic, "flush.messages", "", "log.flush.interval.messages")) == {"1"}


def without_producer(number: int) -> Ruling:
    """Rules on a producer that the scenario does not have."""
    return unclear(f"the scenario does not have producer {number}, so what it was promised is not known")


def unclean_allowed(scenario: Scenario, topic: str) -> bool:
    """Whether unclean leader election is enabled for the topic, if only for a while."""
    values = scenario.topic_values(topic, "unclean.leader.election.enable", "false")
    return any(value.lower() == "true" for value in values)


def _deleted(scenario: Scenario, loss: Loss) -> bool:
    """Whether they were in a deleted part of the log, as recorded or possibly by retention."""
    return loss.known.deleted or (loss.known.maybe_deleted and retains_little(scenario, loss.topic))


def min_isr(scenario: Scenario, topic: str) -> int:
    """How many replicas acks=all requires of a topic; the fewest, if a step changes it."""
    values = scenario.topic_values(topic, "min.insync.replicas", "1")
    return min(scenario.effective_min_isr(topic, value) for value in values)


# librdkafka's and the Java client's names for the same settings.
_IN_FLIGHT = ("max.in.flight.requests.per.connection", "max.in.flight")
_RETRIES = ("retries", "message.send.max.retries")


def on_duplicate(scenario: Scenario, producer: int) -> Ruling:
    """Rules on messages of a producer that are stored more than once."""
    spec = spec_of(scenario, producer)
    if spec is None:
        return without_producer(producer)
    if _sends_again(spec):
        return permitted("what failed is sent again as a new message (`resends`); Kafka may have it already")
    if _idempotent(spec):
        return _unless_forgotten(scenario, spec, "an idempotent producer stores each message once")
    if never_retries(spec):
        return violation("retries are disabled, so nothing was sent twice on purpose")
    return permitted("retries without idempotence may store a message twice")


def on_replayed_twice(scenario: Scenario, twice: ReplayedTwice) -> Ruling:
    """Rules on messages that a store had and that are stored more than once."""
    if scenario.replay is not None and scenario.replay.at_least_once:
        return permitted("a store kept {them|it}, and the replay sends each message at least once")
    if twice.by_replay:
        return violation("replays stored {them|it} more than once, though each is sent once")
    if twice.in_doubt:
        return permitted(
            "a store kept {them|it}, Kafka may have stored {them|it} before, and a replay sent {them|it} "
            "again"
        )
    return violation(
        "a store kept {them|it}, Kafka had not stored {them|it} before, and the replay sends each once"
    )


def on_reordered(scenario: Scenario, late: Reordered) -> Ruling:
    """Rules on messages of a producer that are stored out of order."""
    if late.replay:
        return _on_replayed_late(late)
    spec = spec_of(scenario, late.producer)
    if spec is None:
        return without_producer(late.producer)
    if _sends_again(spec) and not late.by_key:
        return permitted("what failed is sent again after newer messages (`resends`)")
    if _idempotent(spec):
        return _unless_forgotten(scenario, spec, "an idempotent producer keeps its order")
    if several_in_flight(spec):
        what = "requests in flight" if never_retries(spec) else "retries with more than one request in flight"
        return permitted(f"{what} may overtake each other")
    if late.across_leaders:
        return permitted("a request to the old leader was retried after newer ones to the new leader")
    return violation("one request in flight and no change of leader keep the order")


_FORGETS = "producer.id.expiration.ms"
_DAY_MS = 86_400_000  # its default


def _unless_forgotten(scenario: Scenario, spec: Producers, promise: str) -> Ruling:
    """A violation, unless brokers may have forgotten the producer while it was sending a message again."""
    given = scenario.topic_values(spec.topic, _FORGETS, str(_DAY_MS))
    least = min((int(value) for value in given if value.isdecimal()), default=_DAY_MS)
    if least < min(spec.delivery_timeout_ms or _DAY_MS, _DAY_MS):
        return unclear(
            f"{promise}, unless brokers have forgotten it: they may after {least:,} ms without a message "
            f"({_FORGETS}), and it may send one again for longer than that"
        )
    return violation(promise)


def never_retries(spec: Producers) -> bool:
    """Whether its client sends no request again."""
    return _setting(spec, _RETRIES) == 0


def several_in_flight(spec: Producers) -> bool:
    """Whether its client has several requests in flight, or may have."""
    in_flight = _setting(spec, _IN_FLIGHT)
    return in_flight is None or in_flight > 1


def _sends_again(spec: Producers) -> bool:
    """Whether kaput.keep (not the client) sends failed messages again."""
    return spec.on_failure is not None and spec.on_failure.resends > 0


def _on_replayed_late(late: Reordered) -> Ruling:
    if late.by_key:
        return violation(
            "a store kept {them|it}, and {their|its} producer is to keep the order of each key (`ordered`)"
        )
    return permitted("a store kept {them|it}, so that a replay sent {them|it} after later messages")


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
