"""Runs a group member until SIGTERM, or until its stdin closes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from typing import Any, Protocol

from kaput.workload.client_main import Take, follow_input, ignore
from kaput.workload.client_spec import notify
from kaput.workload.librdkafka.pace import Pace


class StoppableMember(Protocol):
    """A member that checks `stopping` regularly."""

    stopping: threading.Event
    pace: Pace

    def run(self) -> None:
        """Works until stopped, then leaves its group."""


def run_member(member: StoppableMember, take: Take = ignore) -> None:
    """Runs a member until it is stopped, and reports `done`. `take` gets other instructions."""

    def take_pace(message: Mapping[str, Any]) -> None:
        match message["kind"]:
            case "pace":
                member.pace.change(message["ms"])
            case "report-pace":
                notify("pace", **member.pace.measured())
            case _:
                take(message)

    signal.signal(signal.SIGTERM, lambda *_: member.stopping.set())
    follow_input(member.stopping.set, take_pace)
    member.run()
    notify("done")
