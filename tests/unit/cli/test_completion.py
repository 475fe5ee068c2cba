"""Completion after TAB: the words, and that real shells insert them."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kaput.cli import completion
from waiting import PATIENCE_S

# How each starts without the user's own files, and what loads kaput's completion into it.
SHELLS = {
    "bash": (["--norc", "--noprofile", "-i"], 'eval "$(kaput --show-completion)"'),
    "zsh": (["-f", "-i"], 'autoload -Uz compinit; compinit -u -D; eval "$(kaput --show-completion)"'),
    "fish": (["--no-config", "-i"], "kaput --show-completion | source"),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with one run and one scenario."""
    (tmp_path / "runs" / "20260101-noop").mkdir(parents=True)
    (tmp_path / "runs" / "20260101-noop" / "manifest.json").write_text("{}")
    (tmp_path / "runs" / "notes").mkdir()
    (tmp_path / "mine.yaml").write_text("version: 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def test_scenarios_are_names_and_files(place: Path) -> None:
    """In this directory."""
    assert completion.scenarios("mi") == ["min-isr-matrix", "minority-partition-acks-1",
        "minority-partition-acks-all", "mirror", "mirror-exactly-once", "mirror-overtaken", "mirror-resized",
        "mirror-topic-recreated", "mine.yaml"]  # fmt: skip


def test_run_folders_have_a_manifest(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In runs, or where the settings say."""
    assert completion.run_folders("") == ["runs/20260101-noop"] and completion.run_folders("x") == []
    monkeypatch.setenv("KAPUT_RUNS", str(place / "elsewhere"))
    assert completion.run_folders("") == []


def test_installing_prints_no_escapes(place: Path) -> None:
    """Typer colors its sentence, and kaput shows escape sequences in data as text. It is for the shell that
    starts it: bash stays its parent, since more follows.
    """
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m kaput --install-completion; exit $?"],
        env={**os.environ, "HOME": str(place)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"bash completion installed in {place}/")
    assert "x1b" not in done.stdout


def test_bash_takes_words_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A blank needs a backslash, but not within quotes."""
    monkeypatch.setenv("_KAPUT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_CWORD", "2")
    monkeypatch.setenv("COMP_WORDS", "kaput\n--target\nlea")
    assert completion.targets("lea") == ["leader-of\\ "]
    monkeypatch.setenv("COMP_WORDS", "kaput\n--target\n'lea")
    assert completion.targets("lea") == ["leader-of "]


def test_tools_and_choices() -> None:
    """Of --network and others, which are no choices for click."""
    assert completion.tools("console-c") == ["console-consumer"]
    assert completion.one_of("loopback", "namespaces")("n") == ["namespaces"]


def test_faults_and_targets() -> None:
    """Of targets, what can be known."""
    assert completion.faults("kil") == ["kill"]
    assert completion.targets("broker") == ["broker 1", "broker 2", "broker 3"]
    assert completion.targets("leader") == ["leader-of "] and "any" in completion.targets("an")


def test_no_cluster_is_no_proposal(place: Path) -> None:
    assert completion.clusters("") == []


TYPED = {
    "kaput help fai": "kaput help failover",
    "kaput run replay-k": "kaput run replay-killed",
    "kaput report runs/2026": "kaput report runs/20260101-noop",
    "kaput bug runs/2026": "kaput bug runs/20260101-noop ",
    "kaput up --network nam": "kaput up --network namespaces",
    "kaput fault kinds memory-p": "kaput fault kinds memory-pressure",
    "kaput fault inject kill --tar": "kaput fault inject kill --target",
}


def _in_shells() -> Iterator[Any]:
    """Every word in bash, one in each other shell; the rest is long."""
    for shell in SHELLS:
        for typed, completed in TYPED.items():
            soon = shell == "bash" or typed == "kaput run replay-k"
            yield pytest.param(shell, typed, completed, marks=[] if soon else pytest.mark.long)


@pytest.mark.slow
@pytest.mark.parametrize(("shell", "typed", "completed"), list(_in_shells()))
def test_a_shell_inserts_what_was_meant(place: Path, shell: str, typed: str, completed: str) -> None:
    """TAB in a terminal."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    arguments, load = SHELLS[shell]
    with _terminal(shell, arguments) as terminal:
        _type(terminal, f"{load}; echo load''ed\n", until="loaded")
        screen = _type(terminal, f"{typed}\t", until=completed.removeprefix(typed))
        assert screen


@contextmanager
def _terminal(shell: str, arguments: list[str]) -> Iterator[int]:
    """A shell on a terminal of its own, with this kaput on its PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(
            shell, [shell, *arguments], {**os.environ, "PATH": path, "TERM": "dumb", "HOME": str(Path.cwd())}
        )
    try:
        yield terminal
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def _type(terminal: int, text: str, until: str) -> str:
    """Types, and returns what the terminal showed since, as soon as that contains `until`."""
    os.write(terminal, text.encode())
    shown, limit = "", time.monotonic() + 180
    while until not in shown:
        assert time.monotonic() < limit, shown
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 4096).decode(errors="replace")
    return shown
