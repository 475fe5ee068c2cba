"""Pairs of partitions with planted differences, against a comparison by hashes in plain Python."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fakes.in_process import InProcess
from fakes.mirror_pairs import Pair, Record, by_hashes, generate, write
from kaput.compare.positions import CLAIMS, TranslatedPosition
from kaput.compare.records import PairTotals, RecordTotals, compare_records

_LEFT = ("missing", "behind", "expired", "copy", "newer", "older", "foreign", "superseded")
_CHANGED = {"timestamps": 1, "headers": 2, "values": 4, "keys": 8, "timestamp types": 32}


def compared(folder: Path, pairs: dict[int, Pair], **more: Any) -> RecordTotals:
    """As the command compares them, with Spark's part played in this process."""
    draw = random.Random(1)
    files, facts = {}, {}
    for number, pair in pairs.items():
        for side, records in enumerate((pair.source, pair.target)):
            path = folder / f"{number}-{side}.parquet"
            facts[number, side], files[number, side] = write(records, path, draw), path
    work = folder / "work"
    work.mkdir()
    return compare_records(InProcess(), facts, files, work, **more)  # type: ignore[arg-type]


def counts(found: PairTotals) -> dict[str, int]:
    """By kind, zeros left out."""
    changed = {kind: found.matched.get(f"change_{bit}", 0) for kind, bit in _CHANGED.items()}
    every = {
        **{kind: found.left_of(kind) for kind in _LEFT},
        **changed,
        "reordered": found.matched.get("reordered", 0),
        "exposed": found.exposed,
        "matched": found.matched.get("matched", 0),
    }
    return {kind: count for kind, count in every.items() if count}


@pytest.mark.parametrize("seed", range(20))
def test_every_planted_difference_is_counted(tmp_path: Path, seed: int) -> None:
    """As many of each kind as were planted, and as the hashes say."""
    pair = generate(seed, 900)
    found = counts(compared(tmp_path, {0: pair}).pairs[0])
    assert found == by_hashes(pair)
    planted = {kind: n for kind, n in pair.planted.items() if kind not in ("same", "swapped")}
    shown = {kind: n for kind, n in found.items() if kind not in ("matched", "reordered")}
    assert shown == planted
    assert found["matched"] == sum(not record.aborted for record in pair.source) - planted.get("missing", 0)


@pytest.mark.parametrize("seed", range(20))
def test_records_of_the_same_content_are_a_multiset(tmp_path: Path, seed: int) -> None:
    """A few contents, each many times, so that copies and changes fall together: counted as the hashes do."""
    pairs = {number: generate(100 * seed + number, 400, distinct=9 + seed) for number in (0, 1)}
    found = compared(tmp_path, pairs)
    for number, pair in pairs.items():
        assert counts(found.pairs[number]) == by_hashes(pair)


def plain(*offsets: int, first: int = 0) -> list[Record]:
    """A record for each number, at consecutive offsets."""
    return [
        Record(first + at, 1_700_000_000_000 + 1000 * number, b"key %d" % number, b"value %d" % number)
        for at, number in enumerate(offsets)
    ]


def test_lagging_mirror_is_behind_not_missing(tmp_path: Path) -> None:
    """What is behind the last matched record is no loss, unless nothing is matched."""
    pairs = {0: Pair(plain(*range(9)), plain(*range(6))), 1: Pair(plain(*range(9)), [])}
    found = compared(tmp_path, pairs)
    assert counts(found.pairs[0]) == {"matched": 6, "behind": 3}
    assert counts(found.pairs[1]) == {"missing": 9}


def test_records_deleted_by_retention_are_not_lost(tmp_path: Path) -> None:
    """At the beginning of a log that begins above 0."""
    source, target = plain(*range(4, 9), first=4), plain(*range(9))
    found = compared(
        tmp_path, {0: Pair(source, target), 1: Pair(plain(*range(9)), plain(*range(5, 9), first=5))}
    )
    assert counts(found.pairs[0]) == {"matched": 5, "older": 4}
    assert counts(found.pairs[1]) == {"matched": 4, "expired": 5}


def test_records_mirrored_after_the_source_end_are_newer(tmp_path: Path) -> None:
    """The source's end was taken before."""
    found = compared(tmp_path, {0: Pair(plain(*range(5)), plain(*range(7)))})
    assert counts(found.pairs[0]) == {"matched": 5, "newer": 2}


