"""vanished, defined in docs/GLOSSARY.md. The cause is found as for a loss, from the acknowledgement, else
from the first delivery: `claims`.

Also all deliveries that contradict the log, `contradicted`: the log now has another message, or none, at that
offset, so the delivered message was overwritten, whatever the outcome of its send. Not here: why (explained
like a loss, losses.py), and what follows for the group (consequences.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from kaput.analysis.engine.question import (
    Cases,
    Check,
    Find,
    Question,
    Reported,
    SumPart,
    To,
    anomaly,
    at,
    group_facts,
    message,
)
from kaput.analysis.engine.sums import Sum
from kaput.analysis.questions.losses import LOSS, by_cause, losses_of
from kaput.analysis.run import Run
from kaput.analysis.runs.columns import ACKED, CLAIM_TYPES, CLAIMS, MESSAGE, SPOT
from kaput.analysis.runs.cutting import MESSAGES, each, meeting
from kaput.analysis.runs.names import SHIFT
from kaput.analysis.views.messages import Messages
from kaput.analysis.views.places import Places
from kaput.core import clock
from kaput.verdict.rules import Grounds, Ruled, VerdictRule

_OF_SENDS = ("topic", "outcome", "claimed_place", "claimed_offset", "attempt_ns", "done_ns")


def _vanished_rulings(known: Grounds) -> Ruled:
    assert known.group is not None
    return ((known.on_loss(kind), kind.count) for kind in known.group.vanished)


class Vanished(Question):
    """Finds cases in the stage messages, and their causes in the stage places."""

    needs = {"messages": ("deliveries",), "places": ("vanished",)}
    sums = {"vanished": Sum(("group", *LOSS), ("messages",))}
    passes = {"vanished": CLAIM_TYPES}
    stories = {
        "vanished": lambda r: (
            f"{message(r)} was delivered as {at(r)} at {clock(r['at_ns'])}, and is stored nowhere any more"
        )
    }
    rules = {
        "vanished": VerdictRule(
            "{messages were delivered and are|message was delivered and is} stored nowhere any more",
            _vanished_rulings,
        )
    }
    shown_by = MESSAGE

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        gone = vanished(messages)
        if gone.height:
            yield Cases("vanished", gone)
            yield To("vanished", claims(gone))

    def of_places(self, places: Places) -> Iterator[Find]:
        why = places.with_causes(places.tables["vanished"])
        yield SumPart("vanished", why.with_columns(messages=pl.lit(1, pl.Int64)))

    def report(self, run: Run) -> Iterator[Reported | Check]:
        for index, name in enumerate(run.given.groups):
            losses = losses_of(run.sums["vanished"].filter(group=index), run.names, "messages")
            yield group_facts(index, vanished=losses)
            yield anomaly("vanished", index, causes=by_cause(losses))
            cases, n = run.totals.counted("vanished", index), sum(one.count for one in losses)
            yield Check(f"vanished of group {name}", cases, n, ("case", "cause"))


def vanished(messages: Messages) -> pl.DataFrame:
    """(group, producer, seq, place, offset, at_ns, n) and _OF_SENDS: a row for each vanished message and
    group, with its first delivery and the outcome of its send.
    """
    stored, hidden = pl.col("stored") > 0, pl.col("unread") | pl.col("uncommitted")
    gone = messages.stretches.filter(~stored, ~hidden)
    if messages.known.homes is not None:
        gone = gone.join(messages.copies.select("part").unique(), on="part", how="anti")
    return first_delivered(gone, messages)


def first_delivered(gone: pl.DataFrame, messages: Messages) -> pl.DataFrame:
    """The same for any stretches."""
    deliveries, times, polls = messages.deliveries, messages.times, messages.polls
    delivered = each(deliveries.join(gone.select(MESSAGE), on=MESSAGE, how="semi"), at_ns=polls)
    first = delivered.sort("at_ns", "place", "offset")
    first = first.unique(["group", *MESSAGE], keep="first", maintain_order=True)
    sent = gone.join(deliveries.select(MESSAGE).unique(), on=MESSAGE, how="semi")
    sends = each(sent, attempt_ns=times["attempts"], done_ns=times["dones"])
    sends = sends.with_columns(claimed_place="place", claimed_offset="offset")
    every = first.select("group", *MESSAGE, "place", "offset", "at_ns", "n")
    return every.join(sends.select(*MESSAGE, *_OF_SENDS), on=MESSAGE)


def claims(rows: pl.DataFrame) -> pl.DataFrame:
    """CLAIMS of these rows: acknowledgements, or first deliveries of messages that were not acknowledged."""
    acked = pl.when(ACKED)
    return rows.with_columns(
        place=acked.then("claimed_place").otherwise("place"),
        offset=acked.then("claimed_offset").otherwise("offset"),
        done_ns=acked.then("done_ns").otherwise("at_ns"),
    ).select(CLAIMS)


def contradicted(messages: Messages) -> pl.DataFrame:
    """CLAIMS: a row for each message at an offset and each group that received it there, in places that were
    read to their end, or whose topic a step deleted. `done_ns`: when the message was there: when it was
    acknowledged, else first delivered.
    """
    deliveries, copies, polls = messages.deliveries, messages.copies, messages.polls
    known, place = messages.known, pl.col("place")
    anew = (place // SHIFT).is_in(list(known.recreated))
    read = deliveries.filter(place.is_in(sorted(known.complete)) | anew)
    contradicting = read.join(copies.select("part", *SPOT), on=["part", *SPOT], how="anti")
    if contradicting.is_empty():
        return pl.DataFrame(schema=CLAIM_TYPES)
    claimed = each(contradicting, at_ns=polls)
    claimed = claimed.with_columns(at_ns=pl.col("at_ns").min().over(*MESSAGE, *SPOT))
    claimed = claimed.unique(["group", *MESSAGE, *SPOT], maintain_order=True)
    sent = meeting(messages.stretches, contradicting, MESSAGES)
    sends = each(sent, attempt_ns=messages.times["attempts"], done_ns=messages.times["dones"])
    acked = sends.filter(ACKED).select(*MESSAGE, *SPOT, "done_ns").drop_nulls(SPOT)
    attempts = sends.group_by(MESSAGE).agg(pl.col("attempt_ns").min())
    return (
        claimed.join(acked, on=[*MESSAGE, *SPOT], how="left")
        .join(attempts, on=MESSAGE, how="left")
        .with_columns(
            topic=pl.col("place") // SHIFT,
            done_ns=pl.coalesce("done_ns", "at_ns"),
            attempt_ns=pl.coalesce("attempt_ns", "at_ns"),
        )
        .select(CLAIMS)
    )
