"""Parquet files, manifests and scenarios that a disk, a program or a person damaged are refused by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fakes.histories import History
from kaput.analysis.facts import inputs
from kaput.analysis.runs.columns import ENCODINGS
from kaput.analysis.runs.tables import read, units
from kaput.errors import EvidenceError
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from waiting import PATIENCE_S

EACH_BYTE = """
import sys
from pathlib import Path
from kaput.errors import EvidenceError
from kaput.evidence.parquet import check_footer, footer_of

path = Path(sys.argv[1])
sound = path.read_bytes()
refused = 0
for place in range(len(sound) - 8 - int.from_bytes(sound[-8:-4], "little") + int(sys.argv[2]), len(sound), 4):
    for change in (0x01, 0x80, 0x10):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ change]) + sound[place + 1 :])
        try:
            check_footer(path, footer_of(path))
        except EvidenceError:
            refused += 1
print(refused)
"""


def _folder(path: Path) -> RunFolder:
    history = History(groups={"billing": True}).acked(0, 0, 0).acked(0, 1, 1).handed(0, 0, 0, 5)
    return history.event("assigned", 1).led(1, 0, 0, [1, 2]).fault(1, 5, 6).read_to_end().write(path)


def _with(folder: RunFolder, table: str, column: str, values: pa.Array) -> Path:
    path = folder.table(table) / "part-0.parquet"
    found = pq.read_table(path)
    pq.write_table(found.set_column(found.schema.get_field_index(column), column, values), path)
    return path


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2, 3))])
def test_no_damaged_footer_byte_crashes_the_process(first: int, tmp_path: Path) -> None:
    """Arrow aborts where Python asks for some damaged entries: kaput must have refused them before. Of every
    fourth byte; the others are long.
    """
    path = _folder(tmp_path).table("cluster_events") / "part-0.parquet"
    done = subprocess.run(
        [sys.executable, "-c", EACH_BYTE, path, str(first)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 250


@pytest.mark.parametrize("table", ["log", "end_offsets"])
def test_negative_partition(tmp_path: Path, table: str) -> None:
    """A record is in a partition."""
    folder = _folder(tmp_path)
    rows = pq.read_table(folder.table(table)).num_rows
    path = _with(folder, table, "partition", pa.array([*[0] * (rows - 1), -3], pa.int32()))
    with pytest.raises(EvidenceError, match=rf"{path}.*partition -3 is invalid"):
        _read(folder, table)


def _read(folder: RunFolder, table: str) -> None:
    evidence = check(folder)
    evidence.rows(table)
    if table in ENCODINGS:
        names = inputs.read(evidence).names
        for unit in units(evidence, table):
            read(unit, names)


def test_negative_partition_of_an_event_is_read_as_unknown(tmp_path: Path) -> None:
    """A negative partition where none need be is a client's way to say that it knows none."""
    folder = _folder(tmp_path)
    _with(folder, "group_events", "partition", pa.array([-1], pa.int32()))
    assert check(folder).rows("group_events")[0]["partition"] is None


def test_minimum_int64_is_rejected(tmp_path: Path) -> None:
    """The analysis takes the least number of 64 bits for null: nobody has sent, stored or seen it."""
    folder = _folder(tmp_path)
    path = _with(folder, "sends", "seq", pa.array([0, -(2**63)], pa.int64()))
    with pytest.raises(EvidenceError, match=f"{path}: table sends: column 'seq' has -9223372036854775808"):
        check(folder)


@pytest.mark.parametrize(("table", "column"), [("sends", "seq"), ("sends", "offset"), ("log", "offset")])
@pytest.mark.parametrize("statistics", [True, False])
def test_maximum_int64_is_rejected(tmp_path: Path, table: str, column: str, statistics: bool) -> None:
    """A run ends at the number behind its last, and there is none; whether a footer tells of it or not."""
    folder = _folder(tmp_path)
    path = _with(folder, table, column, pa.array([0, 2**63 - 1], pa.int64()))
    pq.write_table(pq.read_table(path), path, write_statistics=statistics)
    with pytest.raises(
        EvidenceError, match=f"{path}: table {table}: column '{column}' has 9223372036854775807"
    ):
        check(folder)


def test_null_in_a_list(tmp_path: Path) -> None:
    """A broker that is null is none."""
    folder = _folder(tmp_path)
    path = _with(folder, "faults", "brokers", pa.array([[1, None]], pa.list_(pa.int32())))
    with pytest.raises(EvidenceError, match=f"{path}, row 1: the list 'brokers' has a null in it"):
        inputs.read(check(folder)).faults  # noqa: B018


def test_invalid_utf8_is_rejected(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are no topic."""
    folder = _folder(tmp_path)
    path = folder.table("log") / "part-0.parquet"
    table = pq.read_table(path)
    words = pa.array([b"orders", b"order\xff"], pa.binary()).cast(pa.string(), safe=False)
    changed = table.set_column(0, "topic", words)
    pq.write_table(changed, path, use_dictionary=False)
    with pytest.raises(EvidenceError, match=f"{path}: .*not text"):
        check(folder)


def test_duplicate_column_is_rejected(tmp_path: Path) -> None:
    """Nobody could say which is meant."""
    folder = _folder(tmp_path)
    path = folder.table("log") / "part-0.parquet"
    table = pq.read_table(path)
    pq.write_table(table.append_column("offset", table["offset"]), path)
    with pytest.raises(EvidenceError, match=f"{path}: table log: column 'offset' is there twice"):
        check(folder)


def test_directory_symlink_loop_and_fifo_are_rejected(tmp_path: Path) -> None:
    """A directory, a link to itself, a pipe that nobody writes to: none is waited for."""
    for number, make in enumerate((Path.mkdir, lambda p: p.symlink_to(p.name), os.mkfifo)):
        folder = _folder(tmp_path / str(number))
        path = folder.table("log") / "part-0.parquet"
        path.unlink()
        make(path)
        with pytest.raises(EvidenceError, match=f"{path}: not a whole Parquet file"):
            check(folder)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"history"', '"\\ud800"'),
        ('"seed": 0', '"seed": ' + "[" * 50_000),
        ('"seed": 0', '"seed": ' + "9" * 5_000),
        ('"started_ns": ', '"started_ns": 99'),
        ('"seed": 0', '"seed": NaN'),
    ],
)
def test_hostile_manifest_is_rejected(tmp_path: Path, old: str, new: str) -> None:
    """Half a character, depth without end, a number without end, a time that no table could hold."""
    folder = _folder(tmp_path)
    text = folder.manifest_path.read_text()
    assert old in text
    folder.manifest_path.write_text(text.replace(old, new))
    with pytest.raises(EvidenceError, match=str(folder.manifest_path)):
        check(folder)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("title: A history", 'title: "\\ud800"'),
        ("messages: 1", "messages: 1\n    count: 2000000000"),
        ("- name: orders", "- name: orders\n  partitions: 2000000000"),
    ],
)
def test_hostile_scenario_is_rejected(tmp_path: Path, old: str, new: str) -> None:
    """Half a character; producers and partitions that would have to be counted out one by one for ever."""
    folder = _folder(tmp_path)
    text = folder.scenario_path.read_text()
    assert old in text
    folder.scenario_path.write_text(text.replace(old, new))
    with pytest.raises(EvidenceError, match=rf"{folder.scenario_path}:\d+"):
        inputs.read(check(folder))
