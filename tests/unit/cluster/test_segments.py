"""A replica's log, read while it grows, rolls, is torn, shortened, or written over."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes.segments import append, batch, write_segment
from kaput.cluster.segments import CHUNK_BYTES, OVERWRITTEN, TRUNCATED, SegmentReader, log_end

TEN: list[bytes | None] = [b"x" * 50] * 10


def offsets(reader: SegmentReader) -> list[tuple[int, int]]:
    """First and last offset of each batch that the next look finds."""
    return [(found.head.base_offset, found.head.last_offset) for found in reader.read()]


def test_log_end_counts_complete_batches_only(tmp_path: Path) -> None:
    """That of whole batches; a log that just rolled is as long as its newest segment's name says."""
    replica = tmp_path / "orders-0"
    assert log_end(replica) == 0
    write_segment(replica, 0, batch(0, TEN), batch(10, TEN), batch(20, TEN)[:-1])
    assert log_end(replica) == 20
    write_segment(replica, 30)
    assert log_end(replica) == 30


def test_reader_starts_at_the_batch_containing_the_offset(tmp_path: Path) -> None:
    """In the middle of a batch, at its start, at the end of the log, and in an older segment."""
    write_segment(tmp_path, 0, batch(0, TEN), batch(10, TEN))
    write_segment(tmp_path, 20, batch(20, TEN))
    for offset, expected in [(15, [(10, 19)]), (10, [(10, 19)]), (20, [(20, 29)]), (30, [])]:
        reader = SegmentReader(tmp_path, offset, 0)
        assert offsets(reader) == expected
        reader.close()


def test_reader_follows_appends_and_segment_rolls(tmp_path: Path) -> None:
    """Nothing twice; a torn batch when it is whole; the next segment after the last of this one."""
    segment = write_segment(tmp_path, 0, batch(0, TEN))
    reader = SegmentReader(tmp_path, 10, 0)
    assert offsets(reader) == []
    later = batch(10, TEN)
    append(segment, later[:20])
    assert offsets(reader) == []
    append(segment, later[20:100])
    assert offsets(reader) == []
    append(segment, later[100:], batch(20, TEN), batch(30, TEN)[:70])
    assert offsets(reader) == [(10, 19), (20, 29)]
    append(segment, batch(30, TEN)[70:])
    assert offsets(reader) == [(30, 39)]
    write_segment(tmp_path, 40, batch(40, TEN))
    assert offsets(reader) == []  # it has come to the end of the old one
    assert offsets(reader) == [(40, 49)]
    assert offsets(reader) == [] and reader.ended is None


def test_reader_waits_for_the_first_batch_of_an_empty_segment(tmp_path: Path) -> None:
    """Looking for the next one, it finds itself; then the first batch comes."""
    segment = write_segment(tmp_path, 0)
    reader = SegmentReader(tmp_path, 0, 0)
    assert offsets(reader) == offsets(reader) == []
    append(segment, batch(0, TEN))
    assert offsets(reader) == [(0, 9)]


def test_truncated_log_ends_the_reader(tmp_path: Path) -> None:
    """A truncation, also into a batch's middle, is noticed; what was read before stays read."""
    first = batch(0, TEN)
    for left in (len(first), len(first) + 5, 0):
        segment = write_segment(tmp_path, 0, first, batch(10, TEN))
        reader = SegmentReader(tmp_path, 0, 0)
        assert offsets(reader) == [(0, 9), (10, 19)]
        with segment.open("r+b") as file:
            file.truncate(left)
        assert offsets(reader) == []
        assert reader.ended == TRUNCATED
        reader.close()


@pytest.mark.parametrize("regrown", [TEN, [b"y" * 77] * 30, [b""] * 40])
def test_overwritten_log_ends_the_reader(tmp_path: Path, regrown: list[bytes | None]) -> None:
    """Batches of a later epoch are another leader's, whether they begin where ours would have or not."""
    first, second = batch(0, TEN), batch(10, TEN)
    segment = write_segment(tmp_path, 0, first, second)
    reader = SegmentReader(tmp_path, 0, 0)
    assert len(offsets(reader)) == 2
    write_segment(tmp_path, 0, first, batch(10, regrown, epoch=1), batch(10 + len(regrown), TEN * 9, epoch=1))
    assert segment.stat().st_size > len(first + second)
    assert offsets(reader) == []
    assert reader.ended == OVERWRITTEN


def test_batches_of_older_epochs_are_read_and_newer_ones_end_the_reader(tmp_path: Path) -> None:
    """A leader of epoch 3 may have alone what was written under epoch 1; what comes under 4 is not."""
    write_segment(tmp_path, 0, batch(0, TEN, 1), batch(10, TEN, 3), batch(20, TEN, 4))
    reader = SegmentReader(tmp_path, 0, 3)
    assert offsets(reader) == [(0, 9), (10, 19)]
    assert reader.ended == OVERWRITTEN


def test_batch_larger_than_a_chunk_is_read_whole(tmp_path: Path) -> None:
    """It is read as a whole; while its end is missing, not at all."""
    large = batch(10, [bytes(CHUNK_BYTES + 1000)])
    segment = write_segment(tmp_path, 0, batch(0, TEN), large[:-1])
    reader = SegmentReader(tmp_path, 0, 0)
    assert offsets(reader) == [(0, 9)]
    assert offsets(reader) == []
    append(segment, large[-1:], batch(11, TEN))
    assert offsets(reader) == [(10, 10)]
    assert offsets(reader) == [(11, 20)]


def test_backlog_is_limited_to_the_newest_bytes(tmp_path: Path) -> None:
    """Where very much is missing on a follower, only the newest bytes of it are read."""
    size = len(batch(0, TEN))
    write_segment(tmp_path, 0, *(batch(10 * n, TEN) for n in range(20)))
    assert offsets(SegmentReader(tmp_path, 0, 0, backlog_bytes_max=3 * size)) == [
        (170, 179), (180, 189), (190, 199),
    ]  # fmt: skip


def test_missing_log_raises_file_not_found(tmp_path: Path) -> None:
    """Reported as the system says it."""
    with pytest.raises(FileNotFoundError):
        SegmentReader(tmp_path / "orders-0", 0, 0)
