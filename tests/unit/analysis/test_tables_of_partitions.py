"""The state of each partition before, during and after the faults; and ledgers of nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import polars as pl
import pyarrow.parquet as pq
import pytest

from fakes.histories import History
from fakes.in_process import InProcess
from kaput.analysis.facts.leader_history import Change
from kaput.analysis.facts.serving import Hindrance, Serving
from kaput.analysis.pipeline import analyse
from kaput.analysis.questions import ledger
from kaput.analysis.questions.logs import partition_tables
from kaput.core import TopicPartition
from kaput.evidence.reading import check
from kaput.scenario.vocabulary import LedgerRows

MS = 1_000_000
ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


def _change(us: int, leader: int | None, epoch: int | None, *isr: int) -> Change:
    return Change(us * 1_000, "leader", leader, epoch, isr or None, None)


def _given(
    *faults: tuple[str, int, int | None, int | None], ended: int | None = None, known: bool = True
) -> Any:
    """Faults by kind, injected, effective and healed."""
    names = ("fault", "injected_ns", "effective_ns", "healed_ns")
    topics = {"orders": SimpleNamespace(assignment=[[3, 2, 1]])}
    return SimpleNamespace(
        faults=[
            SimpleNamespace(**dict(zip(names, fault, strict=True)), brokers=[1], may_end_ns=fault[3])
            for fault in faults
        ],
        manifest=SimpleNamespace(ended_ns=ended),
        cluster_events=[],
        scenario=SimpleNamespace(topic=topics.get) if known else None,
    )


TIMELINE: Any = SimpleNamespace(
    changes={
        ONE: [_change(1_000, 1, 0, 2, 1), _change(5_300, 2, 1), _change(9_700, None, None, 2, 3)],
        TWO: [_change(2_000, 4, 7, 4, 5), _change(8_000, None, None, 6, 4)],
    }
)


def _told(given: Any) -> list[tuple[Any, ...]]:
    return [
        (table.when, table.at_ns / MS, *((p.leader, p.leader_epoch, p.isr) for p in table.partitions))
        for table in partition_tables(given, TIMELINE, Serving())
    ]


def test_partition_state_before_during_and_after_faults() -> None:
    """What happened in the same ms is not before; an event says what it names alone."""
    faults = [("noop", 0, 0, 1), ("kill", 7 * MS, 5_900_000, 8_400_000), ("kill", 6_500_000, None, 8 * MS)]
    assert _told(_given(*faults)) == [
        ("before", 5.9, (1, 0, [2, 1]), (4, 7, [4, 5])),
        ("during", 8.4, (2, 1, [2, 1]), (4, 7, [4, 5])),
        ("after", 9.700001, (2, 1, [2, 1]), (4, 7, [6, 4])),
    ]
    assert _told(_given(*faults, ended=12 * MS))[2] == ("after", 12, (2, 1, [2, 3]), (4, 7, [6, 4]))
    assert _told(_given(*faults[:1], ended=12 * MS)) == [("after", 12, (2, 1, [2, 3]), (4, 7, [6, 4]))]
    assert _told(_given(("kill", 2 * MS, 3 * MS, None), ended=6 * MS)) == [
        ("before", 2, (1, 0, [2, 1]), (None, None, None)),
        ("during", 6, (2, 1, [2, 1]), (4, 7, [4, 5])),
        ("after", 6, (2, 1, [2, 1]), (4, 7, [4, 5])),
    ]


def test_leader_whose_process_is_gone_is_down() -> None:
    """Broker 4 from 6 ms on, until its process is up again at 12 ms; broker 2 is only paused, never down."""
    gone = Hindrance(4, "ended", 6 * MS, 12 * MS, 12 * MS)
    paused = Hindrance(2, "frozen", 6 * MS, 12 * MS, 12 * MS)
    serving = Serving({4: [gone], 2: [paused]})
    down = [
        [one.leader_down for one in table.partitions]
        for ended in (12, 13)
        for table in partition_tables(
            _given(("kill", 6 * MS, 6 * MS, 9 * MS), ended=ended * MS), TIMELINE, serving
        )
    ]
    before, during, after = [False, False], [False, True], [False, True]
    assert down == [before, during, after, before, during, [False, False]]


@pytest.mark.parametrize(
    ("known", "replicas"), [(True, [[3, 2, 1], [4, 5, 6]]), (False, [[2, 1, 3], [4, 5, 6]])]
)
def test_replicas_come_from_the_assignment_or_first_sighting(known: bool, replicas: list[list[int]]) -> None:
    """In the order in which they were seen first, where the scenario assigns none."""
    (table,) = partition_tables(_given(known=known), TIMELINE, Serving())
    assert [one.replicas for one in table.partitions] == replicas


@pytest.mark.parametrize("rows", [rows for rows in get_args(LedgerRows) if rows != "none"])
def test_empty_ledger_has_the_full_schema(rows: LedgerRows, tmp_path: Path) -> None:
    """With their types, and a field for each group."""
    schemas = []
    for name, history in (("empty", History(groups={"b": True, "a": True})), ("full", _full())):
        folder = history.read_to_end().write(tmp_path / name)
        analyse(check(folder), InProcess(), ledger=rows)  # type: ignore[arg-type]
        (file,) = (folder.analysis / "ledger").glob("*.parquet")
        schemas.append(pq.read_schema(file))
        assert pq.read_metadata(file).num_rows == (0 if name == "empty" else 1)
    assert schemas[0].equals(schemas[1])
    assert len(schemas[0]) > 10


@pytest.mark.parametrize("rows", ["stretches", "messages"])
def test_ledger_without_groups_has_no_delivered_column(rows: LedgerRows, tmp_path: Path) -> None:
    """There is no field that nothing fills."""
    folder = History().acked(0, 0, 0).read_to_end().write(tmp_path)
    analyse(check(folder), InProcess(), ledger=rows)  # type: ignore[arg-type]
    (file,) = (folder.analysis / "ledger").glob("*.parquet")
    assert "delivered" not in pq.read_schema(file).names


def test_ledger_is_written_in_row_groups_in_message_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of messages; a piece ends with the stretch that fills it."""
    monkeypatch.setattr(ledger, "_ROW_GROUP_ROWS", 5)
    rows = [(1, 0, 3), (0, 6, 3), (0, 0, 3), (0, 3, 3), (1, 3, 1), (1, 4, 9), (1, 13, 1)]
    stretches = pl.DataFrame(rows, schema=["producer", "seq", "n"], orient="row")
    pieces = [piece.rows() for piece in ledger._in_pieces(stretches)]
    assert pieces == [[(0, 0, 3), (0, 3, 3)], [(0, 6, 3), (1, 0, 3)], [(1, 3, 1), (1, 4, 9)], [(1, 13, 1)]]


def _full() -> History:
    return History(groups={"b": True, "a": True}).acked(0, 0, 0).handed(0, 0, 0, 5, group="a")
