"""Sealing: converts append-only Arrow streams to Parquet, including those that a crash left behind.

Drops a torn tail with a warning; an attempt without an outcome becomes `unknown`. Before the first stream is
removed, every Parquet file is complete and warnings are recorded, so sealing can be interrupted and repeated.
It holds the folder's lock (recording.py), so nothing else can write to it. Not here: checking tables of other
writers (reading.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import nullcontext
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kaput.errors import EvidenceError
from kaput.evidence.attempts import SUFFIX, Attempts, read_attempts
from kaput.evidence.folder import RunFolder, replacing
from kaput.evidence.recorder import Recorder, Values, whole_column
from kaput.evidence.recording import RecordingLock, hold_alone
from kaput.evidence.schemas import CLUSTER, TABLES, EvidenceTable

ROW_GROUP_ROWS = 1_000_000
UNRESOLVED = "the producer ended before it knew"  # the error of an attempt without an outcome


Note = Callable[[list[str]], None]


def seal(
    folder: RunFolder,
    hold: RecordingLock | None = None,
    note: Note = lambda warnings: None,
    killed: Collection[int] = (),
) -> list[str]:
    """Seals every table; returns sentences about torn tails. `killed`: producers that a fault killed, for
    whose missing outcomes, and last write, there is no warning. `hold`: the recorder's own lock, after its
    writers have closed; without it the folder must not be locked. `note` is called with the sentences when
    all tables are complete, before anything is removed. Raises EvidenceError naming the file, StillRecording,
    OSError if the folder cannot be written.
    """
    with hold_alone(folder.path) if hold is None else nullcontext(hold) as mine:
        warnings, done = _seal_all(folder, killed)
        note(warnings)
        for path in done:
            path.unlink()
        mine.remove()
    return warnings


def needs_sealing(folder: RunFolder) -> bool:
    """Whether any table is still a stream, or there are attempts."""
    return any(any(folder.table(name).glob("*.arrows")) for name in TABLES) or any(
        folder.table("sends").glob(f"*{SUFFIX}")
    )


def _seal_all(folder: RunFolder, killed: Collection[int]) -> tuple[list[str], list[Path]]:
    """Makes every Parquet file. Returns warnings, and the files to remove, in this order."""
    warnings: list[str] = []
    streams: list[Path] = []
    for table in TABLES.values():
        for unfinished in folder.table(table.name).glob(".*.parquet.*"):
            unfinished.unlink()
        for stream in sorted(folder.table(table.name).glob("*.arrows")):
            torn = _seal_stream(table, stream)
            if torn and not (table.name == "sends" and _sender(stream) in killed):
                warnings += torn
            streams.append(stream)
    attempts = sorted(folder.table("sends").glob(f"*{SUFFIX}"))
    for path in attempts:
        warnings += _seal_attempts(path, killed)
    # Attempts first: if only these were left after an interruption, all would become unknown.
    return warnings, attempts + streams


def _sender(stream: Path) -> int | None:
    """The producer whose process wrote a stream (also a later one: producer-3.2.arrows), if it is known."""
    path = stream.with_name(stream.name.partition(".")[0] + SUFFIX)
    attempts = read_attempts(path) if path.exists() else None
    return None if attempts is None else attempts.producer


def _seal_stream(table: EvidenceTable, stream: Path) -> list[str]:
    torn: list[str] = []
    batches = whole_batches(table, stream, torn)
    if table.name == "faults":
        batches = _last_row_of_each_fault(batches)
    _write_parquet(table, batches, stream.with_suffix(".parquet"))
    return torn


def whole_batches(table: EvidenceTable, stream: Path, torn: list[str]) -> Iterator[pa.RecordBatch]:
    """A stream's complete batches; a torn rest becomes a sentence in `torn`. Raises EvidenceError."""
    size = stream.stat().st_size
    if size == 0:
        return  # its writer ended before it wrote anything: nothing is torn
    with pa.OSFile(str(stream), "rb") as file:
        try:
            reader = pa.ipc.open_stream(file)
        except (pa.ArrowInvalid, OSError):
            torn.append(f"{stream}: ends before its first row ({size} bytes); nothing of it could be kept")
            return
        missing = [field.name for field in table.schema if field.name not in reader.schema.names]
        if set(missing) - set(table.optional_columns):
            raise EvidenceError(f"{stream}: column {missing[0]!r} of table {table.name} is missing")
        whole = 0
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            except (pa.ArrowInvalid, OSError):
                torn.append(
                    f"{stream}: torn after {whole} bytes; {size - whole} bytes of an unfinished write dropped"
                )
                return
            whole = file.tell()
            yield batch


