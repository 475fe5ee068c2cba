"""What each filter must decide, from its definition and the whole history: slow, and without state."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kaput.clients.dedup.filters import NumberedRecord

Decides = Callable[[Sequence[NumberedRecord], int], bool]


def every_id(records: Sequence[NumberedRecord], at: int) -> bool:
    """No record before it has its id."""
    return records[at].id not in {record.id for record in records[:at]}


def high_water(same: Callable[[NumberedRecord], object]) -> Decides:
    """Its number is above those of all records before it that share its mark."""

    def decides(records: Sequence[NumberedRecord], at: int) -> bool:
        mine = records[at]
        return all(mine.seq > one.seq for one in records[:at] if same(one) == same(mine)) and mine.seq >= 0

    return decides


def one_producer(records: Sequence[NumberedRecord], at: int) -> bool:
    """No record before it in its partition has a newer epoch, nor, unless fenced itself, as high a number."""

    def fenced(index: int) -> bool:
        one = records[index]
        return any(older.epoch > one.epoch for older in records[:index] if _place(older) == _place(one))

    mine = records[at]
    before = [index for index in range(at) if _place(records[index]) == _place(mine)]
    above = all(mine.number > records[index].number for index in before if not fenced(index))
    return not fenced(at) and above and mine.number >= 0


def _place(record: NumberedRecord) -> tuple[str, int]:
    return record.topic, record.partition


DEFINITIONS: dict[str, Decides] = {
    "every id": every_id,
    "mark per topic-partition": high_water(lambda record: (record.producer, *_place(record))),
    "mark per topic": high_water(lambda record: (record.producer, record.topic)),
    "mark per producer": high_water(lambda record: record.producer),
    "one producer per partition": one_producer,
}
