"""`kaput sequence`: numbered lines for any client to send, and a check of what its consumers received."""

from __future__ import annotations

import re
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from kaput.cli.options import Json
from kaput.cli.verbs import Verb, group, print_json
from kaput.errors import Interrupted, UsageError
from kaput.printable import unescaped

if TYPE_CHECKING:
    from kaput.sequence.checking import Checker, Sent
    from kaput.sequence.evidence import EvidenceFolder
    from kaput.sequence.intervals import Intervals
    from kaput.sequence.parsing import LineFormat, LineReader
    from kaput.sequence.summary import CheckSummary
    from kaput.sequence.tool_lines import Role

app = group(
    "Test any client with numbered messages.\n\n"
    "Example: kaput sequence generate --count 20000 \\\n"
    "  | kaput sequence check --expect 1..20000"
)
_HIGHEST = 2**62

# kcat -f '%p %o %s' has three numbers, too.
_COUNT_FROM_ZERO = (
    "times do not count from 1970: each line was read as NUMBER TIME PRODUCER; --pattern names other fields"
)
_BY_PLACE = re.compile(rb"(?m)(?:^|\t)[0-9]+ [0-9]+(?: [^ \t\n]+)?\r?$")  # in columns, fields have names

LineFormatName = Literal["text", "payload"]
TimeUnit = Literal["ms", "ns", "none"]
InputUnit = Literal["s", "ms", "us", "ns"]


@app.command("generate", cls=Verb)
def generate_command(
    *,
    count: Annotated[
        int | None,
        Option(
            min=1,
            max=_HIGHEST,
            metavar="N",
            help="Number of lines (default: until the reader closes the pipe).",
        ),
    ] = None,
    rate: Annotated[float, Option(min=0, max=1e9, metavar="N", help="Lines per second; 0 for no limit.")] = 0,
    start: Annotated[int, Option(min=0, max=_HIGHEST, metavar="N", help="First number.")] = 1,
    producer: Annotated[int, Option(min=0, max=2**31 - 1, metavar="N", help="Number of the producer.")] = 0,
    time_: Annotated[
        TimeUnit, Option("--time", help="Unit of the timestamps since the epoch; none: numbers only.")
    ] = "ms",
    line_format: Annotated[
        LineFormatName, Option(help="text: NUMBER TIME PRODUCER; payload: kaput's payload in base64.")
    ] = "text",
    payload_bytes: Annotated[
        int, Option(min=45, max=1 << 20, metavar="N", help="Size of each payload.")
    ] = 100,
    run_id: Annotated[
        uuid.UUID | None, Option(metavar="UUID", help="Run id in the payloads (default: a new one).")
    ] = None,
) -> None:
    """Write numbered lines for any client to send.

    Example: kaput sequence generate --count 20000 --rate 500 \\
      | kaput tool console-producer --topic numbers
    """
    from kaput.processes.signals import interrupts
    from kaput.sequence.generating import GeneratorSpec, write

    order = GeneratorSpec(count, start, rate, producer, time_, line_format, run_id, payload_bytes)
    with interrupts():
        write(1, order)


Expected = Annotated[
    str | None,
    Option(
        metavar="A..B",
        help="Numbers each producer sent (default: from the lowest to the highest number seen).",
    ),
]
Pattern = Annotated[
    str | None,
    Option(
        metavar="REGEX",
        help="Pattern with (?P<number>[0-9]+) and optionally (?P<time>...) and (?P<producer>...).",
    ),
]
Sends = Annotated[
    list[Path] | None,
    Option(
        metavar="FILE", help="What producers sent: then numbers need not be consecutive. May be repeated."
    ),
]
Acks = Annotated[
    list[Path] | None,
    Option(metavar="FILE", help="What was acknowledged: missing ones of these are lost. May be repeated."),
]

Strict = Annotated[
    bool,
    Option("--strict", help="Exit status 1 also for duplicates, reordering, strays and unreadable lines."),
]


