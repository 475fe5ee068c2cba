"""unmirrored, by the first of CAUSES that applies; what each mirror copied. Defined in docs/GLOSSARY.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl

from kaput.analysis.causes.attribution import in_old_topic
from kaput.analysis.engine.question import (
    Cases,
    Check,
    Find,
    Question,
    Reported,
    SumPart,
    To,
    anomaly,
    facts,
    findings,
    message,
)
from kaput.analysis.engine.sums import Sum
from kaput.analysis.facts.mirrors import MirrorFacts
from kaput.analysis.questions.mirrored_copies import IN_SOURCE
from kaput.analysis.run import Run
from kaput.analysis.runs.columns import ACKED, MESSAGE, NAMED, SPOT, key_of, looked_up
from kaput.analysis.runs.cutting import beyond, each, single
from kaput.analysis.runs.encoding import Encoded
from kaput.analysis.runs.names import SHIFT
from kaput.analysis.runs.run import NULL
from kaput.analysis.views.known import Known
from kaput.analysis.views.messages import Messages
from kaput.analysis.views.places import Places
from kaput.analysis.views.rows import Rows
from kaput.core import FOREVER_NS, SECOND
from kaput.evidence.comparisons import read_compared
from kaput.evidence.findings_parts import ComparedMirror, MirrorFindings
from kaput.verdict.contracts import Ruling, Word, permitted, unclear, violation
from kaput.verdict.facts import MirrorAtEnd
from kaput.verdict.rules import VerdictRule

AFTER_END = "after-end"
UNREAD = "unread"  # the target was not read to its end: not a cause, since the copy may be there
DELETED, RECREATED, MAYBE_REMOVED = "deleted", "recreated", "maybe-removed"
RULINGS: Mapping[str, Ruling] = {
    DELETED: permitted(
        "{they are|it is} deleted in the source, and nothing shows that the mirror had copied {them|it} "
        "before; a mirror promises what its source retains"
    ),
    "not-retained": permitted("the source does not have {them|it} either, so there was nothing to copy"),
    AFTER_END: permitted("the mirror had ended before {they were|it was} acknowledged"),
    RECREATED: permitted(
        "{their|its} topic had been deleted and created again, and a mirror goes on at its offset in the old "
        "one"
    ),
    "unexplained": violation("the mirror had copied what follows {them|it} in {their|its} partition"),
    "stopped": permitted("a stopped asynchronous mirror promises nothing about the rest"),
    "fault": permitted("an asynchronous mirror makes no promise about what a fault kept it from copying"),
    MAYBE_REMOVED: unclear(
        "{their|its} topic in the target removes records by itself, and may have removed {them|it}"
    ),
    "behind": unclear("the mirror was still running, and had not got that far"),
}
CAUSES = tuple(RULINGS)
_WORDS: tuple[Word, ...] = ("violation", "unclear", "permitted")  # in the order in which examples are shown
_RANK = (
    pl.col("fate")
    .replace_strict({cause: _WORDS.index(RULINGS[cause].word) for cause in CAUSES})
    .alias("rank")
)
_DOUBTED = ("unexplained", "behind")  # unless the target may have removed it
REMOVED = "removed"  # as configured in the target: not a cause, since the target lacks nothing by it
_FATES = Sum(("mirror", "fate", "late"), ("n",), ("first_ns",), ("last_ns",))
_TIMES = ("done_ns_first", "done_ns_last")
_OF_FATES = (
    "mirror",
    "fate",
    "late",
    "n",
    pl.col(_TIMES[0]).alias("first_ns"),
    pl.col(_TIMES[1]).alias("last_ns"),
)
_MISSING = {
    **dict.fromkeys(
        (*MESSAGE, "place", "n", "source_place", "source_offset", "first_offset", *_TIMES, "late"),
        pl.Int64,
    ),
    "handed": pl.Boolean,
    **dict.fromkeys(("mirror", "fate"), pl.String),
}


class Unmirrored(Question):
    """Counts what each mirror that ever ran copied. What the target may have removed by itself is decided in
    the stage places, where the rest of its partition is.
    """

    needs = {"places": ("missing_copies",)}
    passes = {"missing_copies": _MISSING}
    sums = {
        "mirrored": _FATES,
        "missing": _FATES,
        "old_ends": Sum(("place",), greatest=("end",)),
    }
    stories = {
        "unmirrored": lambda r: (
            f"{message(r)} was acknowledged, and {r['mirror'].split('->')[1]} has no copy of it "
            f"({r['mirror']}: {r['fate']})"
        )
    }
    rules = {
        "unmirrored": VerdictRule(
            "acknowledged {messages are|message is} not in a mirror's target",
            lambda known: ((RULINGS[cause], n) for cause, n in sorted(known.causes.items())),
        )
    }
    shown_by = ("rank", *MESSAGE)

    def of_rows(self, rows: Rows) -> Iterator[Find]:
        """The end offsets of topics that were recreated later."""
        if rows.table == "sends":
            yield SumPart("old_ends", _old_ends(rows.acked, rows.known.recreated))

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        ran = [fates(messages, mirror) for mirror in messages.known.mirrors if mirror.started]
        if not ran:
            return
        every, missing = pl.concat(ran), pl.col("fate").is_in(CAUSES)
        removing = _may_be_removed(messages.known)
        yield To("missing_copies", _missing(every.filter(removing), messages))
        every = every.filter(~removing)
        yield SumPart("mirrored", every.select(*_OF_FATES))
        yield messages.case("unmirrored", every.filter(missing).with_columns(_RANK))

    def of_places(self, places: Places) -> Iterator[Find]:
        rows = with_removed(places.tables["missing_copies"], places)
        yield SumPart("missing", rows.select(*_OF_FATES))
        cases = rows.filter(pl.col("fate").is_in(CAUSES))
        yield Cases("unmirrored", cases.with_columns(_RANK, place="source_place", offset="first_offset"))

    def report(self, run: Run) -> Iterator[Reported | Check]:
        by_fate = _by_fate(_fates_of(run))
        causes = {cause: by_fate[cause] for cause in CAUSES if by_fate[cause]}
        yield anomaly("unmirrored", causes=causes)
        yield Check("unmirrored", run.totals.counted("unmirrored"), sum(causes.values()), ("case", "cause"))


def _fates_of(run: Run) -> pl.DataFrame:
    return pl.concat([run.sums["mirrored"], run.sums["missing"]])


def _by_fate(mirrored: pl.DataFrame) -> Counter[str]:
    return Counter(dict(mirrored.group_by("fate").agg(pl.col("n").sum()).iter_rows()))


def fates(messages: Messages, mirror: MirrorFacts, chosen: pl.Expr = ACKED) -> pl.DataFrame:
    """The acknowledged stretches (or `chosen`) of the topics that a mirror copies, with `mirror` and `fate`:
    mirrored, one of CAUSES, or unread where the target was not read to its end. `late`: not mirrored, and
    acknowledged after the mirror had ended for good. `copy_place`: the partition for its copy; `handed`:
    whether a group was delivered it in the target.
    """
    known = messages.known
    own = messages.stretches.filter(
        chosen, ~pl.col("uncommitted"), ~pl.col("unread"), pl.col("home_topic").is_in(list(mirror.topics))
    )
    targets = [n for n, cluster in enumerate(known.names.clusters) if cluster == mirror.target]
    in_target = (pl.col("place") // SHIFT).is_in(targets)
    there = messages.copies.filter(in_target, "visible")["part"].unique()
    handed = messages.deliveries.filter(in_target)["part"].unique()
    copies = {topic: -1 if copy is None else copy for topic, copy in mirror.topics.items()}
    copy = looked_up(pl.col("home_topic"), copies, -1)
    place = copy * SHIFT + IN_SOURCE["source_place"] % SHIFT
    own = own.with_columns(copy_place=place, handed=pl.col("part").is_in(handed.implode()))
    drained = looked_up(place, mirror.drained_to, 0)
    mirrored = pl.col("part").is_in(there.implode())
    own = _cut_at(
        own.with_columns(drained=pl.when(~mirrored).then(drained)), "first_offset", "drained", messages
    )
    own = own.with_columns(begin=pl.when(pl.col("stored") == 0).then(_begins(messages)))
    own = _cut_at(own, "offset", "begin", messages)
    own = own.with_columns(old_end=pl.when(~mirrored).then(looked_up(pl.col("first_place"), known.old_ends)))
    own = _cut_at(own, "first_offset", "old_end", messages)
    own = _with_old_flag(own, ~mirrored & (pl.col("stored") == 0), messages)
    deleted = (pl.col("offset") < pl.col("begin")).fill_null(False) | pl.col("old")
    own = _split_at_end(own, ~mirrored, mirror.ended_ns, messages)
    done_ns = pl.coalesce("done_ns_first", "attempt_ns_first")  # without a time: not before that
    late = pl.lit(False) if mirror.ended_ns is None else done_ns >= mirror.ended_ns
    late = (late & ~mirrored).fill_null(False)
    fate = (
        pl.when(mirrored)
        .then(pl.lit("mirrored"))
        .when(~copy.is_in(sorted(known.complete_topics)))
        .then(pl.lit(UNREAD))
        .when((pl.col("stored") == 0) & ~deleted)
        .then(pl.lit("not-retained"))
        .when(late)
        .then(pl.lit(AFTER_END))
        .when(deleted)
        .then(pl.lit(DELETED))
        .when((pl.col("first_offset") < pl.col("drained")) | pl.lit(mirror.drained))
        .then(
            pl.when(pl.col("first_offset") < pl.col("old_end"))
            .then(pl.lit(RECREATED))
            .otherwise(pl.lit("unexplained"))
        )
        .otherwise(pl.lit(mirror.ended or ("fault" if mirror.broken else "behind")))
    )
    found = own.with_columns(mirror=pl.lit(mirror.name), fate=fate, late=late.cast(pl.Int64))
    return found.drop("drained", "begin", "old_end", "old")


def removes(place: pl.Expr, known: Known) -> pl.Expr:
    """Whether the log of a place in a target may have lost records by its settings."""
    return _compacts(place, known) | place.is_in(_trimmed(known))


def _compacts(place: pl.Expr, known: Known) -> pl.Expr:
    return (place // SHIFT).is_in(list(known.removing.compacted))


def _trimmed(known: Known) -> list[int]:
    """The places whose log begins above 0."""
    return [
        known.names.code(p)
        for p, e in known.extents.items()
        if (e.start or 0) > 0 and p.topic in known.names.topics
    ]


def _may_be_removed(known: Known) -> pl.Expr:
    """Whether what is missing may be what its target has removed by itself (with_removed): a compacted topic
    may have, except what was attempted after the only mirror that leads there had ended; any other only
    what a group was delivered there, or what the mirror had passed, or has not reached.
    """
    place, targets = pl.col("copy_place"), Counter(mirror.target for mirror in known.mirrors)
    ended = {m.name: m.ended_ns for m in known.mirrors if m.ended_ns is not None and targets[m.target] == 1}
    since_ns = pl.col("mirror").replace_strict(ended, default=None, return_dtype=pl.Int64)
    later = (pl.col("attempt_ns_first") > since_ns).fill_null(False)
    copied = pl.col("handed") | ~later
    shown = pl.col("handed") | pl.col("fate").is_in(_DOUBTED)
    removes_ = (_compacts(place, known) & copied) | (place.is_in(_trimmed(known)) & shown)
    return (pl.col("fate").is_in(CAUSES) & removes_).fill_null(False)


def _missing(stretches: pl.DataFrame, messages: Messages) -> pl.DataFrame:
    """_MISSING: a row for each message of a compacted topic, else for each stretch. `place`: of its copy."""
    rows, single_ = stretches.with_columns(**IN_SOURCE), _compacts(pl.col("copy_place"), messages.known)
    both = (_one_by_one(rows.filter(single_), messages), rows.filter(~single_))
    return pl.concat(some.with_columns(place="copy_place").select(list(_MISSING)) for some in both)


def with_removed(missing: pl.DataFrame, places: Places) -> pl.DataFrame:
    """The rows, with the fate of those that the target removed as configured, or may have removed."""
    if missing.is_empty():
        return missing
    copies, from_ = places.tables["mirrored_copies"].filter("mirrored"), ["place", "source_place"]
    lowest = copies.group_by(from_).agg(lowest=pl.col("source_offset").min())
    rows = missing.join(lowest, on=from_, how="left")
    compacts = _compacts(pl.col("place"), places.known)
    # What is at the lowest offset has a copy: only where acknowledgements contradict the log does a stretch
    # lie on both sides of it; then both parts have its times.
    others = pl.concat(_cut(rows.filter(~compacts), "source_offset", "lowest"))
    others = others.with_columns(superseded=pl.lit(False), compactable=pl.lit(False))
    rows = pl.concat([_with_superseded(rows.filter(compacts), copies, places).select(others.columns), others])
    below = (pl.col("source_offset") < pl.col("lowest")).fill_null(True)
    trimmed = pl.col("place").is_in(_trimmed(places.known)) & below
    removed = pl.col("superseded") | (trimmed & pl.col("handed"))
    doubted = pl.col("fate").is_in(_DOUBTED) & (trimmed | pl.col("compactable"))
    fate = pl.when(removed).then(pl.lit(REMOVED)).when(doubted).then(pl.lit(MAYBE_REMOVED)).otherwise("fate")
    return rows.with_columns(fate=fate)


def _with_superseded(missing: pl.DataFrame, copies: pl.DataFrame, places: Places) -> pl.DataFrame:
    """The rows, each of one message of a compacted topic: `superseded`, whether the target compacted it, and
    `compactable`, whether it may have.
    """
    removing, key = places.known.removing, key_of(places.known.removing.keys).alias("key")
    mine, with_key = pl.col("place").is_in(missing["place"].unique().implode()), ["place", "key"]
    there = single(copies.filter(mine)).with_columns(key)
    last = there.group_by(*with_key, "source_place").agg(last=pl.col("source_offset").max())
    newest = there.group_by(*with_key, "source_place", "producer").agg(newest=pl.col("seq").max())
    own = single(places.log.filter(NAMED, "visible", mine)).join(there, on=SPOT, how="anti")
    own = own.with_columns(key).select(*with_key, own=pl.lit(True)).unique()
    rows = missing.with_columns(key).join(last, on=[*with_key, "source_place"], how="left")
    rows = rows.join(newest, on=[*with_key, "source_place", "producer"], how="left")
    rows = rows.join(own, on=with_key, how="left")
    by_seq = pl.when(pl.col("source_offset").is_null()).then(pl.col("newest") > pl.col("seq"))
    later = by_seq.otherwise(pl.col("last") > pl.col("source_offset")).fill_null(False)
    unknown = ~pl.col("producer").is_in(list(removing.keys)) | pl.col("own").fill_null(False)
    # Compaction leaves gaps; so do the markers of a mirror's transactions.
    gaps = _gaps(places)
    enough = (later.sum().over("mirror", "place") <= gaps) & ~pl.col("mirror").is_in(
        [mirror.name for mirror in places.known.mirrors if mirror.exactly_once]
    )
    return rows.with_columns(
        superseded=later & (enough | pl.col("handed")), compactable=(unknown | later) & (gaps > 0)
    )


def _gaps(places: Places) -> pl.Expr:
    """How many offsets below its end the log of a place lacks."""
    known, stored = places.known, dict(places.log.group_by("place").agg(pl.col("n").sum()).iter_rows())
    codes = {known.names.code(p): e.end for p, e in known.extents.items() if p.topic in known.names.topics}
    return looked_up(pl.col("place"), {code: end - stored.get(code, 0) for code, end in codes.items()}, 0)


def _old_ends(acked: Encoded, recreated: Mapping[int, int]) -> pl.DataFrame:
    """(place, end): the offset after the last message that was attempted before the old topic was gone."""
    if not recreated:
        return pl.DataFrame(schema=dict.fromkeys(("place", "end"), pl.Int64))
    topic = pl.col("place") // SHIFT
    mine = acked.where(topic.is_in(list(recreated)) & pl.col("offset").is_not_null())
    sent = each(mine.runs.select("seq", "place", "offset", "n", "row"), attempt_ns=mine.rows["attempts"])
    old = sent.filter(in_old_topic(topic, recreated))
    return old.select("place", end=pl.col("offset") + 1)


def _begins(messages: Messages) -> pl.Expr:
    """The start of the log in which a message was acknowledged; null if unknown."""
    known = messages.known
    begins = {
        known.names.code(place): extent.start
        for place, extent in known.extents.items()
        if extent.start is not None and place.topic in known.names.topics
    }
    return looked_up(pl.col("place"), begins)


def _cut(stretches: pl.DataFrame, offset: str, border: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The stretches that do not have the offset in the column `border` inside, and both parts of the others.
    `offset`: where they begin.
    """
    first, n = pl.col(offset), pl.col("n")
    within = ((pl.col(border) > first) & (pl.col(border) < first + n)).fill_null(False)
    cut = stretches.filter(within)
    below = cut.with_columns(n=pl.col(border) - first)
    return stretches.filter(~within), pl.concat([below, beyond(cut, offset, pl.col(border))])


