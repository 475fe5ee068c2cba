"""`kaput bench`: generated evidence, to measure and test the analysis."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from kaput.cli.verbs import Verb, group
from kaput.errors import UsageError

app = group("Generate evidence for benchmarks.\n\nExample: kaput bench generate made --messages 1000000")


@app.callback()
def _root() -> None:
    """Keeps `generate` a verb of its own although it is the only one."""


@app.command("generate", cls=Verb)
def generate_command(
    run_dir: Annotated[
        Path, Argument(metavar="RUN_DIR", help="Run folder to create: a new or empty directory.")
    ],
    *,
    messages: Annotated[int, Option(min=1, metavar="N", help="Total number of messages from all producers.")],
    producers: Annotated[int, Option(min=1, max=10_000, metavar="N", help="Number of producers.")] = 10,
    partitions: Annotated[int, Option(min=1, max=10_000, metavar="N", help="Number of partitions.")] = 10,
    groups: Annotated[int, Option(min=0, max=64, metavar="N", help="Number of consumer groups.")] = 1,
    seed: Annotated[int, Option(min=0, metavar="N", help="The same seed generates the same run.")] = 0,
    anomaly_rate: Annotated[
        float,
        Option(min=0.0, max=0.01, metavar="SHARE", help="Anomalies of each kind to plant, per message."),
    ] = 0.0001,
    clean: Annotated[bool, Option("--clean", help="Plant no anomalies; the verdict is held.")] = False,
    uneven: Annotated[
        bool,
        Option("--uneven", help="Producer 1 sends twice as much as producer 0, producer 2 three times, ..."),
    ] = False,
    json: Annotated[bool, Option("--json", help="Print expected.json on stdout.")] = False,
) -> None:
    """Generate a run folder with planted anomalies.

    RUN_DIR/expected.json has the count of every anomaly.

    Example: kaput bench generate made --messages 1000000; kaput analyze made
    """
    from kaput.bench.generate import generate, shape_of
    from kaput.bench.plan import PlantingPlan
    from kaput.cli.progress import CountProgress
    from kaput.evidence.folder import create_directory
    from kaput.processes.signals import interrupts

    if run_dir.exists() and (not run_dir.is_dir() or any(run_dir.iterdir())):
        raise UsageError(f"{run_dir}: already exists and is not an empty directory")
    plan = PlantingPlan(
        shape_of(messages, producers, partitions, groups, seed, uneven), 0.0 if clean else anomaly_rate
    )
    create_directory(run_dir)
    with interrupts(), CountProgress(run_dir.name, "generated {:,} of {:,} messages") as bar:
        expected = generate(plan, run_dir, lambda done, slabs: bar.tell(messages * done // slabs, messages))
    if json:
        sys.stdout.write((run_dir / "expected.json").read_text())
    else:
        planted = ", ".join(f"{name} {count:,}" for name, count in expected["anomalies"].items() if count)
        sys.stdout.write(f"{run_dir}: {messages:,} messages; planted: {planted or 'nothing'}\n")
