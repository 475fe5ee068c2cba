"""Each ruling to the letter: the word, and the sentence that tells why."""

from __future__ import annotations

from typing import Any

import pytest

from kaput.scenario.model import spec_of
from kaput.verdict.contracts import (
    Ruling,
    on_duplicate,
    on_loss,
    on_overwritten,
    on_reordered,
    on_replayed_twice,
)
from kaput.verdict.facts import Circumstances, Loss, Reordered, ReplayedTwice
from unit.verdict.conftest import Make

ACROSS = Ruling("permitted", "acks=1 promises nothing across a change of leader")
CRASH = Ruling(
    "permitted", "acks=1 promises nothing of what the leader had not synced when its machine failed"
)
PROCESS = Ruling(
    "violation",
    "acks=1, and the same leader came back without what it had acknowledged: "
    "that must survive a process crash, though not a machine crash",
)
NO_CHANGE = Ruling("violation", "acks=1, and no change of leader explains it")
NOBODY_TOLD = Ruling("unclear", "acks=1, and who led {their|its} partition is not recorded")
EITHER = Ruling(
    "unclear",
    "acks=1, and nothing is stored at {their offsets|its offset}: it is unknown whether a deposed leader or "
    "its successor assigned {them|it}",
)
NOTHING = Ruling("permitted", "acks=0 promises nothing")
ENABLED = Ruling(
    "permitted", "unclean leader election is enabled, and an unclean election overwrote {them|it}"
)
ONE_REPLICA = Ruling(
    "permitted",
    "min.insync.replicas=1 let acks=all mean one replica: the ISR was the leader alone at the time, "
    "and the leader lost what it had not synced",
)
NOT_RECORDED = Ruling(
    "unclear",
    "min.insync.replicas=1 and an ISR of the leader alone: how another leader was elected is not recorded",
)
NOT_SURE = Ruling(
    "unclear", "acks=all, and whether every in-sync replica lost what it had not synced is not known"
)
EVERY_REPLICA = Ruling(
    "permitted",
    "acks=all promises copies in the memory of every in-sync replica, and all of those lost what they "
    "had not synced",
)
EMPTY = Ruling(
    "permitted",
    "min.insync.replicas=1 let acks=all mean one replica: the ISR was the leader alone at the time, "
    "and the leader lost its disk",
)
EMPTY_ALL = Ruling(
    "permitted", "acks=all promises copies on in-sync replicas, and all of those lost their disks"
)
EMPTY_PERHAPS = Ruling("unclear", "acks=all, and whether every in-sync replica lost its disk is not known")
EMPTY_ONE = Ruling("permitted", "acks=1 promises one copy, and the leader lost the disk that had {them|it}")
NO_OFFSET_EMPTY = Ruling(
    "unclear",
    "acks=1, and {their offsets are|its offset is} unknown: a disk loss may have removed {them|it}",
)
EMPTY_LEADER = Ruling(
    "violation",
    "acks=all, and the leader came back with an empty disk, though other replicas had {them|it}",
)
SYNCED = Ruling(
    "violation", "flush.messages=1 syncs each message before it is acknowledged, and {they are|it is} gone"
)
NOT_ENABLED = Ruling(
    "violation", "acks=all, and a leader outside the ISR was elected though that is not enabled"
)
NOT_KNOWN = Ruling(
    "unclear", "unclean leader election is enabled, and it is not recorded whether this election was unclean"
)
TAKEN = Ruling(
    "unclear",
    "it is unknown what overwrote {their offsets|its offset}: possibly an unclean election, which is enabled",
)
PERHAPS_UNCLEAN = Ruling(
    "unclear", "unclean leader election is enabled, and it is not recorded whether this election was unclean"
)
NO_OFFSET = Ruling(
    "unclear",
    "acks=1, and {their offsets are|its offset is} unknown: a power loss may have removed {them|it}",
)
MUST_SURVIVE = Ruling("violation", "acks=all must survive a change of leader")
CAME_BACK = Ruling("violation", "acks=all, and the same leader came back without what it had acknowledged")
UNEXPLAINED = Ruling("violation", "acks=all, and no change of leader explains it")
GONE_BEFORE = Ruling(
    "unclear",
    "retention, kafka-delete-records or a deletion of the topic removed {their offsets|its offset} "
    "before the log was read: whether {they were|it was} there is not known",
)
ON_PURPOSE = Ruling(
    "permitted",
    "the timeline deleted {them|it} on purpose, and {they were|it was} there before",
)
REPLACED = Ruling(
    "unclear",
    "{their|its} topic is compacted, and nothing is at {their offsets|its offset}: "
    "later messages with the same keys may have taken {their|its} place",
)

