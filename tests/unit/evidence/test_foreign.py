"""Evidence in the forms in which other programs write it becomes the same tables, or is refused by name."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from fakes.everything import everything
from fakes.histories import History
from fakes.judging import judged
from kaput.analysis.pipeline import analyse
from kaput.analysis.spark.in_process import InProcess
from kaput.errors import EvidenceError
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import Evidence, check
from kaput.evidence.schemas import TABLES
from kaput.report.run_report import to_text
from waiting import PATIENCE_S

START_MS = 1_700_000_000_000


def _history() -> History:
    history = History(groups={"billing": True}).acked(0, 0, 0).acked(0, 1, 1).sent(0, 2, 2)
    history.handed(0, 0, 0, 5).handed(1, 0, 1, 6).event("assigned", 1).led(1, 0, 0, [1, 2])
    return history.read_to_end()


def _rewritten(path: Path, write: Callable[[pl.DataFrame, Path], object], history: History) -> RunFolder:
    """The folder with every table written by `write`, which gets the rows and a path without ending."""
    folder = history.write(path)
    for name, rows in history.rows.items():
        shutil.rmtree(folder.table(name), ignore_errors=True)
        if rows:
            folder.table(name).mkdir()
            write(_polars(name, rows), folder.table(name) / "part-0000")
            (folder.table(name) / "_SUCCESS").touch()
            (folder.table(name) / ".part-0000.crc").write_bytes(b"crc")
    return folder


def _polars(name: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(pa.Table.from_pylist(rows, schema=TABLES[name].schema)))


def _capitals(frame: pl.DataFrame) -> pl.DataFrame:
    """Names of columns, and of outcomes as Java's enums have them."""
    if "outcome" in frame.columns:
        frame = frame.with_columns(pl.col("outcome").str.to_uppercase())
    return frame.rename(str.upper)


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Lists as a CSV has them."""
    return frame.with_columns(
        pl.col(name).list.eval(pl.element().cast(pl.String)).list.join(";")
        for name, kind in frame.schema.items()
        if kind == pl.List(pl.Int32)
    )


def _java(frame: pl.DataFrame) -> pa.Table:
    """As parquet-avro writes what a Java program has: long and decimal numbers, Instants, bytes as text."""
    table = frame.to_arrow()
    for index, field in enumerate(table.schema):
        column = table.column(index)
        if field.name.endswith("_ns"):
            column = column.cast(pa.timestamp("ns", "UTC"))
        elif pa.types.is_integer(field.type):
            column = pa.chunked_array(
                [pa.array([v and Decimal(v) for v in column.to_pylist()], pa.decimal128(20, 0))]
            )
        elif pa.types.is_large_string(field.type):
            column = column.cast(pa.binary())
        table = table.set_column(index, field.name, column)
    return table


WRITERS: dict[str, Callable[[pl.DataFrame, Path], object]] = {
    "pandas, Parquet": lambda f, p: f.to_pandas().to_parquet(f"{p}.snappy.parquet"),
    "pandas, CSV": lambda f, p: _flat(f).to_pandas().to_csv(f"{p}.csv"),
    "pandas, CSV with decimal commas": lambda f, p: (
        _flat(f).to_pandas().to_csv(f"{p}.csv", sep=";", decimal=",", index=False, encoding="utf-8-sig")
    ),
    "pandas, CSV with gzip": lambda f, p: _flat(f).to_pandas().to_csv(f"{p}.csv.gz", index=False),
    "pandas, JSON lines": lambda f, p: f.to_pandas().to_json(f"{p}.jsonl", orient="records", lines=True),
    "pandas, JSON": lambda f, p: f.to_pandas().to_json(f"{p}.json"),
    "pandas, records": lambda f, p: f.to_pandas().to_json(f"{p}.json", orient="records", indent=2),
    "pandas, index": lambda f, p: f.to_pandas().to_json(f"{p}.json", orient="index", indent=2),
    "pandas, split": lambda f, p: f.to_pandas().to_json(f"{p}.json", orient="split"),
    "pandas, table": lambda f, p: f.to_pandas().to_json(f"{p}.json", orient="table"),
    "lists by column": lambda f, p: Path(f"{p}.json").write_text(json.dumps(f.to_dict(as_series=False))),
    "Java, CSV": lambda f, p: Path(f"{p}.csv").write_text(  # String.valueOf(null)
        _flat(f).write_csv(null_value="null").replace("\n", "\r\n")
    ),
    "Polars, Parquet": lambda f, p: f.with_columns(pl.selectors.integer().cast(pl.Int64)).write_parquet(
        f"{p}.parquet"
    ),
    "Polars, CSV": lambda f, p: _flat(f).write_csv(f"{p}.csv"),
    "Polars, JSON lines": lambda f, p: f.write_ndjson(f"{p}.ndjson"),
    "JSON lines with zstd": lambda f, p: Path(f"{p}.jsonl.zst").write_bytes(
        pa.compress(f.write_ndjson().encode(), "zstd", asbytes=True)
    ),
    "Java, Parquet": lambda f, p: pq.write_table(
        _java(f), f"{p}.parquet", use_deprecated_int96_timestamps=False
    ),
    "Spark, Parquet": lambda f, p: pq.write_table(
        _java(f), f"{p}-1f0a-c000.snappy.parquet", flavor="spark", use_deprecated_int96_timestamps=True
    ),
    "Spark, JSON": lambda f, p: Path(f"{p}-c000.json").write_text(
        "".join(json.dumps({k: v for k, v in row.items() if v is not None}) + "\n" for row in f.to_dicts())
    ),
    "tabs, BOM, CRLF": lambda f, p: _flat(f).write_csv(
        f"{p}.csv", separator="\t", include_bom=True, line_terminator="\r\n"
    ),
    "capitals, UTF-16": lambda f, p: Path(f"{p}.csv").write_bytes(
        _capitals(_flat(f)).write_csv().encode("utf-16")
    ),
    "texts": lambda f, p: f.with_columns(pl.selectors.integer().cast(pl.String).str.zfill(20)).write_parquet(
        f"{p}.parquet"
    ),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_what_programs_write_by_default_is_the_same_evidence(tmp_path: Path, writer: str) -> None:
    """Same rows, whatever the format and types; the files themselves stay as they are."""
    folder = _rewritten(tmp_path / writer, WRITERS[writer], _history())
    before = {path: path.read_bytes() for path in folder.path.rglob("part-*")}
    assert _rows(check(folder)) == _rows(check(_history().write(tmp_path / "strict")))
    assert {path: path.read_bytes() for path in before} == before
    assert _rows(check(folder)) == _rows(check(folder))  # what was converted is used again


def _rows(evidence: Evidence) -> dict[str, list[dict[str, Any]]]:
    return {name: evidence.rows(name) for name in TABLES}


def test_folder_of_spark_may_have_the_name_of_a_file(tmp_path: Path) -> None:
    """As `write.csv("evidence/sends.csv")` makes it."""
    folder = _rewritten(tmp_path / "spark", WRITERS["pandas, CSV"], _history())
    folder.table("sends").rename(folder.table("sends").with_suffix(".csv"))
    assert _rows(check(folder)) == _rows(check(_history().write(tmp_path / "strict")))


BY = ("topic", "producer")  # and what has no topic is in topic=__HIVE_DEFAULT_PARTITION__


def _by_pyarrow(frame: pl.DataFrame, path: Path, format: str = "parquet") -> None:
    names = pa.schema([frame.to_arrow().schema.field(name) for name in BY if name in frame.columns])
    pyarrow.dataset.write_dataset(
        frame.to_arrow(),
        path.parent,
        format=format,
        basename_template="part-0000-{i}." + format,  # the same name in every folder, as Spark does
        partitioning=pyarrow.dataset.partitioning(names, flavor="hive"),
        existing_data_behavior="overwrite_or_ignore",
    )


def _by_polars(frame: pl.DataFrame, path: Path, include_key: bool = False) -> None:
    by = [name for name in BY if name in frame.columns]
    if not by:
        frame.write_parquet(f"{path}.parquet")
        return
    frame.lazy().sink_parquet(pl.PartitionBy(path.parent, key=by, include_key=include_key), mkdir=True)


def _lines_in_folders(frame: pl.DataFrame, path: Path) -> None:
    """As `partitionBy(...).json` writes them."""
    by = [name for name in BY if name in frame.columns]
    for values, part in frame.partition_by(by, as_dict=True).items() if by else [((), frame)]:
        folder = path.parent
        for name, value in zip(by, values, strict=True):
            word = "__HIVE_DEFAULT_PARTITION__" if value is None else quote(str(value), safe="")
            folder = folder / f"{name}={word}"
        folder.mkdir(parents=True, exist_ok=True)
        part.drop(by).write_ndjson(folder / "part-0000.json")


IN_FOLDERS: dict[str, Callable[[pl.DataFrame, Path], object]] = {
    "pyarrow, Parquet": _by_pyarrow,
    "pyarrow, CSV": lambda f, p: _by_pyarrow(_flat(f), p, "csv"),
    "Polars": _by_polars,
    "Polars, columns in the files as well": lambda f, p: _by_polars(f, p, include_key=True),
    "JSON lines": _lines_in_folders,
}


@pytest.mark.parametrize("writer", IN_FOLDERS)
@pytest.mark.parametrize("topic", ["orders", "a/b=c 1%.csv"])
def test_folders_that_name_values_of_columns(tmp_path: Path, writer: str, topic: str) -> None:
    """As `partitionBy("topic", "producer")` makes them, also where the run's own folder has such a name."""
    history = _history().acked(1, 0, 3)
    for rows in history.rows.values():
        for row in rows:
            row.update({"topic": topic} if row.get("topic") == "orders" else {})
    theirs = check(_rewritten(tmp_path / "producer=7" / "theirs", IN_FOLDERS[writer], history))
    ours = check(history.write(tmp_path / "ours"))
    assert len(theirs.tables["sends"].files) == 2
    for name, rows in _rows(ours).items():
        assert sorted(map(repr, theirs.rows(name))) == sorted(map(repr, rows)), name


