"""0, 1 and 3 are verdicts: no failure and no closed pipe ends in one of them. By the real command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import typer

from fakes.called import called
from kaput.cli.exit_status import RootGroup, status_of
from kaput.errors import AccountingError, LabError, StillRecording
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder, replace_text
from waiting import PATIENCE_S, eventually, wait_for

_NO_RUN = "kaput: .: not a run folder (it has no manifest.json); kaput run makes them"
KAPUT = [sys.executable, "-P", "-m", "kaput"]


@pytest.fixture
def judged(tmp_path: Path, findings: Findings) -> Path:
    """A run folder with findings that are longer than a pipe holds."""
    long = findings.model_copy(update={"notes": ["so much that no pipe holds it"] * 10_000})
    replace_text(RunFolder(tmp_path).findings_path, long.to_json())
    return tmp_path


VERBS = ["report {}", "report {} --format json", "scenarios list", "scenarios schema", "--help", "--version"]
ENDS = ["| true", "| head -c 1 > /dev/null", ">&-", ">&- 2>&-", "2>&- | true", "> /dev/null 2>&1 <&-"]


def _closed_pipes() -> Iterator[Any]:
    """Each verb with each end. Long is what differs from one that is not in the verb alone or the end alone:
    every end of the longest output, and a short output with the first end, are not.
    """
    for verb in VERBS:
        for end in ENDS:
            soon = verb == "report {}" or (verb, end) == ("scenarios list", ENDS[0])
            yield pytest.param(verb, end, marks=[] if soon else pytest.mark.long)


def shell(command: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs `kaput ...` as a shell does; the status printed last is kaput's own."""
    script = command.replace("kaput", " ".join(KAPUT), 1)
    return subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, **env},
    )