def _cut_at(stretches: pl.DataFrame, offset: str, border: str, messages: Messages) -> pl.DataFrame:
    """The stretches, cut at the offset in the column `border`, if it is inside those from `offset` on."""
    whole, parts = _cut(stretches, offset, border)
    if parts.is_empty():
        return stretches
    dones = messages.times["dones"]
    spans = [dones[row : row + n] for row, n in parts.select("row", "n").iter_rows()]
    firsts = [int(np.where(span == NULL, FOREVER_NS, span).min()) for span in spans]
    times = (
        pl.Series("done_ns_first", firsts, pl.Int64).replace(FOREVER_NS, None),
        pl.Series("done_ns_last", [int(span.max()) for span in spans], pl.Int64).replace(NULL, None),
    )
    return pl.concat([whole, parts.with_columns(times)])


def _split_at_end(own: pl.DataFrame, chosen: pl.Expr, end_ns: int | None, messages: Messages) -> pl.DataFrame:
    """The stretches; those acknowledged partly before and partly after `end_ns` as single messages."""
    if end_ns is None:
        return own
    first, last = (pl.coalesce(f"done_ns_{end}", f"attempt_ns_{end}") for end in ("first", "last"))
    split = chosen & (first < end_ns) & (last >= end_ns)
    return pl.concat([own.filter(~split), _one_by_one(own.filter(split), messages)])


