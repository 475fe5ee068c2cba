"""Evidence that breaks the contract is refused by name; what others may write differently is taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fakes.histories import History, write_table
from kaput.errors import EvidenceError
from kaput.evidence.folder import RunFolder
from kaput.evidence.parquet import Absence, absences, footer_of
from kaput.evidence.reading import check


def _folder(path: Path) -> RunFolder:
    history = History(groups={"billing": True}).acked(0, 0, 0).acked(0, 1, 1).handed(0, 0, 0, 5)
    return history.event("assigned", 1).led(1, 0, 0, [1]).read_to_end().write(path)


def _rewrite(folder: RunFolder, table: str, change) -> Path:  # type: ignore[no-untyped-def]
    path = folder.table(table) / "part-0.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    return path


def test_sound_folder_passes(tmp_path: Path) -> None:
    """A folder that follows the contract is described: rows, files, words."""
    evidence = check(_folder(tmp_path))
    assert {name: table.rows for name, table in evidence.tables.items() if table.rows} == {
        "sends": 2,
        "log": 2,
        "deliveries": 1,
        "group_events": 1,
        "cluster_events": 1,
        "end_offsets": 1,
    }
    assert evidence.words["deliveries", "group"] == {"billing"}
    assert evidence.rows("end_offsets")[0]["end_offset"] == 2


def test_footer_is_that_of_the_file_as_it_is_now(tmp_path: Path) -> None:
    """Kept while the file stays as it is, and read again once it was written again."""
    folder = _folder(tmp_path)
    first = footer_of(path := folder.table("sends") / "part-0.parquet")
    assert footer_of(path) is first and first.num_rows == 2
    _rewrite(folder, "sends", lambda table: table.slice(0, 1))
    assert footer_of(path).num_rows == 1


@pytest.mark.parametrize("table", ["sends", "log"])
def test_missing_required_table(tmp_path: Path, table: str) -> None:
    """A required table without a Parquet file is missing, also where its directory exists."""
    folder = _folder(tmp_path)
    (folder.table(table) / "part-0.parquet").unlink()
    with pytest.raises(EvidenceError, match=f"evidence/{table}: table {table} is required"):
        check(folder)


def test_log_may_lack_while_recording(tmp_path: Path) -> None:
    """A run that was cut short has no log yet, and is no mistake."""
    folder = History(state="recording").sent(0, 0).write(tmp_path)
    (folder.table("log") / "part-0.parquet").unlink()
    assert check(folder).tables["log"].files == ()


def test_missing_optional_tables_are_empty(tmp_path: Path) -> None:
    """Deliveries, events and the others may be missing altogether."""
    evidence = check(History().sent(0, 0).write(tmp_path))
    assert evidence.tables["deliveries"].rows == 0
    assert evidence.rows("faults") == []


def test_missing_column(tmp_path: Path) -> None:
    """A column that the contract has and the file has not is named."""
    folder = _folder(tmp_path)
    path = _rewrite(folder, "log", lambda table: table.drop_columns(["intact"]))
    with pytest.raises(EvidenceError, match=f"{path}: table log: column 'intact' is missing"):
        check(folder)


def test_wrong_type(tmp_path: Path) -> None:
    """A value that is none of the column's type is named with its row."""
    folder = _folder(tmp_path)
    _rewrite(folder, "sends", lambda t: t.set_column(1, "seq", pa.array(["0", "first"])))
    with pytest.raises(EvidenceError, match=r"row 2: .* column 'seq' has 'first', the contract says int64"):
        check(folder)


