"""Parses lines to numbers, a block at a time: text, payloads, or what a pattern matches.

Not here: reading blocks (reading.py), what single lines of other tools mean (tool_lines.py).
"""

from __future__ import annotations

import binascii
import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from kaput.core import INT64_MAX, NULL_LONG
from kaput.errors import UsageError
from kaput.evidence.time_units import ISO, NS, SMALL, UnitOfTimes, decimal_of, iso_ns, other_unit
from kaput.sequence.intervals import Bools, Longs
from kaput.sequence.reading import Place, Places
from kaput.sequence.tool_lines import DoubleColumn, Fields, LineMeaning, Role, Skipped
from kaput.workload.payload import HEADER_BYTES, MAGIC, Codec
from kaput.workload.payload_bulk import BulkDecoder, Stamps


class Times:
    """Reads the times of one input. `unit`: None as long as there was no time."""

    def __init__(self, unit: str | None, place: Callable[[int], Place]) -> None:
        """`unit`: the one to use whatever the size; None: recognize it. `place`: of a line, from 0."""
        self._place = place
        self._is_given = unit is not None
        self._one = UnitOfTimes(unit)

    @property
    def unit(self) -> str | None:
        return self._one.name

    def scaled(self, times: Longs, lines: Longs) -> Longs:
        """Whole times in ns; NULL_LONG stays. `lines`: theirs, from 0. Raises UsageError for a mixture."""
        known = times != NULL_LONG
        every = bool(known.all())
        some = times if every else times[known]
        if not len(some):
            return times
        self._one.takes(int(some[0]), whole=True)
        low, high = self._one.bounds
        if int(some.min()) < low or int(some.max()) >= high:
            at = int(np.flatnonzero(((times < low) | (times >= high)) & known)[0])
            raise self._mixed(str(times[at]), int(lines[at]))
        scale = NS[str(self.unit)]
        return times * scale if every else np.where(known, np.where(known, times, 0) * scale, times)

    def read(self, text: bytes, line: int, named: str | None = None) -> int | None:
        """One time in ns; None if it is none. `named`: the unit that its column's name has. Raises UsageError
        for a negative one, a mixture, or a time in another unit than the named one.
        """
        if named is None and text.isdigit() and len(text) < 20:
            return int(self.scaled(np.array([int(text)]), np.array([line]))[0])
        shown = text.decode(errors="replace")
        moment = iso_ns(shown)
        value = decimal_of(shown) if moment is None else Decimal(moment)
        if value is None:
            return None
        if value < 0:
            raise UsageError(f"{self._place(line)}: time {shown} is negative; times count from 1970")
        if moment is not None:
            if self.unit not in (None, ISO):
                raise self._mixed(shown, line)
            self._one.use(ISO)
            return moment
        if named is not None and not self._is_given:
            self._check_named(value, shown, line, named)
        if not self._one.takes(value, whole=False):
            raise self._mixed(shown, line)
        return int(value * NS[str(self.unit)])

    def _check_named(self, value: Decimal, shown: str, line: int, unit: str) -> None:
        if other := other_unit(float(value), float(value), unit):
            raise UsageError(
                f"{self._place(line)}: time {shown} is one in {other}; its column's name says {unit}"
            )
        if self.unit is None:
            self._one.use(unit)
        elif self.unit != unit:
            raise self._mixed(f"{shown} ({unit})", line)

    @property
    def count_from_zero(self) -> bool:
        """Whether the times are too small for ones since 1970: offsets, or times since a start."""
        return not self._is_given and self.unit is not None and self._one.bounds == (0, SMALL)

    def _mixed(self, time: str, line: int) -> UsageError:
        return UsageError(
            f"{self._place(line)}: time {time} is not in {self.unit}, like the times before it; "
            "an input has one unit (--time-unit names it)"
        )


Bytes = np.ndarray[Any, np.dtype[np.uint8]]

MAX_PRODUCER = 2**31 - 1
MAX_NUMBER = 2**62
_NAMELESS = -1  # the producer of a line that has none, until all of its block are known
_DIGITS = 19  # of the longest number that an int64 holds
_NEWLINE, _SPACE = 10, 32


@dataclass(frozen=True)
class Parsed:
    """The numbered lines of a block, in order. `line`: the line's index in the block; `time_ns`: NULL_LONG
    without a time; `producer`: 0 without a producer; `unreadable`: the indices of the other lines.
    """

    number: Longs
    time_ns: Longs
    producer: Longs
    line: Longs
    lines: int
    unreadable: Longs

    def of(self, chosen: Bools | slice) -> Parsed:
        return replace(self, **{name: getattr(self, name)[chosen] for name in _COLUMNS})


_COLUMNS = ("number", "time_ns", "producer", "line")