def test_producers_named_by_folders(tmp_path: Path) -> None:
    """A name is a number in all tables, whether it is a folder's or a row's."""
    folder = _history().write(tmp_path)
    (folder.table("sends") / "producer=web 1").mkdir()
    for path in folder.table("sends").glob("*.parquet"):
        rows = pl.read_parquet(path).drop("producer")
        rows.write_parquet(path.parent / "producer=web 1" / "part-0.parquet")
        path.unlink()
    for name in ("log", "deliveries"):
        for path in folder.table(name).glob("*.parquet"):
            pl.read_parquet(path).with_columns(producer=pl.lit("web 1")).write_parquet(path)
    evidence = check(folder)
    assert {row["producer"] for name in ("sends", "log") for row in evidence.rows(name)} == {0}
    assert "Producers have names in the evidence, and numbers here: 0 is web 1." in evidence.manifest.notes


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "producer=1",
            "parquet: table sends: column 'producer' has 0, and its folder's name says '1'",
        ),
        ("producer=__HIVE_DEFAULT_PARTITION__", "column 'producer' has 0, and its folder's name says None"),
        ("attempt_ns=7", "column 'attempt_ns' has 1700000000000000000, and its folder's name says '7'"),
        ("more", "more: a directory; the files of table sends belong in "),
    ],
)
def test_a_folder_that_contradicts_its_files_is_refused(tmp_path: Path, name: str, says: str) -> None:
    folder = _history().write(tmp_path)
    (folder.table("sends") / name).mkdir()
    for path in folder.table("sends").glob("*.parquet"):
        path.rename(path.parent / name / path.name)
    with pytest.raises(EvidenceError, match=re.escape(says)):
        check(folder)


