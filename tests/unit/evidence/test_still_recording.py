"""A run that is still being recorded is sealed by nobody else, and a dead one by one alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fakes import no_locks
from kaput.errors import EvidenceError, StillRecording
from kaput.evidence.attempts import AttemptWriter
from kaput.evidence.folder import RunFolder
from kaput.evidence.recorder import Recorder
from kaput.evidence.recording import NAME, hold_alone, hold_to_record, left_behind
from kaput.evidence.sealing import needs_sealing, seal
from waiting import PATIENCE_S

# Records five sends of producer 0, says so, and goes on to hold the recorder.
_RECORD = """
import signal, sys, time
from pathlib import Path
from kaput.evidence.recorder import Recorder
recorder = Recorder(Path(sys.argv[1]), "sends", "producer-0")
for seq in range(5):
    recorder.row(0, seq, "orders", 0, 10, 20, "acked", seq)
recorder.flush()
"""
_HELD = _RECORD + "print(flush=True)\ntime.sleep(300)"
_SEAL = """
import sys
from pathlib import Path
from kaput.errors import StillRecording
from kaput.evidence.folder import RunFolder
from kaput.evidence.sealing import seal
try:
    print(len(seal(RunFolder(Path(sys.argv[1])))))
except StillRecording as error:
    print(error)
"""


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def holding(folder: Path, code: str = _HELD) -> subprocess.Popen[str]:
    """Another process that records five sends and says when it has them."""
    process = python(code, folder)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def seqs(folder: Path) -> list[int]:
    """The messages in the sealed sends."""
    files = sorted((folder / "evidence" / "sends").glob("*.parquet"))
    return sorted(seq for file in files for seq in pq.read_table(file)["seq"].to_pylist())


def test_sealing_is_refused_while_a_recorder_is_open(tmp_path: Path) -> None:
    """Nobody seals under an open recorder, not even this process; all is sealed when it has closed."""
    folder = RunFolder(tmp_path)
    recorder = Recorder(tmp_path, "sends", "producer-0")
    for half in (range(5), range(5, 10)):
        for seq in half:
            recorder.row(0, seq, "orders", 0, 10, 20, "acked", seq)
        recorder.flush()
        with pytest.raises(
            StillRecording, match=rf"process {os.getpid()} \(sends/producer-0, since .*Ctrl-C"
        ):
            seal(folder)
        assert needs_sealing(folder)
    recorder.close()
    assert seal(folder) == []
    assert seqs(tmp_path) == list(range(10))
    assert not needs_sealing(folder)
    assert not left_behind(tmp_path)


def test_refusal_names_the_recording_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal says which run and which process, without patience; its SIGKILL ends the hold."""
    monkeypatch.setattr("kaput.evidence.recording.PATIENCE_S", 60.0)
    process = holding(tmp_path)
    began = time.monotonic()
    with pytest.raises(StillRecording, match=f"{tmp_path}: .* by process {process.pid} "):
        seal(RunFolder(tmp_path))
    assert time.monotonic() - began < 30
    process.kill()
    process.wait()
    seal(RunFolder(tmp_path))
    assert seqs(tmp_path) == list(range(5))


def test_open_attempt_writer_prevents_sealing(tmp_path: Path) -> None:
    """A program that only notes its attempts is recording, too, and a file of attempts alone is sealed."""
    attempts = AttemptWriter(tmp_path, 0, "orders")
    attempts.attempt(0, 10)
    with pytest.raises(StillRecording):
        seal(RunFolder(tmp_path))
    attempts.close()
    assert needs_sealing(RunFolder(tmp_path))
    seal(RunFolder(tmp_path))
    assert seqs(tmp_path) == [0]
    assert not needs_sealing(RunFolder(tmp_path))


def test_child_process_does_not_inherit_the_hold(tmp_path: Path) -> None:
    """A child that inherits every descriptor, as a broker might, outlives a killed recorder."""
    child = "import subprocess\nprint(subprocess.Popen(['sleep', '300'], close_fds=False).pid, flush=True)\n"
    process = python(_RECORD + child + "time.sleep(300)", tmp_path)
    assert process.stdout is not None
    left = int(process.stdout.readline())
    try:
        process.kill()
        process.wait()
        seal(RunFolder(tmp_path))
        assert seqs(tmp_path) == list(range(5))
    finally:
        os.kill(left, signal.SIGKILL)


def test_fork_neither_releases_nor_extends_a_hold(tmp_path: Path) -> None:
    """A child that closes what it inherited leaves the parent's hold; one that lives on is no holder."""
    recorder = Recorder(tmp_path, "sends", "producer-0")
    recorder.row(0, 0, "orders", 0, 10, 20, "acked", 0)
    recorder.flush()
    if (closing := os.fork()) == 0:
        recorder._hold.release()
        os._exit(0)
    os.waitpid(closing, 0)
    with pytest.raises(StillRecording):
        seal(RunFolder(tmp_path))
    if (living := os.fork()) == 0:
        time.sleep(300)
        os._exit(0)
    try:
        recorder.close()
        seal(RunFolder(tmp_path))
        assert seqs(tmp_path) == [0]
    finally:
        os.kill(living, signal.SIGKILL)
        os.waitpid(living, 0)


