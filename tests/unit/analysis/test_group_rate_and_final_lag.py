"""What is told of a group next to its anomalies: how fast it read, and how far behind it was at the end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from kaput.analysis.questions.groups import _lag, _per_s
from kaput.core import TopicPartition

S = 1_000_000_000
FIRST, SECOND, OTHER = (TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("bills", 0))


@pytest.mark.parametrize(
    ("begin_s", "last_s", "told"), [(1, 3, 5.0), (3, 3, None), (4, 3, None), (None, 3, None), (1, None, None)]
)
def test_records_per_second_of_a_group(begin_s: int | None, last_s: int | None, told: float | None) -> None:
    """From the first attempt to the group's last delivery, if there is any time between."""
    sent = pl.DataFrame(
        {"begin_ns": [None if begin_s is None else begin_s * S]}, schema={"begin_ns": pl.Int64}
    )
    rows = [] if last_s is None else [(0, 4, last_s * S), (0, 6, 2 * S), (1, 90, 9 * S)]
    delivered = pl.DataFrame(
        rows, schema=dict.fromkeys(("group", "records", "last_ns"), pl.Int64), orient="row"
    )
    run: Any = SimpleNamespace(sums={"sent": sent, "delivered": delivered})
    assert _per_s(run, 0) == told


def _commit(place: TopicPartition | None, offset: int | None, at_ns: int = 5, group: str = "billing") -> Any:
    topic, partition = place or (None, None)
    row = {"group": group, "kind": "committed", "topic": topic, "partition": partition, "offset": offset}
    return {**row, "at_ns": at_ns, "member": "m1"}


def _by_place(commits: list[Any]) -> dict[Any, list[tuple[int, int]]]:
    found: dict[Any, list[tuple[int, int]]] = {}
    for row in commits:
        if row["topic"] is not None and row["offset"] is not None:
            place = TopicPartition(row["topic"], row["partition"])
            found.setdefault((row["group"], place), []).append((row["at_ns"], row["offset"]))
    return found


@pytest.mark.parametrize(
    ("commits", "told"),
    [
        ([_commit(FIRST, 7), _commit(SECOND, 15)], 3 + 5),
        ([_commit(FIRST, 7), _commit(FIRST, 9, 6), _commit(SECOND, 99)], 1),
        ([_commit(FIRST, 7)], 3 + (20 - 12)),  # the other one from where the group began
        (
            [_commit(FIRST, 7), _commit(SECOND, 15), _commit(OTHER, 1)],
            3 + 5 + 2,
        ),  # what it does not subscribe to
        ([_commit(FIRST, None)], None),
        ([_commit(None, 7)], None),
        ([_commit(FIRST, 7, group="audit")], None),
        ([_commit(FIRST, 7), _commit(TopicPartition("gone", 0), 7)], None),  # its end is not known
    ],
)
def test_final_lag_of_a_group(commits: list[Any], told: int | None) -> None:
    """By its commits, against the ends of the logs; null where something is not known."""
    given = SimpleNamespace(
        groups=["audit", "billing"],
        group_events=commits,
        places_of=lambda _: {FIRST, SECOND},
        commits=_by_place(commits),
        ends={FIRST: (10, 4), SECOND: (20, 4), OTHER: (3, 3)},
        clusters={},
        lags={},
    )
    partitions = SimpleNamespace(after_last={}, complete=dict.fromkeys((FIRST, SECOND, OTHER), False))
    run: Any = SimpleNamespace(given=given, partitions=partitions, begins={(1, SECOND): 12, (0, SECOND): 1})
    assert _lag(run, 1).final == told