def test_a_folder_value_that_is_no_number_is_refused(tmp_path: Path) -> None:
    folder = _history().write(tmp_path)
    (folder.table("sends") / "partition=first").mkdir()
    for path in folder.table("sends").glob("*.parquet"):
        pl.read_parquet(path).drop("partition").write_parquet(path.parent / "partition=first" / path.name)
        path.unlink()
    with pytest.raises(EvidenceError, match="row 1: table sends: column 'partition' has 'first'"):
        check(folder)


@pytest.mark.parametrize("writer", ["Polars, JSON lines", "Polars, Parquet"])
def test_every_table_is_converted(tmp_path: Path, writer: str) -> None:
    """Maps, lists and floats as well: the findings are those of the strict folder."""
    history = everything()
    folder = _rewritten(tmp_path / "theirs", WRITERS[writer], history)
    spark: Any = InProcess()
    theirs = analyse(check(folder), spark)
    ours = judged(history, tmp_path / "ours")
    assert theirs.fates == ours.fates
    assert theirs.anomalies == ours.anomalies
    assert theirs.verdict == ours.verdict


def _sends(folder: RunFolder, text: str, ending: str = "csv") -> Path:
    shutil.rmtree(folder.table("sends"))
    path = folder.table("sends").with_suffix(f".{ending}")
    path.write_text(text, encoding="utf-8")
    return path


