"""Consume, transform, produce on real brokers, while members are killed and paused: counted again by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from driving import Kaput


@pytest.mark.long
def test_exactly_once_pipe_writes_one_output_per_input(kaput: Kaput) -> None:
    """Of which a reader with read_committed is shown one: by kaput's count, and by ours."""
    result = kaput.run("exactly-once-pipe", jvm=True)
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    shown = {(row["producer"], row["seq"]) for row in result.rows("log") if row["visible"]}
    made = [row for row in result.rows("outputs") if (row["producer"], row["seq"]) in shown]
    inputs = Counter((row["topic"], row["partition"], row["offset"]) for row in made)
    orders = [row for row in result.rows("log") if row["topic"] == "orders"]
    assert len(inputs) == len(orders) == 20_000
    assert set(inputs.values()) == {1}
    outcomes = Counter(row["outcome"] for row in result.rows("transactions"))
    # Of the one that was killed nobody tells; the one that was paused was fenced.
    assert outcomes["committed"] > 300 and outcomes["aborted"] + outcomes["unknown"] > 0
    assert {row["producer"] for row in made} >= {1, 2, 3}
    seeks = [row for row in result.rows("group_events") if row["kind"] == "seek"]
    assert {(row["member"], row["topic"]) for row in seeks} == {("member-2", "orders")}


@pytest.mark.long
def test_hanging_transaction_blocks_read_committed_consumers(kaput: Kaput) -> None:
    """For as long as the coordinator waits for it; the others read on."""
    result = kaput.run("hanging-transaction")
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    unknown = [row for row in result.rows("transactions") if row["outcome"] == "unknown"]
    assert len(unknown) == 1
    longest = {group["group"]: group["end_to_end_ms"]["max"] for group in result.findings["groups"]}
    assert longest["patient"] > 8_000 > longest["impatient"]