class TextFormat:
    """Numbers as kaput, `seq`, Kafka's own tools, kcat, k6 and JMeter print them (tool_lines.py)."""

    def __init__(self, reader: LineReader | None = None, role: Role = Role.RECEIVED) -> None:
        self.reader = LineReader() if reader is None else reader
        self._meaning = LineMeaning(role)
        self._file = self.reader.file

    def parse(self, block: bytes) -> Parsed:
        """Parses plain numbers at once, other lines one by one. Raises UsageError for mixed units."""
        block = block.replace(b"\r\n", b"\n") if b"\r" in block else block
        if self._file is not self.reader.file:
            self._file = self.reader.file
            self._meaning.at_start, self._meaning.in_xml = True, False
        characters = np.frombuffer(block, np.uint8)
        separators = np.flatnonzero(characters <= _SPACE)
        line_ends = np.flatnonzero(characters[separators] == _NEWLINE)
        fields = np.diff(line_ends, prepend=-1)
        plain = self._plain(characters, separators, line_ends, fields)
        if len(plain) and plain[0]:
            self._meaning.at_start = False
        in_xml = self._meaning.in_xml or b"<testResults" in block or b"<?xml" in block
        undecided = self.reader.times.unit is None or self._meaning.at_start
        if in_xml or (len(plain) and not plain[0] and undecided):
            parsed = self._each(block)  # the first time decides the unit of all
        elif plain.all():
            parsed = self._bulk(characters, fields)
        else:
            lengths = np.diff(separators[line_ends], prepend=-1)
            kept = np.repeat(plain, lengths)
            bulk = self._bulk(characters[kept], fields[plain], np.flatnonzero(plain))
            parsed = _together(bulk, self._each(characters[~kept].tobytes(), np.flatnonzero(~plain)))
        return self.reader.ended(parsed)

    def _plain(self, found: Bytes, separators: Longs, line_ends: Longs, fields: Longs) -> Bools:
        """Whether each line consists of one to three numbers that are not too long."""
        plain: Bools = fields <= 3
        lengths = np.diff(separators, prepend=-1) - 1
        wrong = (lengths < 1) | (lengths > _DIGITS)
        separator_chars = found[separators]
        wrong |= (separator_chars != _SPACE) & (separator_chars != _NEWLINE)
        if wrong.any():
            plain[np.searchsorted(line_ends, np.flatnonzero(wrong))] = False
        letters = (found > ord("9")) | ((found > _SPACE) & (found < ord("0")))
        if letters.any():
            plain[np.searchsorted(separators[line_ends], np.flatnonzero(letters))] = False
        return plain

    def _bulk(self, found: Bytes, fields: Longs, lines: Longs | None = None) -> Parsed:
        """Lines of plain numbers. `lines`: their indices in the block."""
        lines = np.arange(len(fields)) if lines is None else lines
        number, time, producer = _columns(found, fields)
        fits = (number <= MAX_NUMBER) & (time < INT64_MAX) & (producer <= MAX_PRODUCER)
        unreadable = lines[~fits]
        if len(unreadable):
            number, time, producer, lines = number[fits], time[fits], producer[fits], lines[fits]
        time = self.reader.times.scaled(time, self.reader.lines + lines)
        return Parsed(number, time, self.reader.producers.numbers(producer), lines, len(fields), unreadable)

    def _each(self, block: bytes, lines: Longs | None = None) -> Parsed:
        """Other lines, one by one."""
        read = 0

        def fields() -> Iterator[Fields | Skipped | None]:
            nonlocal read
            for line in block.split(b"\n")[:-1]:
                yield self._meaning.of(line)
                read += 1

        try:
            return self.reader.read(fields(), lines)
        except DoubleColumn as error:
            at = read if lines is None else int(lines[read])
            raise UsageError(f"{self.reader.places.of(self.reader.lines + at)}: {error}") from None


def _together(one: Parsed, other: Parsed) -> Parsed:
    """Two parts of a block in the order of its lines."""
    order = np.argsort(np.concatenate((one.line, other.line)), kind="stable")
    columns = {name: np.concatenate((getattr(one, name), getattr(other, name)))[order] for name in _COLUMNS}
    unreadable = np.sort(np.concatenate((one.unreadable, other.unreadable)))
    return Parsed(**columns, lines=one.lines + other.lines, unreadable=unreadable)


def _columns(found: Bytes, fields: Longs) -> tuple[Longs, Longs, Longs]:
    """Number, time and producer of valid lines. `fields`: the number of fields of each line."""
    # Two more numbers, so that the last line may have but one.
    values = np.append(np.fromstring(found.tobytes(), np.int64, sep=" "), (0, 0)) if len(fields) else fields
    first = np.cumsum(fields) - fields
    time = np.where(fields > 1, values[first + 1], NULL_LONG)
    return values[first], time, np.where(fields > 2, values[first + 2], _NAMELESS)


