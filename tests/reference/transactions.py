"""What became of transactions and of pipes' inputs, in SQL: torn-transaction, lost-commit, aborted-read,
hanging-transaction, processed-twice, unprocessed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kaput.analysis.inputs import Inputs
from kaput.analysis.names import SHIFT
from kaput.analysis.questions.standstills import find
from kaput.scenario.vocabulary import TRANSACTION_OUTCOMES
from reference.load import NAMED, Frames, local

_STATE = "array_position(array('committed', 'aborted', 'unknown'), state) - 1"
_HELD = pa.schema(
    [
        *((name, pa.int64()) for name in ("place", "offset", "at_ns", "to_ns")),
        ("flag", pa.bool_()),
    ]
)


def beside(messages: DataFrame, frames: Frames) -> DataFrame:
    """Each message with `transaction` and `state`, null where it is of none."""
    of = frames.transactions.withColumnRenamed("producer", "whose")
    inside = "producer = whose AND seq BETWEEN first_seq AND last_seq"
    return messages.join(F.broadcast(of), F.expr(inside), "left").drop("whose", "first_seq", "last_seq")


def counted(frames: Frames) -> dict[int, tuple[int, int]]:
    """By outcome, as a number: how many have a message, and of how many messages."""
    every = frames.transactions.where("last_seq >= first_seq").groupBy("state")
    rows = every.agg(F.count("*").alias("n"), F.expr("sum(last_seq - first_seq + 1) AS messages")).collect()
    return {TRANSACTION_OUTCOMES.index(row.state): (row.n, row.messages) for row in rows}


def odd(ledger: DataFrame) -> DataFrame:
    """Cases of torn-transaction and lost-commit."""
    here, gone = "stored > 0", "outcome = 'acked' AND stored = 0 AND NOT unread"
    found = (
        ledger.where("sent > 0 AND transaction IS NOT NULL")
        .groupBy("producer", "transaction", "state")
        .agg(
            F.expr(f"min(CASE WHEN {here} THEN seq END) AS first_here"),
            F.expr(f"min(CASE WHEN {gone} THEN seq END) AS first_gone"),
        )
    )
    torn = "first_here IS NOT NULL AND (state = 'aborted' OR first_gone IS NOT NULL)"
    lost = "first_here IS NULL AND first_gone IS NOT NULL AND state = 'committed'"
    return found.where(f"({torn}) OR ({lost})").selectExpr(
        f"CASE WHEN {torn} THEN 'torn-transaction' ELSE 'lost-commit' END AS name",
        "producer",
        "CASE WHEN state = 'aborted' THEN first_here ELSE first_gone END AS seq",
        "transaction",
        f"{_STATE} AS state",
        "first_here",
        "state = 'committed' AS flag",
    )


def aborted_read(ledger: DataFrame, careful: Collection[int]) -> DataFrame:
    """Cases, for the groups with read_committed."""
    among = f"grp IN ({', '.join(map(str, careful))})" if careful else "false"
    return (
        ledger.where("sent > 0 AND (coalesce(state = 'aborted', false) OR uncommitted)")
        .selectExpr("*", "posexplode(delivered) AS (grp, times)")
        .where(f"times > 0 AND {among}")
        .selectExpr(
            "'aborted-read' AS name", "grp", "producer", "seq", "topic", "place", "first_offset AS offset",
            f"{_STATE} AS state",
        )
    )  # fmt: skip


def hanging(frames: Frames, given: Inputs) -> DataFrame:
    """Cases: the samples are read on the driver, as the analysis does."""
    timeout_ns, grace_ns = given.transaction_timeout_ns, given.abort_grace_ns
    rows: list[dict[str, object]] = [
        {
            "place": frames.names.code(one.place),
            "offset": one.offset,
            "at_ns": one.from_ns,
            "to_ns": one.to_ns,
            "flag": one.ns <= timeout_ns + grace_ns,
        }
        for one in find(given.samples)
        if one.ns > timeout_ns and one.place[0] in frames.names.topics
    ]
    who = frames.log.where(NAMED).groupBy("place", "offset").agg(F.expr("min(struct(producer, seq)) AS who"))
    return (
        local(frames.spark, rows, _HELD)
        .join(who, ["place", "offset"], "left")
        .selectExpr(
            "'hanging-transaction' AS name", "place", "offset", "at_ns", "to_ns", "flag",
            "who.producer AS producer", "who.seq AS seq",
        )
    )  # fmt: skip


def processed(
    ledger: DataFrame,
    frames: Frames,
    pipes: Mapping[int, Sequence[str] | None],
    drained: Collection[int],
) -> DataFrame:
    """Cases of processed-twice and unprocessed."""
    reads = [f"(grp = {grp} AND {_among(frames, topics)})" for grp, topics in pipes.items()]
    groups = f"explode(array({', '.join(map(str, pipes))})) AS grp"
    inputs = (
        frames.identified.where("visible")
        .selectExpr(groups, "place", "offset", "struct(producer, seq) AS who")
        .where(" OR ".join(reads))
        .groupBy("grp", "place", "offset")
        .agg(F.min("who").alias("who"))
    )
    sent = ledger.where("sent > 0").select("producer", "seq", "stored", "unread")
    made = (
        frames.outputs.join(sent, ["producer", "seq"])
        .groupBy("grp", "place", "offset")
        .agg(F.expr("count_if(stored > 0) AS times"), F.expr("count_if(stored > 0 OR unread) AS some"))
    )
    left = f"grp IN ({', '.join(map(str, drained))})" if drained else "false"
    return (
        inputs.join(made, ["grp", "place", "offset"], "left")
        .where(f"coalesce(times, 0) > 1 OR (coalesce(some, 0) = 0 AND {left})")
        .selectExpr(
            "CASE WHEN coalesce(times, 0) > 1 THEN 'processed-twice' ELSE 'unprocessed' END AS name",
            "grp", "place", "offset", "who.producer AS producer", "who.seq AS seq",
            "coalesce(times, 0) AS times",
        )
    )  # fmt: skip


def _among(frames: Frames, topics: Sequence[str] | None) -> str:
    if topics is None:
        return "true"
    numbers = ", ".join(str(frames.names.topics.index(topic)) for topic in topics)
    return f"place div {SHIFT} IN ({numbers})" if topics else "false"
