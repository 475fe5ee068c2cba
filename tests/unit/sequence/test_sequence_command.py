"""`kaput sequence` as a user has it: pipes, exit statuses, Ctrl-C."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyarrow import parquet

from fakes.program import app
from kaput.analysis.pipeline import analyse
from kaput.analysis.spark.in_process import InProcess
from kaput.cli.exit_status import status_of
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check as load
from kaput.sequence.generating import GeneratorSpec, chunks
from waiting import PATIENCE_S, blocked, eventually

KAPUT = [sys.executable, "-m", "kaput", "sequence"]


def check(text: str | bytes, *options: str, status: int = 0) -> subprocess.CompletedProcess[bytes]:
    """One check of a text, in this process, which reads it from its stdin; the exit status is asserted."""
    words = ["sequence", "check", *options]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        _stdin(text.encode() if isinstance(text, str) else text),
        patch.object(sys, "argv", ["kaput", *words]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        ended = status_of(lambda: app(words, standalone_mode=False))
    said = [stream.buffer.getvalue() for stream in (out, err)]  # type: ignore[attr-defined]
    assert ended == status, said[1].decode()
    return subprocess.CompletedProcess(words, ended, *said)


@contextmanager
def _stdin(data: bytes) -> Iterator[None]:
    """The file descriptor 0 has this data."""
    before = os.dup(0)
    try:
        with TemporaryFile() as file:
            file.write(data)
            file.seek(0)
            os.dup2(file.fileno(), 0)
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


def told(text: str | bytes, *options: str, status: int = 0) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(check(text, *options, "--json", status=status).stdout)
    return document


def numbers(*ranges: range) -> str:
    return "".join(f"{number}\n" for some in ranges for number in some)


def test_generated_sequence_passes_the_check() -> None:
    pipe = " ".join(
        [*KAPUT, "generate", "--count", "200000", "|", *KAPUT, "check", "--expect", "1..200000", "--json"]
    )
    done = subprocess.run(["sh", "-c", pipe], capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["expected"], found["seen"], found["missing"], found["duplicates"]) == (
        200_000,
        200_000,
        0,
        0,
    )
    assert (found["missing_ranges"], found["windows"], found["reordered"]) == ([], [], 0)


def test_missing_numbers_exit_with_status_1() -> None:
    found = told(numbers(range(1, 5), range(4, 10)), "--expect", "1..12", status=1)
    assert (found["missing"], found["missing_ranges"], found["duplicates"]) == (3, [[10, 12]], 1)


def test_strict_fails_on_duplicates_reordering_and_unreadable_lines() -> None:
    """Duplicates, reorderings, strays and other lines."""
    for text in ("1\n2\n2\n3\n", "1\n3\n2\n", "1\n2\n3\n4\n", "1\n2\nx\n3\n"):
        assert check(text, "--expect", "1..3").returncode == 0
        assert check(text, "--expect", "1..3", "--strict", status=1).returncode == 1


def test_input_without_numbers_is_rejected() -> None:
    """With the first line, and what would help; an empty one is kept apart."""
    assert b"line 1: 'foo 1'" in check("foo 1\nbar\n", status=2).stderr
    assert b"the input is empty" in check("", status=2).stderr
    check("", "--expect", "1..3", status=1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--expect", "10"], "write a range, such as 1..20000"),
        (["--expect", "5..1"], "ends before it begins"),
        (["--pattern", "(?P<n>x)"], "write a group (?P<number>"),
        (["--pattern", "("], "not a regular expression"),
        (["--producers", "3"], "--expect A..B"),
        (["--line-format", "payload", "--pattern", "(?P<number>1)"], "cannot be combined"),
        (["/nowhere/at/all"], "no such file"),
    ],
)
def test_invalid_options_exit_with_status_2(options: list[str], said: str) -> None:
    assert said in check("1\n", *options, status=2).stderr.decode()


def test_silent_producer_counts_as_missing() -> None:
    """Where it was said how many there are."""
    found = told("1 5 0\n2 5 0\n", "--expect", "1..2", "--producers", "2", status=1)
    assert [(p["producer"], p["missing"]) for p in found["producers"]] == [(0, 0), (1, 2)]


def test_generated_payloads_pass_the_check() -> None:
    """A damaged one, and one of another run, are not taken for numbers."""
    made = b"".join(chunks(GeneratorSpec(10, form="payload")))
    assert told(made, "--line-format", "payload", "--expect", "1..10")["seen"] == 10
    lines = made.splitlines(keepends=True)
    lines[3] = lines[3][:20] + (b"A" if lines[3][20:21] != b"A" else b"B") + lines[3][21:]
    lines.append(next(chunks(GeneratorSpec(1, form="payload"))))
    found = told(b"".join(lines), "--line-format", "payload", "--expect", "1..10", status=3)
    assert (found["missing_ranges"], found["unreadable"], found["first_unreadable"]["line"]) == (
        [[4, 4]],
        2,
        4,
    )


def test_files_and_stdin_are_one_input(tmp_path: Path) -> None:
    """A last line without its newline is a line; carriage returns do not matter."""
    (tmp_path / "one").write_bytes(b"1\r\n2\r\n3")
    assert told("4\n5", str(tmp_path / "one"), "-", "--expect", "1..5")["seen"] == 5


def test_times_that_are_none_are_pointed_out() -> None:
    """Of kcat -f '%p %o %s', the last field is the number; with --time-unit, times count from anywhere."""
    hint = b"each line was read as NUMBER TIME PRODUCER; --pattern names other fields"
    assert hint in check("0 5 1\n0 6 3\n").stdout
    assert hint not in check("0 5 1\n", "--time-unit", "ms").stdout
    assert hint not in check("0 1795349830123 1\n").stdout


@pytest.mark.parametrize(
    "lines", ["number,time\n1,5\n2,6\n", "number\ttime\n1\t5\n", '{"number": 1, "time": 5}\n']
)
def test_small_times_with_names_are_not_pointed_out(lines: str) -> None:
    """No field was taken for another one by its place."""
    assert b"was read as NUMBER TIME" not in check(lines).stdout


def test_small_times_after_other_lines_are_pointed_out() -> None:
    """Whether lines are read at once or one by one, and whatever ends them."""
    for lines in ("Reading...\n0 5 1\n", "# of today\r\n0 5 east\r\n"):
        assert b"was read as NUMBER TIME" in check(lines).stdout


@pytest.mark.parametrize("pack", [gzip.compress, lambda data: pa.compress(data, codec="zstd", asbytes=True)])
def test_compressed_file_with_a_byte_order_mark_is_read(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    """By its first bytes, not by its name."""
    (tmp_path / "received").write_bytes(pack(b"\xef\xbb\xbf" + numbers(range(3)).encode()))
    assert told("", str(tmp_path / "received"), "--expect", "0..2")["unreadable_lines"] == []


def test_folders_parquet_and_utf_16_are_read(tmp_path: Path) -> None:
    """As Spark, pandas and PowerShell write them; the rows of several files are one input."""
    spark = tmp_path / "spark"
    spark.mkdir()
    (spark / "_SUCCESS").touch()
    (spark / ".part-00000.csv.crc").write_bytes(b"crc\0")
    (spark / "part-00000.csv").write_text("number,time\n1,2026-11-27T10:00:00Z\n")
    (spark / "part-00001.csv.gz").write_bytes(gzip.compress(b"number,time\n2,2026-11-27T10:00:01Z\n"))
    times = pa.array([1_795_773_602_000_000_001, None], pa.timestamp("ns", "UTC"))
    parquet.write_table(pa.table({"Number": [3.0, 5.0], "time": times, "x": [[1], [2]]}), tmp_path / "three")
    (tmp_path / "windows").write_bytes("6\r\n7\r\n".encode("utf-16"))
    paths = [str(spark), str(tmp_path / "three"), str(tmp_path / "windows")]
    found = told("", *paths, status=1)
    assert (found["seen"], found["missing_ranges"], found["unreadable"]) == (6, [[4, 4]], 0)
    (tmp_path / "empty").mkdir()
    assert b"is a directory without files" in check("", str(tmp_path / "empty"), status=2).stderr
    parquet.write_table(pa.table({"id": [1]}), tmp_path / "three")
    assert b"has no column number or seq (its columns: id)" in check("", paths[1], status=2).stderr
    (tmp_path / "three").write_bytes(b"PAR1, or not")
    assert b"cannot be read as Parquet" in check("", str(tmp_path / "three"), status=2).stderr


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("10:00:01,123 INFO [main] got 17", "--pattern 'got (?P<number>[0-9]+)'"),
        ("10:00:01 seq=17 (a.b.C)", "--pattern 'seq=(?P<number>[0-9]+)'"),
        ("id;when", "a CSV needs a column number or seq"),
        ("nothing", "--pattern finds numbers"),
    ],
)
def test_lines_without_numbers_have_advice(line: str, advice: str) -> None:
    """The pattern that is proposed finds the number."""
    assert advice in check(f"{line}\n", status=2).stderr.decode()
    if "'" in advice:
        assert told(f"{line}\n", "--pattern", advice.split("'")[1])["seen"] == 1


def test_damaged_compressed_file_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "received").write_bytes(gzip.compress(numbers(range(5000)).encode())[:-900])
    assert b"received: cannot be read as gzip" in check("", str(tmp_path / "received"), status=2).stderr


def test_what_was_acknowledged_tells_lost_from_missing(tmp_path: Path) -> None:
    """Numbers need not be consecutive; producers have names; what was never sent is unexpected."""
    (tmp_path / "sent").write_text("".join(f"{n} 1 {who}\n" for n in range(0, 100, 10) for who in ("a", "b")))
    (tmp_path / "acked").write_text("".join(f"{n} 1 {who}\n" for n in range(0, 80, 10) for who in ("a", "b")))
    received = "".join(
        f"{n} 1 {who}\n" for n in range(0, 70, 10) for who in ("a", "b") if (n, who) != (30, "b")
    )
    files = ("--sent", str(tmp_path / "sent"), "--acked", str(tmp_path / "acked"))
    found = told(received + "35 1 a\n", *files, status=1)
    assert (found["expected"], found["acked"], found["seen"], found["unexpected"]) == (20, 16, 13, 1)
    assert (found["lost"], found["missing"]) == (3, 7)
    assert [(p["producer"], p["lost_ranges"], p["missing"]) for p in found["producers"]] == [
        ("a", [[70, 70]], 3),
        ("b", [[30, 30], [70, 70]], 4),
    ]
    text = check(received, *files, status=1).stdout.decode()
    assert "20 expected, 16 acknowledged, 13 seen, 3 lost, 7 missing" in text
    assert "lost: 70 of producer a, 30 of producer b, 70 of producer b" in text
    assert check("".join(f"{n} 1 {who}\n" for n in range(0, 80, 10) for who in "ab"), *files).returncode == 0


def test_evidence_has_what_was_acknowledged(tmp_path: Path) -> None:
    """A missing number whose acknowledgement is not in the file is not lost."""
    (tmp_path / "sent").write_text(numbers(range(10)))
    (tmp_path / "acked").write_text(numbers(range(8)))
    files = ("--sent", str(tmp_path / "sent"), "--acked", str(tmp_path / "acked"))
    check(numbers(range(5)), *files, "--evidence", str(tmp_path / "run"), status=1)
    findings = analyse(load(RunFolder(tmp_path / "run")), InProcess())
    lost = sum(anomaly.count for anomaly in findings.anomaly("lost"))
    assert (findings.totals.sent, findings.totals.acked, lost) == (10, 8, 3)


def test_files_of_sends_have_times_and_outcomes_of_their_own(tmp_path: Path) -> None:
    """Another program wrote them; what failed was not acknowledged."""
    sent = tmp_path / "sent.csv"
    sent.write_text("seq,time,outcome\n1,2026-11-27T10:00:00Z,acked\n2,2026-11-27T10:00:01Z,failed\n")
    acked = tmp_path / "acked.jsonl"
    acked.write_text('{"seq": 1, "outcome": "ACKED"}\n{"seq": 2, "outcome": "failed"}\n')
    for acks in (sent, acked):
        found = told("1 1795773600000\n", "--sent", str(sent), "--acked", str(acks), status=0)
        assert (found["expected"], found["acked"], found["missing"], found["lost"]) == (2, 1, 1, 0)


@pytest.mark.parametrize(
    ("sent", "acked", "message"),
    [
        ("1\n2\n", "1\n3\n", "--acked has number 3, which is not in --sent"),
        ("1\nx\n", "1\n", "sent:2: has no number: 'x'; --pattern finds"),
        ("1 1795349830123 a\n2 1795349830124\n", "1\n", "sent:2: has no producer, and others have: '2 179"),
        ("sep=;\nnumber;time;number\n", "1\n", "sent:2: column 'number' is there twice"),
        ("got 17\r\n", "1\n", "sent:1: has no number: 'got 17'; --pattern 'got (?P<number>"),
        ("", "1\n", "has no number that was sent"),
    ],
)
def test_wrong_files_of_sends_are_mistakes(sent: str, acked: str, message: str, tmp_path: Path) -> None:
    """With the file, and the line if there is one."""
    (tmp_path / "sent").write_text(sent)
    (tmp_path / "acked").write_text(acked)
    done = check("1\n", "--sent", str(tmp_path / "sent"), "--acked", str(tmp_path / "acked"), status=2)
    assert message in done.stderr.decode()
    assert (
        b"drop --expect"
        in check("1\n", "--sent", str(tmp_path / "sent"), "--expect", "1..2", status=2).stderr
    )


def test_verifiable_clients_are_checked_without_a_pattern(tmp_path: Path) -> None:
    """The producer's log is what was sent, and what was acknowledged."""
    events = [
        {"timestamp": 1_700_000_000_000 + n, "name": "producer_send_success", "value": str(n)}
        for n in range(9)
    ]
    events[7]["name"] = "producer_send_error"
    producer = tmp_path / "producer.log"
    producer.write_text(
        "".join(json.dumps(event) + "\n" for event in [{"name": "startup_complete"}, *events])
    )
    received = "".join(
        json.dumps({"timestamp": 1_700_000_001_000, "name": "record_data", "value": str(n)}) + "\n"
        for n in range(6)
    )
    found = told(received, "--sent", str(producer), "--acked", str(producer), status=1)
    assert (found["expected"], found["acked"], found["lost_ranges"], found["missing_ranges"]) == (
        9,
        8,
        [[6, 6], [8, 8]],
        [[6, 8]],
    )