@app.command("check", cls=Verb)
def check_command(
    files: Annotated[
        list[str] | None,
        Argument(metavar="FILE", help="Consumers' output, or folders of it (default: stdin)."),
    ] = None,
    *,
    expect: Expected = None,
    producers: Annotated[
        int, Option(min=0, max=1_000_000, metavar="N", help="Number of producers expected, from 0.")
    ] = 0,
    sent: Sends = None,
    acked: Acks = None,
    pattern: Pattern = None,
    time_unit: Annotated[
        InputUnit | None, Option(help="Unit of the times (default: recognized by their size).")
    ] = None,
    line_format: Annotated[
        LineFormatName, Option(help="The --line-format the lines were generated with.")
    ] = "text",
    run_id: Annotated[
        uuid.UUID | None,
        Option(metavar="UUID", help="Run id in the payloads (default: that of the first payload)."),
    ] = None,
    join_ms: Annotated[
        float, Option(min=0, metavar="MS", help="Merge loss windows less than this many ms apart into one.")
    ] = 1000,
    evidence: Annotated[
        Path | None, Option(metavar="RUN_DIR", help="Also write a run folder here, for kaput analyze.")
    ] = None,
    strict: Strict = False,
    json: Json = False,
) -> int:
    """Find missing, duplicate and reordered numbers.

    Reads what any consumer printed: lines of text, and the output of Kafka's console and
    verifiable clients and of kcat -J. Exit status: 0 if nothing is missing (with --acked:
    lost); 1 if something is; 3 if all of it may be in lines that cannot be read; 2 if there
    is nothing to check.

    Example: kaput sequence check --expect 1..20000 received.txt

    Example: kaput sequence check --sent sent.log --acked acked.log received.txt

    Example: kaput tool console-consumer --topic numbers --from-beginning \\
      --timeout-ms 10000 | kaput sequence check --expect 1..20000
    """
    from kaput.processes.signals import interrupts, shielded
    from kaput.sequence.checking import Checker
    from kaput.sequence.parsing import LineReader
    from kaput.sequence.summary import summarise

    reader = LineReader(time_unit)
    known = _known(expect, producers, sent or [], acked or [], pattern, reader)
    parser = _parser(pattern, line_format, run_id, reader)
    with interrupts():
        folder = _folder(evidence, reader) if evidence is not None else None
        checker = Checker(*known, None if folder is None else folder.block, reader.places)
        hint = _TimesHint(reader, by_pattern=pattern is not None)
        ended = _read(files or ["-"], parser, checker, reader, hint)
        with shielded():
            checker.end()
            _check_not_empty(checker)
            summary = summarise(checker, join_ms, reader)
            if folder is not None:
                folder.seal(summary, str(ended) if ended is not None else None)
            _show(summary, json, ended is not None, hint.text)
    if ended is not None:
        raise ended
    return _exit_status(summary, strict)


def _exit_status(summary: CheckSummary, strict: bool) -> int:
    if summary.held(strict):
        return 0
    return 3 if summary.verdict == "inconclusive" and not strict else 1


def _folder(path: Path, reader: LineReader) -> EvidenceFolder:
    from kaput.sequence.evidence import EvidenceFolder  # with pyarrow, which takes longer than short checks

    return EvidenceFolder(path, reader.places)


