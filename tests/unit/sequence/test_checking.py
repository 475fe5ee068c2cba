"""What a check finds is what sort and uniq find, however disordered lines are, and however they are cut."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kaput.core import NULL_LONG
from kaput.sequence.checking import Checker
from kaput.sequence.intervals import Intervals
from kaput.sequence.parsing import LineFormat, PatternFormat, TextFormat
from kaput.sequence.summary import CheckSummary, as_json, as_text, summarise

MS = 1_000_000
T0 = 1_700_000_000_000


def checked(
    text: str,
    expected: tuple[int, int] | None = None,
    form: LineFormat | None = None,
    cuts: Iterable[int] = (),
) -> CheckSummary:
    """The summary of lines that come in blocks; `cuts`: before which lines a new one begins."""
    checker = Checker(expected)
    lines = text.encode().splitlines(keepends=True)
    borders = sorted({0, len(lines), *(cut % (len(lines) + 1) for cut in cuts)})
    form = form or TextFormat()
    for first, end in pairwise(borders):
        block = b"".join(lines[first:end])
        checker.take(form.parse(block), block)
    checker.end()
    return summarise(checker)


def shell(command: str, text: str) -> list[str]:
    """What a pipe of the system's own tools makes of the text."""
    done = subprocess.run(["sh", "-c", command], input=text, capture_output=True, text=True, check=True)
    return done.stdout.split()


def disordered(numbers: list[int], moves: list[tuple[str, int, int]]) -> list[int]:
    """Numbers after some were dropped, doubled or moved."""
    for kind, where, how_far in moves:
        if not numbers:
            break
        at, to = where % len(numbers), how_far % len(numbers)
        if kind == "drop":
            del numbers[at : at + how_far % 5 + 1]
        elif kind == "double":
            numbers[to:to] = numbers[at : at + how_far % 4 + 1]
        else:
            numbers.insert(to, numbers.pop(at))
    return numbers


MOVES = st.lists(
    st.tuples(st.sampled_from(["drop", "double", "move"]), st.integers(0, 999), st.integers(0, 999)),
    max_size=40,
)
CUTS = st.lists(st.integers(0, 999), max_size=6)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 5), st.integers(1, 300), MOVES, CUTS)
def test_a_check_agrees_with_sort_and_uniq(
    start: int, count: int, moves: list[tuple[str, int, int]], cuts: list[int]
) -> None:
    """Every disorder: missing, twice, elsewhere; in blocks of any size."""
    numbers = disordered(list(range(start, start + count)), moves)
    text = "".join(f"{number}\n" for number in numbers)
    found = checked(text, (start, start + count - 1), cuts=cuts)
    total = found.total
    assert total.duplicates == len(shell("sort | uniq -d", text))
    assert total.seen == len(shell("sort -u", text))
    assert total.copies == len(numbers) - total.seen
    wanted = "".join(f"{number}\n" for number in range(start, start + count))
    here = set(shell("sort | uniq", text))
    missing = [int(number) for number in shell("sort -n | uniq", wanted) if number not in here]
    ranges = as_json(found)["missing_ranges"]
    assert [number for first, last in ranges for number in range(first, last + 1)] == missing
    assert total.missing == len(missing)
    assert all(after[0] > before[1] + 1 for before, after in pairwise(ranges))
    assert total.reordered == reordered(numbers)


def reordered(numbers: list[int]) -> int:
    """First copies below the greatest before them, one by one."""
    seen: set[int] = set()
    count = 0
    for number in numbers:
        count += number not in seen and bool(seen) and number < max(seen)
        seen.add(number)
    return count


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sets(st.integers(0, 60), min_size=1), max_size=8))
def test_intervals_match_a_set_with_times_at_their_ends(some: list[set[int]]) -> None:
    """As few as can be; each number's time is a thousand times the number here."""
    intervals, known = Intervals(), set[int]()
    for numbers in some:
        new = np.array(sorted(numbers))
        assert intervals.contains(new).tolist() == [number in known for number in sorted(numbers)]
        intervals.add(new, new * 1000)
        known |= numbers
    assert intervals.count() == len(known)
    gaps = intervals.missing(-2, 62)
    assert [n for gap in gaps for n in range(gap.first, gap.last + 1)] == [
        n for n in range(-2, 63) if n not in known
    ]
    for gap in gaps:
        assert gap.before_ns == ((gap.first - 1) * 1000 if gap.first - 1 in known else NULL_LONG)
        assert gap.after_ns == ((gap.last + 1) * 1000 if gap.last + 1 in known else NULL_LONG)


def test_memory_grows_with_the_gaps_and_not_with_the_lines() -> None:
    """A million lines without a gap are one interval; so are their duplicates."""
    checker, form = Checker((1, 1_000_000)), TextFormat()
    for _ in range(2):
        for first in range(1, 1_000_001, 100_000):
            block = "".join(f"{number}\n" for number in range(first, first + 100_000)).encode()
            checker.take(form.parse(block), block)
    found = checker.sequences[0]
    assert (found.seen.rows.shape, found.duplicated.rows.shape) == ((4, 1), (4, 1))
    assert (found.copies, found.reordered) == (1_000_000, 0)


