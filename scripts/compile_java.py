"""Compiles what kaput has in Java, each class beside its source, or all into another folder. Needs a JDK.

    .venv/bin/python scripts/compile_java.py [FOLDER]          (make java)

Users need none: classes are part of the program, and tests/unit/test_java_classes.py compares them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kaput.cluster.distribution import resolve
from kaput.java import OLDEST, find_java
from kaput.scenario.cluster import Cluster

SOURCES = sorted((Path(__file__).parents[1] / "src").rglob("*.java"))


def main() -> int:
    """Exits as javac does."""
    jars = resolve(Cluster().kafka, find_java()).classpath
    # Without numbers of lines: every javac of one release then makes the same bytes.
    command = ["javac", "--release", str(OLDEST), "-g:none", "-Xlint:all,-path,-classfile", "-cp", jars]
    for source in SOURCES:
        to = sys.argv[1] if len(sys.argv) > 1 else str(source.parent)
        done = subprocess.run([*command, "-d", to, str(source)], check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
