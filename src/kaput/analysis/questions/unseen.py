"""unseen, translated-ahead and translated-behind: what groups were not given, also late groups and groups
that were moved to another cluster; and what failing back costs. Defined in docs/GLOSSARY.md.

Where late groups began comes from the driver (facts/group_starts.py): messages below that offset are not for
a group, those from there on are. If it is unknown, time decides. What failing back costs are messages that
the cluster it comes back from never had: ruled as if they were unmirrored (mirrors.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from kaput.analysis.engine.question import Cases, Find, Question, Reported, SumPart, To, anomaly, at, message
from kaput.analysis.engine.sums import Sum
from kaput.analysis.facts.mirrors import Translated
from kaput.analysis.questions.mirrors import MAYBE_REMOVED, RULINGS, UNREAD, fates, removes
from kaput.analysis.run import Run
from kaput.analysis.runs.columns import ACKED, MESSAGE, RECORD
from kaput.analysis.runs.cutting import MESSAGES, PLACES, beyond, each, overlay, single
from kaput.analysis.runs.names import SHIFT
from kaput.analysis.runs.run import NULL, Ints, numbers, spread
from kaput.analysis.views.messages import Messages
from kaput.analysis.views.rows import Rows
from kaput.core import FOREVER_NS, clock
from kaput.verdict.contracts import Ruling, permitted, unclear
from kaput.verdict.rules import Grounds, Ruled, VerdictRule


def too_early(unseen: pl.DataFrame, beginnings: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
    """TOO_EARLY of stretches with `group`: how many messages are not, or may not be, for their group."""
    known = _between(unseen.filter(pl.col("group").is_in(beginnings["group"].unique().to_list())), beginnings)
    line, done, attempt = _times(known, times)
    before, after = (numbers(known[name])[line] for name in ("before_ns", "after_ns"))
    early = np.bincount(line[done < before], minlength=known.height)
    undecided = np.bincount(line[(done >= before) & (attempt < after)], minlength=known.height)
    early_counts = [
        known.select(
            "group", "topic", unclear=pl.lit(False), n=pl.col("below") + pl.Series(early, dtype=pl.Int64)
        ),
        known.select("group", "topic", unclear=pl.lit(True), n=pl.Series(undecided, dtype=pl.Int64)),
    ]
    return pl.concat(early_counts).filter(pl.col("n") > 0)


def owed_from(stretches: pl.DataFrame, beginnings: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
    """OWED_FROM of stored messages, if the group's offset is unknown: those attempted after it began."""
    stored = stretches.filter(pl.col("stored") > 0)
    groups = beginnings.select("group").unique()
    known = _between(
        stored.join(groups, how="cross"), beginnings.filter(pl.col("nothing_below") < pl.col("all_from"))
    )
    line, _, attempt = _times(known, times)
    n = known["between"].to_numpy()
    offsets = spread(known["first_offset"].to_numpy() + known["below"].to_numpy(), n)
    later = attempt >= numbers(known["after_ns"])[line]
    rows = known.select("group", place="first_place")[line[later]]
    return rows.with_columns(offset=pl.Series(offsets[later], dtype=pl.Int64))