def _with_old_flag(own: pl.DataFrame, gone: pl.Expr, messages: Messages) -> pl.DataFrame:
    """The stretches, with `old`: whether a message that is `gone` was in the old topic before it was
    recreated. Those of recreated topics as single messages.
    """
    recreated = messages.known.recreated
    split = gone & pl.col("home_topic").is_in(list(recreated))
    gone_ = each(_one_by_one(own.filter(split), messages), attempt_ns=messages.times["attempts"])
    gone_ = gone_.with_columns(old=in_old_topic(pl.col("home_topic"), recreated)).drop("attempt_ns")
    return pl.concat([own.filter(~split).with_columns(old=pl.lit(False)), gone_])


def _one_by_one(stretches: pl.DataFrame, messages: Messages) -> pl.DataFrame:
    attempts, dones = messages.times["attempts"], messages.times["dones"]
    return each(stretches, attempt_ns_first=attempts, done_ns_first=dones, done_ns_last=dones)


_ENDED = {"stopped": "it had been stopped", "fault": "it had been killed"}


class Mirrors(Question):
    def report(self, run: Run) -> Iterator[Reported]:
        compared = [(mirror, _compared(run, mirror)) for mirror in run.mirrors]
        yield findings(mirrors=[_findings(run, mirror, one) for mirror, one in compared])
        yield facts(mirrors=[_facts(mirror, one) for mirror, one in compared])


