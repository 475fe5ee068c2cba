"""Recording and sealing: nothing that was flushed is lost, a torn tail is dropped and reported."""

import os
import shutil
import subprocess
import sys
import textwrap
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kaput.core import NULL_INT, NULL_LONG
from kaput.evidence.attempts import AttemptWriter, read_attempts
from kaput.evidence.folder import Manifest, RunFolder
from kaput.evidence.recorder import Recorder, Values
from kaput.evidence.schemas import TABLES
from kaput.evidence.sealing import needs_sealing, seal


def rows(folder: RunFolder, table: str) -> list[dict[str, object]]:
    """All rows of a sealed table."""
    return [
        row
        for path in sorted(folder.table(table).glob("*.parquet"))
        for row in pq.read_table(path).to_pylist()
    ]


def record(folder: RunFolder, count: int, flush_every: int = 3) -> None:
    """`count` acknowledged sends of producer 0."""
    with Recorder(folder.path, "sends", "producer-0") as recorder:
        for seq in range(count):
            recorder.row(0, seq, "orders", 0, 10 + seq, 20 + seq, "acked", seq)
            if seq % flush_every == 0:
                recorder.flush()


def test_rows_are_written_by_the_names_of_their_columns(tmp_path: Path) -> None:
    """In any order; what is left out is null, and a column that the table does not have is refused."""
    with Recorder(tmp_path, "group_events", "m1", "dc2") as recorder:
        recorder.row(at_ns=5, kind="left", member="m1", group="billing")
        for wrong in ({"when_ns": 5}, {"group": "other"}):
            with pytest.raises(ValueError, match="columns"):
                recorder.row("billing", "m1", "left", **wrong)
    with pa.OSFile(str(tmp_path / "evidence" / "group_events" / "m1.arrows")) as file:
        (row,) = pa.ipc.open_stream(file).read_all().to_pylist()
    assert row == {
        "group": "billing", "member": "m1", "kind": "left", "topic": None, "partition": None, "offset": None,
        "at_ns": 5, "cluster": "dc2", "until": None,
    }  # fmt: skip


def test_rows_survive_recording_and_sealing(tmp_path: Path) -> None:
    """Every column, nulls included, survives recording and sealing."""
    folder = RunFolder(tmp_path)
    with Recorder(tmp_path, "sends", "p") as recorder:
        recorder.row(0, 0, "orders", None, 5, None, "unknown", None, "timed out")
        recorder.row(1, 7, "other", 2, 6, 9, "acked", 41)
    assert seal(folder) == []
    assert rows(folder, "sends") == [
        dict(zip(TABLES["sends"].schema.names, values, strict=True))
        for values in [
            (0, 0, "orders", None, 5, None, "unknown", None, "timed out", None),
            (1, 7, "other", 2, 6, 9, "acked", 41, None, None),
        ]
    ]


def test_appenders_write_what_rows_write(tmp_path: Path) -> None:
    """The hot loop's way of recording gives the same rows as the plain one."""
    folder = RunFolder(tmp_path)
    values = ("orders", 1, 9, None, 77, None, None, True, False, "dc1")
    recorder = Recorder(tmp_path, "log", "a")
    words = {"topic": recorder.word("topic", "orders"), "cluster": recorder.word("cluster", "dc1")}
    nulls = {"leader_epoch": NULL_INT, "producer": NULL_INT, "seq": NULL_LONG}
    for name, value in zip(recorder.schema.names, values, strict=True):
        recorder.appender(name)(words.get(name, nulls.get(name, value)))
    recorder.flush(1)
    recorder.close()
    seal(folder)
    assert [tuple(row.values()) for row in rows(folder, "log")] == [values]


def test_recorder_adds_its_cluster_to_each_row(tmp_path: Path) -> None:
    """In rows, in columns and in hot loops that tell none, and what comes after a move is of the new one."""
    recorder = Recorder(tmp_path, "left_in_store", "s", cluster="dc1")
    recorder.row("local", 0, 0)
    recorder.row("local", 0, 1, "dc3")
    recorder.batch(1, {"store": "local", "producer": 0, "seq": 2})
    recorder.cluster = "dc2"
    for name, value in (("store", recorder.word("store", "local")), ("producer", 0), ("seq", 3)):
        recorder.appender(name)(value)
    recorder.flush(1)
    recorder.close()
    folder = RunFolder(tmp_path)
    seal(folder)
    assert [row["cluster"] for row in rows(folder, "left_in_store")] == ["dc1", "dc3", "dc1", "dc2"]