class ProducerNumbers:
    """The names of producers. A number is its own name, unless another producer has it already."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}  # of those whose name is not their number
        self._numbers: dict[bytes, int] = {}
        self._taken: set[int] = set()

    def number(self, name: bytes) -> int | None:
        """The number of a producer by its name; a new one for a new name. None if it can be neither."""
        known = self._numbers.get(name)
        if known is not None:
            return known
        if name.isdigit() and (len(name) > _DIGITS or int(name) > MAX_PRODUCER):
            return None
        number = int(name) if name.isdigit() else len(self.names)
        while number in self._taken:
            number += 1
        self._numbers[name] = number
        self._taken.add(number)
        if name != b"%d" % number:
            self.names[number] = name.decode(errors="replace")
        return number

    def name(self, number: int) -> int | str:
        """Its number, unless it is called otherwise."""
        return self.names.get(number, number)

    def numbers(self, numbers: Longs) -> Longs:
        """The same for producers that are all called by numbers."""
        if not len(numbers) or (numbers == _NAMELESS).all():
            return numbers
        one = bool((numbers == numbers[0]).all())
        unique = numbers[:1] if one else np.unique(numbers)
        own = [each if each == _NAMELESS else self.number(b"%d" % each) for each in unique.tolist()]
        return numbers if own == unique.tolist() else np.array(own)[np.searchsorted(unique, numbers)]


class LineReader:
    """What lines of one input have in common: the unit of their times, and the names of their producers.
    `lines`: of earlier blocks, whose files are in `places`; `file`: another object for each; `example`: the
    first line that was read one by one, as a sentence; `without_producer`: lines that can't be read for that.
    """

    def __init__(self, unit: str | None = None) -> None:
        self._given_unit, self.producers = unit, ProducerNumbers()
        self.example: str | None = None
        self._nameless: Place | None = None  # of the first line without a producer
        self._named = False
        self.without_producer = 0
        self.restart()

    def restart(self) -> None:
        """Another program's files begin: their times may have another unit."""
        self.lines, self.places, self.file = 0, Places(), object()
        self.times = Times(self._given_unit, self.places.of)

    def begin(self, file: str, is_table: bool) -> None:
        """The next lines are those of this file (reading.OnFile)."""
        self.places.begin(file, is_table, self.lines)
        self.file = object()

    def ended(self, parsed: Parsed) -> Parsed:
        """The lines of a block. Those without a producer are producer 0's; if others have one, they cannot be
        read. Raises UsageError if they come first.
        """
        nameless = parsed.producer == _NAMELESS
        named = (parsed.producer > 0) | ((parsed.producer == 0) & (0 in self.producers.names))
        if not self._named and named.any():
            first = int(named.argmax())
            if nameless[:first].any():
                self._note_nameless(parsed, nameless)
            self._named = True
            if self._nameless is not None:
                who = self.producers.name(int(parsed.producer[first]))
                raise UsageError(
                    f"{self.places.of(self.lines + int(parsed.line[first]))}: has producer {who}, and "
                    f"{self._nameless} has none; all lines of an input have one, or none has"
                )
        if self._named and nameless.any():
            unreadable = np.sort(np.concatenate((parsed.unreadable, parsed.line[nameless])))
            self.without_producer += int(nameless.sum())
            parsed = replace(parsed.of(~nameless), unreadable=unreadable)
        elif nameless.any():
            self._note_nameless(parsed, nameless)
            parsed = replace(parsed, producer=np.where(nameless, 0, parsed.producer))
        self.lines += parsed.lines
        return parsed

    def _note_nameless(self, parsed: Parsed, nameless: Bools) -> None:
        if self._nameless is None:
            self._nameless = self.places.of(self.lines + int(parsed.line[nameless.argmax()]))

    def read(self, rows: Iterable[Fields | Skipped | None], lines: Longs | None = None) -> Parsed:
        """The numbered lines; `lines`: their indices. Raises UsageError for mixed units or negatives."""
        numbered: list[tuple[int, int, int, int]] = []
        unreadable: list[int] = []
        count = 0
        for count, fields in enumerate(rows, 1):
            line = count - 1 if lines is None else int(lines[count - 1])
            row = self._row(fields, line) if isinstance(fields, Fields) else None
            if row is not None:
                numbered.append((*row, line))
            elif not isinstance(fields, Skipped):
                unreadable.append(line)
        table = np.array(numbered, np.int64).reshape(-1, 4).T
        number, time, producer, line_numbers = (np.ascontiguousarray(column) for column in table)
        return Parsed(number, time, producer, line_numbers, count, np.array(unreadable, np.int64))

    def _row(self, fields: Fields, line: int) -> tuple[int, int, int] | None:
        digits = fields.number.lstrip(b"0") or b"0"
        if not fields.number.isdigit() or len(digits) > _DIGITS or int(digits) > MAX_NUMBER:
            return None
        number, time = int(digits), NULL_LONG
        if fields.time is not None:
            read = self.times.read(fields.time, self.lines + line, fields.unit)
            if read is None:
                return None
            time = read
        producer = _NAMELESS if fields.producer is None else self.producers.number(fields.producer)
        if producer is None:
            return None
        if self.example is None:
            self.example = self._sentence(number, fields, self.lines + line)
        return number, time, producer

    def _sentence(self, number: int, fields: Fields, line: int) -> str:
        parts = [f"number {number}"]
        if fields.time is not None:
            parts.append(f"time {fields.time.decode(errors='replace')} ({self.times.unit})")
        if fields.producer is not None:
            parts.append(f"producer {fields.producer.decode(errors='replace')}")
        return f"{self.places.of(line)} was read as {', '.join(parts)}"


