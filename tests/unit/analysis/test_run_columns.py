"""A column of runs is declared once, and arrives everywhere; what is not declared is refused."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from fakes.histories import History
from kaput.analysis.engine.pieces import Parts, Piece
from kaput.analysis.runs.columns import ENCODINGS, ColumnEncoding, InRun, View, type_of
from kaput.analysis.runs.cutting import PLACES, single
from kaput.analysis.runs.names import Names
from kaput.analysis.runs.tables import units
from kaput.analysis.streaming.arrivals import arrivals, frame
from kaput.analysis.views.known import Known
from kaput.analysis.views.messages import Keys, Messages
from kaput.analysis.views.places import Places
from kaput.analysis.views.rows import encode, tables
from kaput.evidence.reading import check
from kaput.evidence.schemas import TABLES

NAMES = Names(["orders"], [], [])
EVERY_VIEW = (View.MESSAGES, View.PLACES, View.LIVE)


def _declare(monkeypatch: pytest.MonkeyPatch, name: str, column: ColumnEncoding) -> None:
    log = ENCODINGS["log"]
    monkeypatch.setitem(ENCODINGS, "log", log._replace(columns={**log.columns, name: column}))


def _log_in_every_view(path: Path) -> dict[str, pl.DataFrame]:
    """Four messages at the offsets 5 to 8, stored at 10, 10, 20 and 20 ms, as each view has them."""
    history = History()
    for seq in range(4):
        history.acked(0, seq, 5 + seq)
        history.rows["log"][-1]["timestamp_ms"] = 10 * (1 + seq // 2)
    evidence = check(history.read_to_end().write(path / "run"))
    events = {"kind": pl.String, **dict.fromkeys(("group", "member", "place", "offset", "at_ns"), pl.Int64)}
    known = Known(NAMES, Parts(1, 1), 1, pl.DataFrame(schema=events))
    pieces: dict[int, list[Piece]] = {0: [], 1: [], 2: []}
    every = [unit for table in ("sends", "log") for unit in units(evidence, table)]
    for number, piece in encode(tables(every, known.names), known, ()):
        pieces[number].append(piece)
    arriving = pa.Table.from_pylist(history.rows["log"], TABLES["log"].schema)
    return {
        "messages": Messages(pieces[0], known, {}, 0).copies,
        "keys": Keys(pieces[0], known, {}, 0).log,
        "places": Places(pieces[1], known, {}, 0).log,
        "live": arrivals(log=frame("log", arriving, NAMES)).log,
    }


def test_constant_column_splits_runs_and_arrives_in_every_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _declare(monkeypatch, "timestamp_ms", ColumnEncoding(InRun.SAME, EVERY_VIEW))
    for view, runs in _log_in_every_view(tmp_path).items():
        assert runs.select("seq", "n", "timestamp_ms").rows() == [(0, 2, 10), (2, 2, 20)], view
        assert single(runs)["timestamp_ms"].to_list() == [10, 10, 20, 20], view


def test_column_of_steps_moves_when_a_run_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    after = ColumnEncoding(InRun.STEP, EVERY_VIEW, value=pl.col("offset") + 1, sources=("offset",))
    _declare(monkeypatch, "next_offset", after)
    for view, runs in _log_in_every_view(tmp_path).items():
        assert runs.select("seq", "n", "next_offset").rows() == [(0, 4, 6)], view
        assert single(runs)["next_offset"].to_list() == [6, 7, 8, 9], view


def test_column_named_like_a_step_must_be_declared() -> None:
    runs = pl.DataFrame({"place": [1], "offset": [5], "n": [2], "some_offset": [7]})
    with pytest.raises(ValueError, match=r"does not declare whether these columns move: \['some_offset'\]"):
        single(runs)
    assert PLACES.columns == ["place", "offset"]


def test_column_has_one_type_in_all_tables() -> None:
    for encoding in ENCODINGS.values():
        assert {name: column.type for name, column in encoding.columns.items()} == {
            name: type_of(name) for name in encoding.columns
        }


def test_every_source_is_a_column_of_the_evidence() -> None:
    for table, encoding in ENCODINGS.items():
        sources = {source for name in encoding.read for source in encoding.columns[name].sources or (name,)}
        assert sources <= set(TABLES[table].schema.names), table
