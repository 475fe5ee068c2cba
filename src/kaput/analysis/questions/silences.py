"""Silences: at least a second without any acknowledgement (or first delivery to a group) while a message
waited; of each partition, of all together, of each producer in a partition, and around each fault; each with
what it waited for. Standstill, unavailability and outage are this one notion (docs/GLOSSARY.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import polars as pl

from kaput.analysis.engine.question import Question, Reported, facts, fault, findings
from kaput.analysis.engine.spells import DONE, PRODUCERS, WAITING, pauses
from kaput.analysis.facts.reach import Reach
from kaput.analysis.facts.waits import SHORTEST_NS, Story
from kaput.analysis.questions.availability import NOWHERE, Timeouts
from kaput.analysis.questions.likely_causes import Cause, RunEvents, Silence, Single, plan_moves
from kaput.analysis.run import Run
from kaput.core import FOREVER_NS, MS, SECOND, counted
from kaput.evidence.findings import Unavailability
from kaput.evidence.findings_claims import Availability, Claim, Standstill

_ALL_PLACES = -2  # instead of a place: all partitions together
_MAX_SHOWN = 100  # silences of all partitions together, and of single partitions; also for each group
_MAX_CAUSES = 3  # named of one silence
_SCOPE = ("group", "place")
_STREAM = ("producer", "place")
_LENGTH = pl.col("to_ns") - pl.col("from_ns")


class Silences(Question):
    """Finds silences on the driver, from the spells of availability.py."""

    def report(self, run: Run) -> Iterator[Reported]:
        by_stream = run.sums["service_spells"]
        spells = _with_all_places(by_stream.drop("producer"))
        silent = _pauses(spells, _SCOPE)
        stories = _Stories(run, silent)
        everywhere = pl.col("place") == _ALL_PLACES
        shown = pl.concat(_longest(silent.filter(scope)) for scope in (everywhere, ~everywhere))
        rows = shown.sort(pl.col("group"), pl.col("place"), "from_ns").iter_rows()
        silences = [stories.of(group, place, None, *times) for group, place, *times in rows]
        events = RunEvents(run, _silent_places(run, silent))
        causes = [events.causes(one) for one in silences]
        caused = (one.caused_by(each) for one, mine in zip(silences, causes, strict=True) for each in mine)
        availability = list(_availability(run, spells, silent))
        within = (_within_1s(one) for one in availability if one.partition is None and one.messages)
        yield findings(
            claims=[*(one.claim() for one in silences), *caused, *_times_unknown(run), *within],
            standstills=[_standstill(events, one, mine) for one, mine in zip(silences, causes, strict=True)],
            standstills_left_out=silent.height - shown.height,
            availability=availability,
        )
        service = silent.filter(group=PRODUCERS, place=_ALL_PLACES)
        untimed = acks_untimed(run)
        longest_ns = service.select(_LENGTH.max()).item() or 0
        yield facts(standstill_ms=None if untimed else longest_ns / MS, acks_untimed=untimed)
        streams = _pauses(by_stream.filter(pl.col("group") == PRODUCERS, pl.col("place") >= 0), _STREAM)
        yield from _of_producers(stories, streams)
        yield from _of_faults(run, stories, silent.filter(pl.col("group") == PRODUCERS, pl.col("place") >= 0))


class _Stories:
    """What each silence waited for."""

    def __init__(self, run: Run, silent: pl.DataFrame) -> None:
        self._run = run
        single = silent.filter(pl.col("place") != _ALL_PLACES).sort("place", descending=True)
        # By group and end, the partition that resumed first.
        self._resumed: Mapping[tuple[int, int], int] = {
            (group, to_ns): place for group, place, to_ns in single.select(*_SCOPE, "to_ns").iter_rows()
        }

    def of(
        self, group: int, place: int, producer: int | None, from_ns: int, to_ns: int, ended: bool
    ) -> Silence:
        """A silence of a partition, or of all of them, with its story."""
        run = self._run
        where = None if place == _ALL_PLACES else run.names.located(place)
        name = None if group == PRODUCERS else run.given.groups[group]
        first = self._resumed.get((group, to_ns)) if where is None else place
        story = Story(why="no partition's own silence ended with it")
        if first is not None:
            story = run.story(run.names.located(first), from_ns, to_ns, name, producer)
        if not story.decidable and (moves := plan_moves(run, from_ns, to_ns, name)):
            story = replace(story, why=moves[0].text)
        return Silence(where, name, producer, from_ns, to_ns, ended, story)


def _pauses(spells: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """(keys, from_ns, to_ns, ended): every silence."""
    return pauses(spells, keys, SHORTEST_NS)


def _with_all_places(spells: pl.DataFrame) -> pl.DataFrame:
    """The spells of each partition, and of all together, including messages without a known partition."""
    every = spells.with_columns(place=pl.lit(_ALL_PLACES, pl.Int64))
    return pl.concat([spells.filter(pl.col("place") != NOWHERE), every])


def _silent_places(run: Run, silent: pl.DataFrame) -> dict[str | None, list[Single]]:
    found: dict[str | None, list[Single]] = {}
    single = silent.filter(pl.col("place") != _ALL_PLACES).select(*_SCOPE, "from_ns", "to_ns", "ended")
    for group, place, *times in single.iter_rows():
        name = None if group == PRODUCERS else run.given.groups[group]
        found.setdefault(name, []).append(Single(run.names.located(place), *times))
    return found


def _longest(silent: pl.DataFrame) -> pl.DataFrame:
    """The longest silences of each group."""
    return silent.sort(-_LENGTH, "place", "from_ns").group_by("group", maintain_order=True).head(_MAX_SHOWN)


def _standstill(events: RunEvents, one: Silence, causes: Sequence[Cause]) -> Standstill:
    happened, more = events.happened(one.from_ns, one.to_ns, one.place, one.group)
    return Standstill(
        group=one.group,
        topic=one.place and one.place.topic,
        partition=one.place and one.place.partition,
        from_ns=one.from_ns,
        to_ns=one.to_ns,
        length_ms=(one.to_ns - one.from_ns) / MS,
        ended_by=one.ended_by,
        waited_for=one.waited_for,
        cause="; ".join(cause.text for cause in causes[:_MAX_CAUSES]) or None,
        happened=happened,
        happened_left_out=more,
    )


def end_of_silence(
    silences: Iterable[tuple[int, int, bool]], effective_ns: int, healed_ns: int | None
) -> int | None:
    """The end of the first silence that ends after a fault's effect and begins before its heal; None for
    none. What was attempted last is in one that ended with the load.
    """
    until_ns = FOREVER_NS if healed_ns is None else healed_ns
    mine = (one for one in silences if one[1] > effective_ns and one[0] < until_ns)
    return next((to_ns + (not ended) for _, to_ns, ended in mine), None)


def _within_1s(one: Availability) -> Claim:
    """How many messages were acknowledged, or first delivered to a group, within a second of the attempt."""
    return Claim(
        kind="within-1s", group=one.group, figures={"messages": one.messages, "within_1s": one.within_1s}
    )


def _times_unknown(run: Run) -> Iterator[Claim]:
    """A claim if acknowledgements have no times: then nothing is known of silences and latencies."""
    untimed = int(run.sums["untimed_acks"]["n"].sum())
    if untimed:
        yield Claim(
            kind="times-unknown",
            figures={"messages": untimed},
            decidable=False,
            why=counted(untimed, "{acknowledgements have|acknowledgement has} no time (done_ns is null)"),
        )


def acks_untimed(run: Run) -> bool:
    """Whether messages were acknowledged, and no acknowledgement has a time."""
    timed = run.sums["service_spells"].filter(group=PRODUCERS, kind=DONE)
    return timed.is_empty() and int(run.sums["untimed_acks"]["n"].sum()) > 0


def _of_producers(stories: _Stories, streams: pl.DataFrame) -> Iterator[Reported]:
    """The longest silence of each producer in each partition."""
    longest = streams.sort(-_LENGTH, "from_ns").unique(_STREAM, keep="first", maintain_order=True)
    silences = [
        stories.of(PRODUCERS, place, producer, *times)
        for producer, place, *times in longest.sort(*_STREAM).iter_rows()
    ]
    rows = [
        Unavailability(
            producer=one.producer or 0,
            topic=one.place.topic,
            partition=one.place.partition,
            longest_ms=(one.to_ns - one.from_ns) / MS,
            from_ns=one.from_ns,
            to_ns=one.to_ns,
            ended_by=one.ended_by,
            waited_for=one.waited_for,
        )
        for one in silences
        if one.place is not None
    ]
    yield findings(
        unavailability=sorted(rows, key=lambda u: (u.producer, u.topic, u.partition)),
        claims=[one.claim("unavailable") for one in silences],
    )


def _of_faults(run: Run, stories: _Stories, silent: pl.DataFrame) -> Iterator[Reported]:
    """The longest silence of a partition that each fault hit, from its effect to the end of recovery."""
    most: float | None = None
    written = set(run.sums["service_spells"].filter(group=PRODUCERS)["place"])
    for reach in run.reaches:
        row = _longest_of(run, reach, silent)
        hit = {run.names.code(place) for place in reach.hit}
        if reach.fault.effective_ns is not None and hit & written and not acks_untimed(run):
            most = max(most or 0.0, 0.0)  # none lasted a second
        if row is not None:
            one = stories.of(PRODUCERS, row[0], None, row[1], row[2], row[3])
            length_ms = (one.to_ns - one.from_ns) / MS
            most = max(most or 0.0, length_ms)
            yield fault(
                reach.fault.id,
                unavailable_ms=length_ms,
                unavailable_ended_by=one.ended_by,
                unavailable_waited_for=one.waited_for,
            )
            yield findings(claims=[one.claim("unavailable", reach.fault.id)])
    yield facts(unavailable_ms=most)


def _longest_of(run: Run, reach: Reach, silent: pl.DataFrame) -> tuple[int, int, int, bool] | None:
    """(place, from_ns, to_ns, ended), clipped to the fault's effect."""
    since, until = reach.fault.effective_ns, reach.recovered_ns(run.given.ended_ns)
    if since is None or not reach.hit:
        return None
    codes = [run.names.code(place) for place in reach.hit]
    here = silent.filter(pl.col("place").is_in(codes), pl.col("to_ns") > since, pl.col("from_ns") < until)
    cut = here.with_columns(pl.col("from_ns").clip(lower_bound=since)).filter(_LENGTH >= SHORTEST_NS)
    longest = cut.sort(-_LENGTH, "from_ns", "place").head(1)
    return longest.select("place", "from_ns", "to_ns", "ended").row(0) if longest.height else None