DEPOSED, RESTARTED, UNCLEAN = "deposed-leader", "leader-restarted", "unclean-election"
UNKNOWN = Circumstances(leaders_known=False)
ALONE = Circumstances(isr_of_one=True)
HOLE = Circumstances(hole=True)
MAYBE_COMPACTED = Circumstances(hole=True, maybe_compacted=True)
EITHER_ONE = Circumstances(hole=True, either_leader=True)
MAYBE_UNCLEAN = Circumstances(hole=True, maybe_unclean=True)
UNSYNCED = Circumstances(unsynced=True)
BY_ALL = Circumstances(unsynced=True, isr_unsynced=True)
DELETED = Circumstances(hole=True, deleted=True)
EXPIRED = Ruling(
    "permitted",
    "the log begins above {them|it} now (retention or kafka-delete-records), and "
    "{they were|it was} there before",
)
COMPACTED = Ruling(
    "permitted", "{their|its} topic is compacted, and a later message with the same key is stored"
)
BY_STEP = Circumstances(hole=True, deleted=True, deleted_by_step=True)
MAYBE_DELETED = Circumstances(hole=True, maybe_deleted=True)
ALONE_UNSYNCED = Circumstances(isr_of_one=True, unsynced=True, isr_unsynced=True)
ALONE_UNKNOWN = Circumstances(isr_of_one=True, leaders_known=False)
HOLE_UNSYNCED = Circumstances(hole=True, unsynced=True, isr_unsure=True)
UNSURE = Circumstances(isr_unsure=True)
EMPTIED = Circumstances(unsynced=True, isr_unsynced=True, disk_lost=True, isr_disk_lost=True)
ALONE_EMPTIED = EMPTIED._replace(isr_of_one=True)
PERHAPS_EMPTIED = Circumstances(isr_unsure=True, isr_disk_lost=True)
HOLE_EMPTIED = Circumstances(hole=True, unsynced=True, disk_lost=True)
USUAL = Circumstances()

ALLOWED: dict[str, Any] = {"topic": {"unclean.leader.election.enable": True}}
FLUSHED: dict[str, Any] = {"topic": {"flush.messages": 1}}
TWO: dict[str, Any] = {"topic": {"min.insync.replicas": 2}}
COMPACT: dict[str, Any] = {"topic": {"cleanup.policy": "compact,delete"}, "key": "producer"}
BY_BROKER: dict[str, Any] = {"cluster": {"log.cleanup.policy": "compact"}, "key": 4}


