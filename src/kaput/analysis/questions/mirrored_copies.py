"""mirrored-twice, mirror-reordered, looped, and where two clusters merge: the copies that mirrors made.
Defined in docs/GLOSSARY.md.

A restarted mirror copies records again whose copying it had not recorded; only exactly-once mirrors promise
not to (KIP-618): their duplicate copies are in aborted transactions, which no reader sees. A mirror copies
each partition in order, also after a restart: second copies come after the first ones. Which copies are at
home, mirrored or looped: views/stretches.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from kaput.analysis.engine.question import Cases, Find, Question, SumPart, To, at, message
from kaput.analysis.engine.sums import Sum
from kaput.analysis.questions.order import reordered
from kaput.analysis.runs.columns import MESSAGE, RECORD, key_of, looked_up
from kaput.analysis.runs.cutting import PLACES, beyond, overlay
from kaput.analysis.runs.names import SHIFT, Names
from kaput.analysis.views.messages import Messages
from kaput.analysis.views.places import Places
from kaput.analysis.views.stretches import IS_MIRRORED
from kaput.verdict.contracts import permitted, violation
from kaput.verdict.rules import VerdictRule, by_flag, never

_DIRECTION = ("source", "target")
_AT_LEAST_ONCE = permitted("a mirror without exactly-once copies each record at least once")
_EXACTLY_ONCE = violation("the mirror has exactly-once")


class MirroredTwice(Question):
    """Those from mirrors with exactly-once have a flag."""

    sums = {"mirrored_twice": Sum(_DIRECTION, ("n",))}
    stories = {
        "mirrored-twice": lambda r: (
            f"{message(r)} is in {r['topic']} {r['times']:,} times, and in its own cluster {r['logged']:,}"
        )
    }
    rules = {
        "mirrored-twice": VerdictRule(
            "{messages are|message is} stored more often in a mirror's target than in its source",
            by_flag(_EXACTLY_ONCE, _AT_LEAST_ONCE),
        )
    }
    shown_by = MESSAGE

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        if messages.known.homes is None:
            return
        others = messages.copies.filter(IS_MIRRORED, "sent")
        cases = twice(others, messages.stretches, messages.known.names)
        pairs = [f"{m.source}->{m.target}" for m in messages.known.mirrors if m.exactly_once]
        directions = pl.concat_str("source", "target", separator="->")
        yield Cases("mirrored-twice", cases.with_columns(flag=directions.is_in(pairs)))
        yield SumPart("mirrored_twice", cases.select("source", "target", "n"))


def twice(others: pl.DataFrame, stretches: pl.DataFrame, names: Names) -> pl.DataFrame:
    """(producer, seq, n, place, topic, offset, times, logged, source, target): stretches, with a row for each
    topic in another cluster with more visible copies than at home, and where the first copy there is.
    `others`: copies in other clusters.
    """
    others = others.sort("offset", "place").with_columns(topic=pl.col("place") // SHIFT)
    counts = others.group_by("part", "topic", maintain_order=True).agg(
        pl.col("place", "offset").first(), times=pl.len().cast(pl.Int64)
    )
    own = stretches.select("part", *MESSAGE, "n", "logged", "home_topic")
    more = counts.join(own, on="part").filter(pl.col("times") > pl.col("logged").clip(1))
    cluster_of = names.cluster_of
    return more.with_columns(source=cluster_of(pl.col("home_topic")), target=cluster_of(pl.col("topic")))


IN_SOURCE = {
    "source_place": pl.coalesce("first_place", "place"),
    "source_offset": pl.coalesce("first_offset", "offset"),
}
_WHERE = ("first_place", "first_offset", "source_place", "source_offset")
MIRRORED = {**dict.fromkeys((*RECORD, "n", *_WHERE), pl.Int64), "mirrored": pl.Boolean}


class MirrorOrder(Question):
    """Passes on mirrored copies, and checks their order in each place of a target."""

    needs = {"places": ("mirrored_copies",)}
    sums = {"mirror_reordered": Sum(_DIRECTION, ("n",)), "away": Sum(("looped",), ("n",))}
    passes = {"mirrored_copies": MIRRORED}
    stories = {
        "mirror-reordered": lambda r: (
            f"{message(r)} is at {at(r)}, copied from offset {r['first_offset']:,} of the source, "
            f"after the copy of offset {r['behind']:,}"
        )
    }
    rules = {
        "mirror-reordered": never(
            "{messages are|message is} in a mirror's target behind later ones of the same partition of its "
            "source"
        )
    }
    shown_by = RECORD

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Passes on copies that are not at home, with the place and offset of the first copy at home, and
        where the message was in the source: there, or where it was acknowledged.
        """
        if messages.known.homes is None:
            return
        copies = messages.copies.filter(~pl.col("home")).with_columns(mirrored=IS_MIRRORED)
        yield SumPart("away", copies.filter("visible").select("looped", "n"))
        first = messages.stretches.select("part", "first_place", "first_offset", **IN_SOURCE)
        yield To("mirrored_copies", copies.join(first, on="part", how="left").select(list(MIRRORED)))

    def of_places(self, places: Places) -> Iterator[Find]:
        """Finds cases like reordered messages (order.py), with source offsets instead of seqs."""
        late = late_copies(places.tables["mirrored_copies"].filter("mirrored"))
        yield Cases("mirror-reordered", late)
        yield SumPart("mirror_reordered", _with_direction(late, places.known.names))


