"""A kaput-like process for the tests: starts a session in the background, says the JVM's id, waits."""

from __future__ import annotations

import subprocess
import sys

from kaput.analysis.spark.background import Background
from kaput.errors import Interrupted
from kaput.processes.signals import interrupts


class Telling(Background):
    """Says the JVM's id as soon as there is one."""

    def _on_spawn(self, process: subprocess.Popen[bytes]) -> None:
        super()._on_spawn(process)
        _say(str(process.pid))


def main() -> None:
    """Prints the JVM's id; after a line on stdin, a count by Spark; ends after another line."""
    with interrupts(), Telling("local[2]") as spark:
        spark.begin()
        sys.stdin.readline()
        _say(str(spark.session().parallelize(range(10)).count()))
        sys.stdin.readline()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except Interrupted as stop:
        sys.exit(stop.exit_status)
