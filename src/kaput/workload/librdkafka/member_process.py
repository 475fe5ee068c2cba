"""Runs a group member until SIGTERM, or until its stdin closes."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kaput.workload.client_spec import notify
from kaput.workload.librdkafka.pace import Pace


class StoppableMember(Protocol):
    """A member that checks `stopping` regularly."""

    stopping: threading.Event
    pace: Pace

    def run(self) -> None:
        """Works until told to stop, then leaves its group."""


def run_member(
    member: StoppableMember, take: Callable[[Mapping[str, Any]], object] = lambda _message: None
) -> None:
    """Runs a member until it is told to stop, and reports `done`. `take` gets what else it is told."""
    signal.signal(signal.SIGTERM, lambda *_: member.stopping.set())
    threading.Thread(target=_listen, args=(member, take), daemon=True).start()
    member.run()
    notify("done")


def _listen(member: StoppableMember, take: Callable[[Mapping[str, Any]], object]) -> None:
    """Follows instructions on stdin until that closes, which stops the member."""
    for line in sys.stdin:
        instruction = json.loads(line)
        if instruction["kind"] == "pace":
            member.pace.change(instruction["ms"])
        elif instruction["kind"] == "report-pace":
            notify("pace", **member.pace.measured())
        else:
            take(instruction)
    member.stopping.set()
