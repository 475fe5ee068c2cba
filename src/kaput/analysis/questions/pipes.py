"""processed-twice and unprocessed: pipes, groups that make one message (an output) of each input record.
Defined in docs/GLOSSARY.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from kaput.analysis.engine.question import Cases, Find, Question, Reported, SumPart, To, at, facts, message
from kaput.analysis.engine.sums import Sum
from kaput.analysis.questions.losses import LOSS, losses_of
from kaput.analysis.run import Run
from kaput.analysis.runs.columns import ABORTED, GONE, NAMED, RECORD
from kaput.analysis.runs.cutting import MESSAGES, READ, borders, overlay, single
from kaput.analysis.runs.names import SHIFT
from kaput.analysis.views.messages import Messages
from kaput.analysis.views.places import Places
from kaput.verdict.facts import Consequence, Loss
from kaput.verdict.rules import never

_OUTPUTS: Mapping[str, Any] = {
    **dict.fromkeys(("group", "place", "offset", "n", "producer", "seq"), pl.Int64),
    **dict.fromkeys(("stored", "lost"), pl.Boolean),
}
_LOST = ("group", *RECORD, "n", "input_place", "input_ahead")
_INPUT = ("group", "input_place", "input_offset")
_ONE = pl.lit(1, pl.Int64)


@dataclass(frozen=True)
class Pipes(Question):
    """`pipes`: by group, the topics that it reads."""

    pipes: Mapping[int, Collection[int]] = field(default_factory=dict)

    needs = {"messages": ("outputs",)}
    sums = {"lost_outputs": Sum((*_INPUT, *LOSS), ("n",)), "without_output": Sum(_INPUT, ("n",))}
    passes = {"outputs": _OUTPUTS, "lost_outputs": dict.fromkeys(_LOST, pl.Int64)}
    stories = {
        "processed-twice": lambda r: f"{message(r)}, the input at {at(r)}, has {r['times']:,} outputs",
        "unprocessed": lambda r: f"{message(r)}, the input at {at(r)}, has no output",
    }
    rules = {
        "processed-twice": never("{inputs have|input has} more than one output"),
        "unprocessed": never("{inputs have|input has} no output"),
    }

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Passes on outputs that are stored, and outputs that are lost."""
        outputs_ = outputs(messages.outputs, messages.stretches.drop("part"))
        yield To("outputs", outputs_.select(*_OUTPUTS))
        yield To("lost_outputs", lost_outputs(outputs_))

    def before_places(self, run: Run) -> Pipes | None:
        reads = run.names.numbers_of(run.given.pipes)
        return replace(self, pipes=reads) if reads else None

    def of_places(self, places: Places) -> Iterator[Find]:
        """Finds both anomalies, and why outputs are lost."""
        known = places.known
        cases = processed(
            inputs(places.log, self.pipes), places.tables["outputs"], known.drained, known.begins
        )
        for name, rows in cases.items():
            yield Cases(name, rows)
        if places.tables["lost_outputs"].height:
            acks = places.explained_acks.with_columns(n=_ONE)
            why, lost = overlay([acks, places.tables["lost_outputs"]], MESSAGES)
            both = why.join(lost.select("group", "part", "input_place", "input_ahead"), on="part")
            both = both.with_columns(input_offset=pl.col("seq") + pl.col("input_ahead"))
            yield SumPart("lost_outputs", both)
        without = single(cases["unprocessed"].filter("flag").select(*READ.columns, "n"))
        yield SumPart("without_output", without.rename({"place": "input_place", "offset": "input_offset"}))

    def report(self, run: Run) -> Iterator[Reported]:
        """Unprocessed inputs whose outputs were lost, as consequences of these losses."""
        yield facts(
            consequences=[
                Consequence("unprocessed", run.given.groups[index], n, why) for index, why, n in _excused(run)
            ]
        )


def _excused(run: Run) -> list[tuple[int, tuple[Loss, ...], int]]:
    """(group, losses of the outputs, count) of inputs of which every output is lost."""
    lost = run.sums["lost_outputs"]
    if lost.is_empty():
        return []
    kinds = lost.select(LOSS).unique().sort(LOSS).with_row_index("kind")
    each = run.sums["without_output"].select(_INPUT).join(lost.join(kinds, on=LOSS), on=_INPUT)
    alike = each.group_by(_INPUT).agg(pl.col("kind").unique().sort()).group_by("group", "kind").len("times")
    why = losses_of(kinds.with_columns(one=_ONE), run.names, "one")
    return [
        (index, tuple(why[kind] for kind in each), n)
        for index, each, n in alike.sort("group", "kind").iter_rows()
    ]


