"""A kaput-like process for the tests: starts a session, says a count by Spark, ends after a line on stdin."""

from __future__ import annotations

import sys

from kaput.analysis.spark.session import owned
from kaput.errors import Interrupted
from kaput.processes.signals import interrupts


def main() -> None:
    with interrupts(), owned("local[2]") as spark:
        sys.stdout.write(f"{spark.parallelize(range(10)).count()}\n")
        sys.stdout.flush()
        sys.stdin.readline()


if __name__ == "__main__":
    try:
        main()
    except Interrupted as stop:
        sys.exit(stop.exit_status)
