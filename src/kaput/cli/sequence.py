"""`kaput sequence`: numbered lines for any client to send, and a check of what comes back."""

from __future__ import annotations

import re
import sys
import time
import uuid
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kaput.printable import unescaped

if TYPE_CHECKING:
    from kaput.errors import Interrupted
    from kaput.sequence.checking import Checker
    from kaput.sequence.evidence import EvidenceFolder
    from kaput.sequence.parsing import LineFormat as Parser
    from kaput.sequence.summary import CheckSummary

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Numbered lines through any client, and what became of them.\n\n"
    "Example: kaput sequence generate --count 20000 | kaput sequence check --expect 1..20000",
)
_HIGHEST = 2**62


class Form(StrEnum):
    """What the lines look like."""

    TEXT = "text"
    PAYLOAD = "payload"


class Unit(StrEnum):
    """What times are written in."""

    MS = "ms"
    NS = "ns"
    NONE = "none"


@app.command("generate")
def generate_command(
    *,
    count: Annotated[
        int | None,
        typer.Option(min=1, max=_HIGHEST, help="How many lines; without it until nobody reads them."),
    ] = None,
    rate: Annotated[
        float, typer.Option(min=0, max=1e9, help="Lines a second; 0: as fast as they are read.")
    ] = 0,
    start: Annotated[int, typer.Option(min=0, max=_HIGHEST, help="The first number.")] = 1,
    producer: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Whose sequence it is.")] = 0,
    time_: Annotated[
        Unit, typer.Option("--time", help="ms or ns since the epoch; none: numbers alone.")
    ] = Unit.MS,
    form: Annotated[
        Form, typer.Option(help="text: NUMBER TIME PRODUCER; payload: kaput's own payload, in base64.")
    ] = Form.TEXT,
    payload_bytes: Annotated[int, typer.Option(min=45, max=1 << 20, help="Of each payload.")] = 100,
    run_id: Annotated[
        uuid.UUID | None, typer.Option(help="The run that payloads belong to; else a new one.")
    ] = None,
) -> None:
    """Write numbered lines, for any client to send.

    Example: kaput sequence generate --count 20000 --rate 500 | kaput tool console-producer --topic numbers
    """
    from kaput.processes.signals import interrupts
    from kaput.sequence.generating import Order, write

    order = Order(count, start, rate, producer, time_.value, form.value, run_id, payload_bytes)
    with interrupts():
        write(1, order)


@app.command("check")
def check_command(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE...", help="What consumers printed; else stdin (-).")
    ] = None,
    *,
    expect: Annotated[
        str | None,
        typer.Option(
            metavar="A..B", help="The numbers of each producer; else from the least to the greatest seen."
        ),
    ] = None,
    producers: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="How many producers there must be, numbered from 0.")
    ] = 0,
    pattern: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX",
            help="Finds (?P<number>[0-9]+) in a line, and perhaps (?P<time>...) and (?P<producer>...).",
        ),
    ] = None,
    form: Annotated[Form, typer.Option(help="What generate wrote.")] = Form.TEXT,
    run_id: Annotated[
        uuid.UUID | None, typer.Option(help="The run that payloads belong to; else that of the first.")
    ] = None,
    join_ms: Annotated[
        float, typer.Option(min=0, help="What is missing within so many ms of each other is one window.")
    ] = 1000,
    evidence: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Make a run folder of it, for kaput analyze.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="1 as well for duplicates, reorderings, strays and other lines.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> int:
    """Say which numbers are missing, twice or out of order in what any consumer printed.

    Exit status: 0 nothing is missing; 1 something is; 2 there was nothing to check.

    Example: kaput tool console-consumer --topic numbers --from-beginning --timeout-ms 10000 \\
    | kaput sequence check --expect 1..20000
    """
    from kaput.processes.signals import interrupts, shielded
    from kaput.sequence.checking import Checker
    from kaput.sequence.summary import summarise

    expected = _expected(expect, producers)
    parser = _parser(pattern, form, run_id)
    with interrupts():
        folder = _folder(evidence) if evidence is not None else None
        checker = Checker(expected, producers, folder)
        ended = _read(files or ["-"], parser, checker)
        with shielded():
            checker.end()
            _check_not_empty(checker)
            summary = summarise(checker, join_ms)
            if folder is not None:
                folder.seal(summary, str(ended) if ended is not None else None)
            _show(summary, json, ended is not None)
    if ended is not None:
        raise ended
    return 0 if summary.held(strict) else 1


