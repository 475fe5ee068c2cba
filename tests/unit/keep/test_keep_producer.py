"""The producer's ladder with a client and a store that fail on demand: every message is counted once."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from fakes.broken_store import BreakableStore
from fakes.kafka_client import FakeClient
from fakes.store_contract import record
from kaput import keep
from kaput.clients.keep.store import StoreChain, now_ms
from kaput.errors import AccountingError, UsageError
from waiting import eventually


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture
def store() -> BreakableStore:
    return BreakableStore()


def producing(client: FakeClient, store: Any, **options: Any) -> keep.Producer:
    """A producer that gives up quickly."""
    return keep.Producer({}, store=store, client=client, **{"block_s": 0.2, **options})


def send(producer: keep.Producer, *values: str, key: str | None = None) -> None:
    for value in values:
        producer.produce("orders", value, key)


def parts(counts: keep.ProducerCounts) -> dict[str, int]:
    """The counts that are not 0."""
    names = ("acked", "failed", "unknown", "kept", "refused", "queued")
    return {name: getattr(counts, name) for name in names if getattr(counts, name)}


def test_acked_message_is_never_stored(client: FakeClient, store: BreakableStore) -> None:
    """And it is queued, not delivered, until its report is there."""
    producer, reports = producing(client, store), []
    producer.produce(
        "orders", "1", on_delivery=lambda error, message: reports.append((error, message.value()))
    )
    assert parts(producer.counts) == {"queued": 1} and len(producer) == 1 and reports == []
    producer.poll(0)
    assert parts(producer.counts) == {"acked": 1} and reports == [(None, b"1")] and store.values == []


def test_a_message_is_sent_again_and_then_kept(client: FakeClient, store: BreakableStore) -> None:
    """As often as `resends` says; the caller's report is an error, once, when it is kept."""
    producer, reports = producing(client, store, resends=2), []
    client.away = True
    producer.produce(
        "orders", "1", b"k", headers={"a": "b"}, timestamp=77,
        on_delivery=lambda error, message: reports.append((error, message.value(), message.headers())),
    )  # fmt: skip
    for _ in range(2):
        producer.poll(0)
        assert parts(producer.counts) == {"queued": 1} and store.values == [] and reports == []
    producer.poll(0)
    assert parts(producer.counts) == {"kept": 1} and producer.counts.sent_again == 2
    ((error, *sent),) = reports
    assert (error.code(), *sent) == (KafkaError._MSG_TIMED_OUT, b"1", [("a", b"b")])
    (kept,) = store.read()
    assert kept.error == f"_MSG_TIMED_OUT: {error.str()}" and error.str()
    assert (kept.key, kept.headers, kept.timestamp_ms) == (b"k", (("a", b"b"),), 77)
    assert (kept.tries, kept.in_doubt, kept.partition) == (3, True, 0)


def test_resend_delivers_without_using_the_store(client: FakeClient, store: BreakableStore) -> None:
    """The queue sends it again, and it is delivered."""
    producer = producing(client, store)
    client.away = True
    send(producer, "1", "2")
    producer.poll(0)
    client.away = False
    assert producer.flush(5) == 0 and client.values == [b"1", b"2"] and store.values == []
    assert (producer.counts.acked, producer.counts.in_doubt, producer.counts.sent_again) == (2, 2, 2)


def test_permanent_error_is_kept_without_resending(client: FakeClient, store: BreakableStore) -> None:
    producer = producing(client, store)
    client.fails[b"1"] = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    send(producer, "1")
    producer.poll(0)
    assert parts(producer.counts) == {"kept": 1} and producer.counts.sent_again == 0


def test_message_rejected_by_the_client_is_not_kept(client: FakeClient, store: BreakableStore) -> None:
    """A message that is too large: an exception, counted, and in no store. A client that is broken: kept."""
    producer = producing(client, store)
    client.refuses = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    with pytest.raises(KafkaException):
        send(producer, "1")
    assert parts(producer.counts) == {"refused": 1} and store.values == []
    client.refuses = KafkaError(KafkaError._FATAL, "fenced")
    send(producer, "2")
    assert parts(producer.counts) == {"refused": 1, "kept": 1} and store.values == [b"2"]


