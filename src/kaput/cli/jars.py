"""Kafka's jars for a run, with a progress bar when they have to be fetched first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaput.cluster.distribution import Distribution
    from kaput.java import Java


def distribution_for(version: str, java: Java, kafka_home: Path | None) -> Distribution:
    """The locked jars of that version, or those of an installation. Raises DistributionError."""
    from rich.console import Console
    from rich.progress import Progress

    from kaput.cluster.distribution import from_home, resolve

    if kafka_home is not None:
        return from_home(kafka_home)
    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(f"fetching Kafka {version}", total=None)

    def fetched(done: int, total: int) -> None:
        # Only now: where nothing is fetched, nothing is drawn.
        bar.start()
        bar.update(task, completed=done, total=total)

    try:
        return resolve(version, java, fetched)
    finally:
        if bar.live.is_started:
            bar.stop()
