"""How tables travel between tasks."""

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from kaput.analysis.engine.pieces import Parts, Piece, SliceFile, by_part, gathered, pack, unpack
from kaput.analysis.runs.columns import View, empty_tables

FRAMES = [
    pl.DataFrame({"place": [1, 2], "offset": [2**40, 7], "intact": [True, False], "polls": [[1, 2], [3]]}),
    pl.DataFrame({"place": [3], "offset": [-(2**63)], "intact": [True], "polls": [[2**40]]}),
    pl.DataFrame({"place": [None], "offset": [2**63 - 1], "intact": [True], "polls": [[5]]}).cast(
        {"place": pl.Int64}
    ),
]


def test_rows_survive_the_round_trip() -> None:
    """Whatever their numbers are: small, null, at either end of 64 bits."""
    pieces = [Piece("log", pack(frame)) for frame in FRAMES]
    none = FRAMES[0].clear()
    assert_frame_equal(gathered(pieces, {"log": none, "sends": none})["log"], pl.concat(FRAMES))
    assert_frame_equal(gathered(pieces, {"log": none, "sends": none})["sends"], none)


@pytest.mark.parametrize("named", [True, False])
def test_rows_survive_the_way_through_a_file(tmp_path: Path, named: bool) -> None:
    """The frames of one file are read one by one, with their types, also those of tables without rows."""
    frames = [*FRAMES, *empty_tables(View.MESSAGES).values(), *empty_tables(View.PLACES).values()]
    with SliceFile(str(tmp_path) if named else None) as pack_one:
        slices = [pack_one(frame) for frame in frames]
    for frame, where in zip(frames, slices, strict=True):
        assert_frame_equal(unpack(where), frame)


@pytest.mark.parametrize("named", [True, False])
def test_slices_need_no_file_descriptors(tmp_path: Path, named: bool) -> None:
    """A process may have only a thousand, and a big run has more slices."""
    with SliceFile(str(tmp_path) if named else None) as pack_one:
        slices = [pack_one(FRAMES[0]) for _ in range(50)]
    before = len([*Path("/dev/fd").iterdir()])
    frames = [unpack(where) for where in slices]
    assert len([*Path("/dev/fd").iterdir()]) == before
    assert_frame_equal(pl.concat(frames), pl.concat([FRAMES[0]] * 50))


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_joined_pieces_are_no_longer_mapped(tmp_path: Path) -> None:
    """Not even for their text: mapped pages count as memory."""
    frame = pl.DataFrame({"offset": [1, 2], "error": [None, "an error of more than twelve bytes"]})
    with SliceFile(str(tmp_path)) as pack_one:
        pieces = [Piece("sends", pack_one(frame)) for _ in range(2)]
    joined = gathered(pieces, {"sends": frame})["sends"]
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()
    assert_frame_equal(joined, pl.concat([frame, frame]))


def test_consecutive_rows_of_a_part_stay_together() -> None:
    """In whatever order the parts come, and even if one comes twice."""
    for places in ([5, 5, 3, 3], [5, 3, 5, 3], [4, 4]):
        rows = pl.DataFrame({"place": places, "offset": range(len(places))})
        sent = list(by_part(rows, pl.col("place"), 3, "log"))
        arrived = {number: gathered([piece], {"log": rows})["log"] for number, piece in sent}
        assert len(sent) == len(arrived) == len(set(places))
        assert all(set(frame["place"]) == {number} for number, frame in arrived.items())
        assert_frame_equal(pl.concat(arrived.values()).sort("offset"), rows)


def test_a_repeated_task_writes_another_file(tmp_path: Path) -> None:
    """What the first attempt wrote stays as it is: another task may be reading it."""
    with SliceFile(str(tmp_path)) as first:
        old = first(FRAMES[0])
    with SliceFile(str(tmp_path)) as second:
        new = second(FRAMES[1])
    assert_frame_equal(unpack(old), FRAMES[0])
    assert_frame_equal(unpack(new), FRAMES[1])


def test_each_row_goes_to_exactly_one_part() -> None:
    """Each row to one, none is lost, and the part that a row goes to is not sent along."""
    parts = Parts(3, 2)
    rows = pl.DataFrame({"producer": range(9), "block": [0] * 9})
    sent = list(by_part(rows, parts.message(pl.col("producer"), pl.col("block")), parts.messages, "sends"))
    arrived = [gathered([piece], {"sends": rows.clear()})["sends"] for _, piece in sent]
    assert sorted(number for number, _ in sent) == [0, 1, 2]
    assert_frame_equal(pl.concat(arrived).sort("producer"), rows)