def test_attempts_of_a_killed_producer_belong_to_its_last_cluster(tmp_path: Path) -> None:
    """Attempts without an outcome are sends to the cluster that the producer had been moved to."""
    attempts = AttemptWriter(tmp_path, 0, "orders", cluster="dc1")
    attempts.attempt(0, 10)
    attempts.sends_to("dc2")
    attempts.attempt(1, 11)
    attempts.close()
    folder = RunFolder(tmp_path)
    seal(folder)
    assert [(row["topic"], row["cluster"]) for row in rows(folder, "sends")] == [("orders", "dc2")] * 2


def test_mirror_event_without_a_lag_value(tmp_path: Path) -> None:
    """Of a mirror's events only the lag has a value."""
    folder = RunFolder(tmp_path)
    with Recorder(tmp_path, "mirror", "w") as recorder:
        recorder.row("dc1->dc2", "started", None, None, None, None, None, None, 5)
        recorder.row("dc1->dc2", "lag", None, "orders", 0, 9, 7, 2.0, 6)
    assert seal(folder) == []
    assert [row["value"] for row in rows(folder, "mirror")] == [None, 2.0]


def test_lists_and_maps_are_recorded(tmp_path: Path) -> None:
    """ISR lists and sample labels are columns like others."""
    with Recorder(tmp_path, "cluster_events", "c") as events, Recorder(tmp_path, "samples", "s") as samples:
        events.row("isr", None, "orders", 0, 1, 3, [1, 2], 99, "metadata-log", None)
        samples.row(99, "kaput", "acked", [("producer", "0")], 1.5)
    folder = RunFolder(tmp_path)
    seal(folder)
    assert rows(folder, "cluster_events")[0]["isr"] == [1, 2]
    assert rows(folder, "samples")[0]["labels"] == [("producer", "0")]


@pytest.mark.parametrize("cut", [1, 9, 100])
def test_torn_tail_is_dropped_and_reported(tmp_path: Path, cut: int) -> None:
    """However much of the last write is missing, the batches before it are kept."""
    recorder = Recorder(tmp_path / "recording", "sends", "producer-0")
    for seq in range(40):
        recorder.row(0, seq, "orders", 0, 10, 20, "acked", seq)
        if seq % 10 == 9:
            recorder.flush()
    # The stream has no end, as a SIGKILL would leave it.
    folder = RunFolder(shutil.copytree(tmp_path / "recording", tmp_path / "left"))
    stream = folder.table("sends") / "producer-0.arrows"
    os.truncate(stream, stream.stat().st_size - cut)
    said = seal(folder)
    assert [row["seq"] for row in rows(folder, "sends")] == list(range(30))
    assert len(said) == 1 and "producer-0.arrows" in said[0] and "dropped" in said[0]
    assert not needs_sealing(folder)


@pytest.mark.parametrize(("killed", "warnings"), [([0], 0), ([1], 2)])
def test_last_write_of_a_killed_producer_may_be_torn(
    killed: list[int], warnings: int, tmp_path: Path
) -> None:
    """A fault did that; its attempt is there, with an unknown outcome."""
    attempts = AttemptWriter(tmp_path / "recording", 0, "orders")
    recorder = Recorder(tmp_path / "recording", "sends", "producer-0")
    for seq in range(2):
        attempts.attempt(seq, 10)
        recorder.row(0, seq, "orders", 0, 10, 20, "acked", seq)
        recorder.flush()
    folder = RunFolder(shutil.copytree(tmp_path / "recording", tmp_path / "left"))
    attempts.close()
    stream = folder.table("sends") / "producer-0.arrows"
    os.truncate(stream, stream.stat().st_size - 9)
    assert len(seal(folder, killed=killed)) == warnings
    assert {row["seq"]: row["outcome"] for row in rows(folder, "sends")} == {0: "acked", 1: "unknown"}


def test_a_stream_cut_in_its_first_bytes_is_an_empty_table(tmp_path: Path) -> None:
    """A writer that died while it opened its stream leaves no rows, and a sentence."""
    folder = RunFolder(tmp_path)
    folder.table("sends").mkdir(parents=True)
    (folder.table("sends") / "producer-0.arrows").write_bytes(b"\xff\xff\xff")
    assert "nothing of it could be kept" in seal(folder)[0]
    assert rows(folder, "sends") == []