def _folder(path: Path) -> EvidenceFolder:
    from kaput.sequence.evidence import EvidenceFolder

    return EvidenceFolder(path)


def _expected(expect: str | None, producers: int) -> tuple[int, int] | None:
    from kaput.errors import UsageError

    if expect is None and producers:
        raise UsageError("--producers says who must be there; say with --expect A..B what of each")
    return _range(expect) if expect is not None else None


def _parser(pattern: str | None, form: Form, run_id: uuid.UUID | None) -> Parser:
    from kaput.errors import UsageError
    from kaput.sequence.parsing import PatternFormat, PayloadFormat, TextFormat

    if form is Form.PAYLOAD:
        if pattern is not None:
            raise UsageError("--pattern is for text, and --form payload has none; give one of the two")
        return PayloadFormat(run_id)
    if run_id is not None:
        raise UsageError("--run-id is for --form payload")
    return TextFormat() if pattern is None else PatternFormat(pattern)


def _read(files: list[str], parser: Parser, checker: Checker) -> Interrupted | None:
    """Takes all lines; Ctrl-C ends that, and what was read until then counts."""
    from kaput.errors import Interrupted
    from kaput.processes.signals import shielded
    from kaput.sequence.reading import blocks

    progress = _Progress(checker)
    try:
        for block in blocks(files):
            with shielded():
                checker.take(parser.parse(block), block)
                progress.show()
    except Interrupted:
        return Interrupted("interrupted; what was read until then is what counts above")
    finally:
        progress.end()
    return None


def _check_not_empty(checker: Checker) -> None:
    """Raises UsageError where nothing was expected, and nothing came."""
    from kaput.errors import UsageError

    if checker.sequences:
        return
    first = checker.first_unreadable
    if first is None:
        raise UsageError("nothing to check: the input is empty; --expect 1..N says what should have come")
    raise UsageError(
        f"nothing to check: none of {checker.lines:,} lines is numbered; the first is line {first.line:,}: "
        f"{first.text!r}; --pattern finds numbers that have company"
    )


def _show(summary: CheckSummary, json: bool, interrupted: bool) -> None:
    from json import dumps

    from kaput.sequence.summary import as_json, as_text

    if json:
        typer.echo(dumps(as_json(summary) | {"interrupted": interrupted}))
    else:
        typer.echo(as_text(summary), nl=False)
    sys.stdout.flush()


class _Progress:
    """A line on stderr that is rewritten, on a terminal alone."""

    def __init__(self, checker: Checker) -> None:
        self._checker, self._live = checker, sys.stderr.isatty()
        self._began = self._said_at = time.monotonic()
        self._said = False

    def show(self) -> None:
        """Now and then."""
        now = time.monotonic()
        if not self._live or now - self._said_at < 0.5:
            return
        self._said_at, self._said = now, True
        rate = self._checker.lines / (now - self._began)
        unescaped(sys.stderr).write(f"\r\x1b[K{self._checker.lines:,} lines, {rate:,.0f} a second")
        sys.stderr.flush()

    def end(self) -> None:
        """Takes the line away."""
        if self._said:
            unescaped(sys.stderr).write("\r\x1b[K")
            sys.stderr.flush()


def _range(text: str) -> tuple[int, int]:
    """Raises UsageError."""
    from kaput.errors import UsageError

    match = re.fullmatch(r"([0-9][0-9_,]*)\.\.([0-9][0-9_,]*)", text.strip())
    if match is None:
        raise UsageError(f"--expect {text}: a range has the form 1..20000")
    first, last = (int(re.sub("[_,]", "", number)) for number in match.groups())
    if first > last or last > _HIGHEST:
        raise UsageError(f"--expect {text}: {'ends before it begins' if first > last else 'too great'}")
    return first, last