@pytest.mark.parametrize(
    ("acks", "cause", "known", "more", "ruling"),
    [
        (0, "acks-0", USUAL, {}, NOTHING),
        (0, "unexplained", UNKNOWN, {}, NOTHING),
        (1, DEPOSED, USUAL, {}, ACROSS),
        (1, DEPOSED, UNKNOWN, {}, NOBODY_TOLD),
        (1, UNCLEAN, UNKNOWN, {}, ACROSS),
        (1, UNCLEAN, USUAL, ALLOWED, ENABLED),
        (1, RESTARTED, USUAL, {}, PROCESS),
        (1, RESTARTED, UNSYNCED, {}, CRASH),
        (1, RESTARTED, ALONE, {}, PROCESS),
        (1, "unexplained", USUAL, {}, NO_CHANGE),
        (1, "unexplained", UNSYNCED, {}, NO_CHANGE),
        (1, "unexplained", HOLE, {}, NO_CHANGE),
        (1, "unexplained", HOLE_UNSYNCED, {}, NO_OFFSET),
        (1, "unexplained", HOLE_UNSYNCED, FLUSHED, NO_CHANGE),
        (1, "unexplained", EITHER_ONE, {}, EITHER),
        (1, "unexplained", UNKNOWN, {}, NOBODY_TOLD),
        (1, "unexplained", MAYBE_COMPACTED, COMPACT, REPLACED),
        (1, DEPOSED, HOLE, COMPACT, ACROSS),
        (1, "unexplained", EITHER_ONE, COMPACT, EITHER),
        ("all", DEPOSED, USUAL, {}, MUST_SURVIVE),
        ("all", DEPOSED, UNKNOWN, {}, MUST_SURVIVE),
        ("all", DEPOSED, USUAL, ALLOWED, MUST_SURVIVE),
        ("all", DEPOSED, ALONE, {}, MUST_SURVIVE),
        ("all", DEPOSED, ALONE_UNKNOWN, {}, NOT_RECORDED),
        ("all", DEPOSED, ALONE_UNKNOWN, {"topic": {"min.insync.replicas": 1}}, NOT_RECORDED),
        ("all", DEPOSED, ALONE_UNKNOWN, {"topic": {"min.insync.replicas": "?"}}, NOT_RECORDED),
        ("all", DEPOSED, ALONE_UNKNOWN, TWO, MUST_SURVIVE),
        ("all", DEPOSED, ALONE_UNKNOWN, {"cluster": {"min.insync.replicas": 2}}, MUST_SURVIVE),
        ("all", DEPOSED, ALONE_UNSYNCED, {}, ONE_REPLICA),
        ("all", DEPOSED, UNSURE, {}, NOT_SURE),
        ("all", RESTARTED, UNSURE, FLUSHED, SYNCED),
        ("all", "unexplained", UNSURE, {}, UNEXPLAINED),
        ("all", "unexplained", HOLE_UNSYNCED, {}, NOT_SURE),
        ("all", "unexplained", HOLE_UNSYNCED, FLUSHED, SYNCED),
        ("all", DEPOSED, MAYBE_UNCLEAN, {}, MUST_SURVIVE),
        ("all", DEPOSED, MAYBE_UNCLEAN, ALLOWED, PERHAPS_UNCLEAN),
        (1, DEPOSED, UNSURE, {}, ACROSS),
        ("all", RESTARTED, USUAL, {}, CAME_BACK),
        ("all", RESTARTED, ALONE, {}, CAME_BACK),
        ("all", RESTARTED, UNSYNCED, {}, CAME_BACK),
        ("all", RESTARTED, ALONE_UNSYNCED, {}, ONE_REPLICA),
        ("all", RESTARTED, ALONE_UNSYNCED, TWO, EVERY_REPLICA),
        (1, RESTARTED, UNSYNCED, FLUSHED, PROCESS),
        (1, DEPOSED, BY_ALL, FLUSHED, ACROSS),
        ("all", RESTARTED, EMPTIED, {}, EMPTY_ALL),
        ("all", RESTARTED, EMPTIED, FLUSHED, EMPTY_ALL),
        ("all", UNCLEAN, ALONE_EMPTIED, {}, EMPTY),
        ("all", RESTARTED, ALONE_EMPTIED, TWO, EMPTY_ALL),
        ("all", RESTARTED, PERHAPS_EMPTIED, FLUSHED, EMPTY_PERHAPS),
        ("all", RESTARTED, Circumstances(unsynced=True, disk_lost=True), {}, EMPTY_LEADER),
        ("all", UNCLEAN, Circumstances(unsynced=True, disk_lost=True), {}, NOT_ENABLED),
        (1, RESTARTED, EMPTIED, FLUSHED, EMPTY_ONE),
        (1, UNCLEAN, EMPTIED, {}, EMPTY_ONE),
        (1, DEPOSED, EMPTIED._replace(disk_lost=False), {}, ACROSS),
        (1, "unexplained", HOLE_EMPTIED, FLUSHED, NO_OFFSET_EMPTY),
        ("all", RESTARTED, BY_ALL, {}, EVERY_REPLICA),
        ("all", DEPOSED, BY_ALL, TWO, EVERY_REPLICA),
        ("all", UNCLEAN, BY_ALL, {}, EVERY_REPLICA),
        ("all", "unexplained", BY_ALL, {}, UNEXPLAINED),
        ("all", RESTARTED, BY_ALL, FLUSHED, SYNCED),
        ("all", DEPOSED, BY_ALL, {"cluster": {"log.flush.interval.messages": 1}}, SYNCED),
        ("all", DEPOSED, BY_ALL, {"topic": {"flush.messages": 10}}, EVERY_REPLICA),
        ("all", UNCLEAN, USUAL, {}, NOT_ENABLED),
        ("all", UNCLEAN, ALONE, {}, NOT_ENABLED),
        ("all", UNCLEAN, USUAL, ALLOWED, ENABLED),
        ("all", UNCLEAN, USUAL, {"topic": {"unclean.leader.election.enable": "TRUE"}}, ENABLED),
        ("all", UNCLEAN, USUAL, {"cluster": {"unclean.leader.election.enable": True}}, ENABLED),
        ("all", "unexplained", USUAL, {}, UNEXPLAINED),
        ("all", "unexplained", ALONE, {}, UNEXPLAINED),
        ("all", "unexplained", UNKNOWN, {}, UNEXPLAINED),
        ("all", "unexplained", EITHER_ONE, {}, UNEXPLAINED),
        ("all", "unexplained", MAYBE_UNCLEAN, {}, UNEXPLAINED),
        ("all", DEPOSED, MAYBE_UNCLEAN, {}, MUST_SURVIVE),
        ("all", RESTARTED, MAYBE_UNCLEAN, {}, CAME_BACK),
        ("all", DEPOSED, MAYBE_UNCLEAN, ALLOWED, NOT_KNOWN),
        ("all", RESTARTED, MAYBE_UNCLEAN, ALLOWED, NOT_KNOWN),
        ("all", "unexplained", MAYBE_UNCLEAN, ALLOWED, TAKEN),
        ("all", "unexplained", DELETED, {}, GONE_BEFORE),
        (1, "unexplained", DELETED, COMPACT, GONE_BEFORE),
        (0, "unexplained", DELETED, {}, NOTHING),
        ("all", "unexplained", BY_STEP, {}, ON_PURPOSE),
        (1, "unexplained", BY_STEP, {}, ON_PURPOSE),
        ("all", "unexplained", BY_STEP, {"topic": {"retention.ms": 1000}}, ON_PURPOSE),
        ("all", "unexplained", Circumstances(hole=True, deleted=True, expired=True), {}, EXPIRED),
        (1, "unexplained", Circumstances(hole=True, compacted=True, leaders_known=False), COMPACT, COMPACTED),
        ("all", "unexplained", MAYBE_DELETED, {}, UNEXPLAINED),
        ("all", "unexplained", MAYBE_DELETED, {"topic": {"retention.ms": 1000}}, GONE_BEFORE),
        ("all", "unexplained", HOLE, {"topic": {"retention.ms": 1000}}, UNEXPLAINED),
        ("all", "unexplained", MAYBE_DELETED, {"topic": {"retention.ms": -1}}, UNEXPLAINED),
        ("all", "unexplained", MAYBE_DELETED, {"topic": {"retention.bytes": 9}}, GONE_BEFORE),
        ("all", "unexplained", MAYBE_DELETED, {"cluster": {"log.retention.ms": 9}}, GONE_BEFORE),
        ("all", "unexplained", MAYBE_DELETED, {"cluster": {"log.retention.minutes": 9}}, GONE_BEFORE),
        ("all", "unexplained", MAYBE_DELETED, {"cluster": {"log.retention.hours": 9}}, GONE_BEFORE),
        ("all", "unexplained", MAYBE_DELETED, {"cluster": {"log.retention.bytes": 9}}, GONE_BEFORE),
        ("all", "unexplained", MAYBE_DELETED, {"cluster": {"log.retention.ms": -1}}, UNEXPLAINED),
        (
            "all",
            "unexplained",
            MAYBE_DELETED,
            {"topic": {"retention.ms": -1}, "cluster": {"log.retention.ms": 9}},
            UNEXPLAINED,
        ),
        (
            "all",
            "unexplained",
            MAYBE_DELETED,
            {"topic": {"retention.ms": 9, "cleanup.policy": "compact"}},
            UNEXPLAINED,
        ),
        (
            "all",
            "unexplained",
            MAYBE_DELETED,
            {"cluster": {"log.retention.ms": 9, "log.cleanup.policy": "compact"}},
            UNEXPLAINED,
        ),
        ("all", "unexplained", MAYBE_COMPACTED, COMPACT, REPLACED),
        ("all", "unexplained", HOLE, COMPACT, UNEXPLAINED),
        ("all", "unexplained", HOLE, {**BY_BROKER, "topic": {"cleanup.policy": "delete"}}, UNEXPLAINED),
        ("all", "unexplained", USUAL, COMPACT, UNEXPLAINED),
        ("all", "unexplained", HOLE, {**COMPACT, "key": "none"}, UNEXPLAINED),
        ("all", "unexplained", HOLE, {"key": "producer"}, UNEXPLAINED),
    ],
)
def test_on_loss(
    acks: Any, cause: str, known: Circumstances, more: dict[str, Any], ruling: Ruling, scenario: Make
) -> None:
    """What acks and the topic promise decides, by the cause and by what is known next to it."""
    assert on_loss(scenario(acks=acks, **more), Loss(0, "orders", cause, 5, known)) == ruling


