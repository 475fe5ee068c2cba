"""How client processes start and stop: every client module's `main` is passed to `run_client`.

An operating system error (a full disk, a read-only folder) is reported as a sentence: a traceback would help
nobody.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from kaput.processes.skip_pandas import skip_pandas
from kaput.workload.client_spec import notify

Take = Callable[[Mapping[str, Any]], object]  # handles a line of stdin


def ignore(_message: Mapping[str, Any]) -> None:
    """For clients that get no instructions but to stop."""


def follow_input(stop: Callable[[], None], take: Take) -> None:
    """Passes each line of stdin, a JSON object, to `take` in a thread; calls `stop` when stdin ends."""

    def follow() -> None:
        for line in sys.stdin:
            take(json.loads(line))
        stop()

    threading.Thread(target=follow, daemon=True).start()


def run_client(client: Callable[[], None]) -> None:
    """Runs the client. On OSError reports it, then raises SystemExit (1)."""
    skip_pandas()
    try:
        client()
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        notify("trouble", message=f"{where}{error.strerror or error}")
        raise SystemExit(1) from None