def _line(**changed: object) -> str:
    row = {
        "producer": 0,
        "seq": 0,
        "topic": "orders",
        "partition": 0,
        "attempt": START_MS,
        "done": START_MS + 5,
    }
    return json.dumps(row | {"outcome": "acked", "offset": 0} | changed) + "\n"


TIMES = {
    "s": (1_700_000_000, 1_700_000_000_000_000_000),
    "s ": (1_700_000_000.125, 1_700_000_000_125_000_000),
    "ms": (START_MS, 1_700_000_000_000_000_000),
    "ms ": (f"{START_MS}.5", 1_700_000_000_000_500_000),
    "us": (1_700_000_000_000_001, 1_700_000_000_000_001_000),
    "ns": (1_700_000_000_000_000_001, 1_700_000_000_000_000_001),
    "ISO 8601": ("2023-11-14T22:13:20.000000001Z", 1_700_000_000_000_000_001),
    "ISO 8601 ": ("2023-11-14 23:13:20+01:00", 1_700_000_000_000_000_000),
}


@pytest.mark.parametrize("unit", TIMES)
def test_times_are_recognized_and_told(tmp_path: Path, unit: str) -> None:
    """A column without a unit in its name has the unit that its size or form tells, in a sentence."""
    time, expected = TIMES[unit]
    folder = _history().write(tmp_path)
    _sends(folder, _line(attempt=time, done=None) * 2, "jsonl")
    evidence = check(folder)
    assert [row["attempt_ns"] for row in evidence.rows("sends")] == [expected] * 2
    told = [] if unit == "ns" else [f"Times read as {unit.strip()}: sends.attempt."]
    assert evidence.manifest.notes == told


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_timestamps_of_any_unit(tmp_path: Path, unit: str, zone: str | None) -> None:
    """Arrow's timestamps are times, whatever the column is called."""
    folder = _history().write(tmp_path)
    path = folder.table("log") / "part-0.parquet"
    table = pq.read_table(path)
    times = (
        table["timestamp_ms"].cast(pa.timestamp("ms")).cast(pa.timestamp(unit)).cast(pa.timestamp(unit, zone))
    )
    moved = pa.chunked_array([pa.array([1_700_000_000] * len(table), pa.int64())]).cast(pa.timestamp("s"))
    times = moved.cast(pa.timestamp(unit)).cast(pa.timestamp(unit, zone)) if times is not None else times
    pq.write_table(table.set_column(table.schema.names.index("timestamp_ms"), "timestamp", times), path)
    assert {row["timestamp_ms"] for row in check(folder).rows("log")} == {START_MS}