def test_loss_of_an_unknown_producer_is_unclear(scenario: Make) -> None:
    """What a producer that the scenario does not have was promised is not known, whatever the cause."""
    for producer in (-1, 1, 9):
        ruling = on_loss(scenario(**COMPACT), Loss(producer, "orders", "unexplained", 1, HOLE))
        why = f"the scenario does not have producer {producer}, so what it was promised is not known"
        assert ruling == ("unclear", why)


def test_displaced_offset_without_acknowledgement_is_a_violation(scenario: Make) -> None:
    """Without an acknowledgement to explain it nothing is promised away, but by an unclean election."""
    found = Loss(None, "orders", "unexplained", 1)
    expected = Ruling("violation", "no acknowledgement explains it (cause: unexplained)")
    assert on_overwritten(scenario(acks=0), found) == expected
    assert on_overwritten(scenario(**ALLOWED), Loss(None, "orders", UNCLEAN, 1)) == ENABLED


def test_compaction_does_not_give_an_offset_twice(scenario: Make) -> None:
    """It takes messages away; it gives no offset to a second one."""
    found = Loss(0, "orders", "unexplained", 1, HOLE)
    assert on_overwritten(scenario(acks="all", **COMPACT), found) == UNEXPLAINED


STRANGER = Ruling("unclear", "the scenario does not have producer 3, so what it was promised is not known")


