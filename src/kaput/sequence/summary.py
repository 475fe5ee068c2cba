"""The result of a check, as numbers, windows of time, JSON and text. Not here: checking (checking.py)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kaput.core import MS, NULL_LONG, SECOND, first_few, percent
from kaput.scenario.vocabulary import Verdict
from kaput.sequence.checking import Checker, ProducerSequence, Sent, Unreadable
from kaput.sequence.intervals import Gap
from kaput.sequence.parsing import LineReader

JOIN_MS = 1000


@dataclass(frozen=True)
class Window:
    """Of the numbers `first` to `last`, `missing` ones are missing. `from_ns`, `to_ns`: the times of the last
    message before and of the first one after; None without such a message, or without its time.
    """

    first: int
    last: int
    missing: int
    from_ns: int | None
    to_ns: int | None

    @property
    def numbers(self) -> int:
        """The number of numbers that it spans, missing or not."""
        return self.last - self.first + 1

    @property
    def ms(self) -> float | None:
        if self.from_ns is None or self.to_ns is None:
            return None
        return (self.to_ns - self.from_ns) / MS

    @property
    def percent(self) -> float:
        """The percentage of its numbers that are missing."""
        return 100 * self.missing / self.numbers

    def as_json(self) -> dict[str, Any]:
        span = {"of": self.numbers, "ms": self.ms, "percent": round(self.percent, 3)}
        numbers = {"first": self.first, "last": self.last, "missing": self.missing}
        return {**numbers, **span, "from_ns": self.from_ns, "to_ns": self.to_ns}


def _windows(gaps: Sequence[Gap], join_ms: float) -> list[Window]:
    """The windows of one producer. Skips gaps without a dated message on either side."""
    groups: list[list[Gap]] = []
    for gap in gaps:
        if groups and _follows(groups[-1][-1], gap, join_ms):
            groups[-1].append(gap)
        else:
            groups.append([gap])
    found = []
    for some in groups:
        if any((gap.before_ns, gap.after_ns) != (NULL_LONG, NULL_LONG) for gap in some):
            times = [None if ns == NULL_LONG else ns for ns in (some[0].before_ns, some[-1].after_ns)]
            missing = sum(gap.numbers for gap in some)
            found.append(Window(some[0].first, some[-1].last, missing, *times))
    return found


def _follows(before: Gap, gap: Gap, join_ms: float) -> bool:
    """Whether the messages between two gaps came within `join_ms`."""
    if NULL_LONG in (before.after_ns, gap.before_ns):
        return False
    return gap.before_ns - before.after_ns <= join_ms * MS


_MAX_SHOWN = 20  # ranges, windows and producers in the text; JSON has all


@dataclass(frozen=True)
class SequenceAccount:
    """One producer's sequence, or the sum of all. `duplicates`: numbers that came more than once; `copies`:
    lines beyond the first of each; `unexpected`: lines with other numbers than those expected; `acked`,
    `lost`: acknowledged numbers, and those of them that are missing, None if no acknowledgements are known.
    """

    expected: int
    seen: int
    missing: int
    duplicates: int
    copies: int
    reordered: int
    unexpected: int
    acked: int | None = None
    lost: int | None = None

    def as_json(self) -> dict[str, int]:
        """The fields by name, as far as they are known."""
        return {name: count for name, count in vars(self).items() if count is not None}


@dataclass(frozen=True)
class ProducerSummary:
    """The result for one producer's sequence. `name`: its number, unless it is called otherwise; `gaps`:
    missing numbers; `lost`: those that were acknowledged, None if no acknowledgements are known.
    """

    producer: int
    name: int | str
    sent: Sent
    account: SequenceAccount
    gaps: list[Gap]
    lost: list[Gap] | None
    windows: list[Window]


@dataclass(frozen=True)
class CheckSummary:
    """The result of a check of `lines` lines. `time_unit`: what times were read as; None without times."""

    lines: int
    unreadable: int
    unreadable_lines: list[Unreadable]
    producers: list[ProducerSummary]
    time_unit: str | None = None
    without_producer: int = 0  # of the unreadable ones

    @property
    def total(self) -> SequenceAccount:
        accounts = [each.account.as_json() for each in self.producers]
        names = dict.fromkeys(name for account in accounts for name in account)
        zero = dict.fromkeys(SequenceAccount.__dataclass_fields__, 0) if not accounts else {}
        return SequenceAccount(**{name: sum(account[name] for account in accounts) for name in names}, **zero)

    @property
    def verdict(self) -> Verdict:
        """Violated if numbers are lost (or missing, if that is unknown); inconclusive if all of them may be
        in lines that could not be read.
        """
        gone = self.total.missing if self.total.lost is None else self.total.lost
        return "held" if not gone else "inconclusive" if gone <= self.unreadable else "violated"

    def held(self, strict: bool) -> bool:
        """Whether nothing is lost (or missing, if that is unknown); `strict`: nor anything else wrong."""
        total = self.total
        other = total.duplicates or total.reordered or total.unexpected or self.unreadable
        return self.verdict == "held" and not (strict and other)


def summarise(checker: Checker, join_ms: float = JOIN_MS, reader: LineReader | None = None) -> CheckSummary:
    """The checker's result so far. `reader`: what read its lines, for the names of producers."""
    reader = reader or LineReader()
    producers = [
        _producer_summary(producer, reader.producers.name(producer), sequence, join_ms)
        for producer, sequence in sorted(checker.sequences.items())
    ]
    return CheckSummary(
        checker.lines,
        checker.unreadable,
        checker.unreadable_lines,
        producers,
        reader.times.unit,
        reader.without_producer,
    )


