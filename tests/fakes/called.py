"""The command kaput called in this process: a process of its own takes half a second of CPU for each call."""

from __future__ import annotations

import sys
from typing import NamedTuple

import pytest

from fakes.program import app
from kaput.cli.exit_status import status_of


class Said(NamedTuple):
    """How the command ended, and what it printed."""

    status: int
    stdout: str
    stderr: str


def called(words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", ["kaput", *words])
    status = status_of(lambda: app(words, standalone_mode=False))
    return Said(status, *capsys.readouterr())