def _availability(run: Run, spells: pl.DataFrame, silent: pl.DataFrame) -> Iterator[Availability]:
    """A row for acknowledgements and one for each group, for all partitions together and for each."""
    counts = run.sums["service_counts"]
    every = counts.with_columns(place=pl.lit(_ALL_PLACES, pl.Int64)).group_by(_SCOPE).sum()
    sums = pl.concat([every, counts.filter(pl.col("place") != NOWHERE).select(every.columns)])
    silence_sums = silent.group_by(_SCOPE).agg(
        still_ns=_LENGTH.sum(), often=pl.len(), longest_ns=_LENGTH.max()
    )
    load = (
        spells.filter(kind=WAITING)
        .group_by(_SCOPE)
        .agg(load_ns=pl.col("last_ns").max() - pl.col("first_ns").min())
    )
    rows = sums.join(silence_sums, on=_SCOPE, how="left").join(load, on=_SCOPE, how="left").sort(_SCOPE)
    known = Timeouts.given_by(run.given).known
    for row in rows.with_columns(pl.col("still_ns", "often", "longest_ns", "load_ns").fill_null(0)).iter_rows(
        named=True
    ):
        where = None if row["place"] == _ALL_PLACES else run.names.located(row["place"])
        n, acks = row["messages"], row["group"] == PRODUCERS
        in_time = row["within_timeout"] if acks and known else None
        yield Availability(
            group=None if acks else run.given.groups[row["group"]],
            topic=where and where.topic,
            partition=where and where.partition,
            load_s=row["load_ns"] / SECOND,
            standstill_s=row["still_ns"] / SECOND,
            standstills=row["often"],
            longest_standstill_ms=row["longest_ns"] / MS,
            messages=n,
            within_1s=row["within_1s"],
            within_1s_share=row["within_1s"] / n if n else None,
            within_timeout=in_time,
            within_timeout_share=in_time / n if n and in_time is not None else None,
        )