@pytest.mark.parametrize("way", ["poll", "flush", "close"])
def test_fatal_error_amid_reports_does_not_reach_the_caller(
    way: str, client: FakeClient, store: BreakableStore
) -> None:
    """What the client still had gets its report later; what comes then is kept."""
    producer = producing(client, store)
    client.breaks = KafkaError(45, "out of order", fatal=True)
    send(producer, "1", "2")
    {"poll": producer.poll, "flush": producer.flush, "close": producer.close}[way](0)
    if way != "close":
        send(producer, "3")
        assert store.values == [b"3"]
        producer.close()
    assert producer.counts.acked + producer.counts.kept == producer.counts.sent


def test_fatal_error_of_the_last_flush_hides_no_report(client: FakeClient, store: BreakableStore) -> None:
    """What was purged gets its reports after it, and is kept."""
    producer = producing(client, store)
    client.stuck, client.breaks = True, KafkaError(45, "out of order", fatal=True)
    send(producer, "1", "2", "3")
    assert parts(producer.close(0)) == {"kept": 3} and len(store.values) == 3


@pytest.mark.parametrize("policy", ["block", "refuse"])
def test_full_queue_refuses_at_once_or_after_the_block_time(
    policy: str, client: FakeClient, store: BreakableStore
) -> None:
    """Neither loses what it had taken."""
    client.room, client.stuck = 2, True
    producer = producing(client, store, policy=policy)
    send(producer, "1", "2")
    with pytest.raises(
        keep.Refused, match=r"orders: not sent and not kept: the client's queue is full"
    ) as why:
        send(producer, "3")
    assert isinstance(why.value, BufferError) and ("0.2 s" in str(why.value)) is (policy == "block")
    client.stuck = False
    send(producer, "4") if policy == "block" else producer.flush()
    assert producer.flush(5) == 0 and producer.counts.refused == 1
    assert client.values == [b"1", b"2"] + [b"4"] * (policy == "block")


def test_a_full_queue_spills_into_the_store(client: FakeClient, store: BreakableStore) -> None:
    """Nothing waits and nothing is refused; what was never sent is not in doubt."""
    client.room, client.stuck = 2, True
    producer = producing(client, store, policy="spill")
    send(producer, "1", "2", "3", "4")
    assert store.values == [b"3", b"4"] and parts(producer.counts) == {"queued": 2, "kept": 2}
    assert not any(record.in_doubt for record in store.read())


def test_next_store_is_used_when_one_is_down(client: FakeClient, store: BreakableStore) -> None:
    second = BreakableStore("second")
    producer = producing(client, [store, second], policy="spill", resends=0)
    client.away, store.down = True, True
    send(producer, "1")
    producer.poll(0)
    store.down = False
    send(producer, "2")
    producer.poll(0)
    assert (second.values, store.values) == ([b"1"], [b"2"])
    assert producer.counts.kept_by == {"second": 1, "memory": 1}


@pytest.mark.parametrize("policy", ["block", "spill", "refuse"])
def test_messages_wait_in_memory_while_the_store_is_down(
    policy: str, client: FakeClient, store: BreakableStore
) -> None:
    """It waits in memory, at most `queue`; then `produce` refuses. It is kept when the store is back."""
    producer = producing(client, store, policy=policy, resends=0, queue=3)
    client.away, store.down = True, True
    accepted = 0
    with pytest.raises(keep.Refused, match=r"failed messages are waiting for a store.*memory is down"):
        for number in range(10):
            send(producer, str(number))
            accepted += 1
            producer.poll(0)
    assert accepted == (1 if policy == "refuse" else 3)
    assert parts(producer.counts) == {"queued": accepted, "refused": 1}
    store.down = False
    assert producer.flush(5) == 0 and len(store.values) == accepted


def test_close_reports_messages_that_no_store_accepted(client: FakeClient, store: BreakableStore) -> None:
    """As failed where Kafka cannot have it, else as unknown; the caller gets a report of each."""
    reports: list[Any] = []
    producer = producing(client, store, policy="spill", resends=0)
    client.stuck, store.down, client.room = True, True, 1
    for value in ("1", "2"):
        producer.produce("orders", value, on_delivery=lambda error, message: reports.append(message.value()))
    counts = producer.close(0.1)
    assert parts(counts) == {"failed": 1, "unknown": 1} and sorted(reports) == [b"1", b"2"]
    with pytest.raises(keep.Refused, match="the producer is closed"):
        send(producer, "3")