def test_truncated_stream_keeps_its_complete_batches(tmp_path: Path) -> None:
    """Also where the words change, and the cut parts new words from the rows that use them."""
    with Recorder(tmp_path, "sends", "p") as recorder:
        for seq in range(4):
            recorder.row(0, seq, f"topic-{seq % 3}", 0, 1, 2, "unknown", None, f"error {seq}")
            recorder.flush()
            columns: dict[str, Values] = {"producer": 0, "seq": np.array([seq]), "topic": f"other-{seq}"}
            recorder.batch(1, columns | {"attempt_ns": 1, "outcome": "acked"})
    whole = (tmp_path / "evidence" / "sends" / "p.arrows").read_bytes()
    wanted = [(seq, topic) for seq in range(4) for topic in (f"topic-{seq % 3}", f"other-{seq}")]
    most = 0
    for cut in range(0, len(whole) + 1, 8):  # what Arrow writes comes in eights
        folder = RunFolder(tmp_path / str(cut))
        folder.table("sends").mkdir(parents=True)
        (folder.table("sends") / "p.arrows").write_bytes(whole[:cut])
        seal(folder)
        kept = [(row["seq"], row["topic"]) for row in rows(folder, "sends")]
        assert kept == wanted[: len(kept)] and len(kept) >= most
        most = len(kept)
    assert most == len(wanted)


def test_attempts_without_outcome_become_unknown(tmp_path: Path) -> None:
    """What a killed producer had attempted but not recorded is unknown, with its attempt's time."""
    folder = RunFolder(tmp_path)
    record(folder, 3)
    attempts = AttemptWriter(tmp_path, 0, "orders")
    for seq in range(5):
        attempts.attempt(seq, 10 + seq)
    attempts.close()
    said = seal(folder)
    found = {row["seq"]: (row["outcome"], row["attempt_ns"], row["done_ns"]) for row in rows(folder, "sends")}
    assert found[2] == ("acked", 12, 22)
    assert found[3] == ("unknown", 13, None)
    assert found[4] == ("unknown", 14, None)
    assert len(found) == 5
    assert "2 of 5 attempts" in said[0]


def test_attempts_of_all_processes_of_a_producer_count_once(tmp_path: Path) -> None:
    """A producer that was killed and came back: what each of its processes recorded has an outcome."""
    folder = RunFolder(tmp_path)
    record(folder, 3)
    first = AttemptWriter(tmp_path, 0, "orders")
    for seq in range(5):
        first.attempt(seq, 10 + seq)
    first.close()
    again = AttemptWriter(tmp_path, 0, "orders", again=True)
    assert list(again.made) == [10, 11, 12, 13, 14]
    again.attempt(5, 15)
    again.close()
    with Recorder(tmp_path, "sends", "producer-0.2") as second:
        second.row(producer=0, seq=5, topic="orders", partition=0, attempt_ns=15, done_ns=16, outcome="acked")
    assert seal(folder, killed=[0]) == []
    found = {row["seq"]: row["outcome"] for row in rows(folder, "sends")}
    assert found == dict.fromkeys([0, 1, 2, 5], "acked") | dict.fromkeys([3, 4], "unknown")
    assert len(rows(folder, "sends")) == 6


def test_sealing_is_idempotent(tmp_path: Path) -> None:
    """Sealing is idempotent, also when attempts are all known."""
    folder = RunFolder(tmp_path)
    record(folder, 4)
    attempts = AttemptWriter(tmp_path, 0, "orders")
    for seq in range(4):
        attempts.attempt(seq, 10 + seq)
    attempts.close()
    assert seal(folder) == []
    before = rows(folder, "sends")
    assert seal(folder) == []
    assert rows(folder, "sends") == before and len(before) == 4


def test_attempts_beyond_the_first_mapping_are_kept(tmp_path: Path) -> None:
    """More attempts than one mapping holds are all found, the last one re-stamped."""
    count = 3 * (1 << 17) + 5
    writer = AttemptWriter(tmp_path, 3, "orders")
    for seq in range(count):
        writer.attempt(seq, seq + 1)
    writer.attempt(count - 1, 99)
    writer.close()
    found = read_attempts(tmp_path / "evidence" / "sends" / "producer-3.attempts")
    assert found is not None
    assert (found.producer, found.topic, len(found.attempt_ns)) == (3, "orders", count)
    assert found.attempt_ns[0] == 1 and found.attempt_ns[-1] == 99


