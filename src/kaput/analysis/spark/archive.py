"""`python -m kaput.analysis.spark.archive`: makes the class data archive (AppCDS) that speeds up Spark's
start.

Starts one session, analyzes a rehearsal folder and exits cleanly, whereupon the JVM dumps the classes it
loaded. An archive fits one Java and one PySpark. Without it, judging only takes longer.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from kaput.analysis.rehearsal import rehearse
from kaput.analysis.spark import driver
from kaput.analysis.spark.session import close, start
from kaput.cache import cache_dir, exclusive
from kaput.errors import KaputError
from kaput.java import Java, find_java
from kaput.processes.ownership import Owner

_DUMP_TIMEOUT_S = 120
_KEPT = 3


def ensure_archive(java: Java) -> Path | None:
    """Returns the archive, making it if missing; None if this Java cannot make one. Raises KaputError."""
    root = cache_dir("cds")
    unable = root / f"spark-{driver.key(java)}.unable"
    if (archive := driver.find_archive(java)) or unable.exists():
        return archive
    with exclusive(root / ".spark-lock", 2 * _DUMP_TIMEOUT_S):
        if archive := driver.find_archive(java):
            return archive  # another kaput made it while this one waited
        with Owner() as owner, tempfile.TemporaryDirectory(prefix=".making-", dir=root) as name:
            owner.own_path(Path(name))
            made = Path(name) / "made.jsa"
            spark = start(owner.own_path, "local[2]", options=[f"-XX:ArchiveClassesAtExit={made}"])
            try:
                rehearse(spark, Path(name) / "run")
            finally:
                close(spark, _DUMP_TIMEOUT_S, gracefully=True)
            if made.is_file():
                made.chmod(0o644)
                made.replace(root / f"spark-{driver.key(java)}-{made.stat().st_size}.jsa")
                _prune(root)
            else:
                unable.touch()
    return driver.find_archive(java)


def _prune(root: Path) -> None:
    """Keeps the newest few: each is nearly 200 MB, and every new environment or Java needs its own."""
    archives = sorted(root.glob("spark-*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in archives[_KEPT:]:
        old.unlink(missing_ok=True)


def main() -> int:
    """Makes the archive, with progress on stderr. Returns the exit status."""
    try:
        java = find_java()
        if driver.find_archive(java) is None:
            sys.stderr.write("preparing quick starts of Spark (once)\n")
            ensure_archive(java)
    except KaputError as error:
        sys.stderr.write(f"kaput: {error}\n")
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
