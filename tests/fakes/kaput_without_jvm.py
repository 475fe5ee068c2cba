"""`python kaput_without_jvm.py WORDS`: the command kaput, with a Spark that is played in its own process.

For tests of what a run leads to: a JVM for each of them takes longer than the judgement. A run in network
namespaces starts over as the real command, so that it has a JVM all the same.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
del sys.path[1:2]  # this directory: its modules are `fakes.`

from kaput.analysis.spark import background  # noqa: E402
from kaput.analysis.spark.in_process import WithoutSpark  # noqa: E402
from kaput.cli.main import main  # noqa: E402

if __name__ == "__main__":
    background.Background = lambda *_, **__: WithoutSpark()  # type: ignore[assignment, misc]
    main()
