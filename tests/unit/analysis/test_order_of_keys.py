"""Where keys are stored, and what was delivered out of their order, on runs of a few rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from kaput.analysis.questions import handovers, keys, losses
from kaput.analysis.questions.keys import ResizedTopics
from kaput.analysis.runs.names import Names
from kaput.core import TopicPartition

KEYS = {1: 3, 2: 0}  # producer 1 goes through three keys, 2 has its own number


def _frame(names: tuple[str, ...], *rows: tuple[int | None, ...]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=dict.fromkeys(names, pl.Int64), orient="row")


def test_records_of_each_key_by_partition() -> None:
    """Message 7 of three keys has key 1; a producer without keys is left out."""
    log = _frame(
        ("producer", "seq", "place", "n"),
        (1, 0, 7, 5),
        (1, 5, 8, 2),
        (2, 9, 7, 2),
        (2, 4, 8, 1),
        (3, 0, 7, 9),
    )
    found = keys.stored(log, KEYS).select("place", "key", "n").sort("place", "key")
    assert found.rows() == [(7, 0, 2), (7, 1, 2), (7, 2, 3), (8, 0, 1), (8, 2, 2)]


def test_single_key_is_shared_by_all_producers() -> None:
    """Each goes through one: key 0."""
    log = _frame(("producer", "seq", "place", "n"), (1, 4, 7, 2), (2, 9, 7, 1))
    assert keys.stored(log, {1: 1, 2: 1}).select("place", "key", "n").rows() == [(7, 0, 3)]


def test_the_first_delivery_of_each_message_with_its_key() -> None:
    """To each group; of several the earliest."""
    names = ("group", "producer", "seq", "place", "block", "n", "row")
    delivered = _frame(
        names, (0, 1, 4, 7, 0, 2, 0), (0, 1, 4, 8, 0, 1, 2), (1, 1, 4, 7, 0, 1, 3), (0, 2, 5, 7, 1, 1, 4)
    )
    polls = np.array([50, 60, 40, 70, 80], np.int64)
    found = keys.first_deliveries(delivered, polls, KEYS)
    told = found.select("group", "producer", "key", "block", "seq", "at_ns").sort("group", "producer", "seq")
    assert told.rows() == [(0, 1, 1, 0, 4, 40), (0, 1, 2, 0, 5, 60), (0, 2, 2, 1, 5, 80), (1, 1, 1, 0, 4, 70)]
    early = keys.earliest(
        pl.concat([told, told.with_columns(seq=pl.lit(9, pl.Int64), at_ns=pl.lit(45, pl.Int64))])
    )
    rows = early.select("group", "producer", "key", "block", "at_ns").sort("group", "producer", "key").rows()
    assert rows == [(0, 1, 1, 0, 40), (0, 1, 2, 0, 45), (0, 2, 2, 1, 45), (1, 1, 1, 0, 45)]


MINS = ("group", "producer", "key", "block", "at_ns")


def test_earliest_delivery_in_later_blocks() -> None:
    """Of the same group, producer and key; the last block has none."""
    rows = [
        (0, 1, 0, 0, 50),
        (0, 1, 0, 2, 30),
        (0, 1, 0, 1, 40),
        (0, 1, 0, 3, 60),
        (0, 1, 1, 1, 5),
        (1, 1, 0, 1, 6),
    ]
    found = keys.later(_frame(MINS, *rows)).sort("block")
    assert found.columns == ["group", "producer", "key", "block", "later_ns"]
    assert found.rows() == [(0, 1, 0, 0, 30), (0, 1, 0, 1, 30), (0, 1, 0, 2, 60)]


@pytest.mark.parametrize(
    ("times", "late"),
    [
        ((10, 20, 30), 0),
        ((10, 30, 20), 1),
        ((30, 20, 10), 2),
        ((20, 20, 20), 0),  # at one moment is in order
        ((25, 10, 20), 1),
        ((40, 41, 42), 0),
        ((40, 41, 101), 1),  # after the first of a later block
        ((100, 100, 100), 0),
    ],
)
def test_overtaken_messages_by_key(times: tuple[int, int, int], late: int) -> None:
    """By a later one with their key, in their block or in a later one; others' are no matter."""
    rows = [(0, 1, 0, 4, seq, at_ns) for seq, at_ns in zip((1, 4, 7), times, strict=True)]
    others = [(0, 1, 2, 4, 9, 1), (1, 1, 0, 4, 10, 1), (0, 2, 0, 4, 11, 1), (0, 1, 0, 5, 12, 100)]
    first = _frame(("group", "producer", "key", "block", "seq", "at_ns"), *rows, *others)
    after = _frame(("group", "producer", "key", "block", "later_ns"), (0, 1, 0, 4, 100), (0, 1, 2, 3, 0))
    found = keys.out_of_order(first, after)
    assert found.rows() == ([(0, 1, late)] if late else [])