def _with_direction(copies: pl.DataFrame, names: Names) -> pl.DataFrame:
    """Mirrored copies, with `source` and `target`."""
    clusters = (names.cluster_of(pl.col(place) // SHIFT) for place in ("first_place", "place"))
    return copies.with_columns(column.alias(name) for name, column in zip(_DIRECTION, clusters, strict=True))


def late_copies(mirrored: pl.DataFrame) -> pl.DataFrame:
    """(producer, seq, place, offset, n, first_place, first_offset, behind): the late copies, and the highest
    offset of their source partition before them.
    """
    known = mirrored.drop_nulls(["first_place", "first_offset"])
    in_source = known.select(
        "place", "offset", "n", producer="first_place", seq="first_offset", epoch=pl.lit(None, pl.Int64)
    )
    late = reordered(in_source).select(
        "place", "offset", "n", first_place="producer", first_offset="seq", behind="top"
    )
    parts, copies = overlay([late, known.select(*RECORD, "n")], PLACES)
    with_message = parts.join(copies.select("part", *MESSAGE), on="part")
    return with_message.select(*RECORD, "n", "first_place", "first_offset", "behind")


_IDENTITY = permitted(
    "with the identity policy a mirror cannot tell where a record came from, and the mirrors form a loop"
)
_DEFAULT = violation("with the default policy a mirror does not copy what came from its target")


class Looped(Question):
    """Those in targets of mirrors of which none has the identity policy have a flag."""

    sums = {"looped": Sum(("home",), ("n",))}
    stories = {"looped": lambda r: f"{message(r)} came back to its own cluster, as {at(r)}"}
    rules = {
        "looped": VerdictRule(
            "{messages were|message was} brought back by mirrors", by_flag(_DEFAULT, _IDENTITY)
        )
    }
    shown_by = MESSAGE

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Each looped message once, at the first copy that came back."""
        if messages.known.homes is None:
            return
        back = messages.copies.filter("looped").sort("offset", "place")
        back = back.unique("part", keep="first", maintain_order=True)
        home = messages.known.names.cluster_of(pl.col("place") // SHIFT)
        cases = back.select(*MESSAGE, "place", "offset", "n", home=home)
        mirrors = messages.known.mirrors
        by_identity = {mirror.target for mirror in mirrors if mirror.identity}
        by_default = {mirror.target for mirror in mirrors} - by_identity
        yield Cases("looped", cases.with_columns(flag=pl.col("home").is_in(sorted(by_default))))
        yield SumPart("looped", cases.select("home", "n"))


_ALONE = dict.fromkeys((*RECORD, "n"), pl.Int64)


class Merges(Question):
    """Counts merged copies and conflicting keys by source and target."""

    needs = {"places": ("mirrored_copies",)}
    sums = {"merged": Sum(_DIRECTION, ("n",)), "conflicts": Sum(_DIRECTION, ("keys", "own_last"))}
    passes = {"alone": _ALONE}

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Passes on messages that are only in their home's cluster, if there are several clusters."""
        if messages.known.homes is None:
            return
        own = messages.copies.filter("home", "sent", "visible")
        away = messages.copies.filter(IS_MIRRORED).select("part").unique()
        yield To("alone", own.join(away, on="part", how="anti").select(list(_ALONE)))

    def of_places(self, places: Places) -> Iterator[Find]:
        copies = places.tables["mirrored_copies"].filter("mirrored").drop_nulls("first_place")
        alone = places.tables["alone"]
        after_alone = merged(_with_direction(copies, places.known.names), alone)
        yield SumPart("merged", after_alone.select(*_DIRECTION, "n"))
        yield SumPart("conflicts", conflicts(after_alone, alone, places.known.keyed))


def merged(copies: pl.DataFrame, alone: pl.DataFrame) -> pl.DataFrame:
    """The parts of mirrored copies that are after a message which is alone."""
    first = alone.group_by("place").agg(begin=pl.col("offset").min())
    return beyond(copies.join(first, on="place"), "offset", pl.col("begin"))


def conflicts(copies: pl.DataFrame, alone: pl.DataFrame, keys: Mapping[int, int]) -> pl.DataFrame:
    """(source, target, keys, own_last): keys with a message that is alone and a copy after it, and those of
    them whose last message in the target is alone rather than a copy.
    """
    here = ["place", "key"]
    lasts = _keyed(copies, keys, last=True).group_by(*here, *_DIRECTION).agg(copied=pl.col("offset").max())
    firsts = _keyed(alone, keys, last=False).group_by(here).agg(begin=pl.col("offset").min())
    ends = _keyed(alone, keys, last=True).group_by(here).agg(end=pl.col("offset").max())
    both = lasts.join(firsts, on=here).filter(pl.col("copied") > pl.col("begin")).join(ends, on=here)
    return both.select(
        *_DIRECTION, keys=pl.lit(1, pl.Int64), own_last=(pl.col("end") > pl.col("copied")).cast(pl.Int64)
    )


def _keyed(runs: pl.DataFrame, keys: Mapping[int, int], *, last: bool) -> pl.DataFrame:
    """A row for the first (or last) record of each key in each run: as many as the producer has keys, which
    alternate, at most the length of the run.
    """
    mine = runs.filter(pl.col("producer").is_in(list(keys)))
    key_count = looked_up(pl.col("producer"), keys, 1).clip(1)
    rows_per_run = pl.min_horizontal("n", key_count)
    mine = mine.with_columns(
        at=pl.int_ranges(pl.col("n") - rows_per_run if last else pl.lit(0), "n" if last else rows_per_run)
    )
    rows = mine.explode("at").with_columns(pl.col(name) + pl.col("at") for name in (MESSAGE[1], "offset"))
    return rows.with_columns(key=key_of(keys))