def doubled(recorded_outputs: pl.DataFrame) -> pl.DataFrame:
    """(producer, seq, times): the lowest message recorded more than once as an output of the same input."""
    (parts,) = overlay([recorded_outputs], MESSAGES)
    rows = parts.group_by("group", "place", "offset", "producer", "seq").agg(times=pl.len().cast(pl.Int64))
    return rows.filter(pl.col("times") > 1).select("producer", "seq", "times").sort("producer", "seq").head(1)


def outputs(recorded_outputs: pl.DataFrame, stretches: pl.DataFrame) -> pl.DataFrame:
    """_OUTPUTS: runs of inputs with an output that is `stored`, unread or `lost`; with `claimed_place` and
    `claimed_offset`, where the output was acknowledged.
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
    parts, sent = overlay([recorded_outputs, known], MESSAGES)
    claimed = {"claimed_place": "place", "claimed_offset": "offset"}
    each = parts.join(sent.select("part", "here", "unread", "lost", **claimed), on="part")
    return each.filter(pl.col("here") | pl.col("unread") | pl.col("lost")).with_columns(stored="here")


def lost_outputs(outputs_: pl.DataFrame) -> pl.DataFrame:
    """(group, place, offset, producer, seq, n, input_place, input_ahead): lost outputs, where they were
    acknowledged, and their inputs: the offset of an input is the output's seq plus `input_ahead`.
    """
    claimed = {"place": "claimed_place", "offset": "claimed_offset"}
    of = {"input_place": pl.col("place"), "input_ahead": pl.col("offset") - pl.col("seq")}
    return outputs_.filter("lost").select("group", **claimed, producer="producer", seq="seq", n="n", **of)


def inputs(log: pl.DataFrame, pipes: Mapping[int, Collection[int]]) -> pl.DataFrame:
    """(group, place, offset, n, producer, seq): each pipe's stored inputs. `pipes`: the topics it reads."""
    stored = log.filter(NAMED, "visible").select("place", "offset", "n", "producer", "seq")
    of_pipes = [
        stored.filter((pl.col("place") // SHIFT).is_in(sorted(topics))).select(
            pl.lit(group, pl.Int64).alias("group"), pl.all()
        )
        for group, topics in pipes.items()
    ]
    return pl.concat([stored.clear().select(pl.lit(0, pl.Int64).alias("group"), pl.all()), *of_pipes])


def processed(
    inputs_: pl.DataFrame, outputs_: pl.DataFrame, drained: Collection[int], begins: pl.DataFrame
) -> dict[str, pl.DataFrame]:
    """The cases by anomaly: inputs, with `times`, the number of stored outputs. `flag`: it had an output,
    which is lost. `begins`: (group, place, offset) of groups that do not read from the start.
    """
    parts, recorded_outputs, _ = overlay([inputs_, outputs_, borders(begins, READ)], READ)
    counts = recorded_outputs.group_by("part").agg(
        times=pl.col("stored").sum().cast(pl.Int64),
        some=(~pl.col("lost")).sum().cast(pl.Int64),
        flag=pl.col("lost").any(),
    )
    with_counts = parts.join(counts, on="part", how="left").with_columns(
        pl.col("times", "some").fill_null(0), pl.col("flag").fill_null(False)
    )
    # An offset that the log has twice is one input.
    with_counts = (
        with_counts.sort("producer", "seq").unique("part", keep="first", maintain_order=True).drop("part")
    )
    without_output = with_counts.filter(pl.col("some") == 0, pl.col("group").is_in(list(drained)))
    first = begins.select(*READ.keys, begin="offset")
    without_output = without_output.join(first, on=READ.keys, how="left", maintain_order="left")
    return {
        "processed-twice": with_counts.filter(pl.col("times") > 1).drop("flag"),
        "unprocessed": without_output.filter(pl.col("offset") >= pl.col("begin").fill_null(0)).drop("begin"),
    }