@pytest.mark.parametrize(
    ("producer", "ruling"),
    [
        ({}, Ruling("permitted", "retries without idempotence may store a message twice")),
        (
            {"config": {"enable.idempotence": False, "retries": "many"}},
            Ruling("permitted", "retries without idempotence may store a message twice"),
        ),
        (
            {"config": {"retries": 1}},
            Ruling("permitted", "retries without idempotence may store a message twice"),
        ),
        ({"idempotence": True}, Ruling("violation", "an idempotent producer stores each message once")),
        (
            {"config": {"enable.idempotence": "True"}},
            Ruling("violation", "an idempotent producer stores each message once"),
        ),
        (
            {"config": {"retries": 0}},
            Ruling("violation", "retries are disabled, so nothing was sent twice on purpose"),
        ),
        (
            {"config": {"message.send.max.retries": "0"}},
            Ruling("violation", "retries are disabled, so nothing was sent twice on purpose"),
        ),
    ],
)
def test_on_duplicate(producer: dict[str, Any], ruling: Ruling, scenario: Make) -> None:
    """A retry without idempotence stores a message twice, and nothing else does."""
    assert on_duplicate(scenario(**producer), 0) == ruling
    assert on_duplicate(scenario(**producer), 3) == STRANGER


@pytest.mark.parametrize(
    ("expiration", "config", "word"),
    [
        (2_000, {}, "unclear"),
        (2_000, {"message.timeout.ms": 1_500}, "violation"),
        (600_000, {}, "violation"),
        (600_000, {"message.timeout.ms": 0}, "unclear"),
        (None, {"message.timeout.ms": 0}, "violation"),
    ],
)
def test_brokers_may_forget_an_idempotent_producer_as_configured(
    expiration: int | None, config: dict[str, Any], word: str, scenario: Make
) -> None:
    """Then a message that it sends again is a new one to them, and may be behind later ones."""
    given = scenario(idempotence=True, config=config)
    if expiration is not None:
        cluster = given.cluster.model_copy(update={"config": {"producer.id.expiration.ms": expiration}})
        given = given.model_copy(update={"cluster": cluster})
    ruling = on_duplicate(given, 0)
    assert ruling.word == on_reordered(given, Reordered(0, 2)).word == word
    assert ("they may after 2,000 ms without a message" in ruling.why) == (
        word == "unclear" and expiration == 2_000
    )