REFUSED = {
    "negative": (_line() + _line(attempt=-5), "sends.jsonl:2: attempt -5 is negative"),
    "mixed": (_line() + _line(attempt=1_700_000_000), "sends.jsonl:2: attempt 1700000000 is not in ms"),
    "mixed forms": (_line() + _line(attempt="2023-11-14T22:13:20Z"), "sends.jsonl:2: attempt 2023-11-14"),
    "ms in ns": (_line(attempt_ns=START_MS), "'attempt_ns' has 1700000000000, which is a time in ms"),
    "us in ms": (
        _line(attempt_ms=START_MS * 1000),
        "'attempt_ms' has 1700000000000000, which is a time in us",
    ),
    "some s in ms": (
        _line(attempt_ms=START_MS) + _line(attempt_ms=1_700_000_000),
        "sends.jsonl:2: column 'attempt_ms' has 1700000000, which is a time in s",
    ),
    "fractions of s in ms": (
        _line(attempt_ms="1700000000.25"),
        "sends.jsonl:1: column 'attempt_ms' has 1700000000.25, which is a time in s",
    ),
    "no column": (_line().replace('"topic"', '"Topic"'), "table sends: column 'topic' is missing"),
}


def test_csv_without_names_of_columns_is_refused(tmp_path: Path) -> None:
    """As Spark's write.csv writes it by default."""
    folder = _history().write(tmp_path)
    path = _sends(folder, "")
    for row in ("web,17,orders,0,1700000000000,1700000000005,acked,0,", "web,17,orders,0,0,1,acked,0,"):
        path.write_text(row + "\n")
        with pytest.raises(EvidenceError, match="the first line of a CSV names its columns"):
            check(folder)


def test_a_year_that_no_time_in_ns_has_is_unreadable(tmp_path: Path) -> None:
    """2326 is beyond an int64; the line is counted, not the end of the program."""
    folder = _history().write(tmp_path)
    _sends(folder, _line(attempt="2326-11-27T10:00:00Z") + _line(attempt="2026-11-27T10:00:00Z"), "jsonl")
    (trouble,) = check(folder).manifest.troubles
    assert "sends.jsonl:1: attempt '2326-11-27T10:00:00Z'" in trouble


@pytest.mark.parametrize("case", REFUSED)
def test_refused(tmp_path: Path, case: str) -> None:
    """What would be wrong silently is refused, naming file, line and column."""
    text, words = REFUSED[case]
    folder = _history().write(tmp_path)
    if "_n" in text or "_m" in text:
        text = text.replace('"attempt": 1700000000000, ', "")
    path = _sends(folder, text, "jsonl")
    with pytest.raises(EvidenceError) as raised:
        check(folder)
    assert words in str(raised.value)
    assert str(path.parent) in str(raised.value)


_NS = pa.timestamp("ns")
WRONG_IN_PARQUET = {
    "negative, with a zone": (
        "attempt_ns",
        pa.array([-1001], pa.timestamp("us", "Asia/Tokyo")),
        "attempt_ns 1969-12-31 23:59:59.998999 is negative",
    ),
    "before what ns hold": (
        "attempt_ns",
        pa.array([-(10**12)], pa.timestamp("s")),
        "is negative; times count",
    ),
    "year 9999": (
        "attempt_ns",
        pa.array([253_402_300_799], pa.timestamp("s")),
        "attempt_ns 9999-12-31 23:59:59.000 is no time: it would be after the year 2262",
    ),
    "float": ("attempt", pa.array([1e300]), "attempt 1e+300 is no time"),
    "time of day": ("attempt_ns", pa.array([5], pa.time64("ns")), "'attempt_ns' has '00:00:00.000000005'"),
    "time for a number": ("seq", pa.array([1001], _NS), "'seq' has '1970-01-01 00:00:00.000001001'"),
    "beyond int64": (
        "seq",
        pa.array([2**64 - 1], pa.uint64()),
        "'seq' has 18446744073709551615, the contract",
    ),
    "bytes": ("producer", pa.array([b"\xff"]), "column 'producer' has a text that is not UTF-8"),
    "object": ("topic", pa.array([{"a": 1}]), "column 'topic' has {'a': 1}, the contract says string"),
}