def test_close_keeps_messages_without_a_delivery_report(client: FakeClient, store: BreakableStore) -> None:
    """Messages with the client, in the queue, and behind others of their key."""
    producer = producing(client, store, ordered=True)
    client.stuck = True
    send(producer, "1", "2", "3", key="k")
    send(producer, "4")
    assert parts(producer.close(0)) == {"kept": 4}
    assert store.values == [b"1", b"2", b"3", b"4"]
    assert [record.in_doubt for record in store.read()] == [True, False, False, True]


def test_spool_first_writes_to_the_store_before_sending(client: FakeClient, store: BreakableStore) -> None:
    """It goes when it is acknowledged; until its producer would have given up, replay leaves it alone."""
    producer = producing(client, store, spool_first=True, resends=1)
    client.stuck = True
    send(producer, "1")
    (record,) = store.read()
    assert record.value == b"1" and record.error is None
    assert 60_000 < record.sending_until_ms - now_ms() <= 65_000
    client.stuck = False
    producer.poll(0)
    assert store.values == [] and parts(producer.counts) == {"acked": 1}


def test_spool_first_keeps_a_failed_message_in_its_store(client: FakeClient, store: BreakableStore) -> None:
    """Once, with its error, in the store that has it; also if that cannot be written just then."""
    second = BreakableStore("second")
    producer = producing(client, [store, second], policy="spill", spool_first=True, resends=0)
    client.away, store.down = True, True
    send(producer, "1")
    store.down = False
    send(producer, "2")
    producer.poll(0)
    assert ([r.error is None for r in store.read()], second.values) == ([False], [b"1"])
    assert store.read()[0].sending_until_ms == 0
    send(producer, "3")
    store.down = True
    producer.poll(0)
    store.down = False
    assert store.values == [b"2", b"3"] and parts(producer.counts) == {"kept": 3}


def test_spool_first_refuses_when_store_or_queue_fails(client: FakeClient, store: BreakableStore) -> None:
    """Also when the client's queue is full: the message is not left in the store behind the caller's back."""
    producer = producing(client, store, policy="refuse", spool_first=True)
    store.down = True
    with pytest.raises(keep.Refused, match="the store is failing"):
        send(producer, "1")
    store.down, client.stuck, client.room = False, True, 0
    with pytest.raises(keep.Refused, match="the client's queue is full"):
        send(producer, "2")
    producer.poll(0)
    assert store.values == [] and parts(producer.counts) == {"refused": 2}


def test_acked_message_is_removed_when_the_store_is_back(client: FakeClient, store: BreakableStore) -> None:
    """As soon as the store is back."""
    producer = producing(client, store, spool_first=True)
    send(producer, "1")
    store.down = True
    producer.poll(0)
    assert parts(producer.counts) == {"acked": 1}
    store.down = False
    assert eventually(lambda: producer.poll(0) == 0 and store.values == [])


def test_a_key_waits_while_an_earlier_message_of_it_is_kept(
    client: FakeClient, store: BreakableStore
) -> None:
    """Other keys, and messages without a key, go on; when the store is empty, the key goes on too."""
    producer = producing(client, store, ordered=True, resends=0)
    client.away = True
    send(producer, "1", "2", key="a")
    producer.poll(0)
    client.away = False
    send(producer, "3", key="a")
    send(producer, "4", key="b")
    send(producer, "5")
    producer.flush(5)
    assert store.values == [b"1", b"2", b"3"] and client.values == [b"4", b"5"]
    store.remove([record.id for record in store.read()])
    assert eventually(lambda: producer.poll(0) == 0 and not producer._deliveries.order.kept)
    send(producer, "6", key="a")
    producer.flush(5)
    assert client.values == [b"4", b"5", b"6"] and producer.counts.overtaken == 0


def test_new_producer_orders_behind_keys_in_the_store(client: FakeClient, store: BreakableStore) -> None:
    """The one before it was killed."""
    client.away = True
    with producing(client, store, resends=0) as first:
        send(first, "1", key="a")
    client.away = False
    with producing(client, store, ordered=True) as second:
        send(second, "2", key="a")
        send(second, "3", key="b")
    assert store.values == [b"1", b"2"] and client.values == [b"3"]


def test_messages_of_a_key_are_sent_one_after_the_other(client: FakeClient, store: BreakableStore) -> None:
    """So a later one cannot be stored while an earlier one fails."""
    producer = producing(client, store, ordered=True)
    send(producer, "1", "2", "3", key="a")
    send(producer, "4", key="b")
    assert len(client) == 2 and len(producer) == 4
    client.fails[b"1"] = KafkaError(KafkaError._MSG_TIMED_OUT)
    assert producer.flush(5) == 0
    assert client.values == [b"4", b"1", b"2", b"3"] and producer.counts.overtaken == 0