def _producer_summary(
    producer: int, name: int | str, sequence: ProducerSequence, join_ms: float
) -> ProducerSummary:
    gaps, lost = sequence.missing(), sequence.lost()
    missing, seen = sum(gap.numbers for gap in gaps), sequence.seen.count()
    acked = sequence.sent.acked
    account = SequenceAccount(
        expected=missing + seen if sequence.expected is None else sequence.expected.count(),
        seen=seen,
        missing=missing,
        duplicates=sequence.duplicated.count(),
        copies=sequence.copies,
        reordered=sequence.reordered,
        unexpected=sequence.unexpected,
        acked=None if acked is None else acked.count(),
        lost=None if lost is None else sum(gap.numbers for gap in lost),
    )
    return ProducerSummary(producer, name, sequence.sent, account, gaps, lost, _windows(gaps, join_ms))


def as_json(summary: CheckSummary) -> dict[str, Any]:
    """The JSON document: the sum, and each producer."""
    unreadable = [
        {"file": each.place.file, "line": each.place.line, "text": each.text}
        for each in summary.unreadable_lines
    ]
    return {
        **summary.total.as_json(),
        **_ranges(summary.producers),
        "windows": [
            {"producer": each.name, **window.as_json()}
            for each in summary.producers
            for window in each.windows
        ],
        "lines": summary.lines,
        "unreadable": summary.unreadable,
        "first_unreadable": unreadable[0] if unreadable else None,
        "unreadable_lines": unreadable,
        "time_unit": summary.time_unit,
        "producers": [
            {"producer": each.name, **each.account.as_json(), **_ranges([each])} for each in summary.producers
        ],
    }


def _ranges(producers: list[ProducerSummary]) -> dict[str, list[list[int]]]:
    ranges = {"missing_ranges": [[gap.first, gap.last] for each in producers for gap in each.gaps]}
    if any(each.lost is not None for each in producers):
        ranges["lost_ranges"] = [[gap.first, gap.last] for each in producers for gap in each.lost or ()]
    return ranges


def as_text(summary: CheckSummary) -> str:
    """A few lines of text; of long lists only the first entries."""
    return "\n".join([*_lines(summary), ""])


