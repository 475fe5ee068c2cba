"""What a check finds is what sort and uniq find, however disordered lines are, and however they are cut."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kaput.core import NULL_LONG
from kaput.errors import UsageError
from kaput.sequence.checking import Checker, Sent
from kaput.sequence.intervals import Intervals
from kaput.sequence.parsing import LineFormat, LineReader, PatternFormat, TextFormat
from kaput.sequence.reading import BLOCK_BYTES, MAX_LINE_BYTES, blocks
from kaput.sequence.summary import CheckSummary, as_json, as_text, summarise
from kaput.sequence.tool_lines import SKIPPED, Fields, LineMeaning, Role, Skipped, fields_of

MS = 1_000_000
T0 = 1_700_000_000_000


def checked(
    text: str,
    expected: tuple[int, int] | None = None,
    form: LineFormat | None = None,
    cuts: Iterable[int] = (),
) -> CheckSummary:
    """The summary of lines that come in blocks; `cuts`: before which lines a new one begins."""
    checker = Checker(anyone=Sent.range(expected))
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
    checker, form = Checker(anyone=Sent.range((1, 1_000_000))), TextFormat()
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
    """It is not known when it began, or ended; without any times there are no windows."""
    text = "".join(f"{n} {T0 + n * 1000}\n" for n in range(5, 10))
    first, last = checked(text, (1, 12)).producers[0].windows
    assert (first.ms, first.to_ns, last.ms, last.from_ns) == (None, (T0 + 5000) * MS, None, (T0 + 9000) * MS)
    assert checked("1\n3\n").producers[0].windows == []


def test_unreadable_lines_are_counted_and_the_first_three_are_shown() -> None:
    """With their numbers, wherever blocks begin."""
    text = "1 5\n2 5\norg.apache.kafka.Oops\n\n3 x\n4 5 6 7\n5  5\n-6 5\n7\n99999999999999999999\n"
    for cuts in ([], [2], [3], [1, 2, 3, 4, 5]):
        found = checked(text, (1, 7), cuts=cuts)
        assert (found.lines, found.unreadable, found.total.seen) == (10, 7, 3)
        shown = [(line.place.line, line.text) for line in found.unreadable_lines]
        assert shown == [(3, "org.apache.kafka.Oops"), (4, ""), (5, "3 x")]
    assert (
        "7 lines cannot be read, the first: line 3: 'org.apache.kafka.Oops', line 4: '', "
        "line 5: '3 x'; they may be some of the missing ones" in as_text(found)
    )
    assert "1 line cannot be read: line 2: 'x'\n" in as_text(checked("1\nx\n2\n"))


def test_what_may_be_in_unreadable_lines_is_inconclusive() -> None:
    """Fewer of these than of missing numbers leave some that are certain."""
    assert checked("1\nx\n2\n").verdict == "held"
    assert checked("1\nx\n3\n").verdict == "inconclusive"
    assert checked("1\nx\n4\n").verdict == "violated"
    assert (
        "cannot be read: line 2: 'x'; they may be some of the missing ones, or all: inconclusive"
        in as_text(checked("1\nx\n3\n"))
    )


def test_numbers_in_steps_are_pointed_out() -> None:
    """They are missing all the same: every second one may be lost."""
    hint = "all numbers are a multiple of 10 apart: if they were sent so, use --sent FILE"
    assert hint in as_text(checked("10\n20\n40\n50\n"))
    for text, expected in (("10\n20\n31\n", None), ("1\n3\n5\n", (1, 6)), ("1\n3\n4\n", None)):
        assert "multiple" not in as_text(checked(text, expected))


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


_UNITS = {
    "s": ["1700000000", "1700000001"],
    "ms": ["1700000000000", "1700000001000"],
    "us": ["1700000000000000", "1700000001000000"],
    "ns": ["1700000000000000000", "1700000001000000000"],
    "ISO 8601": ["2023-11-14T22:13:20.000Z", "2023-11-14T23:13:21+01:00"],
}


@pytest.mark.parametrize("unit", list(_UNITS))
@pytest.mark.parametrize("pattern", [None, r"(?P<number>\d+) (?P<time>\S+)"])
def test_unit_of_times_is_recognized(unit: str, pattern: str | None) -> None:
    """By their form and size, in bulk and one by one."""
    form = TextFormat() if pattern is None else PatternFormat(pattern)
    text = "".join(f"{number} {time}\n" for number, time in enumerate(_UNITS[unit]))
    assert form.parse(text.encode()).time_ns.tolist() == [T0 * MS, (T0 + 1000) * MS]
    assert form.reader.times.unit == unit


@pytest.mark.parametrize(
    ("times", "ns"),
    [
        (["1700000000.25", "1700000000.5"], [T0 * MS + 250 * MS, T0 * MS + 500 * MS]),
        (["1.7e9", "1700000000"], [T0 * MS, T0 * MS]),
        (["1700000000123.25", "1700000000124"], [T0 * MS + 123_250_000, T0 * MS + 124 * MS]),
        (
            ["2023-11-14T22:13:20.123456789", "2023-11-14T22:13"],
            [T0 * MS + 123_456_789, T0 * MS - 20_000 * MS],
        ),
        (["0.5", "1"], [500 * MS, 1000 * MS]),
        (["5", "7"], [5 * MS, 7 * MS]),
    ],
)
def test_fractions_iso_and_relative_times_are_exact(times: list[str], ns: list[int]) -> None:
    """To the nanosecond; without a zone, ISO is UTC; small fractions are s, small whole numbers ms."""
    text = "".join(f"{number} {time}\n" for number, time in enumerate(times))
    assert TextFormat().parse(text.encode()).time_ns.tolist() == ns


def test_times_of_several_units_are_refused_with_their_line() -> None:
    """Half of them would be wrong by a factor of 1,000; so are negative ones."""
    for other in ("1700000000", "1700000000123456789", "2023-11-14T22:13:20Z", "17.5"):
        form = TextFormat()
        form.parse(b"1 1700000000000\n")
        with pytest.raises(UsageError, match=r"line 3: time .* is not in ms, like the times before it"):
            form.parse(f"2 1700000000001\n3 {other}\n".encode())
    with pytest.raises(UsageError, match=r"line 1: time 17000000000000 is not in ms"):  # of the year 2508
        TextFormat().parse(b"1 17000000000000\n")
    with pytest.raises(UsageError, match=r"line 1: time -5\.5 is negative"):
        TextFormat().parse(b"1 -5.5\n")


def test_named_unit_is_used_whatever_the_size() -> None:
    """For times that count from some other moment."""
    assert TextFormat(LineReader("us")).parse(b"1 5\n2 1700000000000\n").time_ns.tolist() == [
        5_000,
        1_700_000_000_000_000,
    ]


def test_producers_may_have_names() -> None:
    """Each has its own sequence; a number is its own name unless it is taken."""
    form = TextFormat()
    found = checked("1 5 web\n1 5 batch\n3 6 web\n2 7 batch\n1 5 0\n1 5 7\n", form=form, cuts=[2])
    assert [(t.producer, t.account.missing) for t in found.producers] == [(0, 1), (1, 0), (2, 0), (7, 0)]
    assert form.reader.producers.names == {0: "web", 1: "batch", 2: "0"}


@pytest.mark.parametrize(
    ("role", "line", "fields"),
    [
        (Role.RECEIVED, b"0017 5 web", Fields(b"0017", b"5", b"web")),
        (Role.RECEIVED, b"17\r", Fields(b"17", None, None)),
        (Role.RECEIVED, b"CreateTime:123\tPartition:0\tkey\t17", Fields(b"17", b"123", None)),
        (Role.RECEIVED, b"key\t17 99 3", Fields(b"17", b"99", b"3")),
        (Role.RECEIVED, b'{"topic":"t","ts":123,"key":null,"payload":"17 99"}', Fields(b"17", b"99", None)),
        (Role.RECEIVED, b'{"topic":"t","ts":-1,"payload":17}', Fields(b"17", None, None)),
        (
            Role.RECEIVED,
            b'{"timestamp":123,"name":"record_data","key":null,"value":"17","topic":"t","partition":0,"offset":3}',
            Fields(b"17", b"123", None),
        ),
        (
            Role.ACKED,
            b'{"timestamp":123,"name":"producer_send_success","key":null,"value":"2.17","offset":3}',
            Fields(b"17", b"123", b"2"),
        ),
        (Role.SENT, b'{"timestamp":9,"name":"producer_send_error","value":"17"}', Fields(b"17", b"9", None)),
        (Role.ACKED, b'{"timestamp":9,"name":"producer_send_error","value":"17"}', SKIPPED),
        (Role.RECEIVED, b'{"timestamp":9,"name":"records_consumed","count":17}', SKIPPED),
        (Role.RECEIVED, b'{"count":17}', None),
        (Role.RECEIVED, b"{17", None),
        (Role.RECEIVED, b"[17]", None),
    ],
)
def test_lines_of_other_tools_are_understood(
    role: Role, line: bytes, fields: Fields | Skipped | None
) -> None:
    """kafka-console-consumer, kcat -J, kafka-verifiable-producer and -consumer, as they print."""
    assert fields_of(line, role) == fields


_K6_CSV = "metric_name,timestamp,metric_value,error,expected_response,method,extra_tags,metadata\n"
_K6_JSON = (
    '{"type":"Point","metric":"%s","data":{"time":"2026-11-27T10:00:00.5+01:00","value":%s,"tags":%s}}\n'
)
_JTL = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,success,failureMessage"
RESULT_FILES = {
    "k6, JSON": (
        '{"type":"Metric","metric":"http_reqs","data":{"type":"counter"}}\n'
        + _K6_JSON % ("http_reqs", "1", '{"number":"1","producer":"web","expected_response":"true"}')
        + _K6_JSON % ("http_req_duration", "7.5", '{"number":"1","producer":"web"}')
        + _K6_JSON % ("http_reqs", "1", '{"number":"2","producer":"web","expected_response":"false"}'),
        {1, 2},
        {1},
    ),
    "k6, metrics of its own": (
        _K6_JSON % ("sent", "1", "{}") + _K6_JSON % ("sent", "2.0", "{}") + _K6_JSON % ("acked", "2", "{}"),
        {1, 2},
        {2},
    ),
    "k6, CSV": (
        _K6_CSV
        + "http_reqs,1795349830,1.000000,,true,POST,number=1&producer=web,\n"
        + "http_req_waiting,1795349830,3.5,,true,POST,number=1&producer=web,\n"
        + "http_reqs,1795349831,1.000000,timeout,false,POST,number=2&producer=web,\n",
        {1, 2},
        {1},
    ),
    "JMeter, labels": (
        f"{_JTL}\n1795349830123,5,send 1,200,OK,t 1-1,true,\n"
        '1795349830124,5,"send 2",500,"no, not now",t 1-1,false,"Test failed: code"\n',
        {1, 2},
        {1},
    ),
    "JMeter, XML": (
        '<?xml version="1.0" encoding="UTF-8"?>\n<testResults version="1.2">\n'
        '<httpSample t="5" ts="1795349830123" s="true" lb="&lt;send&gt; 1" rc="200">\n'
        '  <responseData class="java.lang.String">77\n78\n</responseData>\n</httpSample>\n'
        '<sample t="5" ts="1795349830124" s="false" lb="send" number="2"/>\n</testResults>\n',
        {1, 2},
        {1},
    ),
    "JMeter, a variable": (
        f'{_JTL},"number"\n1795349830123,5,send,200,OK,t 1-1,true,,"0001"\n'
        '1795349830124,5,send,500,OK,t 1-1,false,,"0002"\n',
        {1, 2},
        {1},
    ),
    "CSV": ("time,seq,producer\n1795349830123,1,web\n1795349830124,2,web\n", {1, 2}, {1, 2}),
    "CSV with blanks": ('number, time, producer\n1, 5, "web"\n2, 6, web\n', {1, 2}, {1, 2}),
    "CSV of Excel": ("sep=;\nnumber;time\n1;1795349830,123\n2;1795349830,124\n", {1, 2}, {1, 2}),
    "tabs, floats of numpy": ("Seq\ttime\n1.0e+00\t5\n2.000000e+00\tNaN\n", {1, 2}, {1, 2}),
    "a column of its own": ('number\n"1"\n2\n  3\nnumber\n4 \n', {1, 2, 3, 4}, {1, 2, 3, 4}),
    "JMeter, a date": (_JTL + "\n2026/11/27 10:00:01.123,5,send 1,200,OK,t 1-1,true,\n", {1}, {1}),
    "console consumer, JSON": (
        'CreateTime:5\tPartition:0\tkey\t{"seq": 1}\nCreateTime:6|k|2\nProcessed a total of 2 messages\n',
        {1, 2},
        {1, 2},
    ),
    "console consumer, 4.4.0 with --property": (
        "Option --property is deprecated and will be removed in a future version. Use --formatter-property "
        "instead.\nCreateTime:5\tPartition:0\tOffset:0\tnull\t1\nCreateTime:6\tPartition:0\tOffset:1\tnull\t2\n",
        {1, 2},
        {1, 2},
    ),
    "kcat, JSON": (
        '{"topic": "t", "ts": 5, "payload": "{\\"seq\\":1}"}\n% Reached end of topic t [0] at offset 1\n',
        {1},
        {1},
    ),
    "kcat, with what it prints on stderr": (
        "% Reading configuration from file /etc/kcat.conf\n% Auto-selecting Consumer mode (use -C)\n"
        "% Group g rebalanced (memberid rdkafka-1): assigned: t [0]\n1\n2\n",
        {1, 2},
        {1, 2},
    ),
    "kcat, Avro": (
        '{"topic": "t", "ts": 5, "payload": {"seq": 1}}\n{"ts": 6, "payload": {"seq": {"long": 2}}}\n',
        {1, 2},
        {1, 2},
    ),
    "times of Java and Go": (
        "number,time\n1,2026-11-27T10:00:00.5+01:00[Europe/Berlin]\n2,2026-11-27 09:00:01 +0000 UTC\n",
        {1, 2},
        {1, 2},
    ),
    "Docker": ('{"log":"1\\n","stream":"stdout","time":"2026-11-27T10:00:01Z"}\n', {1}, {1}),
    "JSON": ('{"seq": 1, "time": 1795349830123}\n{"number": "2"}\n', {1, 2}, {1, 2}),
}


@pytest.mark.parametrize("name", RESULT_FILES)
def test_result_files_are_read_without_a_pattern(name: str) -> None:
    """What was sent, and what was acknowledged; headers and other metrics are no unreadable lines."""
    text, sent, acked = RESULT_FILES[name]
    for role, wanted in ((Role.SENT, sent), (Role.ACKED, acked)):
        parsed = TextFormat(role=role).parse(text.encode())
        assert set(parsed.number.tolist()) == wanted and len(parsed.number) == len(wanted)
        assert not len(parsed.unreadable)


def test_only_the_first_line_is_a_header() -> None:
    """It may come again, with the next file; in the middle of a log such a line cannot be read."""
    again = TextFormat().parse(b"seq,time\n1,5\nseq,time\n2,6\n")
    assert again.number.tolist() == [1, 2] and not len(again.unreadable)
    log = TextFormat().parse(b"key\t1\nseq, as I said\n2,6\n")
    assert log.number.tolist() == [1] and log.unreadable.tolist() == [1, 2]
    assert TextFormat().parse(b"1\nnumber\n2\n").unreadable.tolist() == [1]


def test_counts_of_uniq_are_no_numbers() -> None:
    """`uniq -c` writes how often each number came before it."""
    assert TextFormat().parse(b"      1 17\n      2 18\n").unreadable.tolist() == [0, 1]


def test_times_in_a_form_that_differs_by_country_are_refused() -> None:
    """The third of April, or the fourth of March?"""
    assert TextFormat().parse(b"number;time\n1;03/04/2026 10:00\n").unreadable.tolist() == [1]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 200))
@example(b"<testResults", 18)
@example(b'number\n3\nnumber\n"4"\n 5\nsep=;', 0)
@example(b"sep=;\nnumber;time\n1;2\n2 1700000000000", 0)
def test_bulk_parser_matches_a_line_by_line_parser(junk: bytes, at: int) -> None:
    """What is read in bulk is what is read line by line, and nothing raises but for times and producers."""
    whole = b"".join(b"%d 1700000000000 1\n" % n for n in range(12))
    block = whole[: at % len(whole)] + junk + b"\n" + whole
    lines = block.replace(b"\r\n", b"\n").split(b"\n")[:-1]
    try:
        fast = TextFormat().parse(block)
    except UsageError as error:
        assert "time" in str(error) or "has producer" in str(error)
        return
    meaning, reader = LineMeaning(Role.RECEIVED), LineReader()
    line_by_line = reader.ended(reader.read(meaning.of(line) for line in lines))
    for name in ("number", "time_ns", "producer", "line", "unreadable"):
        assert getattr(fast, name).tolist() == getattr(line_by_line, name).tolist(), name
    assert fast.lines == line_by_line.lines == len(lines)


def test_a_pattern_finds_numbers_anywhere() -> None:
    """As kafka-console-consumer prints them with --property print.timestamp=true and the like."""
    form = PatternFormat(r"^CreateTime:(?P<time>\d+)\tPartition:\d+\tmessage-(?P<number>\d+)$")
    text = f"CreateTime:{T0}\tPartition:3\tmessage-2\nCreateTime:{T0}\tPartition:1\tmessage-1\nnothing\n"
    found = checked(text, (1, 3), form)
    assert (found.total.seen, found.total.missing, found.total.reordered, found.unreadable) == (2, 1, 1, 1)


@pytest.mark.parametrize(
    "text",
    [
        '{"number": {"0": 1, "1": 2, "2": 4}, "time": {"0": 1795349830123, "1": 1795349830124, "2": null}}',
        '[{"number": 1}, {"number": 2}, {"number": 4}]',
        '[\n  {"number": 1},\n  {"number": 2},\n  {"number": 4}\n]\n',
        '{"columns": ["number", "x"], "index": [0, 1, 2], "data": [[1, 0], [2, 0], [4, 0]]}',
        '{"seq": [1, 2, 4], "who": ["a", "a", "a"]}',
        "[1, 2, 4]",
    ],
)
def test_json_document_with_a_whole_table_is_its_rows(tmp_path: Path, text: str) -> None:
    """As pandas writes it, also on one long line."""
    path = tmp_path / "rows.json"
    path.write_text(text + " " * (MAX_LINE_BYTES + 1))
    lines = b"".join(blocks([str(path)])).splitlines()
    found = [fields_of(line, Role.RECEIVED) for line in lines if line]
    assert [fields.number for fields in found if isinstance(fields, Fields)] == [b"1", b"2", b"4"]


@pytest.mark.parametrize(
    "first",
    ['{"seq":{"long":1}}', "[2026-11-22 10:00:00,123] WARN x (org.apache.kafka.clients.NetworkClient)"],
)
def test_lines_are_no_json_document(first: str, tmp_path: Path) -> None:
    """Of Avro, or of a log: a document would be held in memory, and its beginning not be checked at once."""
    path = tmp_path / "lines"
    path.write_text(first + "\n2\n" + "3\n" * BLOCK_BYTES)
    assert len(list(blocks([str(path)]))) > 1


def test_records_as_java_prints_them() -> None:
    """With what a logger wrote before them, and with the message's own time."""
    line = b"10:00 INFO ConsumerRecord(topic = a, offset = 3, CreateTime = 5, key = (b), value = 17)"
    assert LineMeaning(Role.RECEIVED).of(line) == Fields(b"17", b"5", None)
    for none in (b"NoTimestampType = -1", b"CreateTime = -1"):
        without = line.replace(b"CreateTime = 5", none)
        assert LineMeaning(Role.RECEIVED).of(without) == Fields(b"17", None, None)


