"""Refuses evidence with duplicate rows that cannot be counted, or kept messages that were never sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from kaput.analysis.engine.question import Find, Question, SumPart
from kaput.analysis.engine.sums import Collected
from kaput.analysis.questions import pipes
from kaput.analysis.run import Run
from kaput.analysis.runs.columns import MESSAGE, RECORD
from kaput.analysis.views.messages import Messages
from kaput.errors import EvidenceError
from kaput.evidence.reading import STORE_TABLES

_ONCE_PER_STORE = ("kept", "left_in_store")
_STORED = ("store", *MESSAGE)
_TABLES = ("sends", "transactions", "outputs", *_ONCE_PER_STORE, "log")
_COLUMNS = {"log": tuple(RECORD), **dict.fromkeys(_ONCE_PER_STORE, _STORED)}


class DuplicateRows(Question):
    """For each table, the lowest message that is sent twice, in two transactions, made twice of one input,
    taken twice by one store, or twice at one offset of the log; for tables of stores, the lowest message that
    was never sent.
    """

    sums = {f"doubled_{table}": Collected((*_COLUMNS.get(table, MESSAGE), "times")) for table in _TABLES} | {
        f"unsent_{table}": Collected(_STORED) for table in STORE_TABLES
    }

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        stores = (messages.kept, messages.replayed, messages.left)
        tables = {"sends": messages.stretches, "transactions": messages.transactions, "log": messages.copies}
        for table, rows in (tables | {"kept": messages.kept, "left_in_store": messages.left}).items():
            part = rows["part"].to_numpy()
            several = np.bincount(part)[part] > 1
            if several.any():
                least = _least(rows.filter(pl.Series(several)), _COLUMNS.get(table, MESSAGE))
                yield SumPart(f"doubled_{table}", least)
        if messages.outputs.height:
            yield SumPart("doubled_outputs", pipes.doubled(messages.outputs))
        for table, rows in zip(STORE_TABLES, stores, strict=True):
            if rows.height:
                unsent = rows.join(messages.stretches.select("part"), on="part", how="anti")
                yield SumPart(f"unsent_{table}", unsent.select(_STORED).sort(_STORED).head(1))

    def after_messages(self, run: Run) -> None:
        """Raises EvidenceError if any was found."""
        for table in _TABLES:
            for row in _first(run.sums[f"doubled_{table}"]):
                raise EvidenceError(f"table {table}: {_sentence(table, row, run)}")
        for table in STORE_TABLES:
            for row in _first(run.sums[f"unsent_{table}"]):
                raise EvidenceError(f"table {table}: {_message_in_store(row, run)} was never sent")


def _sentence(table: str, row: dict[str, int], run: Run) -> str:
    message = f"message {row['seq']} of producer {row['producer']}"
    if table == "log":
        topic, partition = run.names.located(row["place"])
        return (
            f"{topic}/{partition} offset {row['offset']} is there {row['times']} times "
            f"with the same message (producer {row['producer']}, seq {row['seq']})"
        )
    if table in _ONCE_PER_STORE:
        return f"{_message_in_store(row, run)} has {row['times']} rows"
    if table == "outputs":
        return f"{message} has {row['times']} rows with the same input"
    return f"{message} {'has more than one row' if table == 'sends' else 'is of more than one'}"


def _message_in_store(row: dict[str, int], run: Run) -> str:
    return f"message {row['seq']} of producer {row['producer']} in store {run.names.stores[row['store']]}"


def _first(found: pl.DataFrame) -> list[dict[str, int]]:
    return found.sort(found.columns).head(1).to_dicts() if found.height else []


def _least(several: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The lowest row that occurs more than once, and how often."""
    known = several.drop_nulls(keys).group_by(keys).agg(times=pl.len().cast(pl.Int64))
    return known.filter(pl.col("times") > 1).sort(keys).head(1)