def test_a_refused_message_does_not_stop_its_key(client: FakeClient, store: BreakableStore) -> None:
    """The next one of the key goes on."""
    producer = producing(client, store, ordered=True)
    client.refuses = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    with pytest.raises(KafkaException):
        send(producer, "1", key="a")
    client.refuses = None
    send(producer, "2", key="a")
    assert producer.flush(5) == 0 and client.values == [b"2"]


def test_overtaken_messages_are_counted(client: FakeClient, store: BreakableStore) -> None:
    """Each message that was stored before an earlier one of its key: waiting, or kept."""
    producer = producing(client, store)
    client.fails = {b"1": KafkaError(KafkaError._MSG_TIMED_OUT)}
    send(producer, "1", "2", key="a")
    send(producer, "3", key="b")
    producer.flush(5)
    assert client.values == [b"2", b"3", b"1"] and producer.counts.overtaken == 1
    client.fails = {b"4": KafkaError(KafkaError.INVALID_RECORD)}
    send(producer, "4", "5", "6", key="a")
    send(producer, "7")
    producer.flush(5)
    assert producer.counts.overtaken == 3 and store.values == [b"4"]


def test_inconsistent_counts_raise_an_error(client: FakeClient, store: BreakableStore) -> None:
    """Its numbers would be worth nothing."""
    producer = producing(client, store)
    send(producer, "1")
    producer._deliveries.counts.acked += 1
    with pytest.raises(AccountingError, match="do not add up"):
        _ = producer.counts


@pytest.mark.parametrize(
    ("config", "options", "why"),
    [
        ({}, {"policy": "wait"}, "policy 'wait': write one of block, spill, refuse"),
        ({}, {"store": []}, "0 stores"),
        ({}, {"store": [1, 2]}, "2 stores: give one, or several with policy='spill'"),
        ({"transactional.id": "x"}, {}, "transactional.id: a message that fails aborts its transaction"),
        ({"message.timeout.ms": 0}, {}, "a message that never fails would never be kept"),
    ],
)
def test_invalid_options_are_rejected(config: Any, options: Any, why: str, store: BreakableStore) -> None:
    """Before a client is made."""
    with pytest.raises(UsageError) as caught:
        keep.Producer(config, **{"store": store, **options})
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("config", "idempotent"),
    [({}, True), ({"acks": "all"}, True), ({"acks": 1}, None), ({"enable.idempotence": False}, False),
     ({"max.in.flight": 10}, None)],
)  # fmt: skip
def test_client_is_idempotent_by_default_with_a_short_timeout(
    config: dict[str, Any], idempotent: bool | None, client: FakeClient, store: BreakableStore
) -> None:
    """And gives up soon enough for the store."""
    keep.Producer(config, store=store, client=client)
    assert client.settings.get("enable.idempotence") is idempotent
    assert client.settings["message.timeout.ms"] == 30_000


@pytest.mark.parametrize("options", [{}, {"ordered": True}, {"spool_first": True}, {"policy": "spill"}])
@pytest.mark.parametrize("seed", range(15))
def test_every_message_is_accounted_for_under_random_failures(seed: int, options: dict[str, Any]) -> None:
    """Kafka and the store come and go: sent = acknowledged, kept or refused, and the same in truth."""
    draw = random.Random(seed)
    client, store = FakeClient(room=draw.randint(1, 20)), BreakableStore()
    producer = producing(
        client, store, block_s=0, queue=draw.randint(1, 8), resends=draw.randint(0, 2), **options
    )
    refused = set()
    for number in range(300):
        client.away, client.stuck = draw.random() < 0.3, draw.random() < 0.2
        store.down = draw.random() < 0.2
        try:
            producer.produce("orders", str(number), draw.choice([None, "a", "b", "c"]))
        except keep.Refused:
            refused.add(b"%d" % number)
        producer._deliveries._retry_store_at = 0
        if draw.random() < 0.3:
            producer.poll(0)
        assert producer.counts.sent == number + 1
    client.away = client.stuck = store.down = False
    producer._deliveries._retry_store_at = 0
    counts = producer.close(5)
    assert parts(counts).keys() <= {"acked", "kept", "refused"} and counts.refused == len(refused)
    stored, kept = client.values, store.values
    assert len(stored) == counts.acked and len(kept) == counts.kept
    assert sorted([*stored, *kept, *refused], key=int) == [b"%d" % n for n in range(300)]
    if options.get("ordered"):
        assert counts.overtaken == 0
        for key in (b"a", b"b", b"c"):
            of_key = [int(value) for _, value, its_key in client.stored if its_key == key]
            assert of_key == sorted(of_key)
            first_kept = min((int(r.value or b"") for r in store.read() if r.key == key), default=300)
            assert not of_key or of_key[-1] < first_kept


