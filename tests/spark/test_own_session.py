"""A session that kaput starts: nothing of it is ever left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from kaput.processes.records import start_of
from waiting import PATIENCE_S, wait_for

WAITING = Path(__file__).with_name("in_session.py")


class Waiting:
    """The running script, with temporary files and a registry of its own."""

    def __init__(self, directory: Path) -> None:
        self.scratch = directory / "scratch"
        self.scratch.mkdir()
        env = {**os.environ, "TMPDIR": str(self.scratch), "XDG_STATE_HOME": str(directory / "state")}
        self.errors = directory / "stderr"
        with self.errors.open("wb") as errors:
            self.popen = subprocess.Popen(
                [sys.executable, str(WAITING)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=env,
            )

    def jvm(self) -> int:
        """The id of Spark's JVM, as soon as there is one; its script becomes the JVM."""
        wait_for(lambda: bool(self._jvms()), "the JVM's start", PATIENCE_S)
        return self._jvms()[0]

    def _jvms(self) -> list[int]:
        jvms = []
        for child in psutil.Process(self.popen.pid).children():
            with suppress(psutil.Error):  # it has ended
                jvms += [child.pid] if any("SparkSubmit" in word for word in child.cmdline()) else []
        return jvms

    def said(self) -> str:
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline().strip()
        assert line, self.errors.read_text()
        return line

    def go_on(self) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write("\n")
        self.popen.stdin.flush()

    def ended(self) -> int:
        return self.popen.wait(PATIENCE_S)


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Waiting]:
    started = Waiting(tmp_path)
    yield started
    started.popen.kill()
    started.popen.communicate()


def test_a_session_leaves_nothing(waiting: Waiting) -> None:
    jvm = waiting.jvm()
    assert waiting.said() == "10"
    waiting.go_on()
    assert waiting.ended() == 0, waiting.errors.read_text()
    _is_gone(waiting, jvm)


def _is_gone(waiting: Waiting, jvm: int) -> None:
    wait_for(lambda: start_of(jvm) is None, "the JVM's end", PATIENCE_S)
    wait_for(lambda: not list(waiting.scratch.iterdir()), "the removal of the temporary files", PATIENCE_S)
    assert not Path(f"/tmp/hsperfdata_{psutil.Process().username()}/{jvm}").exists()
    assert "Traceback" not in waiting.errors.read_text()


@pytest.mark.parametrize(
    ("number", "status", "ready"),
    [
        (signal.SIGINT, 130, False),
        pytest.param(signal.SIGINT, 130, True, marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, 130, False, marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, 130, True, marks=pytest.mark.long),
        (signal.SIGKILL, -9, False),
        pytest.param(signal.SIGKILL, -9, True, marks=pytest.mark.long),
    ],
)
def test_no_process_is_left_when_ended_during_jvm_startup(
    waiting: Waiting, ready: bool, number: signal.Signals, status: int
) -> None:
    """In the midst of the JVM's start, and when Python's workers are there."""
    jvm = waiting.jvm()
    if ready:
        assert waiting.said() == "10"
    waiting.popen.send_signal(number)
    assert waiting.ended() == status, waiting.errors.read_text()
    _is_gone(waiting, jvm)