def _compared(run: Run, mirror: MirrorFacts) -> ComparedMirror | None:
    """The comparison of a mirror's clusters; None if none is recorded."""
    comparison = read_compared(run.given.evidence.folder, mirror.source, mirror.target)
    if comparison is None:
        return None
    why = "" if comparison.status is not None else "; ".join(comparison.notes)
    return ComparedMirror(status=comparison.status, lost=comparison.lost, why=why)


def _facts(mirror: MirrorFacts, compared: ComparedMirror | None) -> MirrorAtEnd:
    ended = _ENDED[mirror.ended] if mirror.ended else "" if mirror.started else "it was never started"
    if compared is None or ended:
        return MirrorAtEnd(mirror.name, ended)
    return MirrorAtEnd(mirror.name, ended, compared.status, compared.lost, compared.why)


def _findings(run: Run, mirror: MirrorFacts, compared: ComparedMirror | None) -> MirrorFindings:
    rows = _fates_of(run).filter(mirror=mirror.name)
    counts = _by_fate(rows)
    missing = {cause: counts[cause] for cause in CAUSES if counts[cause]}
    before = rows.filter(rows["fate"].is_in(CAUSES), pl.col("late") == 0)
    since_ns, known = _number(before["first_ns"].min()), not counts[UNREAD]
    deleted = rows.filter(fate=DELETED)
    return MirrorFindings(
        mirror=mirror.name,
        source=mirror.source,
        target=mirror.target,
        topics=sorted(run.names.topics[topic] for topic in mirror.topics),
        drained=mirror.drained,
        ended_ns=mirror.ended_ns,
        ended=mirror.ended,
        restarts=mirror.restarts,
        acknowledged=counts.total(),
        mirrored=counts["mirrored"],
        removed=counts[REMOVED],
        unmirrored=sum(missing.values()),
        causes=missing,
        unmirrored_since_ns=since_ns,
        deleted_first_ns=_number(deleted["first_ns"].min()),
        deleted_last_ns=_number(deleted["last_ns"].max()),
        rpo_messages=int(before["n"].sum()) if known else None,
        rpo_s=_age_s(since_ns, mirror.ended_ns or run.given.manifest.ended_ns) if known else None,
        mirrored_twice=_between(run, "mirrored_twice", mirror),
        reordered=_between(run, "mirror_reordered", mirror),
        merged=_between(run, "merged", mirror),
        conflicting_keys=_between(run, "conflicts", mirror, "keys") if run.given.keyed else None,
        own_last_keys=_between(run, "conflicts", mirror, "own_last") if run.given.keyed else None,
        looped=int(run.sums["looped"].filter(home=mirror.target)["n"].sum()),
        lag_max=mirror.lag_max,
        checkpoints=mirror.checkpoints,
        compared=compared,
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _age_s(since_ns: int | None, end_ns: int | None) -> float | None:
    if since_ns is None:
        return 0.0
    return None if end_ns is None else max(end_ns - since_ns, 0) / SECOND


def _between(run: Run, name: str, mirror: MirrorFacts, column: str = "n") -> int:
    return int(run.sums[name].filter(source=mirror.source, target=mirror.target)[column].sum())
