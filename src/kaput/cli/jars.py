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
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"fetching Kafka {version}", total=None, visible=False)

        def fetched(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, visible=True)

        return resolve(version, java, fetched)
