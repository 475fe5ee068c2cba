"""`python -m kaput.cluster.setup`: prepares everything that a first run would wait for, with a progress bar.

Not here: Python and its packages, which this needs itself (Makefile).
"""

from __future__ import annotations

import sys

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kaput.cluster.cds import ensure_archive
from kaput.cluster.distribution import Distribution, resolve
from kaput.cluster.setting_names import setting_names
from kaput.console import Console
from kaput.errors import Interrupted, KaputError
from kaput.java import Java, find_java
from kaput.processes.ending import reap_orphans
from kaput.processes.signals import interrupts
from kaput.scenario.model import Cluster


def main() -> int:
    """Java first, then the jars of the default Kafka, its settings and the archive; an exit status."""
    console = Console(stderr=True)
    try:
        with interrupts():
            _set_up(console)
    except (KaputError, Interrupted) as error:
        console.print(f"kaput: {error}", soft_wrap=True)
        return error.exit_status
    return 0


def _set_up(console: Console) -> None:
    java = find_java()
    reap_orphans()
    # Other versions are fetched when a scenario first wants them.
    distribution = _fetch(Cluster().kafka, java, console)
    ensure_archive(distribution, java, console.print)
    setting_names(distribution, java)  # kept


def _fetch(version: str, java: Java, console: Console) -> Distribution:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(f"jars of Kafka {version}", total=None)

        def fetched(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        distribution = resolve(version, java, fetched)
        fetched(len(distribution.jars), len(distribution.jars))
    return distribution


if __name__ == "__main__":
    sys.exit(main())
