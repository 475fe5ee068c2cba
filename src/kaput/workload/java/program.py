"""One of Kafka's Verifiable tools as a program, which SIGTERM stops.

Not here: what its lines mean (output_lines.py), the tools' command lines (command_lines.py).
"""

from __future__ import annotations

import contextlib
import signal
from typing import ClassVar

from kaput.workload.command.program import Program

_SIGTERM_STATUS = 128 + signal.SIGTERM  # of a JVM whose shutdown hooks have run


class JavaProgram(Program):
    """A JVM that runs a tool."""

    ok_statuses: ClassVar[frozenset[int]] = frozenset({0, _SIGTERM_STATUS})
    stop_request: ClassVar[str] = "SIGTERM"

    def _request_stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
