"""What the analysis leaves in RUN_DIR/analysis beside the ledger, as Parquet.

rates     what happened in each second
lost      one row a lost message: its send, cause, fault, and the epoch that overwrote it
windows   runs of lost messages without one stored in between, for each producer and partition

The tasks write ledger and lost; here is the rest, and what none of them had a row for.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence

import polars as pl

from kaput.analysis import ledger
from kaput.analysis.inputs import Inputs
from kaput.analysis.questions import losses
from kaput.analysis.stages.by_place import PlaceResults
from kaput.evidence.folder import LedgerRows

_RATES = ("attempted", "acked", "failed", "unknown", "delivered")


def clear(given: Inputs) -> None:
    """Deletes the tables of an earlier analysis. Raises OSError."""
    for name in ("ledger", "lost", "windows", "rates"):
        directory = given.evidence.folder.analysis / name
        if directory.exists():
            shutil.rmtree(directory)


def write(given: Inputs, results: Sequence[PlaceResults], rates: pl.DataFrame, rows: LedgerRows) -> None:
    """Every table that is not there yet. Raises OSError."""
    folder, names = given.evidence.folder.analysis, given.names
    windows = pl.concat([part.loss_windows for part in results])
    ledger.write(losses.loss_windows_table(windows, names), str(folder / "windows"), 0)
    ledger.write(_by_second(rates), str(folder / "rates"), 0)
    if not (folder / "lost").exists():
        none = results[0].shown["lost"].clear()
        ledger.write(losses.table(none, names), str(folder / "lost"), 0)
    if rows != "none" and not (folder / "ledger").exists():
        ledger.write_empty(names, str(folder / "ledger"), rows)


def _by_second(rates: pl.DataFrame) -> pl.DataFrame:
    counts = (pl.col("times").filter(pl.col("what") == name).sum().alias(name) for name in _RATES)
    return rates.group_by("second").agg(counts).sort("second")