def test_pattern_shows_what_it_matched() -> None:
    """One line, so that a wrong pattern is noticed; and the unit of the times."""
    out = check(
        "at 1700000000.5 web: 17\n", "--pattern", r"at (?P<time>\S+) (?P<producer>\w+): (?P<number>\d+)"
    )
    assert b"line 1 was read as number 17, time 1700000000.5 (s), producer web" in out.stdout
    assert b"times were read as s" in out.stdout


def test_overlong_line_is_one_unreadable_line() -> None:
    found = told(b"1\n" + b"7" * (5 << 20) + b"\n2\n", "--expect", "1..2")
    assert (found["lines"], found["unreadable"], found["seen"]) == (3, 1, 2)


def test_closed_pipe_ends_the_generator() -> None:
    """Without a word, and with 0."""
    with subprocess.Popen([*KAPUT, "generate"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().split()[0] == b"1"
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr.read() == b""


def test_ctrl_c_prints_the_check_so_far() -> None:
    """A console consumer is ended like this, and the check at its end with it."""
    command = [*KAPUT, "check", "--expect", "1..9", "--json"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdin.write(b"1\n2\n3\n")
        process.stdin.flush()
        # It sleeps in a system call once it has taken them all, and waits for more.
        assert eventually(lambda: asleep(process.pid))
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        found = json.loads(process.stdout.read())
        assert (found["seen"], found["missing"], found["interrupted"]) == (3, 6, True)
        assert b"interrupted" in process.stderr.read()


def _flushed(text: str, codec: str) -> bytes:
    """What `... | gzip -c` or `zstd -c` has written of a text when more is to come."""
    if codec == "gzip":
        packer = zlib.compressobj(wbits=31)
        return packer.compress(text.encode()) + packer.flush(zlib.Z_SYNC_FLUSH)
    sink = pa.BufferOutputStream()
    stream = pa.CompressedOutputStream(sink, codec)
    stream.write(text.encode())
    stream.flush()
    return bytes(sink.getvalue())


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_ctrl_c_prints_the_check_of_a_compressed_pipe(codec: str) -> None:
    """Of what could be unpacked so far, but for some lines at its end."""
    command = [*KAPUT, "check", "--expect", "1..200000", "--json"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdin.write(_flushed(numbers(range(1, 100_001)), codec))
        process.stdin.flush()
        assert eventually(lambda: asleep(process.pid))
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        found = json.loads(process.stdout.read())
        assert 99_800 < found["seen"] <= 100_000 and found["interrupted"]


def asleep(pid: int) -> bool:
    """Whether a process waits in select or read of a pipe, with numpy loaded."""
    return "_multiarray" in Path(f"/proc/{pid}/maps").read_text() and blocked(pid, "read")


def test_a_rate_is_kept_and_times_are_those_of_the_writes() -> None:
    """On a clock of the test's own: 1,000 lines at 500 a second take two seconds."""
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    order = GeneratorSpec(1000, rate=500, producer=4)
    made = b"".join(chunks(order, lambda: int(now[0] * 1e9), lambda: now[0], sleep)).splitlines()
    assert [int(line.split()[0]) for line in made] == list(range(1, 1001))
    assert now[0] - 100 == pytest.approx(999 / 500, abs=0.01)
    for at, line in enumerate(made):
        _, ms, producer = line.split()
        assert producer == b"4"
        assert int(ms) - 100_000 == pytest.approx(at * 2, abs=5)


def test_spark_is_not_loaded() -> None:
    """Nor what only evidence needs."""
    code = (
        "import sys; from kaput.cli.main import main\ntry: main()\nexcept SystemExit: pass\n"
        "print([n for n in ('pyspark', 'polars', 'pyarrow', 'confluent_kafka') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "sequence", "check"],
        input=b"1\n2\n",
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == b"[]"


def test_time_units_ns_and_none() -> None:
    ns = next(chunks(GeneratorSpec(1, unit="ns"), time.time_ns)).split()
    assert abs(int(ns[1]) - time.time_ns()) < 10**11
    assert next(chunks(GeneratorSpec(2, start=7, unit="none"))) == b"7\n8\n"


def write(path: Path, content: str | bytes | pa.Table) -> str:
    """The path of a file with this content."""
    if isinstance(content, pa.Table):
        parquet.write_table(content, path)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def test_places_are_files_and_lines_in_them(tmp_path: Path) -> None:
    """Of unreadable lines and times, also in folders, tables, and what was sent; only stdin has no name."""
    one, two = (
        write(tmp_path / name, text) for name, text in (("one", "1\n2 5\nx\n"), ("two", "3\n\n4\ny\n"))
    )
    table = write(tmp_path / "table", pa.table({"number": [5, None, 7], "time": [None, None, -5]}))
    found = told("6\nz\n", one, two, one, "-", "--expect", "1..6", status=3)
    assert found["unreadable_lines"] == [
        {"file": one, "line": 3, "text": "x"},
        {"file": two, "line": 2, "text": ""},
        {"file": two, "line": 4, "text": "y"},
    ]
    assert (
        f"cannot be read, the first: {one}:3: 'x', {two}:2: ''," in check("", one, two, one).stdout.decode()
    )
    assert "2 lines cannot be read: line 2: 'a', line 3: 'b'" in check("1\na\nb\n").stdout.decode()
    assert f"kaput: {table}, row 3: time -5 is negative" in check("", one, table, status=2).stderr.decode()
    document = write(tmp_path / "rows.json", '[{"number": 1},\n\n{"number": 2, "time": -5}]')
    assert f"kaput: {document}, row 2: time -5" in check("1\n", "-", document, status=2).stderr.decode()
    late = write(tmp_path / "late", "9 1700000000000\n")
    assert (
        f"kaput: {late}:1: time 1700000000000 is not in ms" in check("", one, late, status=2).stderr.decode()
    )
    table = write(tmp_path / "table", pa.table({"number": [5, None]}))
    assert f"kaput: {table}, row 2: has no number" in check("1\n", "--sent", table, status=2).stderr.decode()
    matched = check("", one, "--pattern", r"^(?P<number>\d+)$").stdout.decode()
    assert f"{one}:1 was read as number 1\n" in matched


def test_each_file_may_have_a_header_of_its_own(tmp_path: Path) -> None:
    """With other columns, after blank lines; the parts of a file that was split have none."""
    paths = [
        write(tmp_path / name, text)
        for name, text in (
            ("a", "\nnumber,producer\n1,7\n2,7\n"),
            ("b", "producer,number\n7,3\n"),
            ("c", "7,4\n"),
            ("d", "seq;producer\n5;7\n"),
        )
    ]
    found = told("", *paths)
    assert (found["seen"], found["missing"], found["unreadable"]) == (5, 0, 1)
    twice = write(tmp_path / "twice", "number,time,number\n1,5,2\n")
    assert f"{twice}:1: column 'number' is there twice" in check("", twice, status=2).stderr.decode()
    table = write(tmp_path / "table", pa.table({"number": [1], "Number": [2]}))
    assert f"{table}: column 'number' is there twice" in check("", table, status=2).stderr.decode()


@pytest.mark.parametrize("names", [("web", "app"), ("0", "1"), ("app-1", "web")])
@pytest.mark.parametrize("form", ["{1} 5 {0}\n", '{{"seq": {1}, "producer": "{0}"}}\n'])
def test_a_line_without_a_producer_among_lines_with_one_cannot_be_read(
    names: tuple[str, str], form: str
) -> None:
    """It may be any producer's, and is not the first one's. Where it comes first, the input is refused."""
    one, other = names
    text = form.format(one, 1) + form.format(other, 1) + form.format(other, 2) + form.format(other, 4)
    found = told(text + "3\n", status=3)
    assert [(p["producer"], p["seen"]) for p in found["producers"]] in (
        [(one, 1), (other, 3)],
        [(int(name) if name.isdigit() else name, seen) for name, seen in ((one, 1), (other, 3))],
    )
    assert (found["unreadable"], found["missing_ranges"]) == (1, [[3, 3]])
    assert (
        "(1 without a producer, which others have): line 5: '3'"
        in check(text + "3\n", status=3).stdout.decode()
    )
    refused = check("3\n" + text, status=2).stderr.decode()
    assert f"has producer {other if one == '0' else one}, and line 1 has none" in refused


def test_producer_0_is_another_than_one_with_a_name() -> None:
    """A line of plain numbers and one with a name; without a producer, it is 0, as long as all are."""
    assert [p["producer"] for p in told("1 5 0\n2 5 web\n")["producers"]] == [0, "web"]
    assert [p["producer"] for p in told("1 5 0\n2\n")["producers"]] == [0]


@pytest.mark.parametrize(
    "content",
    [
        "1 1969-12-31T23:59:59Z\n",
        "number,time\n1,1969-12-31 23:59:59.9\n",
        "CreateTime:-5\t1\n",
        '{"ts": -5, "payload": "1"}\n',
        '{"timestamp": -5, "name": "record_data", "value": "1"}\n',
        pa.table({"number": [1], "time": pa.array([-1001], pa.timestamp("ns"))}),
        pa.table({"number": [1], "time": pa.array([-1], pa.timestamp("ms", "UTC"))}),
        pa.table({"number": [1], "time": [-1.5]}),
    ],
)
def test_negative_times_are_refused_in_each_form(content: str | pa.Table, tmp_path: Path) -> None:
    error = check("", write(tmp_path / "received", content), status=2).stderr.decode()
    assert " is negative; times count from 1970" in error


@pytest.mark.parametrize(("unit", "scale"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
@pytest.mark.parametrize("name", ["time", "Timestamp", "ts"])
def test_the_name_of_a_column_tells_the_unit_of_times(
    unit: str, scale: int, name: str, tmp_path: Path
) -> None:
    """In each format, whatever their size; ISO 8601 is fine as well, another unit is not."""
    name, when = f"{name}_{unit}", 1_795_349_830 * scale
    other = 1_795_349_830 * (10**9 if unit != "ns" else 10**6)

    def files(time: int | str) -> list[str]:
        document = json.dumps({"number": 1, name: time}) + "\n"
        rows = (f"number,{name}\n1,{time}\n", document, pa.table({"number": [1], name: [time]}))
        return [write(tmp_path / f"{number}", content) for number, content in enumerate(rows)]

    for path in files(when):
        found = told("", path, "--expect", "1..2", status=1)
        assert (found["time_unit"], found["windows"][0]["from_ns"]) == (unit, 1_795_349_830 * 10**9)
    for path in files(17):
        assert told("", path, "--expect", "1..2", status=1)["windows"][0]["from_ns"] == 17 * 10**9 // scale
    for path in files("2026-11-27T10:00:00Z"):
        assert told("", path)["time_unit"] == "ISO 8601"
    for path in files(other):
        assert f"time {other} is one in" in check("", path, status=2).stderr.decode()
        assert told("", path, "--time-unit", "ns" if unit != "ns" else "us")["seen"] == 1


@pytest.mark.parametrize("codec", ["gzip", "zstd", "bz2", "lz4", "parquet"])
def test_stdin_and_pipes_are_read_as_files_are(codec: str, tmp_path: Path) -> None:
    """By their first bytes, in one piece or several."""
    if codec == "parquet":
        packed = Path(write(tmp_path / "table", pa.table({"number": range(1000)}))).read_bytes()
    else:
        out = pa.BufferOutputStream()
        with pa.CompressedOutputStream(out, codec) as stream:
            stream.write(numbers(range(1000)).encode())
        packed = out.getvalue().to_pybytes()
    assert told(packed)["seen"] == told(packed, "-")["seen"] == 1000
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(
        ["sh", "-c", f"(head -c 1; sleep 0.3; cat) > {pipe}"], stdin=subprocess.PIPE
    ) as writer:
        assert writer.stdin is not None
        writer.stdin.write(packed)
        writer.stdin.close()
        assert told("", str(pipe))["seen"] == 1000
    if codec == "gzip":
        assert b"-: cannot be read as gzip" in check(packed[:-9], status=2).stderr


_LOGGED = (
    "[2026-11-27 10:00:00,123] WARN [Producer clientId=producer-1] Got error produce response with "
    "correlation id 5 on topic-partition t-0, retrying. Error: NOT_LEADER_OR_FOLLOWER "
    "(org.apache.kafka.clients.producer.internals.Sender)\n",
    "[2026-11-27 10:00:00,123] ERROR Error processing message, terminating consumer process:  "
    "(kafka.tools.ConsoleConsumer$)\n",
    "org.apache.kafka.common.errors.TimeoutException: Expiring 1 record(s) for t-0\n"
    "\tat org.apache.kafka.clients.producer.internals.Sender.run(Sender.java:1)\n"
    "Caused by: java.net.ConnectException\n\t... 12 more\n",
    "OpenJDK 64-Bit Server VM warning: Option UseX was deprecated\nSLF4J: Defaulting to no-operation\n",
    "%3|1795349830.123|FAIL|rdkafka#consumer-1| [thrd:a:9092/1]: a:9092/1: Connect failed\n",
    "% ERROR: Topic t error: Broker: Leader not available\n",
)


@pytest.mark.parametrize("logged", _LOGGED)
def test_what_tools_log_between_messages_is_skipped(logged: str, tmp_path: Path) -> None:
    """Also before the header of a CSV, and among its rows; an application's own log is not."""
    event = '{"timestamp": 1795349830123, "name": "producer_send_success", "value": "%s"}\n'
    log = write(tmp_path / "log", event % 1 + logged + event % 2)
    for text in (logged + "1\n2\n", f"{logged}number,time\n1,5\n{logged}2,6\n"):
        found = told(text, "--sent", log, "--acked", log)
        assert (found["expected"], found["lost"], found["unreadable"]) == (2, 0, 0)
    assert told("1\n[2026-11-27 10:00:00,123] INFO got 2 (org.example.App)\n")["unreadable"] == 1


@pytest.mark.parametrize(
    ("values", "seen"),
    [
        (pa.array(["0001", "0002"]).dictionary_encode(), 2),
        (pa.array([b"1", b"2"]), 2),
        (pa.array([1.0, float("nan")]), 1),
        (pa.array([1, 2**64 - 1], pa.uint64()), 1),
        (pa.array([Decimal("1.00"), Decimal("2.00")]), 2),
        (pa.array([{"long": 1}, {"long": 2}]), 2),
    ],
)
def test_numbers_in_parquet_may_have_any_type(values: pa.Array, seen: int, tmp_path: Path) -> None:
    """What is no number is an unreadable row."""
    found = told("", write(tmp_path / "table", pa.table({"seq": values})))
    assert (found["seen"], found["unreadable"]) == (seen, 2 - seen)


def test_times_of_day_and_durations_in_parquet_are_none(tmp_path: Path) -> None:
    table = pa.table({"seq": [1], "time": pa.array([1], pa.time64("ns"))})
    assert b"times that are numbers or ISO 8601" in check("", write(tmp_path / "day", table), status=2).stderr
    table = pa.table({"seq": [1], "time": pa.array([1], pa.duration("ns"))})
    error = check("", write(tmp_path / "duration", table), status=2).stderr
    assert b"duration: column 'time' is duration[ns], which is no time" in error
