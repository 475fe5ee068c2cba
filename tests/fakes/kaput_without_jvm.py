"""`python kaput_without_jvm.py WORDS`: the command kaput, with a Spark that is played in its own process.

For tests of what a run leads to: a JVM for each of them takes longer than the judgement. A run in network
namespaces starts over as the real command, so that it has a JVM all the same.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
del sys.path[1:2]  # this directory: its modules are `fakes.`

from fakes.in_process import InProcess  # noqa: E402
from kaput.analysis.spark import background  # noqa: E402
from kaput.cli.main import main  # noqa: E402


class Played(InProcess):
    """In place of a SparkContext of this machine."""

    master = "local[1]"

    def getConf(self) -> dict[str, str]:
        """No settings."""
        return {}


class NoJvm:
    def __init__(self, *_: Any, **__: Any) -> None:
        """Whatever Spark it is to be."""

    def prepare(self) -> None:
        """Nothing takes long."""

    begin = prepare

    def session(self) -> Played:
        return Played()

    def __enter__(self) -> NoJvm:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is left."""


if __name__ == "__main__":
    background.Background = NoJvm  # type: ignore[assignment, misc]
    main()