def _lines(summary: CheckSummary) -> Iterator[str]:
    several = len(summary.producers) > 1
    total = summary.total
    who = f"{len(summary.producers):,} producers: " if several else ""
    yield who + _account(total)
    if several:
        for each in summary.producers[:_MAX_SHOWN]:
            yield f"producer {each.name}: {_account(each.account)}"
        yield from _more_line(len(summary.producers), "producers")
    if total.lost is not None:
        yield from _gaps_line("lost", [(each.name, each.lost or []) for each in summary.producers])
    yield from _gaps_line("missing", [(each.name, each.gaps) for each in summary.producers])
    for each in summary.producers[:_MAX_SHOWN]:
        if (step := _step(each)) > 1:
            of = f" of producer {each.name}" if several else ""
            yield f"all numbers{of} are a multiple of {step} apart: if they were sent so, use --sent FILE"
    every = [(each, window) for each in summary.producers for window in each.windows]
    for each, window in every[:_MAX_SHOWN]:
        yield _window_texts(window, f" of producer {each.name}" if several else "")
    yield from _more_line(len(every), "windows")
    if summary.unreadable_lines:
        yield _unreadable(summary)
    if summary.time_unit is not None:
        yield f"times were read as {summary.time_unit}"


def _step(of: ProducerSummary) -> int:
    """What all distances between a producer's numbers are a multiple of, if that was not given."""
    if of.sent.expected is not None or len(of.gaps) < 2 or len(of.gaps) != of.account.seen - 1:
        return 1
    return math.gcd(*(gap.numbers + 1 for gap in of.gaps))


def _gaps_line(word: str, producers: list[tuple[int | str, list[Gap]]]) -> Iterator[str]:
    gaps = [_range(gap, name if len(producers) > 1 else None) for name, gaps in producers for gap in gaps]
    if gaps:
        yield f"{word}: {first_few(gaps, _MAX_SHOWN, 'ranges')}"


def _unreadable(summary: CheckSummary) -> str:
    lines = [f"{line.place}: {line.text!r}" for line in summary.unreadable_lines]
    what = "line" if summary.unreadable == 1 else "lines"
    first = ", the first" if summary.unreadable > len(lines) else ""
    doubt = "; they may be some of the missing ones" if summary.total.missing else ""
    if summary.verdict == "inconclusive":
        doubt += ", or all: inconclusive"
    some = f" ({summary.without_producer:,} without a producer, which others have)"
    why = some if summary.without_producer else ""
    return f"{summary.unreadable:,} {what} cannot be read{why}{first}: {', '.join(lines)}{doubt}"


def _more_line(count: int, what: str) -> Iterator[str]:
    if count > _MAX_SHOWN:
        yield f"and {count - _MAX_SHOWN:,} more {what} (--json has them all)"


def _account(account: SequenceAccount) -> str:
    copies = f" ({account.copies:,} copies)" if account.copies != account.duplicates else ""
    unexpected = f", {account.unexpected:,} unexpected" if account.unexpected else ""
    acked = "" if account.acked is None else f"{account.acked:,} acknowledged, "
    lost = "" if account.lost is None else f"{account.lost:,} lost, "
    return (
        f"{account.expected:,} expected, {acked}{account.seen:,} seen, {lost}{account.missing:,} missing, "
        f"{account.duplicates:,} duplicates{copies}, {account.reordered:,} reordered{unexpected}"
    )


def _range(gap: Gap, producer: int | str | None) -> str:
    where = f"{gap.first}" if gap.numbers == 1 else f"{gap.first}..{gap.last}"
    return where if producer is None else f"{where} of producer {producer}"


def _window_texts(window: Window, of: str) -> str:
    """A line such as `42 of 393 in 783 ms, 10.7 % (...)`."""
    lasted = f" in {window.ms:,.0f} ms" if window.ms is not None else ""
    between = [
        f"{word} {_moment(ns)}"
        for word, ns in (("after", window.from_ns), ("before", window.to_ns))
        if ns is not None
    ]
    return (
        f"{window.missing:,} of {window.numbers:,}{lasted}, {percent(window.percent / 100)} "
        f"(numbers {window.first} to {window.last}{of}; {', '.join(between)})"
    )


def _moment(ns: int) -> str:
    """The time in UTC, to the ms; the number itself if it is out of range."""
    try:
        return datetime.fromtimestamp(ns / SECOND, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{ns} ns"