class PatternFormat:
    """Lines in which a regular expression matches `number`, and optionally `time` and `producer`."""

    def __init__(self, pattern: str, reader: LineReader | None = None) -> None:
        """Raises UsageError."""
        try:
            self._pattern = re.compile(pattern.encode())
        except re.error as error:
            raise UsageError(f"--pattern {pattern}: not a regular expression ({error})") from None
        names = set(self._pattern.groupindex)
        if "number" not in names:
            raise UsageError(f"--pattern {pattern}: write a group (?P<number>[0-9]+) in it")
        if others := sorted(names - {"number", "time", "producer"}):
            raise UsageError(f"--pattern {pattern}: group {others[0]} is none of number, time, producer")
        self.reader = LineReader() if reader is None else reader

    def parse(self, block: bytes) -> Parsed:
        """Searches each line for the pattern. Raises UsageError for times in several units."""
        return self.reader.ended(self.reader.read(map(self._fields, block.split(b"\n")[:-1])))

    def _fields(self, line: bytes) -> Fields | None:
        match = self._pattern.search(line.rstrip(b"\r"))
        if match is None:
            return None
        groups = {name: text or None for name, text in match.groupdict().items()}
        number = groups["number"]
        return None if number is None else Fields(number, groups.get("time"), groups.get("producer"))


class PayloadFormat:
    """kaput's payloads in base64, one per line. Without a run id, the first intact payload's is used."""

    def __init__(self, run_id: uuid.UUID | None = None, reader: LineReader | None = None) -> None:
        self.run_id, self._reader = run_id, reader or LineReader()
        self._decoder: BulkDecoder | None = None

    def parse(self, block: bytes) -> Parsed:
        """Parses payloads. Damaged ones, and those of other runs, are unreadable."""
        payloads = [_decoded(line) for line in block.split(b"\n")[:-1]]
        self._reader.lines += len(payloads)
        decoder = self._decoder = self._decoder or self._found(payloads)
        if decoder is None:
            nothing = np.empty(0, np.int64)
            return Parsed(nothing, nothing, nothing, nothing, len(payloads), np.arange(len(payloads)))
        who = decoder.decode(payloads)
        good = who.intact & (who.seq != NULL_LONG) & (who.seq >= 0) & (who.producer >= 0)
        own = [payload for payload, mine in zip(payloads, good.tolist(), strict=True) if mine and payload]
        sent = Stamps(HEADER_BYTES).read(b"".join(payload[:HEADER_BYTES] for payload in own))[1]
        time = np.where(sent > 0, sent, NULL_LONG).astype(np.int64)
        return Parsed(
            who.seq[good],
            time,
            who.producer[good].astype(np.int64),
            np.flatnonzero(good),
            len(good),
            np.flatnonzero(~good),
        )

    def _found(self, payloads: list[bytes | None]) -> BulkDecoder | None:
        if self.run_id is None:
            for payload in payloads:
                if payload is None or len(payload) < HEADER_BYTES or not payload.startswith(MAGIC):
                    continue
                run_id = uuid.UUID(bytes=payload[len(MAGIC) : len(MAGIC) + 16])
                if Codec(run_id).decode(payload).identity is not None:
                    self.run_id = run_id
                    break
        return None if self.run_id is None else BulkDecoder(Codec(self.run_id))


LineFormat = TextFormat | PatternFormat | PayloadFormat  # parses blocks of complete lines


def _decoded(line: bytes) -> bytes | None:
    try:
        return binascii.a2b_base64(line.rstrip(b"\r"), strict_mode=True)
    except binascii.Error:
        return None