def _known(
    expect: str | None,
    producers: int,
    sent: list[Path],
    acked: list[Path],
    pattern: str | None,
    reader: LineReader,
) -> tuple[dict[int, Sent], Sent]:
    """What each producer sent, and what one that is not among them did. Raises UsageError."""
    from kaput.sequence.checking import Sent
    from kaput.sequence.intervals import Intervals
    from kaput.sequence.tool_lines import Role

    if not (sent or acked):
        if expect is None and producers:
            raise UsageError("--producers requires --expect A..B, the numbers that each of them sent")
        each = Sent.range(_range(expect) if expect is not None else None)
        return dict.fromkeys(range(producers), each), each
    if expect is not None or producers:
        raise UsageError("--sent and --acked already say what to expect: drop --expect and --producers")
    sends = _numbers(sent, Role.SENT, pattern, reader) if sent else None
    acks = _numbers(acked, Role.ACKED, pattern, reader) if acked else None
    known: dict[int, Sent] = {}
    for producer in {**(sends or {}), **(acks or {})}:
        own = None if sends is None else sends.get(producer, Intervals())
        own_acks = None if acks is None else acks.get(producer, Intervals())
        if own is not None and own_acks is not None:
            _check_acks_were_sent(own, own_acks)
        known[producer] = Sent(own, own_acks)
    return known, Sent(None if sends is None else Intervals(), None if acks is None else Intervals())


def _numbers(files: list[Path], role: Role, pattern: str | None, reader: LineReader) -> dict[int, Intervals]:
    """The numbers in these files, by producer. Raises UsageError for lines that have none."""
    from kaput.sequence.checking import collect
    from kaput.sequence.parsing import PatternFormat, TextFormat
    from kaput.sequence.reading import blocks

    sets: dict[int, Intervals] = {}
    for path in files:
        reader.restart()
        parser = TextFormat(reader, role) if pattern is None else PatternFormat(pattern, reader)
        for block in blocks([str(path)], reader.begin):
            before, nameless = reader.lines, reader.without_producer
            parsed = parser.parse(block)
            if len(parsed.unreadable):
                line = int(parsed.unreadable[0])
                text = block.split(b"\n")[line][:120].decode(errors="replace").rstrip()
                place = reader.places.of(before + line)
                if reader.without_producer > nameless:
                    raise UsageError(f"{place}: has no producer, and others have: {text!r}")
                raise UsageError(f"{place}: has no number: {text!r}; {_advice(text)}")
            collect([parsed], sets)
    reader.restart()
    if not sets:
        raise UsageError(f"{files[0]}: has no number that was {role.value}")
    return sets


def _check_acks_were_sent(sent: Intervals, acked: Intervals) -> None:
    least, greatest = acked.least, acked.greatest
    if least is None or greatest is None:
        return
    unsent = [part for gap in sent.missing(least, greatest) for part in acked.within(gap)]
    if unsent:
        raise UsageError(f"--acked has number {unsent[0].first}, which is not in --sent")


def _parser(
    pattern: str | None, line_format: LineFormatName, run_id: uuid.UUID | None, reader: LineReader
) -> LineFormat:
    from kaput.sequence.parsing import PatternFormat, PayloadFormat, TextFormat

    if line_format == "payload":
        if pattern is not None:
            raise UsageError("--pattern and --line-format payload cannot be combined")
        return PayloadFormat(run_id, reader)
    if run_id is not None:
        raise UsageError("--run-id requires --line-format payload")
    return TextFormat(reader) if pattern is None else PatternFormat(pattern, reader)


class _TimesHint:
    """How lines were read: by a pattern, the first one; by the places of their fields, only if their times
    are none. What a column or a key names needs no hint.
    """

    def __init__(self, reader: LineReader, by_pattern: bool) -> None:
        self._reader, self._by_pattern, self._by_place = reader, by_pattern, False

    def look(self, block: bytes) -> None:
        """At lines that were parsed."""
        if self._reader.times.count_from_zero and not self._by_place:
            self._by_place = _BY_PLACE.search(block) is not None

    @property
    def text(self) -> str | None:
        """A sentence."""
        if self._by_pattern:
            return self._reader.example
        return _COUNT_FROM_ZERO if self._by_place else None


