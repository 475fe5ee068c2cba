"""Stage 1: row groups become runs, which go to the tasks of their messages and to those of their places.

On the way everything is summed that single rows tell by themselves: records, what happened in each
step of time and how long it took, latencies of acknowledgements, when each producer was acknowledged.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import polars as pl

from kaput.analysis.names import EVENTS, Names
from kaput.analysis.questions import latency, silence, steps
from kaput.analysis.questions.messages import ACKED, NAMED
from kaput.analysis.runs import encoding
from kaput.analysis.runs.encoding import Encoded
from kaput.analysis.runs.run import NULL, Ints
from kaput.analysis.runs.tables import Rows, Unit, empty, read
from kaput.analysis.stages.pieces import Parts, Piece, by_part
from kaput.analysis.sums import Sum, total
from kaput.evidence.schemas import SHARE_EVENT_KINDS

SUMS: Mapping[str, Sum] = {
    "log": Sum(("place", "epoch"), ("records", "foreign"), ("low",), ("high",)),
    "delivered": Sum(("group", "member", "place"), ("records",), ("low", "first_ns"), ("last_ns",)),
    "shared": Sum(("group", "member", "kind"), ("records",)),
    "acquired": Sum(("group", "place"), (), ("low", "first_ns")),
    "transactions": Sum(("producer", "state"), ("begins", "messages")),
    "sent": Sum(
        ("producer", "topic", "place"), (), ("begin_ns",), ("last_attempt_ns", "end_ns", "last_ack_ns")
    ),
    "acked_us": Sum(("us",), ("times",)),
    "spells": Sum((*silence.STREAM, "first_ns"), (), (), ("last_ns",)),
    "steps": steps.COUNTS,
    "graded": steps.GRADES,
    "longest": steps.LONGEST,
}


class Times(NamedTuple):
    """How finely times are kept: from how many ns on silences are exact, and how wide steps are."""

    silence_ns: int
    step_ns: int


@dataclass(frozen=True)
class EncodeContext:
    """What the tasks of encoding work with. `events`: group_events as assignments.events_frame has them, with
    numbers for names and `place`.
    """

    names: Names
    parts: Parts
    events: pl.DataFrame
    times: Times


def encode(units: Iterable[Unit], context: EncodeContext) -> Iterator[tuple[int, Piece]]:
    """One task: the pieces that it makes, by the part they go to, and at last its sums."""
    yield from encode_rows(((unit.table, read(unit, context.names)) for unit in units), context)


def encode_rows(tables: Iterable[tuple[str, Rows]], context: EncodeContext) -> Iterator[tuple[int, Piece]]:
    """The same of rows that have been read."""
    found = []
    for table, rows in tables:
        coded = _ENCODE[table](rows, context)
        found.append(_SUMS[table](coded, context.times))
        yield from _SPLIT[table](coded, context)
    if found:
        yield context.parts.sums, Piece("sums", pickle.dumps(total(found, SUMS)))


def nothing() -> dict[str, pl.DataFrame]:
    """The sums of no rows."""
    return total([_SUMS[table](coded, Times(1, 1)) for table, coded in no_rows().items()], SUMS)


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
        "transactions": encoding.transactions(empty("transactions")),
        "outputs": encoding.outputs(empty("outputs")),
    }


_ENCODE: Mapping[str, Callable[[Rows, EncodeContext], Encoded]] = {
    "sends": lambda rows, context: encoding.sends(rows),
    "log": lambda rows, context: encoding.log(rows),
    "deliveries": lambda rows, context: encoding.deliveries(rows, context.events),
    "share_events": lambda rows, context: encoding.share_events(rows),
    "transactions": lambda rows, context: encoding.transactions(rows),
    "outputs": lambda rows, context: encoding.outputs(rows),
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


def _of_messages(table: str) -> Callable[[Encoded, EncodeContext], Iterator[tuple[int, Piece]]]:
    """What goes to the tasks of messages alone."""

    def split(coded: Encoded, context: EncodeContext) -> Iterator[tuple[int, Piece]]:
        yield from by_part(coded.runs, _message(context), context.parts.messages, table)

    return split


_SPLIT: Mapping[str, Callable[[Encoded, EncodeContext], Iterator[tuple[int, Piece]]]] = {
    "sends": _sends,
    "log": _log,
    "deliveries": _deliveries,
    "share_events": _share_events,
    "transactions": _of_messages("transactions"),
    "outputs": _of_messages("outputs"),
}


def _message(context: EncodeContext) -> pl.Expr:
    return context.parts.message(pl.col("producer"), pl.col("block"))


def _sums_of_sends(coded: Encoded, times: Times) -> dict[str, pl.DataFrame]:
    acked = coded.where(ACKED)
    dones, took = acked.rows["dones"], latency.whole_us(acked.rows["dones"] - acked.rows["attempts"])
    graded, longest = steps.graded("acked", dones, took, times.step_ns)
    return {
        "sent": SUMS["sent"].of(_sent(coded)),
        "acked_us": _acked_us(dones, took),
        "spells": silence.spells(acked, times.silence_ns),
        "steps": _steps(coded, acked, graded, times.step_ns),
        "graded": graded,
        "longest": longest,
    }


def _sums_of_log(coded: Encoded, _times: Times) -> dict[str, pl.DataFrame]:
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


def _sums_of_deliveries(coded: Encoded, times: Times) -> dict[str, pl.DataFrame]:
    records = coded.runs.select(
        "group",
        "member",
        "place",
        records="n",
        low="offset",
        first_ns="polled_ns_first",
        last_ns="polled_ns_last",
    )
    return {
        "delivered": SUMS["delivered"].of(records),
        "steps": steps.counted("delivered", coded.rows["polls"], steps.count_ns(times.step_ns)),
    }


def _sums_of_share_events(coded: Encoded, _times: Times) -> dict[str, pl.DataFrame]:
    acquired = coded.runs.filter(kind=SHARE_EVENT_KINDS.index("acquired"))
    return {
        "shared": SUMS["shared"].of(coded.runs.rename({"n": "records"})),
        "acquired": SUMS["acquired"].of(acquired.rename({"offset": "low", "at_ns": "first_ns"})),
    }


def _sums_of_transactions(coded: Encoded, _times: Times) -> dict[str, pl.DataFrame]:
    return {"transactions": SUMS["transactions"].of(coded.runs.rename({"n": "messages"}))}


def _no_sums(_coded: Encoded, _times: Times) -> dict[str, pl.DataFrame]:
    return {}


_SUMS: Mapping[str, Callable[[Encoded, Times], dict[str, pl.DataFrame]]] = {
    "sends": _sums_of_sends,
    "log": _sums_of_log,
    "deliveries": _sums_of_deliveries,
    "share_events": _sums_of_share_events,
    "transactions": _sums_of_transactions,
    "outputs": _no_sums,
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


def _acked_us(dones: Ints, took: Ints) -> pl.DataFrame:
    if len(dones) and dones.min() == NULL:
        took = took[dones != NULL]
    return latency.counted(took)


def _steps(sends: Encoded, acked: Encoded, graded: pl.DataFrame, step_ns: int) -> pl.DataFrame:
    """What happened in each step; what has no known time, at its attempt. `graded`: acknowledgements."""
    width_ns = steps.count_ns(step_ns)
    kinds, counts = [("attempted", sends.rows["attempts"])], []
    outcomes = set(sends.runs["outcome"].unique())
    if width_ns == step_ns and graded["times"].sum() == len(acked.rows["dones"]):
        # Counted already.
        outcomes.discard("acked")
        counts.append(steps.COUNTS.of(graded))
    for outcome in outcomes:
        chosen = sends.where(pl.col("outcome") == outcome).rows
        done = chosen["dones"]
        if len(done) and done.min() == NULL:
            done = np.where(done == NULL, chosen["attempts"], done)
        kinds.append((outcome, done))
    return pl.concat([*counts, *(steps.counted(what, at_ns, width_ns) for what, at_ns in kinds)])