_OF_PYTHON = b"ConsumerRecord(topic='t', partition=0, offset=3, timestamp=5, key=b'k', value=%s, headers=())"


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (_OF_PYTHON % b"b'17'", Fields(b"17", b"5", None)),
        (b"INFO got " + _OF_PYTHON % b"'17 9 web'", Fields(b"17", b"9", b"web")),
        (_OF_PYTHON % b"b'{\"seq\": 17}'", Fields(b"17", b"5", None)),
        (_OF_PYTHON.replace(b"=5", b"=-1") % b"b'17'", Fields(b"17", None, None)),
        (_OF_PYTHON % b"None", None),
        (b'{"topic":"t","partition":0,"offset":"3","value":"17","timestamp":"5"}', Fields(b"17", b"5", None)),
        (b'{"topic":"t","offset":3,"value":{"number":17,"time":9}}', Fields(b"17", b"9", None)),
        (b'{"topic":"t","offset":3,"value":null}', None),
        (b'{"seq":1,"topic":"orders","offset":12,"value":"foo","ts":7}', Fields(b"1", b"7", None)),
        (b'{"specversion":"1.0","id":"x","time":"2026-11-27T10:00:00Z","data":{"seq":17}}',
         Fields(b"17", b"2026-11-27T10:00:00Z", None)),
        (b"| offset: 3 CreateTime: 5 keySize: -1 valueSize: 2 sequence: 0 headerKeys: [] payload: 17",
         Fields(b"17", b"5", None)),
        (b"| offset: 3 LogAppendTime: 5 keySize: 1 valueSize: 2 headerKeys: [a] key: 4 payload: 17\r",
         Fields(b"17", b"5", None)),
    ],
)  # fmt: skip
def test_records_as_other_clients_and_the_dump_of_a_log_have_them(line: bytes, fields: Fields | None) -> None:
    assert LineMeaning(Role.RECEIVED).of(line) == fields