def test_windows_of_losses_are_in_the_order_of_messages() -> None:
    """Of producers, topics and partitions, and there of the messages."""
    names = ("producer", "topic", "place", "first_seq", "last_seq", "lost", "first_ack_ns", "last_ack_ns")
    rows = [
        *((1, 0, 0, 5, 6, 2, 10, 11), (0, 1, 2**32, 1, 1, 1, 12, 12), (0, 0, 1, 9, 9, 1, 13, None)),
        *((0, 0, 1, 2, 3, 2, 14, 15), (0, 0, 0, 7, 7, 1, 16, 16)),
    ]
    windows = _frame(names, *rows).with_columns(cause=pl.lit("unexplained"), fault=pl.lit(None, pl.String))
    found = losses.windows_table(windows, Names(["orders", "bills"], ["billing"], ["m1"]))
    told = found.select("producer", "topic", "partition", "first_seq", "last_seq", "lost").rows()
    assert told == [
        *((0, "orders", 0, 7, 7, 1), (0, "orders", 1, 2, 3, 2), (0, "orders", 1, 9, 9, 1)),
        *((0, "bills", 0, 1, 1, 1), (1, "orders", 0, 5, 6, 2)),
    ]


def test_redelivery_counts_once_per_rebalance() -> None:
    """Thrice, after two assignments of rebalance 5; and a part of it after one of rebalance 6."""
    names = ("group", "place", "offset", "n", "assigned_ns", "producer", "seq", "row")
    rows = [(0, 7, 10, 4, 1), (0, 7, 10, 4, 20), (0, 7, 10, 4, 30), (0, 7, 12, 1, 40), (0, 8, 10, 4, 40)]
    delivered = _frame(names, *((*row, 0, row[2], 0) for row in rows))
    assigned = _frame(
        ("group", "place", "assigned_ns", "rebalance"), (0, 7, 20, 5), (0, 7, 30, 5), (0, 7, 40, 6)
    )
    commits = _frame(("group", "place", "offset", "at_ns"), (0, 7, 10, 20), (0, 7, 14, 35), (0, 8, 99, 5))
    found = handovers.redelivered(delivered, assigned, commits.head(1))
    assert sorted(found.rows()) == [(5, 4), (6, 1)]
    # What was committed before the last assignment comes again for another reason.
    assert handovers.redelivered(delivered, assigned, commits).rows() == [(5, 4)]


def _keyed(earliest: pl.DataFrame, topic: str = "orders") -> Any:
    given = SimpleNamespace(keyed={7: (topic, 3)}, resized=["orders"])
    return SimpleNamespace(given=given, sums={"earliest": earliest})


def test_keys_of_multi_block_producers_take_two_passes() -> None:
    """First each block alone, then with the earliest deliveries of later ones; and no third time."""
    names = ("group", "producer", "key", "block", "at_ns")
    blocks = _frame(names, (0, 7, 1, 0, 50), (0, 7, 1, 1, 40))
    first = ResizedTopics().before_keys(_keyed(blocks))
    assert first is not None and first.after is not None
    assert (first.keys, first.after.rows()) == ({7: 3}, [])
    second = first.before_keys(_keyed(blocks))
    assert second is not None and second.after is not None
    assert (second.keys, second.after.rows()) == ({7: 3}, [(0, 7, 1, 0, 40)])
    assert second.before_keys(_keyed(blocks)) is None
    assert first.before_keys(_keyed(blocks.head(1))) is None
    assert ResizedTopics().before_keys(_keyed(blocks, "bills")) is None


def test_unclear_early_records_are_not_counted_as_missed() -> None:
    """Of the topic's own messages only what is known to have been."""
    place = TopicPartition("orders", 0)
    rows = [(0, 0, False, 2), (0, 0, True, 30), (0, 1, False, 400)]
    given = SimpleNamespace(
        expected_places=[place], ends={}, groups=["billing"], places_of=lambda _: [place], keyed={}
    )
    sums = {
        "log": _frame(("place", "records", "foreign")),
        "delivered": _frame(("group", "place")),
        "too_early": pl.DataFrame(rows, schema=["group", "topic", "unclear", "n"], orient="row"),
    }
    names = SimpleNamespace(topics=["orders", "bills"])
    run: Any = SimpleNamespace(given=given, sums=sums, names=names)
    assert [group.stored_too_early for group in keys._resized(run, "orders").groups] == [2]
