"""How a group member's process lives: it works until SIGTERM, or until nobody holds its stdin any more."""

from __future__ import annotations

import json
import signal
import sys
import threading
from typing import Protocol

from kaput.workload.order import say
from kaput.workload.pace import Pace


class Serving(Protocol):
    """A member that looks at `stopping` again and again."""

    stopping: threading.Event
    pace: Pace

    def run(self) -> None:
        """Works until it is told to stop, then leaves in good order."""


def serve(member: Serving) -> None:
    """Runs a member until it is told to stop, and says `done`."""
    signal.signal(signal.SIGTERM, lambda *_: member.stopping.set())
    threading.Thread(target=_listen, args=(member,), daemon=True).start()
    member.run()
    say("done")


def _listen(member: Serving) -> None:
    """Does what the parent says on stdin, until that closes: then the member is to end."""
    for line in sys.stdin:
        told = json.loads(line)
        if told["kind"] == "pace":
            member.pace.change(told["ms"])
        elif told["kind"] == "tell":
            say("pace", **member.pace.told())
    member.stopping.set()
