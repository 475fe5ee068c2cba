"""Tables of planned moves: by partition if there are few, else by topic; then by broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from rich.filesize import decimal
from rich.text import Text

from kaput.core import TopicPartition, plural
from kaput.operate.reassign.moves import Move
from kaput.report.document import Table
from kaput.report.render.terminal import table_text

_FEW = 30


def render(moves: Sequence[Move], now: Mapping[TopicPartition, Sequence[int]]) -> Text:
    """The tables. `now`: every partition of the cluster with its replicas."""
    text = Text()
    if not moves:
        return text.append("nothing to move\n", style="bold")
    text.append_text(_partitions(moves) if len(moves) <= _FEW else _topics(moves))
    text.append("\n").append_text(_brokers(moves, now)).append("\n")
    copies = sum(len(move.adding) for move in moves)
    reordered = sum(not move.adding and set(move.before) == set(move.after) for move in moves)
    changes = [f"{plural(len(moves), 'partition')} change", f"{plural(copies, 'replica')} to copy"]
    if reordered:
        changes.append(f"{reordered:,} only change their preferred leader")
    text.append(f"{', '.join(changes)}: {decimal(sum(move.copied for move in moves))}\n", style="bold")
    return text


def _partitions(moves: Sequence[Move]) -> Text:
    rows = [
        [f"{move.topic}/{move.partition}", _listed(move.before), _listed(move.after), decimal(move.copied)]
        for move in moves
    ]
    return table_text(Table(["partition", "replicas", "to be", "to copy"], rows, "lll"))


def _topics(moves: Sequence[Move]) -> Text:
    rows = []
    for topic, group in groupby(moves, key=lambda move: move.topic):
        same = list(group)
        before, after = _range(len(m.before) for m in same), _range(len(m.after) for m in same)
        rows.append([topic, f"{len(same):,}", before, after, decimal(sum(move.copied for move in same))])
    return table_text(Table(["topic", "partitions", "replicas each", "to be", "to copy"], rows))


def _brokers(moves: Sequence[Move], now: Mapping[TopicPartition, Sequence[int]]) -> Text:
    then = {**now, **{TopicPartition(move.topic, move.partition): move.after for move in moves}}
    copied: Counter[int] = Counter()
    for move in moves:
        for broker in move.adding:
            copied[broker] += move.copied // len(move.adding)
    have, get = _replica_counts(now), _replica_counts(then)
    lead, led = Counter(each[0] for each in now.values()), Counter(each[0] for each in then.values())
    rows = [
        [str(broker), *(f"{count[broker]:,}" for count in (have, get, lead, led)), decimal(copied[broker])]
        for broker in sorted(have | get)
    ]
    header = ["broker", "replicas", "to be", "preferred leader of", "to be", "to copy"]
    return table_text(Table(header, rows))


def _replica_counts(assignment: Mapping[TopicPartition, Sequence[int]]) -> Counter[int]:
    return Counter(broker for replicas in assignment.values() for broker in replicas)


def _listed(replicas: Sequence[int]) -> str:
    return ",".join(map(str, replicas))


def _range(counts: Iterable[int]) -> str:
    every = sorted(set(counts))
    return str(every[0]) if len(every) == 1 else f"{every[0]} to {every[-1]}"