def test_loss_window_of_the_2012_report() -> None:
    """42 of 393 in 783 ms, 10.7 %: dated by the messages before and after it."""
    numbers = [n for n in range(1, 1001) if n not in {300, 692, *range(301, 321), *range(400, 420)}]
    text = "".join(f"{n} {T0 + (n - 299) * 783 // 394}\n" for n in numbers)
    found = checked(text, (1, 1000))
    (window,) = found.producers[0].windows
    assert (window.missing, window.numbers, window.ms, round(window.percent, 1)) == (42, 393, 783.0, 10.7)
    assert "42 of 393 in 783 ms, 10.7 % (numbers 300 to 692; after " in as_text(found)


def test_far_apart_gaps_are_windows_of_their_own() -> None:
    """More than a second of messages between them."""
    text = "".join(f"{n} {T0 + n * 100}\n" for n in range(1, 101) if n not in (20, 25, 80))
    windows = checked(text).producers[0].windows
    assert [(w.first, w.last, w.missing) for w in windows] == [(20, 25, 2), (80, 80, 1)]
    assert [w.ms for w in windows] == [700.0, 200.0]


def test_a_window_at_an_end_of_the_sequence_has_no_length() -> None:
    """Nobody knows when it began, or ended; without any times there are no windows."""
    text = "".join(f"{n} {T0 + n * 1000}\n" for n in range(5, 10))
    first, last = checked(text, (1, 12)).producers[0].windows
    assert (first.ms, first.to_ns, last.ms, last.from_ns) == (None, (T0 + 5000) * MS, None, (T0 + 9000) * MS)
    assert checked("1\n3\n").producers[0].windows == []


def test_unreadable_lines_are_counted_and_the_first_is_shown() -> None:
    """With its number, wherever blocks begin."""
    text = "1 5\n2 5\nProcessed a total of 2 messages\n\n3 x\n4 5 6 7\n5  5\n-6 5\n7\n99999999999999999999\n"
    for cuts in ([], [2], [3], [1, 2, 3, 4, 5]):
        found = checked(text, (1, 7), cuts=cuts)
        assert (found.lines, found.unreadable, found.total.seen) == (10, 7, 3)
        assert found.first_unreadable is not None
        assert (found.first_unreadable.line, found.first_unreadable.text) == (
            3,
            "Processed a total of 2 messages",
        )
    assert "7 lines are not numbered; the first is line 3: 'Processed a total" in as_text(found)


def test_unexpected_numbers_are_counted_separately() -> None:
    """They are no part of what is seen, twice or reordered."""
    total = checked("1\n2\n9\n0\n3\n9\n", (1, 3)).total
    assert (total.seen, total.missing, total.unexpected, total.duplicates, total.reordered) == (3, 0, 3, 0, 0)


def test_each_producer_has_a_sequence_of_its_own() -> None:
    """And the sum is over all of them."""
    found = checked("1 5 0\n1 5 1\n2 6 1\n3 7 0\n3 8 1\n", (1, 3))
    assert [(t.producer, t.account.missing) for t in found.producers] == [(0, 1), (1, 0)]
    assert found.total.expected == 6
    assert as_json(found)["missing_ranges"] == [[2, 2]]
    assert "2 producers: 6 expected, 5 seen, 1 missing" in as_text(found)


def test_times_are_ms_or_ns() -> None:
    """Told by their size."""
    form = TextFormat()
    parsed = form.parse(b"1 1700000000123\n2 1700000000123456789\n3\n4 1700000000124 7\n")
    assert parsed.time_ns.tolist() == [
        T0 * MS + 123 * MS,
        T0 * MS + 123_456_789,
        NULL_LONG,
        T0 * MS + 124 * MS,
    ]
    assert parsed.producer.tolist() == [0, 0, 0, 7]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 200))
def test_bulk_parser_matches_a_line_by_line_parser(junk: bytes, at: int) -> None:
    """What is read in bulk is what a regular expression reads, and nothing raises."""
    whole = b"".join(b"%d 1700000000000 1\n" % n for n in range(12))
    block = whole[: at % len(whole)] + junk + b"\n" + whole
    slow = PatternFormat(
        r"\A(?P<number>[0-9]{1,19})(?: (?P<time>[0-9]{1,19})(?: (?P<producer>[0-9]{1,19}))?)?\r?\Z"
    )
    fast, line_by_line = TextFormat().parse(block), slow.parse(block)
    for name in ("number", "time_ns", "producer", "line", "unreadable"):
        assert getattr(fast, name).tolist() == getattr(line_by_line, name).tolist(), name
    assert fast.lines == line_by_line.lines == block.count(b"\n")


def test_a_pattern_finds_numbers_anywhere() -> None:
    """As kafka-console-consumer prints them with --property print.timestamp=true and the like."""
    form = PatternFormat(r"^CreateTime:(?P<time>\d+)\tPartition:\d+\tmessage-(?P<number>\d+)$")
    text = f"CreateTime:{T0}\tPartition:3\tmessage-2\nCreateTime:{T0}\tPartition:1\tmessage-1\nnothing\n"
    found = checked(text, (1, 3), form)
    assert (found.total.seen, found.total.missing, found.total.reordered, found.unreadable) == (2, 1, 1, 1)
