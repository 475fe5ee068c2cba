"""Makes the lock files of a Kafka version: resolves it with all that it needs, and hashes every jar.

    .venv/bin/python scripts/lock_jars.py 4.3.1
    .venv/bin/python scripts/lock_jars.py 4.3.1 mirror

The second one has what MirrorMaker needs beside the first one's. A maintainer's tool, run once a version; its
result is committed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from kaput.cluster.lock import LOCKS, ivy_fetch, lock_text, resolve_jars
from kaput.java import find_java


def main(version: str, of: str = "kafka") -> None:
    """Writes src/kaput/cluster/locks/kafka-VERSION.lock, or that of what it has more of."""
    with tempfile.TemporaryDirectory() as name:
        get = ivy_fetch(find_java(), lambda: print(".", end="", flush=True))
        found = resolve_jars(version, of, Path(name), get)
    path = LOCKS / f"{of}-{version}.lock"
    path.parent.mkdir(exist_ok=True)
    path.write_text(lock_text(f"{of}-{version}", found, "by scripts/lock_jars.py"))
    print(f"\n{path}: {len(found)} jars")


if __name__ == "__main__":
    main(*sys.argv[1:])