def test_several_threads_may_produce_at_once(client: FakeClient, store: BreakableStore) -> None:
    producer = producing(client, store, policy="spill", resends=0)

    def produce() -> None:
        for number in range(2_000):
            client.away = number % 3 == 0
            producer.produce("orders", str(number))

    threads = [threading.Thread(target=produce) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert producer.counts.sent <= 8_000
        producer.poll(0)
    counts = producer.close(10)
    assert counts.sent == 8_000 == counts.acked + counts.kept
    assert counts.kept == len(store.values) and counts.acked == len(client.values)


def test_message_in_two_stores_is_removed_from_the_failed_one(
    client: FakeClient, store: BreakableStore
) -> None:
    """Its answer was lost: else a replay of both stores would send the message twice."""
    second, put = BreakableStore("second"), store.put

    def took_it(records: Sequence[keep.KeptMessage]) -> None:
        put(records)
        raise keep.StoreError("the connection is lost")

    store.put = took_it  # type: ignore[method-assign]
    producer = producing(client, [store, second], policy="spill", resends=0)
    client.away = True
    send(producer, "1")
    producer.poll(0)
    assert (store.values, second.values) == ([], [b"1"]) and producer.counts.kept_by == {"second": 1}


def test_on_failure_reports_each_kept_message_and_its_store(
    client: FakeClient, store: BreakableStore
) -> None:
    """Each message has one report: `on_delivery` if it was acknowledged, else `on_failure`."""
    found: list[tuple[bytes | None, str | None]] = []
    acked: list[bytes | None] = []
    producer = producing(
        client,
        store,
        resends=0,
        block_s=0.0,
        on_failure=lambda record, name: found.append((record.value, name)),
    )
    producer.produce("orders", b"0", on_delivery=lambda _error, message: acked.append(message.value()))
    producer.poll(0)
    client.away = True
    producer.produce("orders", b"1", on_delivery=lambda _error, message: acked.append(message.value()))
    producer.poll(0)
    store.down = True
    producer.produce("orders", b"2", on_delivery=lambda _error, message: acked.append(message.value()))
    producer.close(0.1)
    assert (acked, found) == ([b"0"], [(b"1", "memory"), (b"2", None)])


def test_slow_failing_store_is_not_retried_for_each_batch(
    client: FakeClient, store: BreakableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is down: else each batch would wait for it, and the producer with it."""
    now = [0.0]
    monkeypatch.setattr("kaput.clients.keep.store.time.monotonic", lambda: now[0])
    second, asked = BreakableStore("second"), list[float]()

    def slow(_records: Sequence[keep.KeptMessage]) -> None:
        asked.append(now[0])
        now[0] += 10
        raise keep.StoreError("no server")

    put, store.put = store.put, slow  # type: ignore[method-assign]
    stores = StoreChain([store, second])
    one, two, three = (record(n) for n in (1, 2, 3))
    assert stores.put([one]) == "second" and stores.put([two]) == "second"
    now[0] = 20.5
    store.put = put  # type: ignore[method-assign]
    assert stores.put([three]) == "memory" and asked == [0.0]


def test_store_with_slow_reads_is_skipped_for_writes(
    store: BreakableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a producer wants to know is not worth waiting for again: the next store takes the messages."""
    now, asked = [0.0], list[str]()
    monkeypatch.setattr("kaput.clients.keep.store.time.monotonic", lambda: now[0])

    def slow(what: str) -> Any:
        def fails(*_: Any) -> None:
            asked.append(what)
            now[0] += 10
            raise keep.StoreError("no server")

        return fails

    stores = StoreChain([store, BreakableStore("second")])
    assert stores.is_empty()
    store.counts, store.put = slow("counts"), slow("put")  # type: ignore[method-assign]
    assert not stores.is_empty() and not stores.is_empty()
    assert stores.put([record(1)]) == "second" and asked == ["counts"]
