"""Delivery reports become rows, and no report is held longer than its poll."""

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, Message
from producer_specs import RUN, producer_spec

from kaput.evidence.folder import RunFolder
from kaput.evidence.recorder import Recorder
from kaput.evidence.sealing import seal
from kaput.workload.client_spec import ProducerSpec
from kaput.workload.librdkafka.delivery_reports import OutcomeRecorder
from kaput.workload.payload import Codec

NOW = 1_700_000_000_000_000_000


def spec(
    folder: Path,
    payload_bytes: int = 100,
    partitions: int = 3,
    round_robin: bool = False,
    text: bool = False,
) -> ProducerSpec:
    """A producer's order as far as its reports look at it."""
    return producer_spec(
        folder, producer=4, partitions=partitions, payload_bytes=payload_bytes, round_robin=round_robin,
        config={}, counters="", text=text,
    )  # fmt: skip


def sent(to: ProducerSpec, seq: int, partition: int = 2, offset: int | None = None) -> Message:
    """The report's message, as the client makes it."""
    payload = Codec(RUN, to.payload_bytes, text=to.text).encode(to.producer, seq, NOW + seq)
    return Message(
        topic=to.topic, value=payload, partition=partition, offset=-1001 if offset is None else offset
    )


def rows_of(
    to: ProducerSpec, tell: Callable[[OutcomeRecorder, Callable[[Any, Message], None]], None]
) -> list[Any]:
    """The sealed rows, in the order of seq, after `tell(reports, callback)`; and what was counted."""
    counts = memoryview(bytearray(32)).cast("q")
    with Recorder(Path(to.folder), "sends", "p") as recorder:
        reports = OutcomeRecorder(recorder, to, counts)
        tell(reports, reports.listener())
        reports.take()
        reports.flush()
        assert reports.pending == 0
    folder = RunFolder(Path(to.folder))
    seal(folder)
    rows = [
        row for path in folder.table("sends").glob("*.parquet") for row in pq.read_table(path).to_pylist()
    ]
    assert [sum(row["outcome"] == kind for row in rows) for kind in ("acked", "failed", "unknown")] == list(
        counts[1:]
    )
    return sorted(rows, key=lambda row: row["seq"])


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("payload_bytes", [45, 100, 5000])
def test_every_acknowledgement_is_a_row(tmp_path: Path, payload_bytes: int, text: bool) -> None:
    """Seq, time, partition and offset of each, in whatever order they come and however large they are."""
    to = spec(tmp_path, payload_bytes, text=text)

    def tell(reports: OutcomeRecorder, callback: Callable[[Any, Message], None]) -> None:
        for seq in (2, 0, 1):
            callback(None, sent(to, seq, partition=seq, offset=100 + seq))
            reports.take()

    rows = rows_of(to, tell)
    assert [(r["producer"], r["seq"], r["topic"], r["partition"], r["offset"], r["error"]) for r in rows] == [
        (4, seq, "orders", seq, 100 + seq, None) for seq in range(3)
    ]
    assert all(row["attempt_ns"] == NOW + row["seq"] < row["done_ns"] for row in rows)


def test_ack_without_offset_is_recorded_as_null(tmp_path: Path) -> None:
    """acks=0 and idempotent duplicates: null, next to those that have one."""
    to = spec(tmp_path)

    def tell(_reports: OutcomeRecorder, callback: Callable[[Any, Message], None]) -> None:
        callback(None, sent(to, 0, offset=7))
        callback(None, sent(to, 1))

    assert [row["offset"] for row in rows_of(to, tell)] == [7, None]


@pytest.mark.parametrize(
    ("round_robin", "partitions", "wanted"), [(True, 3, [0, 1, 2, 0]), (False, 1, [0] * 4)]
)
def test_partition_chosen_by_the_producer_is_recorded(
    tmp_path: Path, round_robin: bool, partitions: int, wanted: list[int]
) -> None:
    """Round-robin, and a topic of one partition."""
    to = spec(tmp_path, partitions=partitions, round_robin=round_robin)

    def tell(_reports: OutcomeRecorder, callback: Callable[[Any, Message], None]) -> None:
        for seq in range(4):
            callback(None, sent(to, seq, partition=seq % partitions, offset=seq))

    assert [row["partition"] for row in rows_of(to, tell)] == wanted


def test_errors_and_rejections_are_recorded(tmp_path: Path) -> None:
    """A report of an error is unknown with its reason; what the client did not take has failed."""
    to = spec(tmp_path)

    def tell(reports: OutcomeRecorder, callback: Callable[[Any, Message], None]) -> None:
        callback(KafkaError(KafkaError._MSG_TIMED_OUT), sent(to, 0, partition=-1))
        callback(None, sent(to, 1, offset=5))
        reports.refused(2, NOW, "no room")
        assert reports.pending == 2

    rows = rows_of(to, tell)
    assert [(row["outcome"], row["partition"], row["offset"]) for row in rows] == [
        ("unknown", None, None),
        ("acked", 2, 5),
        ("failed", None, None),
    ]
    assert rows[0]["error"].startswith("_MSG_TIMED_OUT: ") and rows[2]["error"] == "no room"
    assert rows[0]["attempt_ns"] == NOW


def test_delivery_reports_are_not_retained_during_a_poll(tmp_path: Path) -> None:
    """A poll may bring ten thousand reports: each is the client's again when its callback returns."""
    to = replace(spec(tmp_path), messages=10_000)
    held = []

    def alive() -> int:
        return sum(isinstance(thing, Message) for thing in gc.get_objects())

    def tell(reports: OutcomeRecorder, callback: Callable[[Any, Message], None]) -> None:
        for seq in range(10_000):
            callback(None, sent(to, seq, offset=seq))
            if seq % 1111 == 0:
                held.append(alive())
        reports.take()
        held.append(alive())

    rows = rows_of(to, tell)
    assert [row["seq"] for row in rows] == list(range(10_000))
    assert max(held) <= 1 and held[-1] == 0
