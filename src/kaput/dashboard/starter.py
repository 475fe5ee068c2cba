"""The client of the process that starts runs for the dashboard (processes/starting.py), one at a time."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from kaput.dashboard.safe_files import Runs
from kaput.errors import LabError, UsageError
from kaput.evidence.recording import first_holder
from kaput.processes.starting import END_S

KAPUT = (sys.executable, "-P", "-m", "kaput")  # -P: no modules of the working directory
_LINES = 12  # of output that are kept
_ENDED = "the process that starts runs has ended: restart kaput dashboard"


@dataclass(frozen=True)
class StartedRun:
    """A run that was started from a page. `state`: running, stopping or ended; `name`: of its folder, once it
    has one; `said`: its last lines of output; `status`: its exit status.
    """

    scenario: str
    state: str = "running"
    name: str = ""
    pid: int = 0
    said: tuple[str, ...] = ()
    status: int | None = None

    @property
    def over(self) -> bool:
        """Whether the run has ended, so that another one may be started."""
        return self.state == "ended"


class Starter:
    """Starts runs whose folders are in `runs`. Thread-safe. Create it before `lower_priority`."""

    def __init__(self, runs: Runs, kaput: Sequence[str] = KAPUT) -> None:
        self._runs, self._kaput = runs, kaput
        self._lock = threading.Lock()
        self._started: StartedRun | None = None
        self._known: set[str] = set()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "kaput.processes.starting"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # so that Ctrl-C reaches only the dashboard, which then ends this process
        )
        threading.Thread(target=self._listen, name="starter", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def started(self) -> StartedRun | None:
        """The last run that was started; None if there was none."""
        with self._lock:
            return self._started

    def start(self, scenario: str, arguments: Sequence[str]) -> None:
        """Starts `kaput ARGUMENTS`. Raises UsageError while another runs, LabError without the starter."""
        with self._lock:
            now = self._started
            if self._process.poll() is not None:
                raise LabError(_ENDED)
            if now is not None and not now.over:
                raise UsageError(f"{now.name or now.scenario} is in progress: wait for its end, or stop it")
            self._known = set(self._runs.names())
            self._started = StartedRun(scenario)
            self._send({"start": [*self._kaput, *arguments, "--runs", str(self._runs.root)]})

    def stop(self, name: str) -> None:
        """Interrupts the run in that folder ("": any run). Raises UsageError if it is not in progress."""
        with self._lock:
            now = self._started
            if now is None or now.over or name not in ("", now.name):
                raise UsageError("this run was not started here, or is over")
            self._started = replace(now, state="stopping")
            self._send({"stop": True})

    def close(self) -> None:
        """Interrupts the current run, and returns when it has cleaned up."""
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(END_S + 30)
        except subprocess.TimeoutExpired:
            self._process.kill()  # a guardian process ends its children
            self._process.wait()

    def _send(self, what: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            self._started = None
            raise LabError(_ENDED) from None

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._handle(json.loads(line))
        self._handle({"ended": None})

    def _handle(self, message: dict[str, Any]) -> None:
        with self._lock:
            now = self._started
            if now is None or now.over:
                return
            if "pid" in message:
                self._started = replace(now, pid=message["pid"])
                threading.Thread(target=self._look_for_folder, args=(message["pid"],), daemon=True).start()
            elif "said" in message:
                self._started = replace(now, said=(*now.said, message["said"])[-_LINES:])
            else:
                self._started = replace(now, state="ended", status=message["ended"])

    def _look_for_folder(self, pid: int) -> None:
        """Waits for a new run folder that this process records."""
        while (now := self.started) is not None and now.pid == pid and not now.name and not now.over:
            with suppress(OSError):  # the folder of runs is missing
                for name in set(self._runs.names()) - self._known:
                    holder = first_holder(self._runs.root / name)
                    if holder is not None and holder.pid == pid:
                        self._set_name(pid, name)
            time.sleep(0.2)

    def _set_name(self, pid: int, name: str) -> None:
        with self._lock:
            if self._started is not None and self._started.pid == pid:
                self._started = replace(self._started, name=name)
