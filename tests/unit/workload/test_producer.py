"""The sender's loop without a broker: what is noted, in which order, and when."""

import json
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from producer_specs import RUN, producer_spec

from kaput.evidence.attempts import read_attempts
from kaput.evidence.folder import RunFolder
from kaput.evidence.sealing import seal
from kaput.workload.counters import Counters
from kaput.workload.librdkafka.client_setup import is_fatal, quiet_logger
from kaput.workload.librdkafka.producer import TICK_S, Sender
from kaput.workload.moving import Destination, MoveTo
from kaput.workload.payload import Codec
from streams import rows_so_far


class Client:
    """Takes what is produced; may be full, or refuse, at some seqs. Looks at the note of each attempt."""

    def __init__(self, sender: Sender, trouble: dict[int, Exception]) -> None:
        self._sender, self._trouble = sender, trouble
        self.taken: list[tuple[int, bytes | None, int]] = []
        self.counted: list[int] = []
        self.dated: list[int | None] = []  # ms from the attempt to the timestamp
        self.polls: list[float] = []
        self.fatal: KafkaException | None = None  # raised by the next poll; then each message is refused
        self.keeps = self.broken = False  # whether messages are left without an outcome; refused
        self.left: list[Message] = []
        self.purged: list[Message] = []

    def produce(
        self, topic: str, payload: bytes, key: bytes | None, partition: int, timestamp: int | None = None
    ) -> None:
        identity = Codec(RUN).decode(payload).identity
        assert identity is not None and topic == "orders"
        noted = self._sender.attempts.cells(identity.seq, identity.seq + 1)[0]
        assert noted == identity.sent_ns, "the attempt is noted before the send"
        if identity.seq in self._trouble:
            raise self._trouble.pop(identity.seq)
        if self.broken:
            raise KafkaException(KafkaError(KafkaError._FATAL))
        if self.keeps:
            self.left.append(Message(topic=topic, value=payload, partition=partition))
        self.taken.append((identity.seq, key, partition))
        self.dated.append(None if timestamp is None else timestamp - identity.sent_ns // 1_000_000)
        self.counted.append(self._sender.counts[0])

    def poll(self, timeout_s: float) -> int:
        self.polls.append(timeout_s)
        if self.fatal is not None:
            error, self.fatal = self.fatal, None
            self.broken = is_fatal(error.args[0])
            raise error
        while self.purged:
            self._sender.listener()(KafkaError(KafkaError._PURGE_INFLIGHT), self.purged.pop())
        return 0

    def purge(self) -> None:
        self.purged, self.left = self.left, []

    def __len__(self) -> int:
        return len(self.left) + len(self.purged)


def sender_of(
    folder: Path, trouble: dict[int, Exception] | None = None, **more: Any
) -> tuple[Sender, Client]:
    """A sender of 200 messages with a client of our own."""
    counters = folder / "counters"
    Counters(counters, 2, create=True)
    sender = Sender(producer_spec(folder, **{"messages": 200, "producers": 2, **more}))
    client = Client(sender, trouble or {})
    sender.client = client  # type: ignore[assignment]
    return sender, client


def test_every_message_is_sent_and_recorded_once(tmp_path: Path) -> None:
    """In the order of seq, all counted in the end, with a look at the callbacks now and then."""
    sender, client = sender_of(tmp_path)
    sender.send_all()
    sender.finish()
    assert client.taken == [(seq, None, 0) for seq in range(200)]
    assert sender.counts[0] == 200 and len(client.polls) >= 3
    attempts = read_attempts(tmp_path / "evidence" / "sends" / "producer-0.attempts")
    assert attempts is not None and len(attempts.attempt_ns) == 200


def test_producer_that_starts_later_serves_callbacks_until_then(tmp_path: Path) -> None:
    """And its duration counts from its first message."""
    began = time.monotonic()
    sender, client = sender_of(tmp_path, starts_ms=120)
    sender.send_all()
    assert time.monotonic() - began >= 0.12 and len(client.polls) >= 2 and len(client.taken) == 200


@pytest.mark.parametrize("shift", [None, -7_200_000, 60_000])
def test_timestamps_are_shifted_from_the_attempt(tmp_path: Path, shift: int | None) -> None:
    """Without a shift the client dates messages itself."""
    sender, client = sender_of(tmp_path, timestamps_ms=shift, messages=3)
    sender.send_all()
    if shift is None:
        assert client.dated == [None] * 3
    else:
        assert all(each is not None and shift <= each < shift + 60_000 for each in client.dated)


@pytest.mark.parametrize(
    ("key", "wanted"),
    [("none", None), ("producer", b"0"), ("seq", b"65"), (7, b"2")],
)
def test_message_keys(tmp_path: Path, key: str | int, wanted: bytes | None) -> None:
    """Each kind of key, also after the first batch of sends."""
    sender, client = sender_of(tmp_path, key=key)
    sender.send_all()
    assert client.taken[65][1] == wanted


@pytest.mark.parametrize(
    ("partitions", "round_robin", "wanted"), [(1, False, 0), (1, True, 0), (3, False, -1), (3, True, 65 % 3)]
)
def test_partition_selection(tmp_path: Path, partitions: int, round_robin: bool, wanted: int) -> None:
    """Chosen where only one is possible or round-robin is asked for; else the partitioner's."""
    sender, client = sender_of(tmp_path, partitions=partitions, round_robin=round_robin)
    sender.send_all()
    assert client.taken[65][2] == wanted


def test_slow_sends_do_not_keep_callbacks_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer that is always a little late has no time between its messages, and polls nevertheless."""
    sender, client = sender_of(tmp_path, rate=200, messages=40)
    produce = client.produce
    monkeypatch.setattr(client, "produce", lambda *of: (time.sleep(0.006), produce(*of)))
    sender.send_all()
    assert client.polls


def test_time_between_messages_is_spent_with_callbacks(tmp_path: Path) -> None:
    """For as long as was asked, whatever comes meanwhile."""
    sender, client = sender_of(tmp_path)
    began = time.monotonic()
    sender.serve_for(0.02)
    assert time.monotonic() - began >= 0.02 and client.polls


def test_a_full_queue_is_waited_for(tmp_path: Path) -> None:
    """The message is attempted again, none is left out, none is sent twice."""
    sender, client = sender_of(tmp_path, {0: BufferError(), 70: BufferError(), 199: BufferError()})
    sender.send_all()
    assert [seq for seq, _, _ in client.taken] == list(range(200))


def test_a_refused_message_has_failed(tmp_path: Path) -> None:
    """What the client does not take is counted as attempted and failed, and the next one follows."""
    too_large = KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    sender, client = sender_of(tmp_path, {5: too_large})
    sender.send_all()
    assert [seq for seq, _, _ in client.taken] == [seq for seq in range(200) if seq != 5]
    assert list(sender.counts) == [200, 0, 1, 0, 0, 0]
    sender.reports.flush()
    (row,) = rows_so_far(tmp_path / "evidence" / "sends")
    assert (row["outcome"], row["error"].split(":")[0]) == ("failed", "MSG_SIZE_TOO_LARGE")


def test_messages_after_a_fatal_error_have_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An idempotent client tells of it amid its callbacks, and refuses every message from then on. Its
    process goes on, as that of a program that does not notice; what the client has is waited for no longer,
    and unknown.
    """
    sender, client = sender_of(tmp_path)
    client.fatal, client.keeps = fatal_error(), True
    sender.send_all()
    sender.finish()
    assert list(sender.counts) == [200, 0, 136, 64, 0, 0]
    note = "The client of producer 0 ended at a fatal error, and sent nothing more: OUT_OF_ORDER"
    assert f'"kind": "note", "message": "{note}' in capsys.readouterr().out
    rows = rows_so_far(tmp_path / "evidence" / "sends")
    found = {(row["outcome"], row["error"].split(":")[0], row["seq"] < 64) for row in rows}
    assert found == {("unknown", "_PURGE_INFLIGHT", True), ("failed", "OUT_OF_ORDER_SEQUENCE_NUMBER", False)}


def test_producer_that_is_moved_has_no_fatal_error_there(tmp_path: Path) -> None:
    """It has another client."""
    sender, _ = sender_of(tmp_path)
    sender.on_fatal("OUT_OF_ORDER_SEQUENCE_NUMBER")
    sender.begin_client(MoveTo(Destination("dc2", str(sender.spec.config["bootstrap.servers"]))))
    assert sender.fatal is None


def fatal_error() -> KafkaException:
    """As the client raises it."""
    text = f"Fatal error: {KafkaError(45).str()}: sequence desynchronization"
    return KafkaException(KafkaError(KafkaError._FATAL, text, fatal=True))


def test_other_errors_of_a_poll_are_raised(tmp_path: Path) -> None:
    sender, client = sender_of(tmp_path)
    client.fatal = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    with pytest.raises(KafkaException):
        sender.serve(0)


def test_producer_without_a_rate_does_not_spin_after_a_fatal_error(tmp_path: Path) -> None:
    """Until its time is over it would refuse some 100,000 messages a second."""
    sender, client = sender_of(tmp_path, messages=None, duration_ms=30)
    client.fatal = fatal_error()
    sender.send_all()
    assert client.polls.count(TICK_S) == sender.counts[2] > 0


def test_threshold_is_reported_at_the_exact_attempt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other has made 30: with our 70th attempt it is a hundred, and told before our 71st."""
    sender, client = sender_of(tmp_path, thresholds=[100])
    Counters(tmp_path / "counters", 2).row(1)[0] = 30
    told_after: list[int] = []
    look = sender.watch.look

    def looking() -> list[int]:
        reached = look()
        told_after.extend(len(client.taken) for _ in reached)
        return reached

    sender.watch.look = looking  # type: ignore[method-assign]
    sender.send_all()
    (said,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (said["kind"], said["n"], told_after) == ("threshold", 100, [70])
    # Up to there the others see each attempt at once; after it, every POLL_EVERY sends.
    assert client.counted[:71] == list(range(71))


def test_a_paced_sender_keeps_its_rate(tmp_path: Path) -> None:
    """Two hundred at a thousand a second take a fifth of a second, and no message is early."""
    sender, _ = sender_of(tmp_path, rate=1000.0)
    sender.send_all()
    sender.finish()
    attempts = read_attempts(tmp_path / "evidence" / "sends" / "producer-0.attempts")
    assert attempts is not None
    passed_ms = (attempts.attempt_ns - attempts.attempt_ns[0]) / 1e6
    assert all(passed_ms[seq] >= seq - 5 for seq in range(200))


def test_a_paced_sender_does_not_spin(tmp_path: Path) -> None:
    """At 5,000 a second messages are 0.2 ms apart, and no wait is shorter than a client can wait."""
    sender, client = sender_of(tmp_path, rate=5000.0)
    sender.send_all()
    waits = [timeout_s for timeout_s in client.polls if timeout_s]
    assert waits and min(waits) >= 0.001


def test_stopped_sender_records_purged_messages_as_unknown(tmp_path: Path) -> None:
    """A real client with nobody to send to: what it purges is unknown, and recorded."""
    sender, _ = sender_of(tmp_path)
    sender.client = Producer(sender.spec.config | {"on_delivery": sender.listener()}, logger=quiet_logger())
    sender.send_all()
    sender.stopping.set()
    sender.finish()
    assert list(sender.counts) == [200, 0, 0, 200, 0, 0]
    seal(RunFolder(tmp_path))
    (sealed,) = (tmp_path / "evidence" / "sends").glob("*.parquet")
    rows = pq.read_table(sealed).to_pylist()
    assert sorted(row["seq"] for row in rows) == list(range(200))
    assert {(row["outcome"], row["error"].split(":")[0]) for row in rows} == {("unknown", "_PURGE_QUEUE")}
