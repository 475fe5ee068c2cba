"""`kaput bench`: evidence made to order, to measure and to test the analysis with."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from kaput.printable import unescaped

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Make evidence to measure with.\n\nExample: kaput bench generate /tmp/made --messages 1000000",
)


@app.callback()
def _root() -> None:
    """Keeps `generate` a verb of its own while it is the only one."""


@app.command("generate")
def generate_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The run folder to make; new or empty.")],
    *,
    messages: Annotated[int, typer.Option(min=1, help="How many messages are sent, over all producers.")],
    producers: Annotated[int, typer.Option(min=1, max=10_000, help="How many producers.")] = 10,
    partitions: Annotated[int, typer.Option(min=1, max=10_000, help="How many partitions.")] = 10,
    groups: Annotated[int, typer.Option(min=0, max=64, help="How many consumer groups.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same run.")] = 0,
    rate: Annotated[
        float, typer.Option(min=0.0, max=0.01, help="Planted anomalies of a kind for each message.")
    ] = 0.0001,
    clean: Annotated[bool, typer.Option("--clean", help="Plant nothing: the verdict is held.")] = False,
    uneven: Annotated[
        bool, typer.Option("--uneven", help="Producer 1 sends twice as much as producer 0, and so on.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print expected.json on stdout.")] = False,
) -> None:
    """Make a run folder of any size with planted anomalies, and DIR/expected.json with every count.

    Example: kaput bench generate /tmp/made --messages 1000000 && kaput analyze /tmp/made
    """
    from kaput.analysis.spark.session import close, start
    from kaput.bench.generate import generate, shape_of
    from kaput.bench.plan import PlantingPlan
    from kaput.errors import UsageError
    from kaput.java import find_java
    from kaput.processes.signals import interrupts

    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"{directory}: exists and is not an empty directory; give a new name")
    plan = PlantingPlan(
        shape_of(messages, producers, partitions, groups, seed, uneven), 0.0 if clean else rate
    )
    find_java()
    with interrupts():
        spark = start()
        try:
            expected = generate(plan, directory, spark, _Progress(messages))
        finally:
            close(spark)
    if json:
        sys.stdout.write((directory / "expected.json").read_text())
    else:
        found = ", ".join(f"{name} {count:,}" for name, count in expected["anomalies"].items() if count)
        sys.stdout.write(f"{directory}: {messages:,} messages; to be found: {found or 'nothing'}\n")


class _Progress:
    """A line on stderr: rewritten on a terminal, now and then elsewhere."""

    def __init__(self, messages: int) -> None:
        self._messages, self._live = messages, sys.stderr.isatty()
        self._said_at, self._said = time.monotonic(), -1

    def __call__(self, done: int, slabs: int) -> None:
        now = time.monotonic()
        if done == self._said or (not self._live and done < slabs and now - self._said_at < 5):
            return
        self._said_at, self._said = now, done
        text = f"made {self._messages * done // slabs:,} of {self._messages:,} messages"
        end = "\n" if not self._live or done == slabs else ""
        unescaped(sys.stderr).write(("\r" if self._live else "") + text + end)
        sys.stderr.flush()
