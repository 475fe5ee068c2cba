"""The streaming ledger: gaps that fill, numbers that only others tell of, and how large it becomes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random

import polars as pl
import pytest

from kaput.analysis.runs.columns import ENCODINGS
from kaput.analysis.runs.names import Names
from kaput.analysis.streaming import ledger as ledgers
from kaput.analysis.streaming.arrivals import Arrivals, arrivals
from kaput.analysis.streaming.counts import WAIT_NS, WINDOW_NS, WindowCounts
from kaput.analysis.streaming.ledger import Ledger
from kaput.analysis.streaming.numbering import Numbering
from kaput.analysis.streaming.state import StateFile, WatchState
from kaput.analysis.streaming.state_update import GrowingLedger
from kaput.core import NULL_LONG, SECOND
from kaput.errors import EvidenceError, UsageError

NAMES = Names(["orders"], ["reader"], ())
Row = tuple[int, int, int, int]  # producer, seq, place, offset


def frame(table: str, rows: Iterable[dict[str, object]]) -> pl.DataFrame:
    """Rows as runs/tables.py has them."""
    return pl.DataFrame(
        list(rows), {name: ENCODINGS[table].columns[name].type for name in ENCODINGS[table].read}
    )


def stored(*rows: Row) -> Arrivals:
    """Records of the log."""
    columns = ("producer", "seq", "place", "offset")
    return arrivals(log=frame("log", ({**dict(zip(columns, r, strict=True)), "intact": True} for r in rows)))


def read_at(second: int, *rows: Row) -> Arrivals:
    """Records of that second."""
    found = stored(*rows)
    return replace(found, log=found.log.with_columns(at_ns=pl.lit(second * SECOND, pl.Int64)))


def acked(*rows: Row) -> Arrivals:
    """Messages that were acknowledged there."""
    columns = ("producer", "seq", "place", "offset")
    more = {"topic": 0, "outcome": "acked", "attempt_ns": 1, "done_ns": 2}
    return arrivals(sends=frame("sends", ({**dict(zip(columns, r, strict=True)), **more} for r in rows)))


def test_a_message_is_missing_once_the_reader_has_passed_it() -> None:
    """And late when it is found after all: at another offset, since the broker had truncated it."""
    ledger = (
        Ledger.empty(NAMES).after(acked((0, 0, 0, 0), (0, 1, 0, 1), (0, 2, 0, 2))).after(stored((0, 0, 0, 0)))
    )
    assert ledger.totals().missing == 0
    passed = ledger.after(stored((0, 2, 0, 2)))
    assert (passed.totals().missing, passed.totals().late) == (1, 0)
    assert passed.totals().missing_at == {0: 1}
    filled = passed.after(stored((0, 1, 0, 3)))
    assert (filled.totals().missing, filled.totals().late) == (0, 1)
    assert filled.totals().late_at == filled.totals().reordered_at == {0: 1}


def test_skipped_number_is_missing_after_a_grace_period() -> None:
    """Ten seconds of the records' own time; and it may come after all."""
    ledger = Ledger.empty(NAMES, implied=True)
    ledger = ledger.after(read_at(100, (7, 5, 0, 0), (7, 6, 0, 1)))
    ledger = ledger.after(read_at(101, (7, 8, 0, 2)))
    ledger = ledger.after(read_at(110, (7, 9, 0, 3)))
    assert ledger.totals().missing == 0
    ledger = ledger.after(read_at(111, (7, 10, 0, 4)))
    assert (ledger.totals().missing, ledger.totals().late) == (1, 0)
    ledger = ledger.after(read_at(112, (7, 7, 1, 0)))
    assert (ledger.totals().missing, ledger.totals().late) == (0, 1)
    assert ledger.totals().fates == {("acked", "1"): 6}


def test_skipped_number_is_missing_at_the_end() -> None:
    """If it is below what had been read when the end was reached; a later one may still be on its way."""
    ledger = Ledger.empty(NAMES, implied=True).after(read_at(100, (7, 5, 0, 0), (7, 7, 0, 1)))
    assert ledger.numbered is not None
    tops = ledger.numbered.tops
    ended = ledger.after(read_at(101, (7, 9, 0, 2))).read_to_the_end(tops)
    assert (ended.totals().missing, ended.totals().sent) == (1, 5)
    assert ledger.after(read_at(101, (7, 6, 1, 0))).read_to_the_end(tops).totals().missing == 0


def test_end_of_a_topic_at_rest_is_judged_at_once(tmp_path: Path) -> None:
    """Otherwise ten seconds after its last record."""
    ledger = GrowingLedger(tmp_path, tmp_path, NAMES, implied=True)
    assert ledger.judged_at_s() < time.monotonic()
    busy = GrowingLedger(tmp_path, tmp_path, NAMES, implied=True)
    began = time.monotonic()
    busy.grow(read_at(100, (7, 5, 0, 0), (7, 7, 0, 1)).log, 1)
    assert began + 10 <= busy.judged_at_s() == busy.judged_at_s() <= time.monotonic() + 10
    busy.finish(complete=True)
    assert json.loads((tmp_path / "final.json").read_text())["missing"] == 1


