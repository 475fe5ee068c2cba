"""What every task knows of the run beside its own share of the evidence."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from kaput.analysis.engine.pieces import Parts
from kaput.analysis.facts.moves import NO_MOVES, Moments
from kaput.analysis.facts.partitions import Extent
from kaput.analysis.facts.reach import Attempted
from kaput.analysis.facts.timeline import Timeline
from kaput.analysis.runs.names import Homes, Names
from kaput.core import TopicPartition


@dataclass(frozen=True)
class Known:
    """`parts`: how many tasks there are; `silence_ns`: from how many ns on silences are exact, `step_ns`: how
    wide steps are; `events`: group_events (facts/assignments.py).

    `fault_span`: from when the first fault took effect to the last heal.

    Of groups, by number: those with read_committed and read_uncommitted, those that are `drained`, share
    groups with their limit of deliveries, if that is known. Of producers those with acks=0 (`silent`) and
    acks=1, and those that keep the order of keys across stores (`ordered`): how many keys each goes through,
    0 for one. `stores_read`: the stores that could be listed at the end. `homes`: of several clusters;
    `moments`: from when on clients waited that were moved. `recreated`: by number of the topics that the
    timeline deleted and created again, when they were gone (ns).

    Once rows are encoded: the places that were read to their end (`complete`), topics all of whose known
    places were, who led what, how far logs reach, the topics of which the timeline `deleted` records,
    `old_ends`: by place, how far acknowledgements say that a topic reached that was recreated later. Once
    messages are matched: `under`, the first acknowledgement of what each epoch stored of a producer
    (producer, place, epoch, first_ns); `attempted`, when the victims of faults were; `begins`, where groups
    that do not read from the start began (group, place, offset).
    """

    names: Names
    parts: Parts
    silence_ns: int
    step_ns: int
    events: pl.DataFrame
    committed: Collection[int] = ()
    uncommitted: Collection[int] = ()
    drained: Collection[int] = ()
    share_groups: Mapping[int, int | None] = field(default_factory=dict)
    silent: Collection[int] = ()
    acks_1: Collection[int] = ()
    stores_read: Collection[int] = ()
    homes: Homes | None = None
    moments: Moments = NO_MOVES
    ordered: Mapping[int, int] = field(default_factory=dict)
    recreated: Mapping[int, int] = field(default_factory=dict)
    complete: Collection[int] = ()
    complete_topics: Collection[int] = ()
    timeline: Timeline = field(default_factory=Timeline)
    fault_span: tuple[int, int] | None = None
    extents: Mapping[TopicPartition, Extent] = field(default_factory=dict)
    deleted: Collection[int] = ()
    old_ends: Mapping[int, int] = field(default_factory=dict)
    under: pl.DataFrame = field(default_factory=pl.DataFrame)
    attempted: Sequence[Attempted] = ()
    begins: pl.DataFrame = field(default_factory=pl.DataFrame)
