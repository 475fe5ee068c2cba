"""What every task knows about the run in addition to its own part of the evidence."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from kaput.analysis.causes.attribution import Removing
from kaput.analysis.engine.pieces import Parts
from kaput.analysis.facts.group_starts import SKIPS
from kaput.analysis.facts.leader_history import LeaderHistory
from kaput.analysis.facts.mirrors import NO_MOVES, MirrorFacts, Moments, Translated
from kaput.analysis.facts.partitions import Extent
from kaput.analysis.facts.reach import Attempted
from kaput.analysis.runs.names import Homes, Names
from kaput.core import TopicPartition


@dataclass(frozen=True)
class Known:
    """Facts for tasks.

    `parts`: the numbers of tasks; `step_ns`: the width of steps; `events`: group_events
    (facts/assignments.py); `fault_span`: of Inputs.

    Groups, by number: `committed` and `uncommitted` (by isolation), `drained`, `share_groups` with their
    maximum delivery count, None if unknown. Producers: `acks_0`, `acks_1` (by acks); by number of keys, 0 for
    a single one, `ordered`: those that keep the order of keys across stores, and `keyed`: those that repeat
    keys. `stores_read`: stores that could be listed at the end. For several clusters: `homes`; `mirrors`, all
    of them; `moves`: where groups began after they were moved; `moments`: when clients that were moved began
    to wait. `skips`: what groups passed over on purpose. `recreated`: by number of the topics that a step
    recreated, when the old one was gone, and `deleting`: when the step began (ns); `removing`: the settings
    that remove records. `log_starts`: by place, where a log begins above 0, if any group may have begun anew
    there.

    After the stage rows: `complete`: places that were read to their end; `complete_topics`: topics whose
    known places all were; `leader_history`; `extents` of logs; `deleted`: topics of which a step deleted
    records; `old_ends`: by place, the end offset before its topic was recreated, by acknowledgements;
    `beginnings`: where late groups began (facts/group_starts.py); `returned`: by move, from when on messages
    are new in the cluster to which the group came (ns).

    After the stage messages: `first_acks_by_epoch`: (producer, place, epoch, first_ns), a producer's first
    acknowledgement of a message stored in each epoch; `attempted`: when the victims of faults were
    attempted; `begins`: (group, place, offset), where late groups began.
    """

    names: Names
    parts: Parts
    step_ns: int
    events: pl.DataFrame
    committed: Collection[int] = ()
    uncommitted: Collection[int] = ()
    drained: Collection[int] = ()
    share_groups: Mapping[int, int | None] = field(default_factory=dict)
    acks_0: Collection[int] = ()
    acks_1: Collection[int] = ()
    stores_read: Collection[int] = ()
    homes: Homes | None = None
    mirrors: Sequence[MirrorFacts] = ()
    moves: Sequence[Translated] = ()
    moments: Moments = NO_MOVES
    skips: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SKIPS))
    keyed: Mapping[int, int] = field(default_factory=dict)
    ordered: Mapping[int, int] = field(default_factory=dict)
    recreated: Mapping[int, int] = field(default_factory=dict)
    deleting: Mapping[int, int] = field(default_factory=dict)
    removing: Removing = field(default_factory=Removing)
    log_starts: Mapping[int, int] = field(default_factory=dict)
    complete: Collection[int] = ()
    complete_topics: Collection[int] = ()
    leader_history: LeaderHistory = field(default_factory=LeaderHistory)
    fault_span: tuple[int, int] | None = None
    extents: Mapping[TopicPartition, Extent] = field(default_factory=dict)
    deleted: Collection[int] = ()
    old_ends: Mapping[int, int] = field(default_factory=dict)
    beginnings: pl.DataFrame = field(default_factory=pl.DataFrame)
    returned: Sequence[int] = ()
    first_acks_by_epoch: pl.DataFrame = field(default_factory=pl.DataFrame)
    attempted: Sequence[Attempted] = ()
    begins: pl.DataFrame = field(default_factory=pl.DataFrame)
