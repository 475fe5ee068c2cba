"""What the process of a member is told on stdin."""

from __future__ import annotations

import io
import json
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kaput.workload.librdkafka.member_process import Pace, run_member
from waiting import PATIENCE_S


class Member:
    """Works until it is asked to stop."""

    def __init__(self) -> None:
        self.stopping, self.pace = threading.Event(), Pace(0)

    def run(self) -> None:
        assert self.stopping.wait(PATIENCE_S)
        self.pace.settle()


@pytest.fixture(autouse=True)
def _sigterm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_member_takes_pace_commands_and_stops_at_eof(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It reports its pace when asked; what else it is told is handed on."""
    lines = [{"kind": "report-pace"}, {"kind": "pace", "ms": 7}, {"kind": "hold"}]
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(json.dumps(line) + "\n" for line in lines)))
    handed_on: list[Mapping[str, Any]] = []
    member = Member()
    run_member(member, handed_on.append)
    reported = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["kind"] for each in reported] == ["pace", "done"] and reported[0]["ms"] == 0
    assert member.pace.measured()["ms"] == 7
    assert handed_on == [{"kind": "hold"}]