def test_a_sigkill_loses_no_attempt_and_no_flushed_row(tmp_path: Path) -> None:
    """A real process killed between two sends: attempts to the last one, rows to the last flush."""
    code = textwrap.dedent(
        f"""
        import os, signal
        from pathlib import Path
        from kaput.evidence.attempts import AttemptWriter
        from kaput.evidence.recorder import Recorder
        folder = Path({str(tmp_path)!r})
        recorder, attempts = Recorder(folder, "sends", "producer-0"), AttemptWriter(folder, 0, "orders")
        for seq in range(10):
            attempts.attempt(seq, 1000 + seq)
            if seq < 7:
                recorder.row(0, seq, "orders", 0, 1000 + seq, 2000, "acked", seq)
            if seq == 4:
                recorder.flush()
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    folder = RunFolder(tmp_path)
    seal(folder)
    outcomes = [row["outcome"] for row in sorted(rows(folder, "sends"), key=lambda r: r["seq"])]  # type: ignore[arg-type,return-value]
    assert outcomes == ["acked"] * 5 + ["unknown"] * 5


def test_the_later_row_of_a_fault_wins(tmp_path: Path) -> None:
    """A fault recorded at injection and again at its heal is one row once sealed."""
    with Recorder(tmp_path, "faults", "nemesis") as recorder:
        recorder.row("1-kill", "kill", "any", [1], 5, 6, None, True, "gone")
        recorder.row("2-pause", "pause", "any", [2], 5, 6, None, True, "stopped")
        recorder.row("1-kill", "kill", "any", [1], 5, 6, 9, True, "gone")
    folder = RunFolder(tmp_path)
    seal(folder)
    assert [(row["id"], row["healed_ns"]) for row in rows(folder, "faults")] == [
        ("1-kill", 9),
        ("2-pause", None),
    ]


def test_sends_take_at_most_sixteen_bytes_a_message(tmp_path: Path) -> None:
    """Differences and dictionaries keep the sealed sends small."""
    folder, count = RunFolder(tmp_path), 50_000
    with Recorder(tmp_path, "sends", "producer-0") as recorder:
        now = 1_700_000_000_000_000_000
        for seq in range(count):
            now += 50_000 + (seq * 7919) % 30_000
            recorder.row(0, seq, "orders", 0, now, now + 2_000_000 + (seq * 104_729) % 900_000, "acked", seq)
    seal(folder)
    size = sum(path.stat().st_size for path in folder.table("sends").glob("*.parquet"))
    assert size / count <= 16


def test_the_manifest_reads_back(tmp_path: Path) -> None:
    """A written manifest is the one that is read."""
    manifest = Manifest(run_id=uuid.uuid4(), scenario="noop", seed=3, state="sealed", started_ns=5)
    folder = RunFolder(tmp_path)
    folder.write_manifest(manifest)
    assert folder.read_manifest() == manifest


def test_whole_columns_write_what_rows_write(tmp_path: Path) -> None:
    """Arrays, shared values and columns left out; rows taken one by one before them are kept."""
    with Recorder(tmp_path, "sends", "p") as recorder:
        recorder.row(0, 7, "orders", 2, 5, 8, "failed", None, "too large")
        columns = {
            "producer": 0,
            "seq": np.array([8, 9]),
            "topic": "orders",
            "partition": np.array([1, NULL_INT], np.int32),
            "attempt_ns": np.array([10, 11]),
            "done_ns": np.array([20, 21]),
            "outcome": "acked",
            "offset": np.array([NULL_LONG, 4]),
        }
        recorder.batch(2, columns)
    folder = RunFolder(tmp_path)
    seal(folder)
    assert [tuple(row.values()) for row in rows(folder, "sends")] == [
        (0, 7, "orders", 2, 5, 8, "failed", None, "too large", None),
        (0, 8, "orders", 1, 10, 20, "acked", None, None, None),
        (0, 9, "orders", None, 11, 21, "acked", 4, None, None),
    ]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"color": 1}, "no such columns: color"),
        ({"topic": None}, "topic is never null"),
        ({"partition": np.zeros(3, np.int32)}, "partition has 3 values for 2 rows"),
    ],
)
def test_a_batch_with_a_mistake_is_refused(tmp_path: Path, wrong: dict[str, Values], why: str) -> None:
    """What the table cannot hold is reported, not written."""
    columns: dict[str, Values] = {"topic": "t", "partition": 0, "end_offset": 5, "drained_to": 5}
    with Recorder(tmp_path, "end_offsets", "p") as recorder, pytest.raises(ValueError, match=why):
        recorder.batch(2, columns | wrong)


def test_attempts_written_through_cells_are_identical(tmp_path: Path) -> None:
    """A hot loop that writes the cells itself leaves what `attempt` leaves, across a mapping's end."""
    slots = 1 << 17
    writer, seq = AttemptWriter(tmp_path, 3, "orders"), 0
    while seq < slots + 5:
        with writer.cells(seq, slots + 5) as cells:
            for place in range(len(cells)):
                cells[place] = seq + place + 1
            seq += len(cells)
    writer.close()
    found = read_attempts(tmp_path / "evidence" / "sends" / "producer-3.attempts")
    assert found is not None and found.attempt_ns.tolist() == list(range(1, slots + 6))