def owed(unseen: pl.DataFrame, beginnings: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
    """(group, producer, seq, first_place, first_offset, n) of what is for the group."""
    columns = ["group", "producer", "seq", "first_place", "first_offset", "n"]
    places = beginnings.select("group", first_place="place")
    rest = unseen.join(places, on=["group", "first_place"], how="anti")
    known = _between(unseen, beginnings)
    line, _, attempt = _times(known, times)
    n = known["between"].to_numpy()
    later = attempt >= numbers(known["after_ns"])[line]
    moved = pl.Series(spread(known["below"].to_numpy(), n)[later], dtype=pl.Int64)
    timed = known[line[later]].with_columns(
        pl.col("seq") + moved, pl.col("first_offset") + moved, n=pl.lit(1, pl.Int64)
    )
    behind = beyond(known, "first_offset", pl.col("first_offset") + pl.col("below") + pl.col("between"))
    return pl.concat([rows.select(columns) for rows in (rest, timed, behind)])


def _between(stretches: pl.DataFrame, beginnings: pl.DataFrame) -> pl.DataFrame:
    """Late groups' stretches; `below`: messages not for the group; `between`: those that times decide."""
    known = stretches.join(beginnings, left_on=["group", "first_place"], right_on=["group", "place"])
    first, n = pl.col("first_offset"), pl.col("n")
    known = known.with_columns(below=(pl.col("nothing_below").clip(first, first + n) - first))
    upto = pl.col("all_from").clip(first, first + n) - first
    return known.with_columns(between=pl.max_horizontal(upto - pl.col("below"), 0))


def _times(known: pl.DataFrame, times: Mapping[str, Ints]) -> tuple[Ints, Ints, Ints]:
    """For each message counted by `between`: the index of its stretch, by when it was stored, and when it was
    attempted.
    """
    n = known["between"].to_numpy()
    line, rows = np.repeat(np.arange(known.height), n), spread((known["row"] + known["below"]).to_numpy(), n)
    acked, done = known.select(ACKED).to_series().to_numpy()[line], times["dones"][rows]
    # Only an acknowledgement proves that it was stored by then.
    return line, np.where(acked & (done != NULL), done, FOREVER_NS), times["attempts"][rows]


_COLUMNS = ("group", *RECORD, "n", "position", "at_ns", "move")
_TYPES = dict.fromkeys(_COLUMNS, pl.Int64)


def never_given(messages: Messages) -> pl.DataFrame:
    """_COLUMNS (`move`: its index): messages below the positions that were never delivered to the group
    anywhere, except those stored too early for a late group.
    """
    moves, beginnings = messages.known.moves, messages.known.beginnings
    late = set(beginnings["group"]) if moves else set()
    by_move = []
    for number, move in enumerate(moves):
        below = _copies(messages, move).filter(pl.col("offset") < move.offset)
        below = below.with_columns(n=pl.min_horizontal("n", move.offset - pl.col("offset")))
        never = messages.stretches.filter(pl.col(f"delivered_{move.group}") == 0)
        if move.group in late:
            # Only a part of a stretch may be for the group.
            never = never.with_columns(group=pl.lit(move.group, pl.Int64))
            shown, others = never.filter(pl.col("stored") > 0), never.filter(pl.col("stored") == 0)
            for_group = owed(shown, beginnings, messages.times).select(*MESSAGE, "n")
            for_group = pl.concat([for_group, others.select(*MESSAGE, "n")])
            below, never = overlay([below, for_group], MESSAGES)
        by_move.append(_with_move(below.join(never.select("part"), on="part", how="semi"), move, number))
    return _first_moves(by_move)


def given_before(messages: Messages) -> pl.DataFrame:
    """_COLUMNS: messages at or above the positions that had been delivered to the group before, anywhere."""
    by_move = []
    for number, move in enumerate(messages.known.moves):
        above = beyond(_copies(messages, move), "offset", pl.lit(move.offset, pl.Int64))
        for_group = messages.deliveries.filter(pl.col("group") == move.group)
        for_group = for_group.join(above.select("part").unique(), on="part", how="semi")
        for_group = each(for_group, polled_ns=messages.polls)
        already_read = for_group.filter(pl.col("polled_ns") < move.at_ns).select(MESSAGE).unique()
        by_move.append(_with_move(single(above).join(already_read, on=MESSAGE, how="semi"), move, number))
    return _first_moves(by_move)


def _copies(messages: Messages, move: Translated) -> pl.DataFrame:
    copies = messages.copies.filter("sent", "visible", pl.col("place") == move.place)
    return copies.select("part", *RECORD, "n")


def _with_move(rows: pl.DataFrame, move: Translated, number: int) -> pl.DataFrame:
    numbers = {"group": move.group, "position": move.offset, "at_ns": move.at_ns, "move": number}
    return rows.with_columns(**{name: pl.lit(n, pl.Int64) for name, n in numbers.items()}).select(_COLUMNS)


def _first_moves(by_move: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Each message of a group once, for its first move."""
    every = pl.concat([pl.DataFrame(schema=_TYPES), *by_move])
    by_group = []
    for rows in every.partition_by("group", maintain_order=True):
        (parts,) = overlay([rows], MESSAGES)
        parts = parts.sort("at_ns", "offset", "place")
        by_group.append(parts.unique("part", keep="first", maintain_order=True).select(_COLUMNS))
    return pl.concat([every.clear(), *by_group])


_NEVER_HAD_TEXT = "the cluster that the group came back from never had them"
_UNREAD = unclear("the cluster that the group came back from was not read to its end")
_LEFT_OUT = ("unexplained", "stopped", "fault", "behind")  # by the mirror, if its target never had them
_COST_TYPES = {**dict.fromkeys(("group", *MESSAGE, "n"), pl.Int64), "fate": pl.String}


def costs(messages: Messages, skipped: pl.DataFrame) -> pl.DataFrame:
    """Of `skipped` (`never_given`), the messages that were unmirrored, and why: _COST_TYPES. What was
    attempted after producers had returned is new, and no cost. A cluster whose log removes records by itself
    may have had them.
    """
    known = messages.known
    by_mirror = [pl.DataFrame(schema=_COST_TYPES)]
    for mirror in known.mirrors:
        way_back = f"{mirror.target}->{mirror.source}"
        numbers = [number for number, move in enumerate(known.moves) if move.mirror == way_back]
        back = skipped.filter(pl.col("move").is_in(numbers))
        if back.is_empty():
            continue
        why = fates(messages, mirror, pl.col("stored") > 0).filter(pl.col("fate").is_in([*RULINGS, UNREAD]))
        maybe = removes(pl.col("copy_place"), known) & pl.col("fate").is_in(_LEFT_OUT)
        why = why.with_columns(fate=pl.when(maybe).then(pl.lit(MAYBE_REMOVED)).otherwise("fate"))
        until_ns = max(known.returned[number] for number in numbers)
        why = _attempted_by(until_ns, why, messages)
        parts, why = overlay([back, why.select(*MESSAGE, "n", "fate")], MESSAGES)
        by_mirror.append(parts.join(why.select("part", "fate"), on="part").select(*_COST_TYPES))
    return pl.concat(by_mirror)


def _attempted_by(until_ns: int, stretches: pl.DataFrame, messages: Messages) -> pl.DataFrame:
    """The messages of stretches that were attempted by then."""
    whole = pl.col("attempt_ns_last") <= until_ns
    in_part = stretches.filter(~whole, pl.col("attempt_ns_first") <= until_ns)
    sent = each(in_part, sent_ns=messages.times["attempts"]).filter(pl.col("sent_ns") <= until_ns)
    return pl.concat([stretches.filter(whole), sent.drop("sent_ns")])


def rulings(by_cause: Mapping[str, int]) -> Iterator[tuple[Ruling, int]]:
    for cause, n in sorted(by_cause.items()):
        if cause == UNREAD:
            yield _UNREAD, n
        else:
            word, why = RULINGS[cause]
            yield Ruling(word, f"{_NEVER_HAD_TEXT} (unmirrored, {cause}): {why}"), n


class TranslatedAhead(Question):
    """Messages that a moved group skipped."""

    sums = {"ahead_back": Sum(("group", "fate"), ("n",))}
    stories = {
        "translated-ahead": lambda r: (
            f"{message(r)} is at {at(r)}, below {r['position']:,}, where the group began at "
            f"{clock(r['at_ns'])}, and was never delivered to it"
        )
    }
    rules = {
        "translated-ahead": VerdictRule(
            "{messages were|message was} skipped in another cluster",
            lambda known: rulings(known.excused),
            never="{messages are|message is} below the position at which the group began in another cluster, "
            "and it was never delivered {them|it}",
        )
    }
    shown_by = MESSAGE

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Cases by group; and the cost of failing back among them, by cause."""
        if not messages.known.moves:
            return
        skipped = never_given(messages)
        yield Cases("translated-ahead", skipped)
        back = costs(messages, skipped)
        yield SumPart("ahead_back", back.select("group", "fate", "n"))

    def report(self, run: Run) -> Iterator[Reported]:
        for index in run.groups:
            back = run.sums["ahead_back"].filter(group=index).select("fate", "n")
            yield anomaly("translated-ahead", index, excused=dict(back.iter_rows()))


_COARSE = permitted("a translated position may be behind the one that the group had")


class TranslatedBehind(Question):
    """Messages that a moved group read again."""

    stories = {
        "translated-behind": lambda r: (
            f"{message(r)} is at {at(r)}, not below {r['position']:,}, where the group began at "
            f"{clock(r['at_ns'])}, and had been delivered to it before"
        )
    }
    rules = {
        "translated-behind": VerdictRule(
            "{messages are|message is} read again in another cluster", lambda known: [(_COARSE, known.count)]
        )
    }
    shown_by = MESSAGE

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        if messages.known.moves:
            yield Cases("translated-behind", given_before(messages))


_MOVED = permitted("the group had moved to another cluster, which has no copy of {them|it}")
# What excuses unseen messages, besides a cause of being unmirrored (mirrors.py).
_TOO_EARLY, _MAYBE_TOO_EARLY, _MOVED_AWAY = "too early", "maybe too early", "moved away"
_MAYBE_ANEW, _SKIPPED = "maybe anew", "skipped"
_ON_PURPOSE = permitted("the group was moved past {them|it} on purpose")


_NEVER = "stored {messages were|message was} never delivered"


def _too_early(known: Grounds) -> Ruled:
    """Rulings on messages stored before the group began, or possibly so, or excused by a move."""
    group = known.group
    assert group is not None
    specs = [spec.reset for spec in known.scenario.workload.groups if spec.id == group.group]
    setting = "=".join(next(iter(specs), ("auto.offset.reset", "latest")))
    first = "promises nothing about what was stored before the group first read the partition"
    if setting.endswith("=none"):
        first = "promises nothing below the position that the group had committed before"
    if "by_duration" in setting:
        first = (
            "promises nothing about what was stored longer than that before the group first read the "
            "partition"
        )
    excused = dict(known.excused)
    yield permitted(f"{setting} {first}"), excused.pop(_TOO_EARLY, 0)
    unknown = unclear(f"{setting} {first}, and when that was is unknown")
    yield unknown, excused.pop(_MAYBE_TOO_EARLY, 0)
    anew = f"{setting} lets the group begin anew where its position had been removed from the log"
    yield unclear(f"{anew}, and whether it did is not recorded"), excused.pop(_MAYBE_ANEW, 0)
    yield _MOVED, excused.pop(_MOVED_AWAY, 0)
    yield _ON_PURPOSE, excused.pop(_SKIPPED, 0)
    yield from rulings(excused)


@dataclass(frozen=True)
class Unseen(Question):
    """`reads`: by drained group, the topics that it reads; `acquired`: (group, producer, seq, n), messages
    that share groups acquired without a recorded delivery; `moved`: by group that was in several clusters,
    the topics of its last one.
    """

    reads: Mapping[int, Collection[int]] = field(default_factory=dict)
    acquired: pl.DataFrame = field(default_factory=pl.DataFrame)
    moved: Mapping[int, Collection[Collection[int]]] = field(default_factory=dict)

    sums = {
        "kept_low": Sum(("group", "place"), (), ("low",)),
        "too_early": Sum(("group", "topic", "unclear"), ("n",)),
        "owed_from": Sum(("group", "place"), (), ("offset",)),
        "moved_away": Sum(("group",), ("n",)),
        "passed_over": Sum(("group",), ("n",)),
        "unseen_back": Sum(("group", "fate"), ("n",)),
    }
    passes = {"unseen": dict.fromkeys(("group", *RECORD, "n"), pl.Int64)}
    stories = {"unseen": lambda r: f"{message(r)} is stored as {at(r)} and was never delivered to the group"}
    rules = {"unseen": VerdictRule(_NEVER, _too_early, never=_NEVER)}
    shown_by = MESSAGE

    def of_rows(self, rows: Rows) -> Iterator[Find]:
        """The lowest offset that a group was delivered of what the log still has."""
        if rows.table == "deliveries" and (starts := rows.known.log_starts):
            of_places = pl.DataFrame({"place": list(starts), "start": list(starts.values())})
            runs = rows.coded.runs.join(of_places, on="place")
            kept = runs.filter(pl.col("offset") + pl.col("n") > pl.col("start"))
            low = pl.max_horizontal("offset", "start")
            yield SumPart("kept_low", kept.select("group", "place", low=low))

    def before_messages(self, run: Run) -> Unseen:
        reads = run.names.numbers_of(run.given.subscribed)
        return replace(self, reads=reads, moved=moved(run), acquired=run.sums["handed_unrecorded"])

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Unseen messages, which are excused, and where the others are stored (consequences.py)."""
        times, beginnings = messages.times, messages.known.beginnings
        if beginnings.height:
            yield SumPart("owed_from", owed_from(messages.stretches, beginnings, times))
        every = []
        for index, topics in self.reads.items():
            never = messages.stored(
                pl.col(f"delivered_{index}") == 0, pl.col("home_topic").is_in(sorted(topics))
            )
            every.append(_not_acquired(never.with_columns(group=pl.lit(index, pl.Int64)), self.acquired))
        if not any(unseen.height for unseen in every):
            return
        unseen = pl.concat(every)
        yield messages.case("unseen", unseen)
        away = left_behind(unseen, messages, self.moved)
        yield SumPart("moved_away", away.select("group", "n"))
        unseen = unseen.join(away.select("group", "part"), on=["group", "part"], how="anti")
        unseen, passed_over = _split(unseen, _passed_over(unseen, messages))
        yield SumPart("passed_over", passed_over.select("group", "n"))
        unseen, failing_back = _split(unseen, costs(messages, never_given(messages)))
        yield SumPart("unseen_back", failing_back.select("group", "fate", "n"))
        if beginnings.height:
            yield SumPart("too_early", too_early(unseen, beginnings, times))
        first = {"first_place": "place", "first_offset": "offset"}
        passed = owed(unseen, beginnings, times).rename(first)
        yield To("unseen", passed.select("group", *RECORD, "n"))

    def report(self, run: Run) -> Iterator[Reported]:
        counts, away = _excused(run), dict(run.sums["moved_away"].iter_rows())
        passed_over = dict(run.sums["passed_over"].iter_rows())
        failing_back = run.sums["unseen_back"]
        anew = set(run.beginnings.drop_nulls("log_start")["group"])
        for index in run.groups:
            excused = {
                _TOO_EARLY: counts.get((index, False), 0),
                _MAYBE_ANEW if index in anew else _MAYBE_TOO_EARLY: counts.get((index, True), 0),
                _MOVED_AWAY: away.get(index, 0),
                _SKIPPED: passed_over.get(index, 0),
                **dict(failing_back.filter(group=index).select("fate", "n").iter_rows()),
            }
            yield anomaly("unseen", index, excused=excused)


def _excused(run: Run) -> dict[tuple[int, bool], int]:
    """By group and whether unclear, the number stored before the group began."""
    counts = run.sums["too_early"].group_by("group", "unclear").agg(pl.col("n").sum())
    return {(index, unclear): n for index, unclear, n in counts.iter_rows()}


def moved(run: Run) -> dict[int, list[list[int]]]:
    """By group that was in several clusters: the topics of its last cluster, by deliveries, assignments and
    commits; of each of them that may have been the last.
    """
    clusters, seen = run.names.clusters, run.sums["delivered"].select("group", "place", at_ns="last_ns")
    events = run.events.filter(pl.col("kind").is_in(["assigned", "committed"])).drop_nulls("place")
    last: dict[int, dict[str | None, int]] = {}
    for group, place, at_ns in pl.concat([seen, events.select(seen.columns)]).drop_nulls().iter_rows():
        mine = last.setdefault(group, {})
        cluster = clusters[place // SHIFT]
        mine[cluster] = max(mine.get(cluster, at_ns), at_ns)
    return {
        group: [
            [n for n, c in enumerate(clusters) if c == cluster]
            for cluster, at_ns in mine.items()
            if at_ns == max(mine.values())
        ]
        for group, mine in last.items()
        if len(mine) > 1
    }


def left_behind(
    unseen: pl.DataFrame, messages: Messages, ends: Mapping[int, Collection[Collection[int]]]
) -> pl.DataFrame:
    """Of unseen stretches with `group`, those that are not in a cluster that may be the group's last."""
    by_cluster = [unseen.clear()]
    for group, topics in ((group, topics) for group, every in ends.items() for topics in every):
        topic = pl.col("place") // SHIFT
        there = messages.copies.filter(topic.is_in(list(topics)), "visible").select("part").unique()
        mine = unseen.filter(pl.col("group") == group, ~pl.col("home_topic").is_in(list(topics)))
        by_cluster.append(mine.join(there, on="part", how="anti"))
    return pl.concat(by_cluster).unique(["group", "part"], maintain_order=True)


def _passed_over(unseen: pl.DataFrame, messages: Messages) -> pl.DataFrame:
    """(group, producer, seq, n) of messages of which a group was moved past every copy."""
    skips = messages.known.skips.filter(back_ns=FOREVER_NS)
    columns = ["group", *MESSAGE, "n"]
    past = [unseen.select(columns).clear()]
    if unseen.is_empty() or skips.is_empty():
        return past[0]
    mine = messages.copies.filter("sent", "visible").select(*MESSAGE, "place", "offset", "n")
    for (group,), over in skips.group_by("group"):
        copies, skipped = overlay([mine, over], PLACES)
        again = copies.with_columns(group=pl.lit(group, pl.Int64))
        inside = again.join(skipped, on="part", how="semi")
        outside = again.join(skipped, on="part", how="anti")
        some, others = overlay([one.select(columns) for one in (inside, outside)], MESSAGES)
        past.append(some.join(others, on="part", how="anti").select(columns))
    return pl.concat(past)


def _split(unseen: pl.DataFrame, excused: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Unseen stretches without `excused` (group, producer, seq, n); and those of these, with its other
    columns.
    """
    others = [name for name in excused.columns if name not in unseen.columns]
    if unseen.is_empty() or excused.is_empty():
        return unseen, unseen.clear().join(excused.clear(), on=["group", *MESSAGE, "n"])
    parts, found = overlay([unseen.drop("part"), excused], MESSAGES)
    on = ["group", "part"]
    found = found.select(*on, *others).unique()
    return parts.join(found, on=on, how="anti"), parts.join(found, on=on)


def _not_acquired(unseen: pl.DataFrame, acquired: pl.DataFrame) -> pl.DataFrame:
    """Unseen stretches without messages that the group acquired."""
    if acquired.is_empty():
        return unseen
    group = unseen["group"].unique()
    parts, there = overlay([unseen, acquired.filter(pl.col("group").is_in(group.implode()))], MESSAGES)
    return parts.join(there, on="part", how="anti")