def _with_column(folder: RunFolder, name: str, values: pa.Array) -> Path:
    """The table `sends`, of one row, with another column."""
    path = next(folder.table("sends").glob("*.parquet"))
    rows = pq.read_table(path).slice(0, 1)
    there = [each for each in rows.schema.names if each.removesuffix("_ns") == name.removesuffix("_ns")]
    pq.write_table(rows.drop_columns(there).append_column(name, values), path)
    return path


@pytest.mark.parametrize("case", WRONG_IN_PARQUET)
def test_a_value_of_a_whole_parquet_file_is_named(tmp_path: Path, case: str) -> None:
    """With the file and the column; the file itself is not called damaged."""
    name, values, words = WRONG_IN_PARQUET[case]
    path = _with_column(_history().write(tmp_path), name, values)
    with pytest.raises(EvidenceError) as raised:
        check(RunFolder(tmp_path))
    assert words in str(raised.value)
    assert str(raised.value).startswith(str(path)) and "whole Parquet" not in str(raised.value)


def test_times_in_ns_are_named_without_pandas(tmp_path: Path) -> None:
    """As the command runs, which does not load it."""
    path = _with_column(_history().write(tmp_path), "attempt_ns", pa.array([-1001], _NS))
    command = [sys.executable, "-m", "kaput", "analyze", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    words = f"kaput: {path}, row 1: attempt_ns 1969-12-31 23:59:59.999998999 is negative"
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr


def test_mixed_units_in_a_column_of_ns_are_refused(tmp_path: Path) -> None:
    """Some rows in ms among those in ns, in a file that follows the contract otherwise."""
    folder = _history().sent(0, 9, attempt_ns=START_MS).write(tmp_path)
    with pytest.raises(EvidenceError, match="column 'attempt_ns' has 1700000000000, which is a time in ms"):
        check(folder)


_FLAP = {
    "id": "1-flap", "fault": "flap", "target": "broker 1", "brokers": [1], "injected": START_MS,
    "effective": START_MS + 1, "healed": START_MS + 9, "bit": True, "proof": "it was cut",
}  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{**_FLAP, "toggles_ns": [START_MS * 10**6, START_MS]}], "'toggles_ns' has 1700000000000, which is"),
        ([_FLAP, _FLAP], "row 2"),
    ],
)
def test_mistake_in_a_converted_table_names_the_file_itself(
    rows: list[dict[str, Any]], words: str, tmp_path: Path
) -> None:
    """Not the one that it was converted to; and lists of times are checked, too."""
    folder = _history().write(tmp_path)
    shutil.rmtree(folder.table("faults"), ignore_errors=True)
    path = folder.path / "evidence" / "faults.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(EvidenceError) as raised:
        analyse(check(folder), InProcess())
    assert words in str(raised.value)
    assert str(path) in str(raised.value)


def test_wrong_value_of_a_converted_table_names_the_file_itself(tmp_path: Path) -> None:
    """A word that is none, and a number after which there is none."""
    folder = _history().write(tmp_path)
    path = _with_column(folder, "seq", pa.array([2**63 - 1], pa.uint64()))
    with pytest.raises(EvidenceError) as raised:
        check(folder)
    assert str(raised.value).startswith(f"{path}: ") and "has 9223372036854775807, the" in str(raised.value)
    path = _sends(folder, _line(outcome="maybe"), "jsonl")
    with pytest.raises(EvidenceError) as raised:
        check(folder)
    assert str(raised.value).startswith(f"{path}: ") and "outcome 'maybe' is none of" in str(raised.value)


