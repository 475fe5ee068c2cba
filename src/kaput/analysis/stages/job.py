"""The stages as Spark jobs: row groups become runs once; the tasks of messages and places take them in turn.

    row groups -- encode --> runs, shuffled --> by_message --> by_place
                             (Spark keeps them: each job takes the parts that it wants)

Nothing is shared but the evidence's files: tasks may run on any machine, and a lost one is done again.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from kaput.analysis.runs.tables import Unit, empty, of_frame, read
from kaput.analysis.stages import by_message, by_place, encode, over_sends
from kaput.analysis.stages.told import Encoding, Piece, Reading, gathered, pack
from kaput.analysis.sums import total

if TYPE_CHECKING:
    from pyspark import SparkContext

Keyed = tuple[int, Piece]
_SLICE_ROWS = 4_000_000
Tables = Mapping[str, pl.DataFrame]


class Job:
    """One run folder's evidence as runs. `tasks`: the row groups that each task encodes."""

    def __init__(self, spark: SparkContext, tasks: Sequence[Sequence[Unit]], told: Encoding) -> None:
        self._context, self._tasks, self._told = spark, tasks, told
        self._runs = self._shuffled(self._encoded(tasks))

    def sums(self) -> Tables:
        """What encoding has summed."""

        def add(_: int, pieces: Iterable[Piece]) -> list[bytes]:
            found = [encode.nothing(), *(pickle.loads(piece.data) for piece in pieces)]
            return [_packed(total(found, encode.SUMS))]

        (found,) = self._on([self._told.parts.sums], add)
        return dict(_unpacked(found))

    def messages(self, told: Reading) -> list[by_message.Judged]:
        """The messages of all parts, judged."""

        def judge(part: int, pieces: Iterable[Piece]) -> list[bytes]:
            return [_packed(by_message.judge(pieces, told, part))]

        return [_unpacked(found) for found in self._on(range(told.parts.messages), judge)]

    def places(
        self, told: by_place.Placing, beside: Mapping[int, Sequence[Piece]]
    ) -> list[by_place.Placed] | None:
        """The places of all parts, judged; `beside`: what was found of their messages. None where deliveries
        are in no order of time: `put_in_time` first."""
        parts = self._told.parts

        def judge(part: int, pieces: Iterable[Piece]) -> list[bytes]:
            return [_packed(by_place.judge([*pieces, *beside.get(part, ())], told, part))]

        numbers = range(parts.messages, parts.messages + parts.places)
        found = [_unpacked(each) for each in self._on(numbers, judge)]
        return None if any(each is None for each in found) else found

    def put_in_time(self, rates: pl.DataFrame) -> None:
        """Encodes deliveries anew in the order of time. `rates`: how many there are in each second."""
        bounds = _bounds(rates.filter(what="delivered").sort("second"))
        deliveries = [[unit] for task in self._tasks for unit in task if unit.table == "deliveries"]
        others = [[unit for unit in task if unit.table != "deliveries"] for task in self._tasks]
        rows = self._context.parallelize(deliveries, max(1, len(deliveries)))
        slices = rows.mapPartitions(_slicing(self._told, bounds)).partitionBy(len(bounds) + 1, itself)
        ordered = slices.mapPartitions(_encoding_slices(self._told))
        self._runs = self._shuffled(self._encoded(others).union(ordered))

    def sends_again(self, told: over_sends.Again) -> Tables:
        """What a second look at sends tells."""
        sends = (unit for task in self._tasks for unit in task if unit.table == "sends")
        units = [[unit] for unit in sends if over_sends.concerns(unit, told)]

        def look(tasks: Iterable[Sequence[Unit]]) -> Iterator[bytes]:
            for task in tasks:
                yield from over_sends.look(task, told)

        found = self._context.parallelize(units, max(1, len(units))).mapPartitions(look).collect()
        return total([over_sends.nothing(), *map(pickle.loads, found)], over_sends.SUMS)

    def _encoded(self, tasks: Sequence[Sequence[Unit]]) -> Any:
        told = self._told

        def read(tasks: Iterable[Sequence[Unit]]) -> Iterator[Keyed]:
            for units in tasks:
                yield from encode.encode(units, told)

        return self._context.parallelize(list(tasks), max(1, len(tasks))).mapPartitions(read)

    def _shuffled(self, pieces: Any) -> Any:
        return pieces.partitionBy(self._told.parts.sums + 1, itself)

    def _on(self, parts: Iterable[int], step: Callable[[int, Iterable[Piece]], list[bytes]]) -> list[bytes]:
        """What `step` makes of each of these parts."""

        def each(number: int, keyed: Iterable[Keyed]) -> Iterator[bytes]:
            yield from step(number, (piece for _, piece in keyed))

        found: list[bytes] = self._context.runJob(self._runs.mapPartitionsWithIndex(each), list, list(parts))
        return found


def _packed(found: object) -> bytes:
    """A task's result, small: those of all tasks lie in the driver's JVM at once."""
    return zlib.compress(pickle.dumps(found), 1)


def _unpacked(data: bytes) -> Any:
    return pickle.loads(zlib.decompress(data))


def itself(part: int) -> int:
    """Pieces are keyed by the part they go to."""
    return part


def _bounds(delivered: pl.DataFrame) -> list[int]:
    """Times (ns) at which deliveries are cut into slices that one task can hold."""
    slices = delivered.with_columns(slice=(pl.col("times").cum_sum() - 1) // _SLICE_ROWS)
    first = slices.group_by("slice").agg(pl.col("second").min()).sort("slice")
    return [second * 1_000_000_000 for second in first["second"].to_list()[1:]]


def _slicing(told: Encoding, bounds: Sequence[int]) -> Callable[[Iterable[Sequence[Unit]]], Iterator[Keyed]]:
    def slice_(tasks: Iterable[Sequence[Unit]]) -> Iterator[Keyed]:
        edges = pl.Series(list(bounds), dtype=pl.Int64)
        for unit in (unit for task in tasks for unit in task):
            rows = read(unit, told.names).whole()
            number = edges.search_sorted(rows["polled_ns"], side="right") if len(edges) else 0
            sliced = rows.with_columns(slice=pl.lit(number))
            for (part,), mine in sliced.partition_by("slice", as_dict=True, include_key=False).items():
                yield int(str(part)), Piece("deliveries", pack(mine))

    return slice_


def _encoding_slices(told: Encoding) -> Callable[[Iterable[Keyed]], Iterator[Keyed]]:
    def encode_(keyed: Iterable[Keyed]) -> Iterator[Keyed]:
        none = {"deliveries": empty("deliveries").whole()}
        rows = gathered((piece for _, piece in keyed), none)["deliveries"]
        yield from encode.encode_rows([("deliveries", of_frame(rows))], told)

    return encode_
