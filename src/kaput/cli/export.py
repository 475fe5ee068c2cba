"""`kaput export`: a run in another tool's format."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

from typer import Option

from kaput.api.judging import Scratch, sealed_evidence
from kaput.cli.options import RunDir
from kaput.errors import UsageError
from kaput.printable import EscapingBytes
from kaput.scenario.nearest import hint

if TYPE_CHECKING:
    from kaput.evidence.folder import RunFolder
    from kaput.evidence.reading import Evidence


ExportFormat = Literal["jepsen", "csv"]


def export_command(
    run_dir: RunDir,
    *,
    format_: Annotated[
        ExportFormat, Option("--format", help="jepsen: an EDN history for jepsen.tests.kafka; csv: tables.")
    ],
    table: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="With csv: only this table: sends, log, deliveries, ...; ledger or lost after judging.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        Option(
            metavar="PATH", help="Output file; for csv without --table, a new directory (default: stdout)."
        ),
    ] = None,
) -> None:
    """Export a run as a Jepsen history or as CSV.

    CSV on stdout is the ledger unless --table names another table; with --out each table is a file in that
    directory. Needs neither Kafka nor Spark.

    Example: kaput export runs/20260101T120000-noop-1a2b3c --format jepsen
    """
    from kaput.evidence.folder import RunFolder
    from kaput.processes.signals import interrupts

    if table is not None and format_ == "jepsen":
        raise UsageError("--table requires --format csv; a Jepsen history always covers the whole run")
    if out is not None and out.exists():
        raise UsageError(f"{out}: already exists, and is not overwritten; give a new name")
    with interrupts(), Scratch() as scratch:
        evidence = sealed_evidence(RunFolder(run_dir), scratch)
        if format_ == "jepsen":
            _jepsen(evidence, scratch.directory(), out)
        elif out is not None and table is None:
            _tables(evidence.folder, out)
        else:
            _table(evidence.folder, table or "ledger", out)


def _jepsen(evidence: Evidence, scratch: Path, out: Path | None) -> None:
    from kaput.export.jepsen import History

    history = History(evidence, scratch)
    with ExitStack() as stack:
        written = stack.enter_context(_replacing(out)) if out is not None else sys.stdout
        for line in history.lines():
            written.write(line)
    skipped = history.skipped
    left_out = f"; {skipped:,} records that are not from this run are left out" if skipped else ""
    keys = ", ".join(f"{number} is {place}" for number, place in enumerate(history.keys))
    sys.stderr.write(f"{history.operations:,} operations; keys: {keys}{left_out}\n")


def _tables(folder: RunFolder, out: Path) -> None:
    from kaput.evidence.folder import create_directory
    from kaput.export.tables import present

    create_directory(out)
    for name in present(folder):
        _table(folder, name, out / f"{name}.csv")


def _table(folder: RunFolder, name: str, out: Path | None) -> None:
    from kaput.evidence.schemas import TABLES
    from kaput.export.tables import DERIVED, write_csv

    known = [*TABLES, *DERIVED]
    if name not in known:
        raise UsageError(f"--table {name}: no such table; {hint(name, known)}")
    if out is None:
        # Exact in a pipe; escaped on a terminal, like all data.
        terminal = io.BufferedWriter(EscapingBytes(sys.stdout)) if sys.stdout.isatty() else None
        write_csv(folder, name, terminal or sys.stdout.buffer)
        if terminal is not None:
            terminal.flush()
        return
    with _replacing(out) as file:
        rows = write_csv(folder, name, file.buffer)
    sys.stderr.write(f"{out}: {rows:,} rows\n")


@contextmanager
def _replacing(path: Path) -> Iterator[TextIO]:
    """A file that is renamed to its final name when complete. Raises UsageError if it cannot be created."""
    from kaput.evidence.folder import replacing

    with replacing(path) as temporary:
        try:
            file = temporary.open("w", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{path}: cannot be created ({error.strerror})") from None
        with file:
            yield file