def _last_row_of_each_fault(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Keeps the last row of each fault: it is recorded when injected and again when healed."""
    rows = {row["id"]: row for batch in batches for row in batch.to_pylist()}
    if rows:
        yield pa.RecordBatch.from_pylist(list(rows.values()), schema=TABLES["faults"].schema)


def _write_parquet(table: EvidenceTable, batches: Iterator[pa.RecordBatch], path: Path) -> None:
    with replacing(path) as temporary, parquet_writer(table, temporary) as writer:
        for rows in _row_groups(batches):
            writer.write_table(_conform(table, rows), row_group_size=ROW_GROUP_ROWS)


def parquet_writer(table: EvidenceTable, path: Path) -> pq.ParquetWriter:
    """A writer that delta-encodes sequences and times and dictionary-encodes text: a few bytes per row."""
    plain = [field.name for field in table.schema if pa.types.is_int64(field.type)]
    others = [field.name for field in table.schema if field.name not in plain]
    return pq.ParquetWriter(
        path,
        table.schema,
        compression="zstd",
        use_dictionary=others,
        column_encoding=dict.fromkeys(plain, "DELTA_BINARY_PACKED"),
    )


def _row_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    gathered: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        gathered.append(batch)
        rows += batch.num_rows
        if rows >= ROW_GROUP_ROWS:
            yield pa.Table.from_batches(gathered)
            gathered, rows = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered)


def _conform(table: EvidenceTable, rows: pa.Table) -> pa.Table:
    columns = [
        rows[field.name].cast(field.type)
        if field.name in rows.schema.names
        else pa.nulls(rows.num_rows, field.type)
        for field in table.schema
    ]
    return pa.table(columns, schema=table.schema)


def _seal_attempts(path: Path, killed: Collection[int]) -> list[str]:
    """Adds the attempts without an outcome to the producer's sends, as `unknown`. Returns warnings."""
    attempts = read_attempts(path)
    # Processes of the producer after its first have files of their own: producer-3.2.parquet.
    known = [pq.ParquetFile(each) for each in path.parent.glob(f"{path.stem}.*parquet")]
    total = 0 if attempts is None else len(attempts.attempt_ns)
    if attempts is None or sum(each.metadata.num_rows for each in known) == total:
        return []
    count, rows = _unresolved(
        attempts, (batch for each in known for batch in each.iter_batches(columns=["seq"]))
    )
    if not count:
        return []
    table = TABLES["sends"]
    columns = [whole_column(rows.get(field.name), field, count) for field in table.schema]
    batch = pa.record_batch(columns, schema=table.schema)
    _write_parquet(table, iter([batch]), path.with_name(f"{path.stem}-unresolved.parquet"))
    if attempts.producer in killed:
        return []
    return [
        f"{path.with_suffix('.parquet')}: {count} of {total} attempts of producer {attempts.producer} have "
        "no outcome (their producer ended first): unknown"
    ]


def _unresolved(attempts: Attempts, recorded: Iterable[pa.RecordBatch]) -> tuple[int, dict[str, Values]]:
    """The attempts without a row, as columns, and their number. `recorded`: batches with the column seq."""
    times = np.asarray(attempts.attempt_ns)
    missing = np.ones(len(times), dtype=bool)
    for batch in recorded:
        seq = batch.column("seq").to_numpy()
        missing[seq[seq < len(times)]] = False
    return int(missing.sum()), {
        "producer": attempts.producer,
        "seq": np.flatnonzero(missing),
        "topic": attempts.topic,
        CLUSTER: attempts.cluster,
        "attempt_ns": times[missing],
        "outcome": "unknown",
        "error": UNRESOLVED,
    }


def record_unresolved(folder: RunFolder) -> int:
    """Records these attempts as `unknown`, and removes the attempts files. Returns their number. No producer
    may be running. May be interrupted and repeated. Raises EvidenceError naming the file, OSError.
    """
    count = 0
    for path in sorted(folder.table("sends").glob(f"*{SUFFIX}")):
        writer = f"{path.stem}-unresolved"
        path.with_name(f"{writer}.arrows").unlink(missing_ok=True)
        attempts = read_attempts(path)
        if attempts is not None:
            streams = path.parent.glob(f"{path.stem}.*arrows")
            recorded = chain.from_iterable(whole_batches(TABLES["sends"], each, []) for each in streams)
            unresolved, rows = _unresolved(attempts, recorded)
            with Recorder(folder.path, "sends", writer) as recorder:
                recorder.batch(unresolved, rows)
            count += unresolved
        path.unlink()
    return count
