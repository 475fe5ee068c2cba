"""`python -m kaput.analysis.spark.python_workers`: PySpark's worker daemon, made to start faster.

PySpark's own daemon imports PySpark from a zip, which compiles it each time, and everything else in each
worker. This one imports the installed package, and forks workers with the engine loaded.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

from kaput.processes.skip_pandas import skip_pandas


def main() -> None:
    """Runs the daemon until Spark disconnects."""
    sys.path[:] = [entry for entry in sys.path if Path(entry).name != "pyspark.zip"]
    from pyspark.daemon import manager

    load()
    # PySpark collects garbage after each task; do not scan the loaded modules each time.
    gc.freeze()
    manager()


def load() -> None:
    """Imports what the tasks need."""
    # Spark runs one worker per core: none needs more than one thread.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    skip_pandas()
    import kaput.analysis.job  # noqa: F401


if __name__ == "__main__":
    main()
