"""A kaput-like process for the tests: prepares a session behind a load, says the JVM's id, waits."""

from __future__ import annotations

import subprocess
import sys

from kaput.analysis.spark import background
from kaput.errors import Interrupted
from kaput.processes import idle_priority
from kaput.processes.signals import interrupts

_WAYS = {
    "found": idle_priority.find_method,
    "by_thread": lambda: idle_priority.by_thread,
    "none": lambda: None,
}


class Telling(background.Background):
    """Says the JVM's id as soon as there is one."""

    def _on_spawn(self, process: subprocess.Popen[bytes]) -> None:
        super()._on_spawn(process)
        _say(str(process.pid))


def main(way: str) -> None:
    """Prints the JVM's id, `ready` when the rehearsal is over, and after a line on stdin a sum by Spark."""
    background.find_method = _WAYS[way]  # type: ignore[attr-defined]
    with interrupts(), Telling("local[2]", rehearse=True) as spark:
        spark.prepare()
        if way == "none":
            _say("prepared")
        elif spark._promise is not None:
            spark._promise.result()
            _say("ready")
        sys.stdin.readline()
        session = spark.session()
        _say(str(session.parallelize(range(10)).count()))
        sys.stdin.readline()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except Interrupted as stop:
        sys.exit(stop.exit_status)