def test_csv_of_excel_and_with_blanks_after_commas(tmp_path: Path) -> None:
    """A topic ` orders` would be another; the places of lines are those in the file."""
    folder = _history().write(tmp_path)
    text = "sep=,\nproducer, seq, topic, partition, attempt, outcome\n"
    text += f'0, 0, "orders", 0, {START_MS}, acked\n0, x, orders, 0, {START_MS}, acked\n'
    _sends(folder, text)
    evidence = check(folder)
    assert [(row["topic"], row["outcome"]) for row in evidence.rows("sends")] == [("orders", "acked")]
    assert "sends.csv:4: seq 'x'" in evidence.manifest.troubles[0]


def test_producers_with_names(tmp_path: Path) -> None:
    """Each name is one number in all tables, and a note says which."""
    history = _history().acked(1, 0, 3)
    names = {0: "web", 1: "batch"}

    def named(frame: pl.DataFrame, path: Path) -> None:
        if "producer" in frame.columns:
            frame = frame.with_columns(pl.col("producer").replace_strict(names, return_dtype=pl.String))
        frame.write_parquet(f"{path}.parquet")

    evidence = check(_rewritten(tmp_path, named, history))
    assert evidence.manifest.notes == [
        "Producers have names in the evidence, and numbers here: 0 is web, 1 is batch."
    ]
    assert _rows(evidence) == _rows(check(history.write(tmp_path / "strict")))


def test_any_numbers(tmp_path: Path) -> None:
    """Numbers from any start with any step, as text with leading zeros: one message is lost, of three."""
    folder = History().acked(0, 0, 0).read_to_end().write(tmp_path)
    sends = "producer,seq,topic,partition,attempt,done,outcome,offset\n"
    for number in range(3):
        at = START_MS + number
        sends += f"7,{10_000_000 + 250 * number:012},orders,0,{at},{at},acked,{number}\n"
    log = "topic,partition,offset,timestamp_ms,producer,seq,intact\n"
    for number in (0, 2):
        log += f"orders,0,{number},{START_MS + number},7,{10_000_000 + 250 * number:012},True\n"
    _sends(folder, sends)
    shutil.rmtree(folder.table("log"))
    folder.table("log").with_suffix(".csv.gz").write_bytes(gzip.compress(log.encode()))
    ends = pa.table({"topic": ["orders"], "partition": [0], "end_offset": [3], "drained_to": [3]})
    shutil.rmtree(folder.table("end_offsets"))
    pyarrow.csv.write_csv(ends, folder.table("end_offsets").with_suffix(".csv"))
    spark: Any = InProcess()
    findings = analyse(check(folder), spark)
    assert findings.totals.sent == 3
    assert findings.total("lost") == 1
    assert findings.total("phantom") == 0


def test_unreadable_lines_are_counted_and_make_the_result_inconclusive(tmp_path: Path) -> None:
    """The first three are shown; the lines around them count."""
    folder = History().acked(0, 0, 0).read_to_end().write(tmp_path)
    bad = [_line(seq="x"), "{torn\n", "[1]\n", _line(topic=None), "\n"]
    _sends(folder, bad[0] + _line() + "".join(bad[1:]), "jsonl")
    evidence = check(folder)
    assert len(evidence.rows("sends")) == 1
    assert evidence.manifest.troubles == [
        "4 lines of table sends could not be read and are not counted: "
        "sends.jsonl:1: seq 'x'; sends.jsonl:3: {torn; sends.jsonl:4: [1]"
    ]
    spark: Any = InProcess()
    assert analyse(evidence, spark).verdict == "inconclusive"


