"""What Kafka's Verifiable tools print, by lines that they have printed, and by others that nobody should."""

from __future__ import annotations

from typing import Any

import pytest

from kaput.workload.java.output_lines import (
    LogTimes,
    end_ns,
    outcome_of,
    parse_append,
    parse_offset_sets,
    parse_offsets,
    parse_outcome,
    parse_partitions,
)

NOW_NS = 1_795_368_939_500_000_000
AT_MS = 1_795_368_938_418
ACKED: dict[str, Any] = {
    "timestamp": AT_MS,
    "name": "producer_send_success",
    "key": None,
    "value": "123456.7",
    "topic": "orders",
    "partition": 2,
    "offset": 912,
}
REFUSED: dict[str, Any] = {
    "timestamp": AT_MS,
    "name": "producer_send_error",
    "topic": "orders",
    "key": None,
    "value": "123456.7",
    "exception": "class org.apache.kafka.common.errors.TimeoutException",
    "message": "Topic t not present in metadata after 700 ms.",
}
TEXT = (
    "[Producer clientId=kaput-producer-0] Attempting to append record ProducerRecord(topic=orders, "
    "partition=null, headers=RecordHeaders(headers = [], isReadOnly = false), key=3, value=123456.7, "
    "timestamp=null) with callback "
    "org.apache.kafka.tools.VerifiableProducer$PrintInfoCallback@1b2c3 to topic orders partition 2"
)
LOGGED = {"name": "log", "at": "2026-11-22 17:35:38,418", "text": TEXT}


def test_an_attempt_is_known_from_the_log() -> None:
    """Which message, where to, and when at the latest it had not been sent yet."""
    assert parse_append(LOGGED, LogTimes()) == ("123456.7", 2, AT_MS * 1_000_000)


@pytest.mark.parametrize(
    "change",
    [
        {"text": "[Producer clientId=x] Kafka producer started"},
        {"text": None},
        {"at": None},
        {"at": "yesterday"},
        {"at": "2026-11-22 17:35:38"},
        {"at": "2026-11-22 17:35:38,4x8"},
        {"text": TEXT[:-12]},
    ],
)
def test_other_lines_of_the_log_are_none(change: dict[str, Any]) -> None:
    """Nor is one that was cut."""
    assert parse_append({**LOGGED, **change}, LogTimes()) is None


def test_times_of_a_second_that_comes_again() -> None:
    """The second that was looked up last is not taken for another."""
    times = LogTimes()
    texts = ["2026-11-22 17:35:38,418", "2026-11-22 17:35:39,000", "2026-11-22 17:35:38,419"]
    assert [times.ns(text) // 1_000_000 - AT_MS for text in texts] == [0, 582, 1]


def test_an_acknowledgement() -> None:
    """It was over at the end of its millisecond, or when it was read, if that was earlier."""
    said = parse_outcome(ACKED, NOW_NS, False)
    assert said is not None and said[:5] == ("123456.7", AT_MS * 1_000_000 + 999_999, "acked", 2, 912)
    assert end_ns(ACKED, AT_MS * 1_000_000 + 5) == AT_MS * 1_000_000 + 5
    assert end_ns({"timestamp": "soon"}, NOW_NS) == end_ns({"timestamp": 2**60}, NOW_NS) == NOW_NS


def test_no_offset_where_the_client_was_told_none() -> None:
    """With acks=0 Java says -1."""
    said = parse_outcome({**ACKED, "offset": -1}, NOW_NS, False)
    assert said is not None and said.offset is None and said.outcome == "acked"


@pytest.mark.parametrize(
    "change",
    [
        {"value": None},
        {"partition": "2"},
        {"partition": -1},
        {"partition": 2**31},
        {"offset": -2},
        {"offset": True},
    ],
)
def test_a_bad_acknowledgement_is_none(change: dict[str, Any]) -> None:
    """Numbers that no table can hold, or no numbers."""
    assert parse_outcome({**ACKED, **change}, NOW_NS, False) is None
    assert parse_outcome({**REFUSED, "exception": 5}, NOW_NS, False) is None


def test_a_refusal_keeps_its_words() -> None:
    """The exception and its message."""
    said = parse_outcome(REFUSED, NOW_NS, False)
    assert said is not None and (said.outcome, said.offset) == ("failed", None)
    assert said.error == "TimeoutException: Topic t not present in metadata after 700 ms."
    silent = parse_outcome({**REFUSED, "message": None}, NOW_NS, False)
    assert silent is not None and silent.outcome == "unknown"


@pytest.mark.parametrize(
    ("kind", "message", "with_retries", "without"),
    [
        ("TimeoutException", "Expiring 3 record(s) for orders-0:120000 ms has passed", "unknown", "unknown"),
        ("TimeoutException", "Topic t not present in metadata after 60000 ms.", "failed", "failed"),
        (
            "RecordTooLargeException",
            "The message is 9 bytes when serialized which is larger than 8",
            "failed",
            "failed",
        ),
        ("BufferExhaustedException", "", "failed", "failed"),
        ("NotEnoughReplicasException", "", "unknown", "failed"),
        ("NotEnoughReplicasAfterAppendException", "", "unknown", "unknown"),
        ("NetworkException", "", "unknown", "unknown"),
        ("SomethingNewException", "", "unknown", "unknown"),
    ],
)
def test_what_an_exception_proves(kind: str, message: str, with_retries: str, without: str) -> None:
    """Failed is only what definitely is not written."""
    assert (outcome_of(kind, message, False), outcome_of(kind, message, True)) == (with_retries, without)


def test_places() -> None:
    """Lists of what has a topic and a partition."""
    good = [{"topic": "orders", "partition": 0, "offset": 5, "offsets": [7, 6]}]
    assert parse_partitions(good) == [("orders", 0)] and parse_partitions([]) == []
    assert parse_offsets(good) == [(("orders", 0), 5)] and parse_offset_sets(good) == [
        (("orders", 0), [6, 7])
    ]


@pytest.mark.parametrize(
    "bad", [None, {}, "x", [1], [{"topic": "t"}], [{"topic": 1, "partition": 0}], [None]]
)
def test_no_places(bad: Any) -> None:
    """Anything else."""
    assert parse_partitions(bad) is parse_offsets(bad) is parse_offset_sets(bad) is None


@pytest.mark.parametrize("more", [{}, {"offset": -1, "offsets": 5}, {"offset": "1", "offsets": ["1"]}])
def test_places_without_offsets(more: dict[str, Any]) -> None:
    """No numbers that are offsets."""
    lines = [{"topic": "t", "partition": 0, **more}]
    assert parse_offsets(lines) is parse_offset_sets(lines) is None
