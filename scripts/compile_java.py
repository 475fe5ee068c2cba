"""Compiles KaputProducer.java, beside itself or into another folder (make java). Needs a JDK.

    .venv/bin/python scripts/compile_java.py [FOLDER]

Users need none: the class is part of the program. tests/unit/workload/test_java_program.py compares the two.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kaput.cluster.distribution import resolve
from kaput.java import OLDEST, find_java
from kaput.scenario.cluster import Cluster

SOURCE = Path(__file__).parents[1] / "src/kaput/workload/java/KaputProducer.java"


def main() -> int:
    """Exits as javac does."""
    jars = resolve(Cluster().kafka, find_java()).classpath
    to = sys.argv[1] if len(sys.argv) > 1 else str(SOURCE.parent)
    # Without numbers of lines: every javac of one release then makes the same bytes.
    command = ["javac", "--release", str(OLDEST), "-g:none", "-Xlint:all,-path,-classfile", "-cp", jars]
    return subprocess.run([*command, "-d", to, str(SOURCE)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
