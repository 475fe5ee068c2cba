"""Who is inside a namespace of kaput's: the process that entered it, and nobody who has its environment."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kaput.cluster.network.reexec import MARK, inside
from kaput.processes.records import own_marker


def test_process_is_not_inside_without_its_own_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the mark, or with that of another process."""
    monkeypatch.delenv(MARK, raising=False)
    assert not inside()
    monkeypatch.setenv(MARK, f"{os.getpid()}-of.yesterday")
    assert not inside()


def test_inherited_marker_is_not_valid_for_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kaput that is started from inside has the mark in its environment and must enter for itself."""
    monkeypatch.setenv(MARK, own_marker())
    assert inside()
    asked = "from kaput.cluster.network.reexec import inside; print(inside())"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
