"""`kaput export`: a run in another tool's form."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from kaput.printable import EscapingBytes

if TYPE_CHECKING:
    from kaput.evidence.folder import RunFolder
    from kaput.evidence.reading import Evidence


class Format(StrEnum):
    """What a run is turned into."""

    JEPSEN = "jepsen"
    CSV = "csv"


def export_command(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder (kaput.evidence/1).")],
    *,
    format_: Annotated[
        Format,
        typer.Option("--format", help="jepsen: a history in EDN for jepsen.tests.kafka; csv: tables."),
    ],
    table: Annotated[
        str | None,
        typer.Option(help="Of CSV: sends, log, deliveries, ...; ledger and lost once it was judged."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="A file; of CSV without --table a new directory. Else stdout."),
    ] = None,
) -> None:
    """Write a run as a history for Jepsen's Kafka checker, or as CSV. Needs neither Kafka nor Spark.

    CSV on stdout is the ledger unless --table names another one; with --out DIR each table is a file there.

    Example: kaput export runs/20260101T120000-noop-1a2b3c --format jepsen --out history.edn
    """
    from kaput.api.scratch import Scratch
    from kaput.api.sealed import sealed_evidence
    from kaput.errors import UsageError
    from kaput.evidence.folder import RunFolder
    from kaput.processes.signals import interrupts

    if table is not None and format_ is Format.JEPSEN:
        raise UsageError("--table is for --format csv; a history is of the whole run")
    if out is not None and out.exists():
        raise UsageError(f"{out}: is there already, and is not written over")
    with interrupts(), Scratch() as scratch:
        evidence = sealed_evidence(RunFolder(run_dir), scratch)
        if format_ is Format.JEPSEN:
            _jepsen(evidence, scratch.directory(), out)
        elif out is not None and table is None:
            _tables(evidence.folder, out)
        else:
            _table(evidence.folder, table or "ledger", out)


def _jepsen(evidence: Evidence, scratch: Path, out: Path | None) -> None:
    from kaput.export.jepsen import History

    history = History(evidence, scratch)
    with ExitStack() as stack:
        written = stack.enter_context(_beside(out)) if out is not None else sys.stdout
        for line in history.lines():
            written.write(line)
    strangers = history.strangers
    left_out = f"; {strangers:,} records that are no messages of this run are left out" if strangers else ""
    keys = ", ".join(f"{number} is {place}" for number, place in enumerate(history.keys))
    sys.stderr.write(f"{history.operations:,} operations; keys: {keys}{left_out}\n")


def _tables(folder: RunFolder, out: Path) -> None:
    from kaput.export.tables import present

    out.mkdir(parents=True)
    for name in present(folder):
        _table(folder, name, out / f"{name}.csv")


def _table(folder: RunFolder, name: str, out: Path | None) -> None:
    from kaput.errors import UsageError
    from kaput.evidence.schemas import TABLES
    from kaput.export.tables import DERIVED, write_csv
    from kaput.scenario.nearest import hint

    known = [*TABLES, *DERIVED]
    if name not in known:
        raise UsageError(f"--table {name}: no such table; {hint(name, known)}")
    if out is None:
        # In a pipe a table is exact; on a terminal data is escaped, as everywhere.
        terminal = io.BufferedWriter(EscapingBytes(sys.stdout)) if sys.stdout.isatty() else None
        write_csv(folder, name, terminal or sys.stdout.buffer)
        if terminal is not None:
            terminal.flush()
        return
    with _beside(out) as file:
        rows = write_csv(folder, name, file.buffer)
    sys.stderr.write(f"{out}: {rows:,} rows\n")


@contextmanager
def _beside(path: Path) -> Iterator[TextIO]:
    """A file that stands under its name when it is complete. Raises UsageError where it can't be made."""
    from kaput.errors import UsageError

    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        file = beside.open("w", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be made ({error.strerror})") from None
    try:
        with file:
            yield file
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