def test_a_gap_within_one_micro_batch_is_found_by_its_times() -> None:
    """As when a whole topic is read from its start."""
    parts = [read_at(20 * n, (7, n, 0, n)) for n in (0, 1, 3, 4)]
    log = pl.concat([part.log for part in parts])
    ledger = Ledger.empty(NAMES, implied=True).after(Arrivals(log=log))
    assert (ledger.totals().missing, ledger.totals().sent) == (1, 5)


def test_numbers_from_before_the_start_are_not_missing() -> None:
    """They are read, and nobody misses those between."""
    ledger = Ledger.empty(NAMES, implied=True)
    for second in range(30):
        ledger = ledger.after(read_at(second, (7, 100 + second, 0, second)))
    ledger = ledger.after(read_at(30, (7, 3, 1, 0)))
    ledger = ledger.after(read_at(60, (7, 130, 0, 30)))
    assert (ledger.totals().missing, ledger.totals().sent) == (0, 31)


def test_a_ledger_does_not_grow_with_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer whose messages are spread over partitions, and two that have one each; copies among them."""
    monkeypatch.setattr(ledgers, "FOLD_RUNS", 150)
    random, ledger, sizes = Random(1), Ledger.empty(NAMES), []
    ends, seqs, copies = [0, 0, 0], [0, 0], 0
    for _ in range(40):
        rows: list[Row] = []
        for producer in (0, 1):
            for _ in range(50):
                place = random.randrange(3) if producer == 0 else 1
                rows.append((producer, seqs[producer], place, ends[place]))
                ends[place] += 1
                seqs[producer] += 1
        copy = random.random() < 0.1
        again = [(0, random.randrange(seqs[0] - 50), 2, ends[2])] if copy and seqs[0] > 50 else []
        ends[2] += len(again)
        before = ledger.totals().duplicated
        delivered = [
            {"group": 0, "member": 0, "topic": 0, "intact": True, "polled_ns": 3}
            | dict(zip(("producer", "seq", "place", "offset"), row, strict=True))
            for row in rows
        ]
        ledger = ledger.after(acked(*rows)).after(stored(*rows, *again))
        ledger = ledger.after(arrivals(deliveries=frame("deliveries", delivered)))
        copies += ledger.totals().duplicated - before
        sizes.append(ledger.runs)
    totals = ledger.totals()
    assert totals.fates == {("acked", "1"): 4_000 - copies, ("acked", "n"): copies}
    assert copies > 2 and totals.duplicated == copies
    assert max(sizes[20:]) < 1.5 * max(sizes[:20])


def test_window_closes_once_and_late_records_still_count() -> None:
    """Counts of a window go out when the watermark has passed it."""
    begin = 1_000 * WINDOW_NS
    log = pl.DataFrame({"at_ns": [begin], "place": [0], "n": [5]})
    counts = WindowCounts().after(None, log, None)
    assert counts.closed()[0] == []
    counts = counts.after(None, log.with_columns(at_ns=begin + WINDOW_NS + WAIT_NS), None)
    (closed,), counts = counts.closed()
    assert (closed["window_ns"], closed["stored"]) == (begin, 5)
    counts = counts.after(None, log, None)
    assert counts.closed()[0] == []
    assert counts.sum_of("stored") == {0: 15}
    assert len(counts.closed(every=True)[0]) == 1


@pytest.mark.parametrize(
    ("numbering", "value", "headers", "who"),
    [
        (Numbering("pattern", number=r"n=(?P<number>\d+)"), b"a n=17", None, (0, 17)),
        (Numbering("pattern", number=r"(?P<producer>\d+)-(?P<number>\d+)"), b"3-17", None, (3, 17)),
        (Numbering("pattern", number=r"n=(?P<number>\d+)"), b"nothing", None, None),
        (Numbering("header", number="seq"), None, [("seq", b"9")], (0, 9)),
        (Numbering("header", number="seq"), b"9", None, None),
        (Numbering("json", number="n", producer="by"), b'{"n": 4, "by": 2}', None, (2, 4)),
        (Numbering("json", number="n"), b'{"n": true}', None, None),
        (Numbering("json", number="n"), b"[4", None, None),
    ],
)
def test_numbers_are_parsed_from_value_header_or_json(
    numbering: Numbering, value: bytes | None, headers: object, who: tuple[int, int] | None
) -> None:
    """From text, a header, or JSON; what has none is nobody's."""
    producers, seqs, intact = numbering.reader().read([value], [headers])  # type: ignore[list-item]
    assert (producers[0], seqs[0]) == (who or (NULL_LONG, NULL_LONG))
    assert intact.all()


@pytest.mark.parametrize("pattern", ["(", "[0-9]+"])
def test_a_pattern_without_a_number_is_a_mistake(pattern: str) -> None:
    """Told before anything is read."""
    with pytest.raises(UsageError, match="--pattern"):
        Numbering("pattern", number=pattern).check()


def test_damaged_state_file_is_rejected(tmp_path: Path) -> None:
    """What is no state is told, with its place."""
    store = StateFile(tmp_path, WatchState)
    assert store.load() is None
    store.keep(WatchState(Ledger.empty(NAMES), version=3))
    kept = store.load()
    assert kept is not None and kept.version == 3
    (tmp_path / "ledger.state").write_bytes(b"half")
    with pytest.raises(EvidenceError, match=r"ledger\.state"):
        store.load()