def _read(
    files: list[str], parser: LineFormat, checker: Checker, reader: LineReader, hint: _TimesHint
) -> Interrupted | None:
    """Reads all lines; after Ctrl-C, checks the lines read so far."""
    from kaput.processes.signals import shielded
    from kaput.sequence.reading import blocks

    progress = _LinesProgress(checker)
    try:
        for block in blocks(files, reader.begin):
            with shielded():
                checker.take(parser.parse(block), block)
                hint.look(block)
                progress.show()
    except Interrupted:
        return Interrupted("interrupted; the result above covers what was read so far")
    finally:
        progress.end()
    return None


def _check_not_empty(checker: Checker) -> None:
    """Raises UsageError if nothing was expected and nothing was read."""
    if checker.sequences:
        return
    if not checker.unreadable_lines:
        what = (
            f"none of {checker.lines:,} lines is about a message" if checker.lines else "the input is empty"
        )
        how = "kafka-verifiable-consumer prints messages with --verbose" if checker.lines else ""
        raise UsageError(f"nothing to check: {what}; {how or 'give the expected numbers with --expect 1..N'}")
    first = checker.unreadable_lines[0]
    raise UsageError(
        f"nothing to check: none of {checker.lines:,} lines is a number, with a time or without; the first "
        f"is {first.place}: {first.text!r}; {_advice(first.text)}"
    )


def _advice(text: str) -> str:
    """What to do about a line that is no number: with a pattern, if the text suggests one."""
    words = re.findall(r"([A-Za-z_]+[^\w'\"]{1,3})[0-9]+(?!\w)", text)
    if words:
        before = re.sub(r"([][(){}.*+?^$|\\])", r"\\\1", words[-1])
        return f"--pattern '{before}(?P<number>[0-9]+)' finds the last number in this line"
    if text.startswith(("{", "[")):
        return "JSON needs a key number or seq, and times that are numbers or ISO 8601"
    if any(separator in text for separator in ",;\t"):
        return "a CSV needs a column number or seq, and times that are numbers or ISO 8601"
    if match := re.fullmatch(r".*?(\W)[0-9]+", text):
        return (
            f"--pattern '{re.escape(match[1])}(?P<number>[0-9]+)$' finds the number at the end of this line"
        )
    return "--pattern finds numbers inside other text"


def _show(summary: CheckSummary, json: bool, interrupted: bool, example: str | None) -> None:
    from kaput.sequence.summary import as_json, as_text

    if json:
        print_json(as_json(summary) | {"interrupted": interrupted})
    else:
        typer.echo(as_text(summary) + (f"{example}\n" if example else ""), nl=False)
    sys.stdout.flush()


class _LinesProgress:
    """A line on stderr that is updated in place; only on a terminal."""

    def __init__(self, checker: Checker) -> None:
        self._checker, self._live = checker, sys.stderr.isatty()
        self._began = self._shown_at = time.monotonic()
        self._shown = False

    def show(self) -> None:
        """Updates the line, at most twice a second."""
        now = time.monotonic()
        if not self._live or now - self._shown_at < 0.5:
            return
        self._shown_at, self._shown = now, True
        rate = self._checker.lines / (now - self._began)
        unescaped(sys.stderr).write(f"\r\x1b[K{self._checker.lines:,} lines, {rate:,.0f} per second")
        sys.stderr.flush()

    def end(self) -> None:
        """Removes the line."""
        if self._shown:
            unescaped(sys.stderr).write("\r\x1b[K")
            sys.stderr.flush()


def _range(text: str) -> tuple[int, int]:
    """Parses a range. Raises UsageError."""
    match = re.fullmatch(r"([0-9][0-9_,]*)\.\.([0-9][0-9_,]*)", text.strip())
    if match is None:
        raise UsageError(f"--expect {text}: write a range, such as 1..20000")
    first, last = (int(re.sub("[_,]", "", number)) for number in match.groups())
    if first > last or last > _HIGHEST:
        raise UsageError(f"--expect {text}: {'ends before it begins' if first > last else 'too large'}")
    return first, last
