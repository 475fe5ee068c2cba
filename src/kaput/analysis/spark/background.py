"""What judges: Spark, or this process. A Spark session starts in the background, in a thread of low priority.

Nothing here imports PySpark at module level: that takes a second, which most commands do not need.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

from kaput.analysis.spark.in_process import WithoutSpark
from kaput.java import find_java
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
    """How many messages a run will have, 0 if that is unknown."""
    from kaput.scenario.timeline import total_messages

    return total_messages(scenario) or 0


def engine_for(
    messages: int,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    threads: int | None = None,
) -> Background | WithoutSpark:
    """What judges so many messages: Spark, or `threads` of this process. Raises JavaError."""
    if not master and not conf and without_spark(messages):
        return WithoutSpark(threads)
    find_java()
    return Background(master, conf)


class Background:
    """A session that is started once: `begin` starts it in the background, `session` waits for it. A context
    manager: on exit it stops the session and removes all its files.
    """

    def __init__(self, master: str | None = None, conf: Mapping[str, str] | None = None) -> None:
        self._master, self._conf = master, conf
        self._promise: Future[SparkContext] | None = None
        self._pool = ThreadPoolExecutor(1, "kaput-spark", initializer=_lower_priority)
        self._owner = Owner()
        self._closed = False
        self._jvm: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Starts the session in the background, once."""
        if self._promise is None:
            self._promise = self._pool.submit(self._start)

    def _start(self) -> SparkContext:
        from kaput.analysis.spark.session import start

        return start(self._owner.own_path, self._master, self._conf, on_spawn=self._on_spawn)

    def _on_spawn(self, process: subprocess.Popen[bytes]) -> None:
        self._jvm = process
        if self._closed:
            process.kill()

    def session(self) -> SparkContext:
        """Waits for the session and returns it. Raises JavaError."""
        self.begin()
        assert self._promise is not None
        return self._promise.result()

    def __enter__(self) -> Background:
        self._owner.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._closed = True
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
