"""Results for empty frames: computed once for each combination of columns."""

from __future__ import annotations

import polars as pl
import pytest

from kaput.analysis.runs.empty import once_if_empty

NONE = pl.DataFrame(schema={"n": pl.Int64})
SOME = pl.DataFrame({"n": [1]})


class Counted:
    """Two functions, and how often they ran."""

    def __init__(self) -> None:
        self.calls = 0

        @once_if_empty("frame")
        def one(frame: pl.DataFrame, name: str = "", by: tuple[str, ...] = ()) -> pl.DataFrame:
            self.calls += 1
            return frame.with_columns(pl.lit(name).alias("name"))

        @once_if_empty("left", "right")
        def both(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
            self.calls += 1
            return pl.concat([left, right])

        self.one, self.both = one, both


@pytest.fixture
def counted() -> Counted:
    return Counted()


def test_empty_frame_is_computed_once(counted: Counted) -> None:
    assert counted.one(NONE).equals(counted.one(NONE.clone()))
    assert counted.calls == 1


def test_rows_are_computed_each_time(counted: Counted) -> None:
    assert [counted.one(SOME, name)["name"].item() for name in "ab"] == ["a", "b"]
    assert counted.calls == 2


def test_other_columns_are_another_result(counted: Counted) -> None:
    assert counted.one(NONE).columns == ["n", "name"]
    assert counted.one(NONE.rename({"n": "m"})).columns == ["m", "name"]
    assert counted.one(NONE.cast(pl.Int32)).schema["n"] == pl.Int32
    assert counted.calls == 3


def test_strings_and_tuples_are_part_of_the_key(counted: Counted) -> None:
    counted.one(NONE, "a")
    counted.one(NONE, name="a")
    counted.one(NONE, "b")
    counted.one(NONE, "b", by=("n",))
    assert counted.calls == 3


def test_all_named_frames_must_be_empty(counted: Counted) -> None:
    assert counted.both(NONE, SOME).height == 1
    assert counted.both(right=NONE, left=SOME).height == 1
    assert counted.both(NONE, right=NONE).height == 0
    assert counted.both(NONE, NONE).height == 0
    assert counted.calls == 3