OVERTAKEN = Ruling("permitted", "retries with more than one request in flight may overtake each other")
WITHOUT_RETRIES = Ruling("permitted", "requests in flight may overtake each other")
BEHIND = Ruling("permitted", "a request to the old leader was retried after newer ones to the new leader")
KEPT = Ruling("violation", "one request in flight and no change of leader keep the order")
IDEMPOTENT = Ruling("violation", "an idempotent producer keeps its order")


@pytest.mark.parametrize(
    ("producer", "across", "ruling"),
    [
        ({}, False, OVERTAKEN),
        ({"config": {"max.in.flight": 2}}, False, OVERTAKEN),
        ({"config": {"max.in.flight": "some"}}, False, OVERTAKEN),
        ({"config": {"retries": 0}}, True, WITHOUT_RETRIES),
        ({"config": {"max.in.flight": 1}}, False, KEPT),
        ({"config": {"max.in.flight.requests.per.connection": "1"}}, False, KEPT),
        ({"config": {"max.in.flight.requests.per.connection": 1}}, True, BEHIND),
        ({"idempotence": True}, True, IDEMPOTENT),
        ({"config": {"enable.idempotence": True}}, False, IDEMPOTENT),
    ],
)
def test_on_reordered(producer: dict[str, Any], across: bool, ruling: Ruling, scenario: Make) -> None:
    """Requests in flight among others overtake, and one retried across a change of leader does."""
    assert on_reordered(scenario(**producer), Reordered(0, 2, across)) == ruling
    assert on_reordered(scenario(**producer), Reordered(3, 2, across)) == STRANGER


def test_producer_number_resolves_to_its_scenario_block(scenario: Make) -> None:
    """Numbers count over `count`; there is none below 0 or beyond the last."""
    two = scenario(count=2)
    assert spec_of(two, 0) is two.workload.producers[0] is spec_of(two, 1)
    assert [spec_of(two, number) for number in (-1, 2, None)] == [None, None, None]


@pytest.mark.parametrize("in_doubt", [False, True])
@pytest.mark.parametrize("by_replay", [False, True])
@pytest.mark.parametrize("replay", ["at-least-once", "exactly once", "none"])
def test_on_replayed_twice(in_doubt: bool, by_replay: bool, replay: str, scenario: Make) -> None:
    """What was in doubt may be there before the replay, which excuses no second copy of a replay's own."""
    given = scenario(**{"on-failure": {"stores": ["local"]}}, stores=["local"], replay=replay)
    word = on_replayed_twice(given, ReplayedTwice(0, 3, in_doubt, by_replay)).word
    allowed = replay == "at-least-once" or (in_doubt and not by_replay)
    assert word == ("permitted" if allowed else "violation")


def test_on_replayed_late(scenario: Make) -> None:
    """Also of an idempotent producer; not where a later message with the same key is before it."""
    idempotent = scenario(idempotence=True)
    assert on_reordered(idempotent, Reordered(0, 2, replay=True)).word == "permitted"
    assert on_reordered(idempotent, Reordered(0, 2, replay=True, by_key=True)).word == "violation"


@pytest.mark.parametrize(("resends", "word"), [(0, "violation"), (1, "permitted")])
def test_application_resend_may_duplicate_and_reorder(resends: int, word: str, scenario: Make) -> None:
    """As a new message, which idempotence does not cover; in the order of its key if that is kept."""
    keeping = {"stores": ["local"], "resends": resends}
    given = scenario(idempotence=True, stores=["local"], **{"on-failure": keeping})
    assert on_reordered(given, Reordered(0, 2)).word == on_duplicate(given, 0).word == word
    assert on_reordered(given, Reordered(0, 2, by_key=True)).word == "violation"