@pytest.mark.parametrize(("torn", "verdict"), [(2, "inconclusive"), (1, "violated")])
def test_lost_messages_may_be_in_unreadable_lines(torn: int, verdict: str, tmp_path: Path) -> None:
    """Of two messages that are not in the log, both may be; with one such line, one is lost for certain."""
    history = History().read_to_end()
    for seq in range(4):
        history = history.acked(0, seq, seq)
    folder = history.write(tmp_path)
    rows = [f"orders,0,{n},0,{START_MS},0,{n},true\n" for n in range(4)]
    rows[1:3] = ["torn\n"] * torn
    shutil.rmtree(folder.table("log"))
    header = "topic,partition,offset,leader_epoch,timestamp_ms,producer,seq,intact\n"
    folder.table("log").with_suffix(".csv").write_text(header + "".join(rows))
    evidence = check(folder)
    assert evidence.manifest.unreadable_lines == {"log": torn}
    spark: Any = InProcess()
    findings = analyse(evidence, spark)
    assert (findings.total("lost"), findings.verdict) == (2, verdict)


def test_unreadable_samples_only_are_noted(tmp_path: Path) -> None:
    """No count depends on them."""
    folder = History().acked(0, 0, 0).read_to_end().write(tmp_path)
    path = folder.table("samples").with_suffix(".csv")
    path.write_text(
        f'at,source,name,labels,value\n{START_MS},me,cpu,"{{""broker"": ""1""}}",1.5\n{START_MS},me\n'
    )
    evidence = check(folder)
    assert evidence.rows("samples")[0]["labels"] == [("broker", "1")]
    assert evidence.manifest.troubles == []
    assert evidence.manifest.notes[-1].startswith(
        "1 line of table samples could not be read and is not counted"
    )


def test_pandas_floats_for_numbers_with_nulls(tmp_path: Path) -> None:
    """A column of numbers with a null becomes float64 in pandas; a fraction is no number of a message."""
    folder = History().acked(0, 0, 0).sent(0, 1, outcome="failed").read_to_end().write(tmp_path)
    path = folder.table("sends") / "part-0.parquet"
    frame = pd.read_parquet(path, dtype_backend="numpy_nullable").astype({"offset": "float64"})
    frame.to_parquet(path)
    assert [row["offset"] for row in check(folder).rows("sends")] == [0, None]
    frame["offset"] = [0.5, None]
    frame.to_parquet(path)
    with pytest.raises(EvidenceError, match=r"row 1: table sends: column 'offset' has 0.5"):
        check(folder)


def test_report_claims_nothing_that_bare_evidence_does_not_have(tmp_path: Path) -> None:
    """Three tables of another program, and no scenario: no mode, seed, type of group or command, which would
    be defaults; no arithmetic with end offsets that are not recorded; no standstill while nothing was sent.
    """
    history = History(groups={"billing": True}).acked(0, 0, 0).acked(0, 5_000, 1).acked(0, 9_000, 2)
    folder = history.handed(0, 0, 0, 5).write(tmp_path / "run")
    shutil.rmtree(folder.table("end_offsets"), ignore_errors=True)
    (folder.path / "scenario.yaml").unlink(missing_ok=True)
    manifest = json.loads(folder.manifest_path.read_text())
    kept = ("schema", "run_id", "scenario", "state", "groups")
    folder.manifest_path.write_text(json.dumps({name: manifest[name] for name in kept}))
    spark: Any = InProcess()
    text = to_text(analyse(check(folder), spark), folder.path).plain
    assert "Kafka of unknown version, run " in text and "seed" not in text and "kaput run" not in text
    assert "billing: drained" in text and "classic" not in text
    assert "High-watermark arithmetic: not possible: no end offset of orders/0 is recorded." in text
    assert "never went a second without an acknowledgement while messages were waiting." in text
