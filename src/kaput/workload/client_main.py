"""How client processes start and stop; every client module's `main` is `run_client` with its own part.

An error of the operating system (a full disk, a folder that became read-only) is reported in a sentence: its
traceback would help nobody.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from kaput.processes.skip_pandas import skip_pandas
from kaput.workload.client_spec import notify

Take = Callable[[Mapping[str, Any]], object]  # what to do with a line of stdin


def at_end_of_input(stop: Callable[[], None]) -> None:
    """Calls `stop` from a thread when stdin ends: the supervisor is gone."""

    def wait() -> None:
        sys.stdin.read()
        stop()

    threading.Thread(target=wait, daemon=True).start()


def ignore(_message: Mapping[str, Any]) -> None:
    """For clients that are told nothing but to stop."""


def follow_input(stop: Callable[[], None], take: Take) -> None:
    """Hands each line of stdin, one JSON object, to `take`, from a thread; calls `stop` when stdin ends."""

    def follow() -> None:
        for line in sys.stdin:
            take(json.loads(line))
        stop()

    threading.Thread(target=follow, daemon=True).start()


def run_client(client: Callable[[], None]) -> None:
    """Runs it. Raises SystemExit (1) after an OSError, which has been reported by then."""
    skip_pandas()
    try:
        client()
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        notify("trouble", message=f"{where}{error.strerror or error}")
        raise SystemExit(1) from None
