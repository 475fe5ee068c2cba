"""`python -m kaput.analysis.spark.python_workers`: PySpark's daemon of Python workers, ready sooner.

PySpark's own way imports PySpark from a zip, which compiles it anew each time, and everything else in each
worker. Here it comes from the installed package, and the workers are forked with the engine loaded.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

from kaput.processes.skip_pandas import skip_pandas


def main() -> None:
    """Serves Spark until it hangs up."""
    sys.path[:] = [entry for entry in sys.path if Path(entry).name != "pyspark.zip"]
    from pyspark.daemon import manager

    load()
    # PySpark collects garbage after each task: what is loaded is none, and is not to be looked at each time.
    gc.freeze()
    manager()


def load() -> None:
    """Loads what the tasks need."""
    # Spark runs as many workers as there are cores: none of them needs more than one.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    skip_pandas()
    import kaput.analysis.job  # noqa: F401


if __name__ == "__main__":
    main()
