"""What a share member does becomes rows, before it is asked for and when it is answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from kaput.evidence.folder import RunFolder
from kaput.evidence.recorder import Recorder
from kaput.evidence.sealing import seal
from kaput.workload.client_spec import ShareMemberSpec
from kaput.workload.librdkafka.share_member import ShareEvents


class Handed(Message):
    """A message with a delivery count, which only a broker can give to a real one."""

    def __init__(self, partition: int, offset: int, count: int | None) -> None:
        super().__init__(topic="jobs", partition=partition, offset=offset, value=b"x")
        self.count = count

    def delivery_count(self) -> int | None:
        return self.count


def spec(folder: Path, release: int | None = None, reject: int | None = None) -> ShareMemberSpec:
    return ShareMemberSpec(
        str(folder), "", "workers", "member-1", ["jobs"], {}, "share",
        explicit=True, release_every=release, reject_every=reject,
    )  # fmt: skip


def rows(folder: Path) -> list[tuple[Any, ...]]:
    """The sealed events without their cluster, in the order in which they were written."""
    seal(RunFolder(folder))
    (path,) = RunFolder(folder).table("share_events").glob("*.parquet")
    return [tuple(row.values())[2:-1] for row in pq.read_table(path).to_pylist()]


def test_share_record_events_from_acquired_to_confirmed(tmp_path: Path) -> None:
    """Each moment a row; what a broker confirms is named by what was asked."""
    batch = [Handed(0, 5, 1), Handed(1, 3, 2), Handed(0, 6, None)]
    with Recorder(tmp_path, "share_events", "m") as recorder:
        events = ShareEvents(recorder, spec(tmp_path))
        events.acquired(batch, 10)
        events.acknowledging([(batch[0], "accepting"), (batch[1], "rejecting"), (batch[2], "releasing")], 11)
        events.answered({TopicPartition("jobs", 0): {6, 5}}, None, 12)
        refused = KafkaException(KafkaError(KafkaError.INVALID_RECORD_STATE))
        events.answered({TopicPartition("jobs", 1): {3}}, refused, 13)
    assert rows(tmp_path) == [
        ("acquired", "jobs", 0, 5, 1, 10, None),
        ("acquired", "jobs", 0, 6, None, 10, None),
        ("acquired", "jobs", 1, 3, 2, 10, None),
        ("accepting", "jobs", 0, 5, None, 11, None),
        ("rejecting", "jobs", 1, 3, None, 11, None),
        ("releasing", "jobs", 0, 6, None, 11, None),
        ("accepted", "jobs", 0, 5, None, 12, None),
        ("released", "jobs", 0, 6, None, 12, None),
        ("failed", "jobs", 1, 3, None, 13, "INVALID_RECORD_STATE"),
    ]


def test_acknowledgement_is_on_disk_before_the_response(tmp_path: Path) -> None:
    """A member that is killed right after it asked leaves its rows."""
    recorder = Recorder(tmp_path, "share_events", "m")
    events = ShareEvents(recorder, spec(tmp_path))
    message = Handed(0, 5, 1)
    events.acquired([message], 10)
    events.acknowledging([(message, "accepting")], 11)
    stream = (tmp_path / "evidence" / "share_events" / "m.arrows").read_bytes()
    recorder.close()
    copy = tmp_path / "killed" / "evidence" / "share_events"
    copy.mkdir(parents=True)
    (copy / "m.arrows").write_bytes(stream)
    assert [row[0] for row in rows(tmp_path / "killed")] == ["acquired", "accepting"]


def test_unexpected_confirmation_is_not_recorded(tmp_path: Path) -> None:
    """What it would confirm is not known."""
    with Recorder(tmp_path, "share_events", "m") as recorder:
        events = ShareEvents(recorder, spec(tmp_path))
        events.acquired([Handed(0, 1, 1)], 10)
        events.answered({TopicPartition("jobs", 0): {1}, TopicPartition("jobs", 7): {2}}, None, 12)
    assert [row[0] for row in rows(tmp_path)] == ["acquired"]


def test_acknowledgement_type_depends_only_on_the_record(tmp_path: Path) -> None:
    """Every third is released once, every fourth rejected, which goes first; all others are accepted."""
    asks = spec(tmp_path, release=3, reject=4)
    assert [asks.acknowledgement(offset, 1) for offset in (0, 1, 2, 3)] == [
        "accepting", "accepting", "releasing", "rejecting",
    ]  # fmt: skip
    assert asks.acknowledgement(2, 2) == "accepting"
    assert asks.acknowledgement(11, 1) == "rejecting"
    assert spec(tmp_path).acknowledgement(2, 1) == "accepting"
