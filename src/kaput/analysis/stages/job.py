"""The stages as Spark jobs: row groups become runs once; the tasks of messages and places take them in turn.

    row groups -- encode --> runs, shuffled --> by_message --> by_place
                             (Spark keeps them: each job takes the parts that it wants)

Nothing is shared but the evidence's files: tasks may run on any machine, and a lost one is done again.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import polars as pl

from kaput.analysis.runs.tables import Unit, empty, of_frame, read
from kaput.analysis.stages import by_key, by_message, by_place, encode, over_sends
from kaput.analysis.stages.encode import EncodeContext
from kaput.analysis.stages.pieces import Piece, gathered, pack
from kaput.analysis.sums import total

if TYPE_CHECKING:
    from pyspark import SparkContext

Keyed = tuple[int, Piece]
_SLICE_ROWS = 4_000_000
Tables = Mapping[str, pl.DataFrame]


class Job:
    """One run folder's evidence as runs. `tasks`: the row groups that each task encodes."""

    def __init__(self, spark: SparkContext, tasks: Sequence[Sequence[Unit]], context: EncodeContext) -> None:
        self._spark, self._tasks, self._encoding = spark, tasks, context
        self._runs = self._shuffled(self._encoded(tasks))

    def sums(self) -> Tables:
        """What encoding has summed."""

        def add(_: int, pieces: Iterable[Piece]) -> list[bytes]:
            found = (pickle.loads(piece.data) for piece in pieces)
            return [_packed(total(chain([encode.nothing()], found), encode.SUMS))]

        (found,) = self._on([self._encoding.parts.sums], add)
        return dict(_unpacked(found))

    def handed_unrecorded(self) -> pl.DataFrame:
        """What share groups were handed without a delivery on record, see questions/shares.py."""

        def examine(_: int, pieces: Iterable[Piece]) -> list[bytes]:
            return [_packed(by_place.handed_unrecorded(pieces))]

        found: list[pl.DataFrame] = [_unpacked(each) for each in self._on(self._places, examine)]
        return pl.concat(found)

    def messages(self, context: by_message.MessageContext) -> Iterator[by_message.MessageResults]:
        """The messages of all parts, examined; what was found is small only until it is looked at."""

        def examine(part: int, pieces: Iterable[Piece]) -> list[bytes]:
            return [_packed(by_message.examine(pieces, context, part))]

        return map(_unpacked, self._on(range(context.parts.messages), examine))

    def keys(self, context: by_key.KeyContext) -> Tables:
        """What became of keys, of all parts."""

        def examine(_: int, pieces: Iterable[Piece]) -> list[bytes]:
            return [_packed(by_key.examine(pieces, context))]

        found = self._on(range(self._encoding.parts.messages), examine)
        return total(map(_unpacked, found), by_key.SUMS)

    def places(
        self, context: by_place.PlaceContext, beside: Mapping[int, Sequence[Piece]]
    ) -> list[by_place.PlaceResults] | None:
        """The places of all parts, examined; `beside`: what was found of their messages. None where
        deliveries are in no order of time: `put_in_time` first."""

        def examine(part: int, pieces: Iterable[Piece]) -> list[bytes]:
            return [_packed(by_place.examine([*pieces, *beside.get(part, ())], context, part))]

        found = [_unpacked(each) for each in self._on(self._places, examine)]
        return None if any(each is None for each in found) else found

    def put_in_time(self, steps: pl.DataFrame) -> None:
        """Encodes deliveries anew in the order of time. `steps`: how many there are in each step."""
        bounds = _bounds(steps.filter(what="delivered").sort("at_ns"))
        deliveries = [[unit] for task in self._tasks for unit in task if unit.table == "deliveries"]
        others = [[unit for unit in task if unit.table != "deliveries"] for task in self._tasks]
        rows = self._spark.parallelize(deliveries, max(1, len(deliveries)))
        slices = rows.mapPartitions(_slicing(self._encoding, bounds)).partitionBy(len(bounds) + 1, itself)
        ordered = slices.mapPartitions(_encoding_slices(self._encoding))
        self._runs = self._shuffled(self._encoded(others).union(ordered))

    def rescan_sends(self, context: over_sends.SendContext) -> Tables:
        """What a second pass over sends finds."""
        sends = (unit for task in self._tasks for unit in task if unit.table == "sends")
        units = [[unit] for unit in sends if over_sends.concerns(unit, context)]

        def scan(tasks: Iterable[Sequence[Unit]]) -> Iterator[bytes]:
            for task in tasks:
                yield from over_sends.scan(task, context)

        found = self._spark.parallelize(units, max(1, len(units))).mapPartitions(scan).collect()
        return total(chain([over_sends.nothing()], map(pickle.loads, found)), over_sends.SUMS)

    @property
    def _places(self) -> range:
        """The numbers of the parts of places."""
        parts = self._encoding.parts
        return range(parts.messages, parts.messages + parts.places)

    def _encoded(self, tasks: Sequence[Sequence[Unit]]) -> Any:
        context = self._encoding

        def read(tasks: Iterable[Sequence[Unit]]) -> Iterator[Keyed]:
            for units in tasks:
                yield from encode.encode(units, context)

        return self._spark.parallelize(list(tasks), max(1, len(tasks))).mapPartitions(read)

    def _shuffled(self, pieces: Any) -> Any:
        return pieces.partitionBy(self._encoding.parts.sums + 1, itself)

    def _on(self, parts: Iterable[int], step: Callable[[int, Iterable[Piece]], list[bytes]]) -> list[bytes]:
        """What `step` makes of each of these parts."""

        def each(number: int, keyed: Iterable[Keyed]) -> Iterator[bytes]:
            yield from step(number, (piece for _, piece in keyed))

        found: list[bytes] = self._spark.runJob(self._runs.mapPartitionsWithIndex(each), list, list(parts))
        return found


