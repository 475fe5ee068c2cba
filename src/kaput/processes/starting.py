"""A small process that starts programs for another one, one at a time, and ends with it what it started.

For a parent that changes what its children would inherit (the dashboard lowers its own priority): this
process is started before that. Requests are lines of JSON on stdin (`{"start": [ARGUMENT, ...]}`, `{"stop":
true}`), reports are on stdout (`{"pid": N}`, `{"said": LINE}`, `{"ended": STATUS}`). At the end of stdin, for
whatever reason, it interrupts the running program, as Ctrl-C would, and waits for it. If this process is
killed, its guardian ends the program. Not here: what is started, and who may request it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any

from kaput.errors import LabError
from kaput.processes.ownership import OwnedProcess, Owner

END_S = 120.0  # for an interrupted program to clean up


class _Program:
    """The program that was started last."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._process: OwnedProcess | None = None
        self._lock = threading.Lock()
        self._stopped_at: float | None = None

    def start(self, arguments: Sequence[str]) -> None:
        """Starts it and returns at once; the caller ensures that no other one runs."""
        if self._thread is not None:
            self._thread.join()
        self._process, self._stopped_at = None, None
        self._thread = threading.Thread(target=self._run, args=(arguments,))
        self._thread.start()

    def stop(self) -> None:
        """Interrupts it as Ctrl-C would; further calls do nothing."""
        with self._lock:
            if self._stopped_at is None:
                self._stopped_at = time.monotonic()
                if self._process is not None:
                    self._process.signal(signal.SIGINT)

    def end(self) -> None:
        """Interrupts it if it runs, and waits until it and all that it owned are gone."""
        self.stop()
        if self._thread is not None:
            self._thread.join()

    def _run(self, arguments: Sequence[str]) -> None:
        status: int | None = None
        try:
            with Owner(marks_environment=False) as owner:
                process = owner.spawn(arguments, name="started", stderr=subprocess.PIPE)
                _send(pid=process.pid)
                reader = threading.Thread(target=_forward, args=(process.popen.stderr,), daemon=True)
                reader.start()
                with self._lock:
                    self._process = process
                    if self._stopped_at is not None:
                        process.signal(signal.SIGINT)
                status = self._wait_for(process)
            # Its stray processes, gone by now, may have held the other end of this pipe.
            reader.join(2.0)
        except (LabError, OSError, ValueError) as error:  # ValueError: a NUL in an argument
            _send(said=str(error))
        finally:
            _send(ended=status)

    def _wait_for(self, process: OwnedProcess) -> int:
        while (status := process.wait(0.5)) is None:
            if self._stopped_at is not None and time.monotonic() - self._stopped_at > END_S:
                process.kill()
        return status


def _forward(lines: IO[bytes] | None) -> None:
    assert lines is not None
    for line in lines:
        _send(said=line.decode(errors="replace").rstrip()[:1000])


_output_lock = threading.Lock()


def _send(**message: Any) -> None:
    with _output_lock, suppress(OSError):  # the parent is gone
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def main() -> None:
    # A shell's background jobs ignore SIGINT, and programs that they start would, too: nothing could stop
    # them. A handler is not inherited. This process itself ends with its stdin.
    signal.signal(signal.SIGINT, lambda *_: None)
    program = _Program()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "start" in request:
            program.start(request["start"])
        else:
            program.stop()
    program.end()


if __name__ == "__main__":
    main()