@pytest.mark.parametrize(
    "line",
    [
        b"Dumping /var/lib/kafka/t-0/00000000000000000000.log",
        b"Log starting offset: 0",
        b"baseOffset: 0 lastOffset: 1 count: 2 baseSequence: -1 CreateTime: 5 size: 78 isvalid: true",
        b"| offset: 2 CreateTime: 5 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] endTxnMarker: COMMIT "
        b"coordinatorEpoch: 0",
        b"| offset: 2 CreateTime: 5 keySize: 1 valueSize: -1 sequence: -1 headerKeys: [] key: k",
    ],
)
def test_lines_of_a_dump_that_are_no_messages(line: bytes) -> None:
    """Of batches, of markers of transactions, and of tombstones."""
    assert isinstance(LineMeaning(Role.RECEIVED).of(line), Skipped)


def test_csv_of_records_has_numbers_in_its_values() -> None:
    """Unless it has a column for them."""
    meaning = LineMeaning(Role.RECEIVED)
    seconds = b'5,9,"{""number"":1,""time"":1795349830}"'
    found = [meaning.of(line) for line in (b"offset,timestamp_ms,value", seconds, b"6,9,2 1795349830")]
    assert found[1:] == [Fields(b"1", b"1795349830", None), Fields(b"2", b"1795349830", None)]
    meaning = LineMeaning(Role.RECEIVED)
    lines = [
        b'"Partition","Offset","Timestamp_ms","Key","Value"',
        b'"0","5","9","k","17"',
        b'0,6,9,,"{""seq"":18}"',
    ]
    found = [meaning.of(line) for line in lines]
    assert found[1:] == [Fields(b"17", b"9", None, "ms"), Fields(b"18", b"9", None, "ms")]
    meaning = LineMeaning(Role.RECEIVED)
    assert [meaning.of(line) for line in (b"offset,value,seq", b"5,40,17")][1] == Fields(b"17", None, None)


