"""Keys in topics that were resized: which moved, and which messages were delivered out of order by key.

A key moved if its messages are stored in more than one partition. A message is out of order by key if its
first delivery to a group came after that of a later message of the same producer with the same key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from kaput.analysis.engine.question import Find, Question, Reported, SumPart, findings
from kaput.analysis.engine.sums import Sum
from kaput.analysis.run import Run
from kaput.analysis.runs.columns import key_of
from kaput.analysis.runs.cutting import each, single
from kaput.analysis.runs.run import Ints
from kaput.analysis.views.messages import Keys as View
from kaput.core import FOREVER_NS, TopicPartition
from kaput.evidence.findings_parts import ResizedForGroup, ResizedTopic

_KEY = ("group", "producer", "key")
_LATER = dict.fromkeys((*_KEY, "block", "later_ns"), pl.Int64)


@dataclass(frozen=True)
class ResizedTopics(Question):
    """Asked twice if a producer has more than one block of messages: the first pass finds what is out of
    order within a block, the second across blocks, once the first deliveries of later blocks are known.
    `keys`: by producer, see `key_of`; `after`: first deliveries in later blocks, see `later`.
    """

    keys: Mapping[int, int] = field(default_factory=dict)
    after: pl.DataFrame | None = None

    sums = {
        "keys_stored": Sum(("place", "key"), ("n",)),
        "earliest": Sum((*_KEY, "block"), (), ("at_ns",)),
        "out_of_order": Sum(("group", "producer"), ("n",)),
    }

    def before_keys(self, run: Run) -> ResizedTopics | None:
        """Skips the stage unless a topic was resized and a producer of it repeats keys."""
        given = run.given
        keys = {producer: n for producer, (topic, n) in given.keyed.items() if topic in given.resized}
        if self.after is None:
            return replace(self, keys=keys, after=pl.DataFrame(schema=_LATER)) if keys else None
        after = later(run.sums["earliest"])
        return replace(self, after=after) if self.after.is_empty() and after.height else None

    def of_keys(self, view: View) -> Iterator[Find]:
        """Where each key is stored, and which messages were delivered out of order."""
        assert self.after is not None, "before_keys has filled it in"
        first = first_deliveries(view.deliveries, view.polls, self.keys)
        yield SumPart("keys_stored", stored(view.log.filter("visible"), self.keys))
        yield SumPart("earliest", earliest(first))
        yield SumPart("out_of_order", out_of_order(first, self.after))

    def report(self, run: Run) -> Iterator[Reported]:
        yield findings(resized=[_resized(run, topic) for topic in run.given.resized])


def _resized(run: Run, topic: str) -> ResizedTopic:
    given, names, sums = run.given, run.names, run.sums
    number = names.topics.index(topic)
    messages = sums["log"].filter(pl.col("records") > pl.col("foreign"))
    places = {names.located(code) for code in messages["place"].drop_nulls()}
    read = {(g, names.located(c)) for g, c in sums["delivered"].select("group", "place").drop_nulls().rows()}
    late, where = _keys(run, topic)
    early = sums["too_early"].filter(~pl.col("unclear"), topic=number)
    too_early = dict(early.select("group", "n").iter_rows())
    return ResizedTopic(
        topic=topic,
        partitions_before=sum(place[0] == topic for place in given.expected_places),
        partitions=sum(place[0] == topic for place in {*given.expected_places, *given.ends}),
        partitions_written=sum(place[0] == topic for place in places),
        keys=None if where is None else len(where),
        keys_moved=None if where is None else sum(len(each) > 1 for each in where.values()),
        groups=[
            ResizedForGroup(
                group=group,
                partitions_read=sum(of == index and place[0] == topic for of, place in read),
                out_of_order_by_key=None if where is None else late[index],
                stored_too_early=too_early.get(index, 0),
            )
            for index, group in enumerate(given.groups)
            if any(place[0] == topic for place in given.places_of(group))
        ],
    )


def _keys(run: Run, topic: str) -> tuple[Counter[int], dict[int, set[TopicPartition]] | None]:
    """By group, the messages out of order by key; and where each key is stored, None without keys."""
    late: Counter[int] = Counter()
    where: dict[int, set[TopicPartition]] = {}
    if not any(keyed == topic for keyed, _ in run.given.keyed.values()):
        return late, None
    for code, key, _ in run.sums["keys_stored"].drop_nulls().iter_rows():
        if run.names.located(code)[0] == topic:
            where.setdefault(key, set()).add(run.names.located(code))
    for group, producer, n in run.sums["out_of_order"].iter_rows():
        if run.given.keyed[producer][0] == topic:
            late[group] += n
    return late, where


def stored(log: pl.DataFrame, keys: Mapping[int, int]) -> pl.DataFrame:
    """(place, key, n): where records of each key are. `log`: runs with an identity; `keys`: see `key_of`."""
    return _keyed(log, keys).group_by("place", "key").agg(n=pl.len().cast(pl.Int64))


def first_deliveries(deliveries: pl.DataFrame, polls: Ints, keys: Mapping[int, int]) -> pl.DataFrame:
    """(group, producer, key, block, seq, at_ns): the first delivery of each message."""
    return _keyed(deliveries, keys, at_ns=polls).group_by(*_KEY, "block", "seq").agg(pl.col("at_ns").min())


def earliest(first: pl.DataFrame) -> pl.DataFrame:
    """(group, producer, key, block, at_ns): the earliest first delivery in each block."""
    return first.group_by(*_KEY, "block").agg(pl.col("at_ns").min())


def later(mins: pl.DataFrame) -> pl.DataFrame:
    """(group, producer, key, block, later_ns): the earliest first delivery in all later blocks."""
    down = mins.sort("block", descending=True)
    after = down.with_columns(later_ns=pl.col("at_ns").cum_min().shift(1).over(_KEY))
    return after.select(*_KEY, "block", "later_ns").drop_nulls()


def out_of_order(first: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """(group, producer, n): messages out of order by key. `after`: see `later`."""
    down = first.sort("seq", descending=True)
    within = pl.col("at_ns").cum_min().shift(1).over(*_KEY, "block").fill_null(FOREVER_NS)
    with_later = down.with_columns(within=within).join(
        after, on=[*_KEY, "block"], how="left", maintain_order="left"
    )
    overtaken = pl.col("at_ns") > pl.min_horizontal("within", pl.col("later_ns").fill_null(FOREVER_NS))
    return with_later.filter(overtaken).group_by("group", "producer").agg(n=pl.len().cast(pl.Int64))


def _keyed(runs: pl.DataFrame, keys: Mapping[int, int], **times: Ints) -> pl.DataFrame:
    """A row for each record of the producers that repeat keys, with its key."""
    mine = runs.filter(pl.col("producer").is_in(sorted(keys)))
    return (each(mine, **times) if times else single(mine)).with_columns(key=key_of(keys))
