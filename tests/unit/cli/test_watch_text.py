"""A watch as text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kaput.cli.watch import _status
from kaput.cli.watch_text import Lines, PartitionRates, line_of, screen_of, write_line
from kaput.watch.topics import without_numbers

STATUS: dict[str, Any] = {
    "at_ns": 0,
    "sent": 20,
    "attempted": 30,
    "acked": 20,
    "missing": 1,
    "late": 0,
    "duplicated": 2,
    "reordered": 0,
    "latency_ms": {"ack": None, "end_to_end": {"p50": 10.4, "p99": 99.6, "p999": 100.0}},
    "places": [{"topic": "canary", "partition": 0, "stored": 19, "missing": 1}],
    "partitions": [
        {
            "topic": "canary",
            "partition": 0,
            "leader": 3,
            "attempted": 30,
            "acked": 20,
            "failed": 0,
            "ended": 22,
        }
    ],
    "durations": [1, 2, 3],
}


def test_status_line_has_anomaly_counts_and_latency() -> None:
    """And how long the whole way takes, once that is known."""
    assert line_of(STATUS) == (
        "00:00:00  30 attempted, 20 acknowledged: 1 missing, 0 late, 2 duplicated, 0 reordered; "
        "end to end p50 10 ms, p99 100 ms"
    )
    assert line_of({"at_ns": 0, "attempted": 3}) == "00:00:00  starting Spark; counting begins when it runs"
    mine = {name: value for name, value in STATUS.items() if name != "attempted"}
    mine["latency_ms"] = {"ack": None, "end_to_end": None}
    assert line_of(mine) == "00:00:00  20 messages: 1 missing, 0 late, 2 duplicated, 0 reordered"
    assert line_of(mine | {"foreign": 7}).endswith("0 reordered; 7 records without a number")


def test_that_spark_starts_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the next one is of what it counts."""
    monkeypatch.setattr("kaput.cli.watch_text._LINE_S", 0.0)
    lines = Lines(json=False)
    for status in ({}, {}, STATUS):
        lines.show(lambda status=status: {"at_ns": 0, **status})  # type: ignore[misc]
    first, second = capsys.readouterr().out.splitlines()
    assert "starting Spark" in first and "30 attempted" in second


@pytest.mark.parametrize(
    ("final", "result"),
    [
        ({"missing": 0, "complete": True}, "nothing is missing; kaput analyze runs/w judges each message"),
        ({"missing": 2, "complete": True}, "2 messages missing; kaput analyze runs/w judges each message"),
        ({"missing": 0, "complete": True, "troubles": ["no broker"]}, "not everything could be read, so"),
    ],
)
def test_the_last_line_is_the_result(
    final: dict[str, Any], result: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And how to judge it. Of the user's own messages there is no evidence to judge."""
    write_line(STATUS | final | {"folder": "runs/w"}, json=False, final=True)
    assert capsys.readouterr().out.splitlines()[-1].startswith(result)
    mine = {name: value for name, value in (STATUS | final).items() if name != "attempted"}
    write_line(mine, json=False, final=True)
    assert "kaput analyze" not in capsys.readouterr().out


def test_json_lines_leave_out_durations(capsys: pytest.CaptureFixture[str]) -> None:
    """Without the table of durations; the last one says that it is."""
    write_line(STATUS, json=True, final=True)
    document = json.loads(capsys.readouterr().out)
    assert document["final"] and document["missing"] == 1 and "durations" not in document


def test_the_screen_has_a_row_for_each_partition_and_the_alerts() -> None:
    """PartitionRates are of the last seconds; what waits is what has no outcome."""
    rates = PartitionRates()
    rates.add({**STATUS, "partitions": [{**STATUS["partitions"][0], "attempted": 10, "acked": 15}]}, 10.0)
    assert rates.of(0) is None
    rates.add(STATUS, 12.0)
    assert rates.of(0) == (10.0, 2.5)
    text = screen_of({**STATUS, "firing": ["broker-down: broker 2 is down"], "trouble": "no broker"}, rates)
    lines = text.plain.splitlines()
    assert lines[2].split() == ["canary/0", "3", "10.0", "2.5", "8", "19", "1", "0", "0", "0"]
    assert lines[3:] == ["FIRING broker-down: broker 2 is down", "no broker"]
    assert "starting Spark" in screen_of({}, rates).plain


@pytest.mark.parametrize(
    ("sent", "foreign", "missing", "code"), [(0, 947, 0, 3), (0, 0, 0, 0), (9, 2, 0, 0), (9, 2, 1, 1)]
)
def test_records_that_have_no_number_are_not_an_all_clear(
    sent: int, foreign: int, missing: int, code: int
) -> None:
    """A misspelled field finds no number in any record: inconclusive, with a sentence."""
    found = {"sent": sent, "foreign": foreign, "missing": missing, "complete": True}
    troubles = without_numbers(found)
    assert _status({**found, "troubles": troubles}) == code
    assert [text[:30] for text in troubles] == (["947 records read, and none has"] if code == 3 else [])