def test_compacted_topics_are_compared_by_key(tmp_path: Path) -> None:
    """A replaced record may be gone; a latest value that is another one, or a key that is missing, may
    not.
    """

    def log(*values: tuple[int, bytes, bytes | None]) -> list[Record]:
        return [Record(offset, 1_700_000_000_000 + offset, key, value) for offset, key, value in values]

    first = log((0, b"a", b"1"), (1, b"b", b"1"), (2, b"c", None), (3, b"a", b"2"), (4, b"z", b"9"))
    same = log((1, b"b", b"1"), (3, b"a", b"2"), (4, b"z", b"9"))
    wrong = log((0, b"a", b"1"), (1, b"b", b"1"), (2, b"c", None), (4, b"z", b"9"))
    found = compared(tmp_path, {0: Pair(first, same), 1: Pair(first, wrong)}, compacted={0, 1}).pairs
    assert counts(found[0]) == {"matched": 3, "superseded": 2}
    keys = {name: found[0].keys[name] for name in ("keys", "same", "deleted", "other", "only_source")}
    assert keys == {"keys": 4, "same": 3, "deleted": 1, "other": 0, "only_source": 0}
    assert counts(found[1]) == {"matched": 4, "missing": 1} and found[1].keys["other"] == 1
    (example,) = found[1].examples["keys"]
    assert (example["source_offset"], example["target_offset"]) == (3, 0)


def test_positions_are_counted_record_by_record(tmp_path: Path) -> None:
    """Read again, skipped, and where the group has to go on; the offset syncs of a mirror are looked up."""
    source, target = plain(*range(20)), plain(*[n for n in range(20) if n not in (3, 4)])
    points = [
        TranslatedPosition("g", 0, 10, 8),
        TranslatedPosition("g", 0, 10, 5),
        TranslatedPosition("g", 0, 10, 11),
        TranslatedPosition("g", 0, 20, 18),
    ]
    claims = pl.DataFrame([(0, 10, 8), (0, 11, 8), (0, 3, 3)], schema=CLAIMS, orient="row")
    found = compared(tmp_path, {0: Pair(source, target)}, points=points, claims=claims)
    told = [
        tuple(found.points[number][name] for name in ("again", "skipped", "expected", "first_ms", "last_ms"))
        for number in range(4)
    ]
    begin = 1_700_000_000_000
    assert told == [
        (0, 0, 8, None, None),
        (3, 0, 8, begin + 7000, begin + 9000),
        (0, 3, 8, begin + 10_000, begin + 12_000),
        (0, 0, None, None, None),
    ]
    assert found.pairs[0].claims == {"checked": 2, "right": 1}
    (wrong,) = found.pairs[0].examples["claims"]
    assert (wrong["exact_source"], wrong["exact_target"], wrong["truth"]) == (11, 8, 9)


def test_an_offset_sync_may_name_the_second_copy_of_a_record(tmp_path: Path) -> None:
    """A killed mirror copies again, and goes on from there; a copy of another record remains a wrong one."""
    source, target = plain(*range(8)), plain(*range(6), 3, 4, 5, 6, 7)
    claims = pl.DataFrame([(0, 3, 3), (0, 4, 7), (0, 5, 7), (0, 7, 10)], schema=CLAIMS, orient="row")
    found = compared(tmp_path, {0: Pair(source, target), 1: Pair(source, source)}, claims=claims).pairs[0]
    assert counts(found) == {"matched": 8, "copy": 3}
    assert found.claims == {"checked": 4, "right": 3}
    (wrong,) = found.examples["claims"]
    assert (wrong["exact_source"], wrong["exact_target"], wrong["truth"]) == (5, 7, 5)


def test_equal_records_are_matched_to_separate_copies(tmp_path: Path) -> None:
    """What is the other one's first copy is no second copy of this one."""
    source, target = plain(1, 1), plain(1, 1, 1, 1)
    claims = pl.DataFrame([(0, 0, 1), (0, 1, 3)], schema=CLAIMS, orient="row")
    assert compared(tmp_path, {0: Pair(source, target)}, claims=claims).pairs[0].claims == {
        "checked": 2,
        "right": 1,
    }


def test_empty_partitions_have_no_differences(tmp_path: Path) -> None:
    """Empty partitions on both sides."""
    assert counts(compared(tmp_path, {0: Pair([], [])}).pairs[0]) == {}
