"""What pipes made of their inputs: groups that make one message, an output, of each record.

processed-twice: an input with more than one output that is stored. unprocessed: one without any, in a group
that is drained and began there or below. Both are counted as distinct topic-partition-offsets of stored
inputs, per group.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from kaput.analysis.names import SHIFT
from kaput.analysis.questions.messages import ABORTED, NAMED
from kaput.analysis.questions.transactions import GONE
from kaput.analysis.runs.cutting import MESSAGES, READ, overlay

OUTPUTS = ("group", "place", "offset", "n", "producer", "seq", "stored", "lost")
STATES: Mapping[str, type[pl.DataType]] = {"stored": pl.Boolean, "lost": pl.Boolean}


def doubled(made: pl.DataFrame) -> pl.DataFrame:
    """(producer, seq, times): the least message that is recorded more than once as made of one input."""
    (parts,) = overlay([made], MESSAGES)
    rows = parts.group_by("group", "place", "offset", "producer", "seq").agg(times=pl.len().cast(pl.Int64))
    return rows.filter(pl.col("times") > 1).select("producer", "seq", "times").sort("producer", "seq").head(1)


def outputs(made: pl.DataFrame, stretches: pl.DataFrame) -> pl.DataFrame:
    """OUTPUTS: runs of inputs with an output that is `stored`, or may be (it is unread), or is `lost`; with
    `claimed_place` and `claimed_offset`, where the output was acknowledged.
    """
    known = stretches.select(
        "producer",
        "seq",
        "n",
        "place",
        "offset",
        "unread",
        here=pl.col("stored") > 0,
        lost=GONE & (pl.col("logged") == 0) & pl.col("state").ne_missing(ABORTED),
    )
    parts, sent = overlay([made, known], MESSAGES)
    claimed = {"claimed_place": "place", "claimed_offset": "offset"}
    each = parts.join(sent.select("part", "here", "unread", "lost", **claimed), on="part")
    return each.filter(pl.col("here") | pl.col("unread") | pl.col("lost")).with_columns(stored="here")


def lost_outputs(outputs_: pl.DataFrame) -> pl.DataFrame:
    """(group, place, offset, producer, seq, n, input_place, input_ahead): those that are lost, where they
    were acknowledged, and what each was made of: an offset so far ahead of its seq.
    """
    claimed = {"place": "claimed_place", "offset": "claimed_offset"}
    of = {"input_place": pl.col("place"), "input_ahead": pl.col("offset") - pl.col("seq")}
    return outputs_.filter("lost").select("group", **claimed, producer="producer", seq="seq", n="n", **of)


def inputs(log: pl.DataFrame, pipes: Mapping[int, Collection[int]]) -> pl.DataFrame:
    """(group, place, offset, n, producer, seq): what is stored for each pipe. `pipes`: the topics that each
    reads.
    """
    stored = log.filter(NAMED, "visible").select("place", "offset", "n", "producer", "seq")
    found = [
        stored.filter((pl.col("place") // SHIFT).is_in(sorted(topics))).select(
            pl.lit(group, pl.Int64).alias("group"), pl.all()
        )
        for group, topics in pipes.items()
    ]
    return pl.concat([stored.clear().select(pl.lit(0, pl.Int64).alias("group"), pl.all()), *found])


def processed(
    inputs_: pl.DataFrame, outputs_: pl.DataFrame, drained: Collection[int], begins: pl.DataFrame
) -> dict[str, pl.DataFrame]:
    """The cases by name: inputs, with `times`: how many outputs of each are stored. `flag`: it had an output,
    which is lost. `begins`: (group, place, offset) of groups that do not read from the start.
    """
    borders = begins.select(*READ.columns, n=pl.lit(0, pl.Int64))
    parts, made, _ = overlay([inputs_, outputs_, borders], READ)
    counts = made.group_by("part").agg(
        times=pl.col("stored").sum().cast(pl.Int64),
        some=(~pl.col("lost")).sum().cast(pl.Int64),
        flag=pl.col("lost").any(),
    )
    beside = parts.join(counts, on="part", how="left").with_columns(
        pl.col("times", "some").fill_null(0), pl.col("flag").fill_null(False)
    )
    # An offset that the log has twice is one input.
    beside = beside.sort("producer", "seq").unique("part", keep="first", maintain_order=True).drop("part")
    none = beside.filter(pl.col("some") == 0, pl.col("group").is_in(list(drained)))
    first = begins.select(*READ.keys, begin="offset")
    none = none.join(first, on=READ.keys, how="left", maintain_order="left")
    return {
        "processed-twice": beside.filter(pl.col("times") > 1).drop("flag"),
        "unprocessed": none.filter(pl.col("offset") >= pl.col("begin").fill_null(0)).drop("begin"),
    }