def _packed(found: object) -> bytes:
    """A task's result, small: those of all tasks are in the driver's JVM at once."""
    return zlib.compress(pickle.dumps(found), 1)


def _unpacked(data: bytes) -> Any:
    return pickle.loads(zlib.decompress(data))


def itself(part: int) -> int:
    """Pieces are keyed by the part they go to."""
    return part


def _bounds(delivered: pl.DataFrame) -> list[int]:
    """Times (ns) at which deliveries are cut into slices that one task can hold."""
    slices = delivered.with_columns(slice=(pl.col("times").cum_sum() - 1) // _SLICE_ROWS)
    first = slices.group_by("slice").agg(pl.col("at_ns").min()).sort("slice")
    return first["at_ns"].to_list()[1:]


def _slicing(
    context: EncodeContext, bounds: Sequence[int]
) -> Callable[[Iterable[Sequence[Unit]]], Iterator[Keyed]]:
    def slice_(tasks: Iterable[Sequence[Unit]]) -> Iterator[Keyed]:
        edges = pl.Series(list(bounds), dtype=pl.Int64)
        for unit in (unit for task in tasks for unit in task):
            rows = read(unit, context.names).whole()
            number = edges.search_sorted(rows["polled_ns"], side="right") if len(edges) else 0
            sliced = rows.with_columns(slice=pl.lit(number))
            for (part,), mine in sliced.partition_by("slice", as_dict=True, include_key=False).items():
                yield int(str(part)), Piece("deliveries", pack(mine))

    return slice_


def _encoding_slices(context: EncodeContext) -> Callable[[Iterable[Keyed]], Iterator[Keyed]]:
    def encode_(keyed: Iterable[Keyed]) -> Iterator[Keyed]:
        none = {"deliveries": empty("deliveries").whole()}
        rows = gathered((piece for _, piece in keyed), none)["deliveries"]
        yield from encode.encode_rows([("deliveries", of_frame(rows))], context)

    return encode_