@pytest.mark.parametrize(("unit", "ns"), [("ms", 10**6), ("us", 10**3)])
@pytest.mark.parametrize(("table", "column"), [("sends", "attempt_ns"), ("deliveries", "polled_ns")])
def test_times_in_another_unit_are_a_mistake(
    table: str, column: str, unit: str, ns: int, tmp_path: Path
) -> None:
    """The file, the column and the unit are named; fewer ns are those of a clock that begins at 0."""
    folder = _folder(tmp_path)

    def in_unit(found: pa.Table) -> pa.Table:
        times = pa.array([1_790_000_000 * 10**9 // ns + n for n in range(found.num_rows)], pa.int64())
        return found.set_column(found.schema.get_field_index(column), column, times)

    path = _rewrite(folder, table, in_unit)
    with pytest.raises(EvidenceError, match=f"{path.name}.*{column!r} has 1790.*a time in {unit}"):
        check(folder)


@pytest.mark.parametrize(("table", "column"), [("sends", "attempt_ns"), ("deliveries", "polled_ns")])
def test_seconds_are_told_by_the_times_of_other_columns(table: str, column: str, tmp_path: Path) -> None:
    """In ns, they are the first seconds of a clock that begins at 0: of one that others do not have."""
    folder = _folder(tmp_path)

    def in_s(found: pa.Table) -> pa.Table:
        times = pa.array([1_790_000_000 + n for n in range(found.num_rows)], pa.int64())
        return found.set_column(found.schema.get_field_index(column), column, times)

    path = _rewrite(folder, table, in_s)
    with pytest.raises(EvidenceError, match=f"{path.name}.*{column!r} has 1790000000, .*a time in s;"):
        check(folder)


@pytest.mark.parametrize(("unit", "time"), [("s", 1_790_000_000), ("us", 1_790_000_000_000_000)])
def test_milliseconds_are_checked_too(unit: str, time: int, tmp_path: Path) -> None:
    """Those of the log."""
    folder = _folder(tmp_path)

    def moved(found: pa.Table) -> pa.Table:
        times = pa.array([time] * found.num_rows, pa.int64())
        return found.set_column(found.schema.get_field_index("timestamp_ms"), "timestamp_ms", times)

    _rewrite(folder, "log", moved)
    with pytest.raises(
        EvidenceError, match=f"'timestamp_ms' has {time}, which is a time in {unit}; .* in ms"
    ):
        check(folder)


def test_all_mistakes_of_a_file_at_once(tmp_path: Path) -> None:
    """A file with two mistakes is refused for both."""
    folder = _folder(tmp_path)
    _rewrite(folder, "log", lambda table: table.drop_columns(["intact", "topic"]))
    with pytest.raises(EvidenceError, match="'topic' is missing; column 'intact' is missing"):
        check(folder)


def test_null_in_a_required_column(tmp_path: Path) -> None:
    """A null in a column that may have none is refused, with or without statistics in the file."""
    folder = _folder(tmp_path)
    path = folder.table("sends") / "part-0.parquet"
    table = pq.read_table(path)
    outcome = pa.array(["acked", None])
    changed = table.set_column(table.schema.get_field_index("outcome"), "outcome", outcome)
    for statistics in (True, False):
        pq.write_table(changed, path, write_statistics=statistics)
        with pytest.raises(EvidenceError, match="'outcome' has 1 nulls"):
            check(folder)


def test_null_in_a_number_without_statistics(tmp_path: Path) -> None:
    """Numbers are looked at too where the footer does not tell."""
    folder = _folder(tmp_path)
    path = folder.table("log") / "part-0.parquet"
    table = pq.read_table(path)
    changed = table.set_column(
        table.schema.get_field_index("offset"), "offset", pa.array([None, 1], pa.int64())
    )
    pq.write_table(changed, path, write_statistics=False)
    with pytest.raises(EvidenceError, match="'offset' has 1 nulls"):
        check(folder)


@pytest.mark.parametrize(
    ("table", "column"), [("sends", "outcome"), ("group_events", "kind"), ("cluster_events", "kind")]
)
def test_unknown_enum_value(tmp_path: Path, table: str, column: str) -> None:
    """A word that the contract does not have is named, with those that it has."""
    folder = _folder(tmp_path)

    def change(found: pa.Table) -> pa.Table:
        words = pa.array(["vanished"] * found.num_rows)
        return found.set_column(found.schema.get_field_index(column), column, words)

    _rewrite(folder, table, change)
    with pytest.raises(EvidenceError, match=f"table {table}: {column} 'vanished' is none of"):
        check(folder)


def test_truncated_file(tmp_path: Path) -> None:
    """A file without its end is refused by name."""
    folder = _folder(tmp_path)
    path = folder.table("log") / "part-0.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(EvidenceError, match=f"{path}: not a whole Parquet file"):
        check(folder)


def test_not_parquet_at_all(tmp_path: Path) -> None:
    """Text under a Parquet name is refused by name."""
    folder = _folder(tmp_path)
    (folder.table("faults")).mkdir()
    (folder.table("faults") / "x.parquet").write_text("id,fault\n")
    with pytest.raises(EvidenceError, match=r"x\.parquet: not a whole Parquet file"):
        check(folder)


def test_unknown_schema_version(tmp_path: Path) -> None:
    """A manifest of another schema version is refused, naming both."""
    folder = _folder(tmp_path)
    manifest = json.loads(folder.manifest_path.read_text()) | {"schema": "kaput.evidence/2"}
    folder.manifest_path.write_text(json.dumps(manifest))
    with pytest.raises(EvidenceError, match=r"'kaput\.evidence/2'; this kaput reads 'kaput\.evidence/1'"):
        check(folder)


def test_other_writers_encodings_are_taken(tmp_path: Path) -> None:
    """Dictionary and large text, extra columns and a missing optional column are all the same evidence."""
    folder = _folder(tmp_path)

    def change(found: pa.Table) -> pa.Table:
        kind = found["outcome"].cast(pa.dictionary(pa.int32(), pa.string()))
        found = found.set_column(found.schema.get_field_index("outcome"), "outcome", kind)
        topic = found["topic"].cast(pa.large_string())
        found = found.set_column(found.schema.get_field_index("topic"), "topic", topic)
        return found.append_column("client", pa.array(["java"] * found.num_rows))

    _rewrite(folder, "sends", change)
    _rewrite(folder, "cluster_events", lambda table: table.drop_columns(["elr"]))
    evidence = check(folder)
    assert evidence.tables["sends"].rows == 2
    assert evidence.tables["cluster_events"].lacking == {"elr"}
    assert evidence.rows("cluster_events")[0]["elr"] is None


def test_several_files_of_a_table(tmp_path: Path) -> None:
    """A table may have any number of files, and rows of none."""
    folder = _folder(tmp_path)
    write_table(folder, "sends", [], "part-1")
    row = {"producer": 1, "seq": 0, "topic": "orders", "attempt_ns": 0, "outcome": "unknown"}
    write_table(folder, "sends", [row], "part-2")
    evidence = check(folder)
    assert (evidence.tables["sends"].rows, len(evidence.tables["sends"].files)) == (3, 3)
    assert evidence.words["sends", "outcome"] == {"acked", "unknown"}


@pytest.mark.parametrize(("taken_in", "unfenced"), [(7, None), (9, 8), (None, 8)])
def test_broker_that_an_isr_took_in_had_registered_before_it_was_seen_unfenced(
    taken_in: int | None, unfenced: int | None
) -> None:
    """Where changes are polled, that event may come late: it does not tell from when on the broker served."""
    events: list[dict[str, Any]] = [
        {"kind": "leader", "at_ns": 1, "topic": "orders", "partition": 0, "broker": None, "isr": [1, 2]},
        {"kind": "stopped", "at_ns": 3, "broker": 2},
        {"kind": "isr", "at_ns": 4, "topic": "orders", "partition": 0, "broker": None, "isr": [1]},
        {"kind": "started", "at_ns": 6, "broker": 2},
        {"kind": "unfenced", "at_ns": 8, "broker": 2},
    ]
    if taken_in is not None:
        again = {"kind": "isr", "topic": "orders", "partition": 0, "broker": None, "isr": [1, 2]}
        events.append({"at_ns": taken_in, **again})
    assert absences(events) == {(None, 2): [Absence(3, 6, unfenced)]}
