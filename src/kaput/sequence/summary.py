"""The result of a check, as numbers, JSON and text. Not here: checking (checking.py)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kaput.core import NULL_LONG, SECOND
from kaput.sequence.checking import Checker, Sequence, Unreadable
from kaput.sequence.intervals import Gap
from kaput.sequence.windows import JOIN_MS, Window, windows

_MAX_SHOWN = 20  # ranges, windows and producers in the text; JSON has all


@dataclass(frozen=True)
class SequenceAccount:
    """One producer's sequence, or the sum of all. `duplicates`: numbers that came more than once; `copies`:
    lines beyond the first of each; `unexpected`: lines with other numbers than those expected.
    """

    expected: int
    seen: int
    missing: int
    duplicates: int
    copies: int
    reordered: int
    unexpected: int

    def as_json(self) -> dict[str, int]:
        """The fields by name."""
        return dict(vars(self))


@dataclass(frozen=True)
class ProducerSummary:
    """The result for one producer's sequence."""

    producer: int
    account: SequenceAccount
    gaps: list[Gap]
    windows: list[Window]


@dataclass(frozen=True)
class CheckSummary:
    """The result of a check of `lines` lines."""

    lines: int
    unreadable: int
    first_unreadable: Unreadable | None
    producers: list[ProducerSummary]

    @property
    def total(self) -> SequenceAccount:
        """The sum over all producers."""
        accounts = [vars(each.account) for each in self.producers]
        names = SequenceAccount.__dataclass_fields__
        return SequenceAccount(**{name: sum(account[name] for account in accounts) for name in names})

    def held(self, strict: bool) -> bool:
        """Whether nothing is missing; `strict`: and nothing else is wrong."""
        total = self.total
        other = total.duplicates or total.reordered or total.unexpected or self.unreadable
        return not total.missing and not (strict and other)


def summarise(checker: Checker, join_ms: float = JOIN_MS) -> CheckSummary:
    """The checker's result so far."""
    producers = [_producer_summary(who, checker.sequences[who], join_ms) for who in sorted(checker.sequences)]
    return CheckSummary(checker.lines, checker.unreadable, checker.first_unreadable, producers)


def _producer_summary(producer: int, found: Sequence, join_ms: float) -> ProducerSummary:
    first, last = found.bounds
    gaps = found.seen.missing(first, last)
    missing = sum(gap.numbers for gap in gaps)
    account = SequenceAccount(
        expected=last - first + 1,
        seen=found.seen.count(),
        missing=missing,
        duplicates=found.duplicated.count(),
        copies=found.copies,
        reordered=found.reordered,
        unexpected=found.unexpected,
    )
    return ProducerSummary(producer, account, gaps, windows(producer, gaps, join_ms))


def as_json(summary: CheckSummary) -> dict[str, Any]:
    """The JSON document: the sum, and each producer."""
    first = summary.first_unreadable
    return {
        **summary.total.as_json(),
        "missing_ranges": [[gap.first, gap.last] for each in summary.producers for gap in each.gaps],
        "windows": [_window_json(window) for each in summary.producers for window in each.windows],
        "lines": summary.lines,
        "unreadable": summary.unreadable,
        "first_unreadable": {"line": first.line, "text": first.text} if first is not None else None,
        "producers": [
            {
                "producer": each.producer,
                **each.account.as_json(),
                "missing_ranges": [[gap.first, gap.last] for gap in each.gaps],
            }
            for each in summary.producers
        ],
    }


def _window_json(window: Window) -> dict[str, Any]:
    return {
        "producer": window.producer,
        "first": window.first,
        "last": window.last,
        "missing": window.missing,
        "of": window.numbers,
        "ms": window.ms,
        "percent": round(window.percent, 3),
        "from_ns": window.from_ns,
        "to_ns": window.to_ns,
    }


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
            yield f"producer {each.producer}: {_account(each.account)}"
        yield from _more_line(len(summary.producers), "producers")
    gaps = [(each.producer, gap) for each in summary.producers for gap in each.gaps]
    if gaps:
        shown = ", ".join(_range(gap, producer if several else None) for producer, gap in gaps[:_MAX_SHOWN])
        more = f" and {len(gaps) - _MAX_SHOWN:,} more ranges" if len(gaps) > _MAX_SHOWN else ""
        yield f"missing: {shown}{more}"
    every = [window for each in summary.producers for window in each.windows]
    for window in every[:_MAX_SHOWN]:
        yield _window(window, several)
    yield from _more_line(len(every), "windows")
    if summary.first_unreadable is not None:
        line, text = summary.first_unreadable.line, summary.first_unreadable.text
        what = "line is" if summary.unreadable == 1 else "lines are"
        yield f"{summary.unreadable:,} {what} not numbered; the first is line {line:,}: {text!r}"


def _more_line(count: int, what: str) -> Iterator[str]:
    if count > _MAX_SHOWN:
        yield f"and {count - _MAX_SHOWN:,} more {what} (--json has them all)"


def _account(account: SequenceAccount) -> str:
    copies = f" ({account.copies:,} copies)" if account.copies != account.duplicates else ""
    unexpected = f", {account.unexpected:,} unexpected" if account.unexpected else ""
    return (
        f"{account.expected:,} expected, {account.seen:,} seen, {account.missing:,} missing, "
        f"{account.duplicates:,} duplicates{copies}, {account.reordered:,} reordered{unexpected}"
    )


def _range(gap: Gap, producer: int | None) -> str:
    where = f"{gap.first}" if gap.numbers == 1 else f"{gap.first}..{gap.last}"
    return where if producer is None else f"{where} of producer {producer}"


def _window(window: Window, several: bool) -> str:
    """A line such as `42 of 393 in 783 ms, 10.7 % (...)`."""
    lasted = f" in {window.ms:,.0f} ms" if window.ms is not None else ""
    of = f" of producer {window.producer}" if several else ""
    between = [
        f"{word} {_moment(ns)}"
        for word, ns in (("after", window.from_ns), ("before", window.to_ns))
        if ns is not None
    ]
    return (
        f"{window.missing:,} of {window.numbers:,}{lasted}, {window.percent:.1f} % "
        f"(numbers {window.first} to {window.last}{of}; {', '.join(between)})"
    )


def _moment(ns: int) -> str:
    """The time in UTC, to the ms; the number itself if it is out of range."""
    if ns == NULL_LONG:
        return "?"
    try:
        return datetime.fromtimestamp(ns / SECOND, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{ns} ns"