def test_clients_that_outlive_a_killed_recorder_are_waited_for(tmp_path: Path) -> None:
    """Where whoever opened the folder is dead, its clients get a moment to end, and are then sealed."""
    opener = python(
        "import sys, time\nfrom pathlib import Path\nfrom kaput.evidence.recording import hold_to_record\n"
        "hold = hold_to_record(Path(sys.argv[1]), 'kaput run')\nprint(flush=True)\ntime.sleep(300)",
        tmp_path,
    )
    assert opener.stdout is not None
    opener.stdout.readline()
    client = holding(tmp_path, _RECORD + "print(flush=True)\ntime.sleep(1)")
    with pytest.raises(StillRecording, match=rf"process {opener.pid} \(kaput run, since"):
        seal(RunFolder(tmp_path))
    opener.kill()
    opener.wait()
    seal(RunFolder(tmp_path))
    assert client.wait(PATIENCE_S) == 0
    assert seqs(tmp_path) == list(range(5))


def test_of_two_sealers_one_seals(tmp_path: Path) -> None:
    """Started together over and over: never both at work, never a row twice, and no lock is left."""
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        process = holding(folder)
        process.kill()
        process.wait()
        sealers = [python(_SEAL, folder) for _ in range(2)]
        said = [sealer.communicate(timeout=PATIENCE_S)[0].strip() for sealer in sealers]
        assert said == ["0", "0"]
        assert seqs(folder) == list(range(5))
        assert not needs_sealing(RunFolder(folder))
        assert not left_behind(folder)


def test_recording_is_refused_during_sealing(tmp_path: Path) -> None:
    """A writer that comes then waits, and is told in the end; a second sealer, too."""
    with hold_alone(tmp_path):
        process = python(_SEAL, tmp_path)
        said = process.communicate(timeout=PATIENCE_S)[0]
    assert f"is being sealed by process {os.getpid()} (sealing, since" in said
    with hold_to_record(tmp_path, "kaput run") as hold, hold_to_record(tmp_path, "other"):
        seal(RunFolder(tmp_path), hold)  # the recorder's own
    assert not left_behind(tmp_path)


@pytest.mark.parametrize("at", ["before", "within"])
def test_sealing_that_was_interrupted_is_repeated(tmp_path: Path, at: str) -> None:
    """Wherever it ends: the same rows and the same sentences the next time, and no half file."""
    with Recorder(tmp_path, "sends", "producer-0") as recorder, AttemptWriterOf(tmp_path) as attempts:
        for seq in range(3):
            attempts.attempt(seq, 10)
        recorder.row(0, 0, "orders", 0, 10, 20, "acked", 0)
    folder, told = RunFolder(tmp_path), list[list[str]]()

    def note(said: list[str]) -> None:
        told.append(said)
        if len(told) == 1:
            if at == "within":
                (folder.table("sends") / "producer-0.attempts").unlink()
            raise KeyboardInterrupt

    (folder.table("sends") / ".producer-0.parquet.99").write_bytes(b"half")
    with pytest.raises(KeyboardInterrupt):
        seal(folder, note=note)
    assert needs_sealing(folder)
    seal(folder, note=note)
    assert seqs(tmp_path) == [0, 1, 2]
    assert told[0] == [
        "{}: 2 of 3 attempts of producer 0 have no outcome (their producer ended first): unknown".format(
            folder.table("sends") / "producer-0.parquet"
        )
    ]
    assert told[1] == (told[0] if at == "before" else [])
    assert sorted(path.name for path in folder.table("sends").iterdir()) == [
        "producer-0-unresolved.parquet",
        "producer-0.parquet",
    ]


def test_producer_killed_by_a_fault_is_sealed_without_a_warning(tmp_path: Path) -> None:
    """Its attempts are unknown like anybody's, but no trouble; nor is it that it had no time for a row."""
    with Recorder(tmp_path, "sends", "producer-0") as recorder, AttemptWriterOf(tmp_path) as attempts:
        for seq in range(3):
            attempts.attempt(seq, 10)
        recorder.row(0, 0, "orders", 0, 10, 20, "acked", 0)
    folder = RunFolder(tmp_path)
    folder.table("transactions").mkdir(parents=True)
    (folder.table("transactions") / "producer-0.arrows").touch()
    assert seal(folder, killed=[0]) == []
    assert seqs(tmp_path) == [0, 1, 2] and not needs_sealing(folder)


class AttemptWriterOf:
    """Attempts of producer 0, closed at the end of the block."""

    def __init__(self, folder: Path) -> None:
        self.writer = AttemptWriter(folder, 0, "orders")

    def __enter__(self) -> AttemptWriter:
        return self.writer

    def __exit__(self, *error: object) -> None:
        self.writer.close()


def test_existing_recording_is_never_overwritten(tmp_path: Path) -> None:
    """The same writer again, before the sealing and after it: refused, and what is there stays."""
    for seal_first in (False, True):
        if seal_first:
            seal(RunFolder(tmp_path))
        else:
            with Recorder(tmp_path, "sends", "producer-0") as recorder:
                recorder.row(0, 0, "orders", 0, 10, 20, "acked", 0)
        with pytest.raises(EvidenceError, match=r"producer-0\.\w+: already recorded"):
            Recorder(tmp_path, "sends", "producer-0")
    assert seqs(tmp_path) == [0]
    AttemptWriter(tmp_path, 1, "orders").close()
    with pytest.raises(EvidenceError, match="already recorded"):
        AttemptWriter(tmp_path, 1, "orders")


@pytest.mark.skipif(not no_locks.possible(), reason="this system cannot refuse flock to one program")
@pytest.mark.parametrize("code", [_RECORD, _SEAL])
def test_file_system_without_locks_is_reported(tmp_path: Path, code: str) -> None:
    """Not a traceback about an error number: what is missing, and what to do."""
    done = subprocess.run(
        [sys.executable, no_locks.__file__, sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (
        f"EvidenceError: {tmp_path / NAME}: its file system has no locks (No locks available)" in done.stderr
    )
    assert "another file system" in done.stderr
