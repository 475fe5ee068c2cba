"""Starts a Spark session in the background, so that it is ready when a run ends.

If the JVM can run at idle priority, it starts while the run is under load; otherwise a low-priority thread
starts it as the run ends. Only the JVM is started under load: a Python thread would hold the interpreter's
lock. Nothing here imports PySpark at module level: that takes a second, which the start of a run cannot
spare.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaput.analysis.spark import driver
from kaput.analysis.spark.in_process import WithoutSpark
from kaput.java import find_java
from kaput.processes.idle_priority import IdlePriority, find_method
from kaput.processes.ownership import Owner

if TYPE_CHECKING:
    from pyspark import SparkContext

    from kaput.scenario.model import Scenario

_LOW_PRIORITY = 10  # niceness: must not disturb the run that is being measured
_GIVE_UP_S = 10
MANY = 100_000_000  # messages: fewer fit into one process (docs/decisions/0078)


def without_spark(messages: int) -> bool:
    """Whether so many messages are judged without Spark: they are few enough, and the user has not set one
    up.
    """
    return messages < MANY and not os.environ.get("SPARK_CONF_DIR")


def messages_to_judge(scenario: Scenario) -> int:
    """How many messages a run will have, 0 if that is unknown. As many as need Spark if Spark compares the
    clusters of its mirrors.
    """
    from kaput.scenario.timeline import total_messages

    return MANY if scenario.mirrors else total_messages(scenario) or 0


def engine_for(
    messages: int,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    rehearse: bool = False,
    threads: int | None = None,
) -> Background | WithoutSpark:
    """What judges so many messages: Spark, or `threads` of this process. Raises JavaError."""
    if not master and not conf and without_spark(messages):
        return WithoutSpark(threads)
    find_java()
    return Background(master, conf, rehearse)


class Background:
    """A session that is started once, in the background.

    `prepare` loads what a session needs, `begin` starts one, `session` waits for it. `rehearse`: analyze a
    rehearsal folder first, if there is still time. A context manager: on exit it stops the session and
    removes all its files.
    """

    def __init__(
        self,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        rehearse: bool = False,
    ) -> None:
        self._master, self._conf, self._rehearse = master, conf, rehearse
        self._promise: Future[SparkContext] | None = None
        self._pool = ThreadPoolExecutor(1, "kaput-spark", initializer=_lower_priority)
        self._owner = Owner()
        self._wanted = self._closed = False
        self._jvm: subprocess.Popen[bytes] | None = None
        method = find_method() if driver.can_launch_directly(master or "local", conf or {}) else None
        self._idle_priority = IdlePriority(method) if method is not None else None

    def prepare(self) -> None:
        """Loads PySpark in the background; also starts the session if its JVM can run at idle priority."""
        self._pool.submit(_load)
        if self._idle_priority is not None:
            self._submit()

    def begin(self) -> None:
        """Starts the session in the background; if already started, restores its normal priority."""
        self._submit()
        if self._idle_priority is not None:
            self._idle_priority.restore()

    def _submit(self) -> None:
        if self._promise is None:
            self._promise = self._pool.submit(self._start)

    def _start(self) -> SparkContext:
        from kaput.analysis.spark.session import start  # nothing else yet: the JVM takes longest

        scratch: list[Path] = []

        def own(path: Path) -> None:
            scratch.append(path)
            self._owner.own_path(path)

        session = start(
            own, self._master, self._conf, on_spawn=self._on_spawn, at_idle_priority=self._is_idle
        )
        if self._rehearse and not self._wanted:
            from kaput.analysis.rehearsal import rehearse

            # In the session's scratch, which is removed even if this process is killed.
            rehearse(session, scratch[0] / "rehearsal")
        return session

    def _is_idle(self) -> bool:
        return self._idle_priority is not None and self._idle_priority.lowered

    def _on_spawn(self, process: subprocess.Popen[bytes]) -> None:
        self._jvm = process
        if self._closed:
            process.kill()
        elif self._idle_priority is not None:
            self._idle_priority.lower(process.pid)

    def session(self) -> SparkContext:
        """Waits for the session and returns it. Raises JavaError."""
        self._wanted = True
        self.begin()
        assert self._promise is not None
        return self._promise.result()

    def __enter__(self) -> Background:
        self._owner.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._wanted = self._closed = True
        if self._idle_priority is not None:
            self._idle_priority.restore()
        self._pool.shutdown(wait=False, cancel_futures=True)
        try:
            self._stop()
        finally:
            self._owner.__exit__(*error)

    def _stop(self) -> None:
        """Stops the session; does not wait for one that is still starting."""
        if self._promise is None or self._promise.cancelled():
            return
        if not self._promise.done() and self._jvm is not None:
            self._jvm.kill()
        wait([self._promise], _GIVE_UP_S)
        if self._promise.done() and self._promise.exception() is None:
            from kaput.analysis.spark.session import close

            close(self._promise.result())


def _lower_priority() -> None:
    """Lowers the priority of this thread. The JVM that it starts inherits it."""
    if sys.platform == "linux":
        # On Linux niceness is per thread, and a child inherits that of the thread that starts it.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOW_PRIORITY)


def _load() -> None:
    import kaput.analysis.rehearsal
    import kaput.analysis.spark.session  # noqa: F401