@pytest.mark.parametrize(
    "line",
    [
        b"9" * 5000,
        b"1 5 " + b"9" * 5000,
        b'{"seq": 1, "producer": "\\ud800"}',
        b'{"ts": 5, "payload": "\\ud800"}',
        b'{"stream": "stdout", "log": "\\ud800"}',
        b'{"seq": 1, "time": "\\ud800"}',
    ],
)
def test_a_line_that_no_program_writes_is_unreadable(line: bytes) -> None:
    """Not the end of the program."""
    assert TextFormat().parse(b"1\n" + line + b"\n" + b"0" * 5000 + b"2\n").unreadable.tolist() == [1]


def test_blank_lines_are_no_rows_of_a_csv() -> None:
    """Elsewhere they may be empty messages. What a column without a value has is nothing."""
    parsed = TextFormat().parse(b"number,time,producer\n1,nan,NaN\n\n2,\\N, \n\r\n")
    assert parsed.number.tolist() == [1, 2] and not len(parsed.unreadable)
    assert TextFormat().parse(b"number,producer\n1,7.0\n2, 7\n").producer.tolist() == [7, 7]


def test_an_empty_group_of_a_pattern_is_none() -> None:
    parsed = PatternFormat(r"^(?P<number>\d+) ?(?P<time>\d*) ?(?P<producer>\w*)$").parse(b"1 5 web\n2 6\n3\n")
    assert (parsed.number.tolist(), parsed.unreadable.tolist()) == ([1], [1, 2])
