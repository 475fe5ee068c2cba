"""What the tasks of messages found out for those of places: tables on their way to the task of each place.

astray       acknowledgements that the log does not bear out
phantoms     records that nobody sent
claims       messages that were delivered and are gone: NAMES says of which anomaly
contradicted deliveries that the log does not bear out
unseen       stored messages that a group was never delivered
outputs      inputs of pipes with an output that is stored, or may be, or is lost
lost_outputs those that are lost
standstills  where a last stable offset stood still (from the driver: questions/standstills.py)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from kaput.analysis.questions import pipes
from kaput.analysis.questions.messages import ACKED, HAS_OFFSET, LOST, MESSAGE
from kaput.analysis.questions.standstills import STANDSTILLS
from kaput.analysis.questions.transactions import GONE
from kaput.analysis.questions.vanished import CLAIMS
from kaput.analysis.runs.run import Ints, kept
from kaput.analysis.stages.pieces import Parts, Piece, by_part

RECORD = ["place", "offset", "producer", "seq"]
_LISTS = ("attempts", "attempts_from", "dones", "dones_from")
_ASTRAY = ("producer", "seq", "topic", "place", "offset", "n", "lost", "borne_out", "first_seq", *_LISTS)
_UNSEEN = ("group", *RECORD, "n")
NAMES = ("vanished", "aborted-read")  # of claims, by their number


def none() -> dict[str, pl.DataFrame]:
    """Every table, without rows."""
    numbers = dict.fromkeys((*_ASTRAY, *RECORD), pl.Int64)
    lists = {"attempts": pl.List(pl.Int64), "dones": pl.List(pl.Int64)}
    astray = {name: numbers[name] for name in _ASTRAY} | {"lost": pl.Boolean, "borne_out": pl.Boolean} | lists
    return {
        "astray": pl.DataFrame(schema=astray),
        "phantoms": pl.DataFrame(schema={**dict.fromkeys(RECORD, pl.Int64), "n": pl.Int64}),
        "claims": pl.DataFrame(schema=dict.fromkeys((*CLAIMS, "name"), pl.Int64)),
        "contradicted": pl.DataFrame(schema=dict.fromkeys(CLAIMS, pl.Int64)),
        "unseen": pl.DataFrame(schema=dict.fromkeys(_UNSEEN, pl.Int64)),
        "outputs": pl.DataFrame(schema={**dict.fromkeys(pipes.OUTPUTS, pl.Int64), **pipes.STATES}),
        "lost_outputs": pl.DataFrame(
            schema=dict.fromkeys((*_UNSEEN, "input_place", "input_ahead"), pl.Int64)
        ),
        "standstills": pl.DataFrame(schema=STANDSTILLS),
    }


def sent(tables: Mapping[str, pl.DataFrame], parts: Parts) -> Iterator[tuple[int, Piece]]:
    """The pieces of some of these tables."""
    for table, rows in tables.items():
        yield from by_part(rows, parts.place(pl.col("place")), parts.places, table)


def astray(stretches: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
    """Acknowledgements that the log does not bear out, what is lost though the log has it (and shows it to
    nobody), and whatever else of a transaction is gone (these have its `first_seq`), with the times of each
    message.
    """
    contradicted = ACKED & ((HAS_OFFSET & ~pl.col("borne_out")) | LOST)
    odd = stretches.filter(contradicted | (GONE & pl.col("first_seq").is_not_null())).with_columns(
        lost=LOST, first_seq=pl.when(GONE).then("first_seq")
    )
    first, n = odd["row"].to_numpy(), odd["n"].to_numpy()
    rows = odd.with_columns(c for name, values in times.items() for c in kept(name, values, first, n))
    return rows.select(_ASTRAY)


def claims(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Claims (vanished.py) of that anomaly."""
    return rows.with_columns(name=pl.lit(NAMES.index(name), pl.Int64))


def unseen(stretches: pl.DataFrame) -> pl.DataFrame:
    """Of cases of unseen: where they are stored first."""
    first = {"place": "first_place", "offset": "first_offset"}
    return stretches.select("group", *MESSAGE, "n", **first).select(_UNSEEN)


def phantoms(copies: pl.DataFrame) -> pl.DataFrame:
    """Records that nobody sent."""
    return copies.select(*RECORD, "n")