@pytest.mark.parametrize(("verb", "end"), list(_closed_pipes()))
def test_closed_pipe_does_not_change_the_exit_status(judged: Path, verb: str, end: str) -> None:
    """Whoever reads may go at any time: the status is what it would have been, and nobody complains."""
    done = shell(f"kaput {verb.format(judged)} {end}; echo ${{PIPESTATUS[0]}} > {judged}/status")
    assert (judged / "status").read_text() == "0\n"
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_full_disk_on_stdout_is_reported(judged: Path) -> None:
    """What could not be shown whole is no result."""
    done = shell(f"kaput report {judged} > /dev/full")
    assert done.returncode == 4
    assert (
        done.stderr == "kaput: cannot write to stdout (No space left on device): the output is incomplete\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "Usage:"),
        ("nonsense", "no verb 'nonsense'; see kaput --help"),
        ("run", "name a scenario"),
        ("run noop --repeat 0", "--repeat"),
        (
            "run noop --runs /dev/null",
            "kaput: /dev/null: cannot be a directory of run folders: /dev/null is a file",
        ),
        ("run noop --runs /dev/null/x", "/dev/null is a file"),
        ("run " + "x" * 100_000, "no scenario named"),
        ("run /dev/zero", "kaput: /dev/zero: no scenario: larger than 4,194,304 bytes"),
        ("run ./", "is a directory; name a scenario's YAML file"),
        ("analyze /dev/null", "not a run folder"),
        ("analyze .", _NO_RUN),
        ("export . --format csv", _NO_RUN),
        ("undo .", _NO_RUN),
        ("bug .", _NO_RUN),
        ("analyze . --master nonsense", "kaput: --master nonsense: not a Spark master; write local[*]"),
        ("analyze . --spark-conf x", "write KEY=VALUE"),
        ("report .", _NO_RUN),
    ],
)
def test_mistakes_in_arguments_end_in_2(
    tmp_path: Path,
    arguments: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """click's own and ours, with a sentence and without a traceback."""
    monkeypatch.chdir(tmp_path)
    done = called(arguments.split(), monkeypatch, capsys)
    assert (done.status, done.stdout) == (2, "")
    assert said in done.stderr and "Traceback" not in done.stderr


def test_a_mistake_is_the_status_of_the_process(tmp_path: Path) -> None:
    """As those above, of the program itself."""
    done = shell(f"cd {tmp_path} && kaput analyze .")
    assert (done.returncode, done.stdout) == (2, "")
    assert _NO_RUN in done.stderr
    done = shell(f"cd {tmp_path} && kaput run --json nothing")
    assert (done.returncode, json.loads(done.stdout)["exit_status"]) == (2, 2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("scenarios check mine.yaml --json", "mine.yaml:2: clster: no such key"),
        ("run --json nothing", "no scenario named nothing"),
        ("report . --format json", "not a run folder"),
        ("report . --format=json", "not a run folder"),
        ("fault heal 1-kill --cluster nowhere --json", "no cluster named 'nowhere' is running"),
        ("peek --json", "Missing argument"),
    ],
)
def test_a_mistake_is_json_too_where_json_is_asked_for(
    tmp_path: Path,
    arguments: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One document with the sentence that stderr has, and the status."""
    (tmp_path / "mine.yaml").write_text("version: 1\nclster: {}\n")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    done = called(arguments.split(), monkeypatch, capsys)
    document = json.loads(done.stdout)
    assert (done.status, document["exit_status"]) == (2, 2)
    assert said in document["error"] and said in done.stderr


def test_failure_after_the_document_adds_no_second_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stream that was used has its document; a program that kaput becomes has its own --json."""

    def fails() -> None:
        raise LabError("no broker")

    for argv, used in (
        (["run", "--json"], True),
        (["tool", "x", "--json"], False),
        (["a", "--", "--json"], False),
    ):
        monkeypatch.setattr(sys, "argv", ["kaput", *argv])
        monkeypatch.setattr(sys.stdout, "used", used, raising=False)
        assert status_of(fails) == 4
    assert capsys.readouterr().out == ""


def test_findings_json_that_is_a_directory_is_reported(tmp_path: Path) -> None:
    """Not that there are none."""
    (tmp_path / "findings.json").mkdir()
    done = shell(f"kaput report {tmp_path}")
    assert (done.returncode, done.stderr) == (
        2,
        f"kaput: {tmp_path}/findings.json: cannot be read (Is a directory)\n",
    )


def test_unwritable_runs_directory_is_reported_up_front(tmp_path: Path) -> None:
    """--runs that cannot be written to."""
    if os.geteuid() == 0:
        pytest.skip("root writes anywhere; the file in the way is tested beside this")
    tmp_path.chmod(0o500)
    done = shell(f"kaput run noop --runs {tmp_path}/runs")
    assert done.returncode == 2
    assert "choose another --runs" in done.stderr


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (KeyError("x"), 70),
        (AccountingError("5 is not 6"), 70),
        (BrokenPipeError(32, "Broken pipe"), 70),
        (EOFError(), 70),
        (SystemExit(1), 70),
        (SystemExit("words"), 70),
        (RecursionError("deep"), 70),
        (OSError(28, "No space left on device", "/full/file"), 4),
        (PermissionError(13, "Permission denied", "/theirs"), 4),
        (MemoryError(), 4),
        (LabError("no broker"), 4),
        (StillRecording("run: still being recorded"), 2),
        (typer.BadParameter("no"), 2),
        (KeyboardInterrupt(), 130),
        (typer.Abort(), 130),
        (typer.Exit(3), 3),
    ],
)
def test_every_exception_has_a_status(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    failure: BaseException,
    status: int,
) -> None:
    """Through the real command line's machinery, which by itself makes 1 of some of them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    app = typer.Typer(cls=RootGroup, pretty_exceptions_enable=False)

    def verb() -> None:
        raise failure

    app.command("verb")(verb)
    app.callback()(lambda: None)
    assert status_of(lambda: app(["verb"], standalone_mode=False)) == status
    said = capsys.readouterr().err
    assert "Traceback" not in said
    kept = list(tmp_path.rglob("fault-*.txt"))
    assert len(kept) == (1 if status == 70 else 0)
    if kept:
        assert f"the traceback is in {kept[0]}" in said and "`kaput version --json`" in said
        assert "Traceback" in kept[0].read_text() and "kaput 0" in kept[0].read_text()


def test_traceback_is_printed_when_it_cannot_be_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the logs' directory cannot be made; a secret on the command line is not repeated."""
    (tmp_path / "kaput").write_text("in the way")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(
        sys, "argv", ["kaput", "analyze", "x", "--spark-conf", "spark.hadoop.fs.s3a.secret.key=hush"]
    )

    def program() -> None:
        raise ZeroDivisionError("of ours")

    assert status_of(program) == 70
    said = capsys.readouterr().err
    assert "Traceback" in said and "ZeroDivisionError: of ours" in said
    assert "secret.key=" in said and "hush" not in said


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_interrupted_command_exits_with_130(tmp_path: Path, number: signal.Signals) -> None:
    """Also one that starts nothing: a scenario read from a pipe that nobody writes to."""
    os.mkfifo(tmp_path / "pipe.yaml")
    process = subprocess.Popen(
        [*KAPUT, "run", str(tmp_path / "pipe.yaml")], stderr=subprocess.PIPE, text=True
    )
    writer: list[int] = []

    def is_read() -> bool:
        with suppress(OSError):  # ENXIO: nobody has opened it to read
            writer.append(os.open(tmp_path / "pipe.yaml", os.O_WRONLY | os.O_NONBLOCK))
        return bool(writer)

    try:
        wait_for(is_read, "the reading of the scenario")

        def ends() -> bool:
            """Sent again: one that arrives just before the read begins is seen only after the read."""
            process.send_signal(number)
            return eventually(lambda: process.poll() is not None, 5)

        wait_for(ends, "the end of the verb")
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        os.close(writer[0])
    assert process.returncode == 130
    assert "interrupted" in said and "Traceback" not in said


@pytest.mark.parametrize(
    "env",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        pytest.param({"PYTHONIOENCODING": "latin-1"}, marks=pytest.mark.long),
    ],
)
def test_titles_that_the_locale_lacks_are_escaped(
    tmp_path: Path, findings: Findings, env: dict[str, str]
) -> None:
    """JSON stays JSON, and text is readable, in a locale without UTF-8."""
    title = "Zürich → 東京 😀"
    replace_text(RunFolder(tmp_path).findings_path, findings.model_copy(update={"notes": [title]}).to_json())
    done = shell(f"kaput report {tmp_path} --format json", **env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["notes"] == [title]
    assert shell(f"kaput report {tmp_path}", **env).returncode == 0
