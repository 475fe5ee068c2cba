"""Stage 1: row groups become runs, which go to the tasks of their messages and to those of their places.

On the way everything is summed that single rows tell by themselves: records, rates, latencies of
acknowledgements, when each producer was acknowledged.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import polars as pl

from kaput.analysis.names import EVENTS, Names
from kaput.analysis.questions import latency, silence
from kaput.analysis.questions.messages import ACKED, NAMED
from kaput.analysis.runs import encoding
from kaput.analysis.runs.encoding import Encoded
from kaput.analysis.runs.run import NULL, Ints
from kaput.analysis.runs.tables import Rows, Unit, empty, read
from kaput.analysis.stages.pieces import Parts, Piece, by_part
from kaput.analysis.sums import Sum, times, total

_SECOND_NS = 1_000_000_000
SUMS: Mapping[str, Sum] = {
    "log": Sum(("place", "epoch"), ("records", "foreign"), ("low",), ("high",)),
    "delivered": Sum(("group", "member", "place"), ("records",), (), ("last_ns",)),
    "shared": Sum(("group", "member", "kind"), ("records",)),
    "sent": Sum(
        ("producer", "topic", "place"), (), ("begin_ns",), ("last_attempt_ns", "end_ns", "last_ack_ns")
    ),
    "acked_us": Sum(("us",), ("times",)),
    "spells": Sum((*silence.STREAM, "first_ns"), (), (), ("last_ns",)),
    "rates": Sum(("second", "what"), ("times",)),
}


@dataclass(frozen=True)
class EncodeContext:
    """What the tasks of encoding work with. `events`: group_events as inputs.events_frame has them, with
    numbers for names and `place`.
    """

    names: Names
    parts: Parts
    events: pl.DataFrame
    width_ns: int


def encode(units: Iterable[Unit], context: EncodeContext) -> Iterator[tuple[int, Piece]]:
    """One task: the pieces that it makes, by the part they go to, and at last its sums."""
    yield from encode_rows(((unit.table, read(unit, context.names)) for unit in units), context)


def encode_rows(tables: Iterable[tuple[str, Rows]], context: EncodeContext) -> Iterator[tuple[int, Piece]]:
    """The same of rows that have been read."""
    found = []
    for table, rows in tables:
        coded = _ENCODE[table](rows, context)
        found.append(_SUMS[table](coded, context.width_ns))
        yield from _SPLIT[table](coded, context)
    if found:
        yield context.parts.sums, Piece("sums", pickle.dumps(total(found, SUMS)))


def nothing() -> dict[str, pl.DataFrame]:
    """The sums of no rows."""
    return total([_SUMS[table](coded, 1) for table, coded in no_rows().items()], SUMS)


DELIVERED = ("group", "producer", "seq", "place", "offset", "block", "n", "polls", "polls_from")


@cache
def no_rows() -> Mapping[str, Encoded]:
    """The tables without rows, encoded.

    Not made on import: Spark forks its workers from a process that has imported this, and a fork of a process
    in which Polars has run anything deadlocks.
    """
    return {
        "sends": encoding.sends(empty("sends")),
        "log": encoding.log(empty("log")),
        "deliveries": encoding.deliveries(empty("deliveries"), pl.DataFrame(schema=EVENTS)),
        "share_events": encoding.share_events(empty("share_events")),
    }


_ENCODE: Mapping[str, Callable[[Rows, EncodeContext], Encoded]] = {
    "sends": lambda rows, context: encoding.sends(rows),
    "log": lambda rows, context: encoding.log(rows),
    "deliveries": lambda rows, context: encoding.deliveries(rows, context.events),
    "share_events": lambda rows, context: encoding.share_events(rows),
}


def _sends(coded: Encoded, context: EncodeContext) -> Iterator[tuple[int, Piece]]:
    yield from by_part(coded.packed(), _message(context), context.parts.messages, "sends")


def _log(coded: Encoded, context: EncodeContext) -> Iterator[tuple[int, Piece]]:
    runs = coded.runs
    yield from by_part(runs.filter(NAMED), _message(context), context.parts.messages, "log")
    yield from by_part(runs, context.parts.place(pl.col("place")), context.parts.places, "log")


def _deliveries(coded: Encoded, context: EncodeContext) -> Iterator[tuple[int, Piece]]:
    named = coded.packed().filter(NAMED).select(DELIVERED)
    yield from by_part(named, _message(context), context.parts.messages, "deliveries")
    runs = coded.runs.drop("row")
    yield from by_part(runs, context.parts.place(pl.col("place")), context.parts.places, "deliveries")


def _share_events(coded: Encoded, context: EncodeContext) -> Iterator[tuple[int, Piece]]:
    yield from by_part(coded.runs, context.parts.place(pl.col("place")), context.parts.places, "share_events")


_SPLIT = {"sends": _sends, "log": _log, "deliveries": _deliveries, "share_events": _share_events}


def _message(context: EncodeContext) -> pl.Expr:
    return context.parts.message(pl.col("producer"), pl.col("block"))


def _sums_of_sends(coded: Encoded, width_ns: int) -> dict[str, pl.DataFrame]:
    acked = coded.where(ACKED)
    return {
        "sent": SUMS["sent"].of(_sent(coded)),
        "acked_us": _acked_us(acked),
        "spells": silence.spells(acked, width_ns),
        "rates": _rates(coded),
    }


def _sums_of_log(coded: Encoded, _width_ns: int) -> dict[str, pl.DataFrame]:
    nobodys = pl.col("intact") & (pl.col("producer").is_null() | pl.col("seq").is_null())
    records = coded.runs.select(
        "place",
        "epoch",
        records="n",
        foreign=pl.col("n") * nobodys.cast(pl.Int64),
        low="offset",
        high=pl.col("offset") + pl.col("n") - 1,
    )
    return {"log": SUMS["log"].of(records)}


def _sums_of_deliveries(coded: Encoded, _width_ns: int) -> dict[str, pl.DataFrame]:
    records = coded.runs.select("group", "member", "place", records="n", last_ns="polled_ns_last")
    return {
        "delivered": SUMS["delivered"].of(records),
        "rates": _by_second("delivered", coded.rows["polls"]),
    }


def _sums_of_share_events(coded: Encoded, _width_ns: int) -> dict[str, pl.DataFrame]:
    return {"shared": SUMS["shared"].of(coded.runs.rename({"n": "records"}))}


_SUMS = {
    "sends": _sums_of_sends,
    "log": _sums_of_log,
    "deliveries": _sums_of_deliveries,
    "share_events": _sums_of_share_events,
}


def _sent(sends: Encoded) -> pl.DataFrame:
    """The columns of the sum `sent`, a row a run."""
    begin, attempts, dones = sends.runs["row"].to_numpy(), sends.rows["attempts"], sends.rows["dones"]
    columns = [pl.Series(name, [], pl.Int64) for name in ("begin_ns", "last_attempt_ns", "done_ns")]
    if len(begin):
        columns = [
            pl.Series("begin_ns", np.minimum.reduceat(attempts, begin)),
            pl.Series("last_attempt_ns", np.maximum.reduceat(attempts, begin)),
            pl.Series("done_ns", np.maximum.reduceat(dones, begin)).replace(NULL, None),
        ]
    rows = sends.runs.with_columns(columns)
    return rows.select(
        "producer",
        "topic",
        "place",
        "begin_ns",
        "last_attempt_ns",
        end_ns=pl.max_horizontal("last_attempt_ns", "done_ns"),
        last_ack_ns=pl.when(ACKED).then("done_ns"),
    )


def _acked_us(acked: Encoded) -> pl.DataFrame:
    attempts, dones = acked.rows["attempts"], acked.rows["dones"]
    if len(dones) and dones.min() == NULL:
        attempts, dones = attempts[dones != NULL], dones[dones != NULL]
    return latency.counted(dones - attempts)


def _rates(sends: Encoded) -> pl.DataFrame:
    """(second, what, times): what happened in each second; what has no known time, at its attempt."""
    kinds = [("attempted", sends.rows["attempts"])]
    for outcome in sends.runs["outcome"].unique().to_list():
        chosen = sends.where(pl.col("outcome") == outcome).rows
        done = chosen["dones"]
        if len(done) and done.min() == NULL:
            done = np.where(done == NULL, chosen["attempts"], done)
        kinds.append((outcome, done))
    return pl.concat([_by_second(what, at_ns) for what, at_ns in kinds])


def _by_second(what: str, at_ns: Ints) -> pl.DataFrame:
    first, last = (int(at_ns[0]) // _SECOND_NS, int(at_ns[-1]) // _SECOND_NS) if len(at_ns) else (0, 0)
    if 0 < last - first < len(at_ns) and bool((at_ns[1:] >= at_ns[:-1]).all()):
        # In order of time, and dense: the seconds' borders are looked up.
        seconds = np.arange(first, last + 1)
        often = np.diff(np.searchsorted(at_ns, np.append(seconds, seconds[-1] + 1) * _SECOND_NS))
        seconds, often = seconds[often > 0], often[often > 0]
    else:
        seconds, often = times(at_ns // _SECOND_NS)
    columns = [pl.Series("second", seconds, pl.Int64), pl.Series("times", often, pl.Int64)]
    return pl.DataFrame(columns).select("second", pl.lit(what).alias("what"), "times")
