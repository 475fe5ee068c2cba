"""How tables travel between tasks."""

import polars as pl
from polars.testing import assert_frame_equal

from kaput.analysis.engine.pieces import Parts, Piece, by_part, gathered, pack

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


def test_each_row_goes_to_exactly_one_part() -> None:
    """Each row to one, none is lost, and the part that a row goes to is not sent along."""
    parts = Parts(3, 2)
    rows = pl.DataFrame({"producer": range(9), "block": [0] * 9})
    sent = list(by_part(rows, parts.message(pl.col("producer"), pl.col("block")), parts.messages, "sends"))
    arrived = [gathered([piece], {"sends": rows.clear()})["sends"] for _, piece in sent]
    assert sorted(number for number, _ in sent) == [0, 1, 2]
    assert_frame_equal(pl.concat(arrived).sort("producer"), rows)
