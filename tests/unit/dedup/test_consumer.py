"""A consumer that crashes between effect and mark: what each order costs, with the memory and without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from dedup_scoring import Score, score, troubles
from dedup_traffic import Delivery

from kaput.clients.dedup import (
    Database,
    DiskIds,
    DiskMarks,
    Effect,
    EveryId,
    Filter,
    FilteringConsumer,
    HighWaterMark,
    NumberedRecord,
    OneProducer,
    Order,
    Scope,
)

EFFECT_FIRST, MARK_FIRST = Order.EFFECT_THEN_MARK, Order.MARK_THEN_EFFECT
ON_DISK: dict[str, Callable[[Database], Filter]] = {
    "every id": lambda database: EveryId(DiskIds(database)),
    "mark per topic-partition": lambda database: HighWaterMark(Scope.PARTITION, DiskMarks(database)),
    "one producer per partition": lambda database: OneProducer(DiskMarks(database)),
}


class Crash(Exception):
    """The consumer's process dies."""


class Effects:
    """What the consumer does to the world; dies at some of them, after the effect or just before it."""

    def __init__(self, order: Order, crashes: Sequence[int] = ()) -> None:
        self.done: list[int] = []  # ids
        self._order, self._crashes, self._calls = order, set(crashes), 0

    def __call__(self, record: NumberedRecord) -> None:
        self._calls += 1
        dies = self._calls in self._crashes
        if dies and self._order is MARK_FIRST:
            raise Crash
        self.done.append(record.id)
        if dies:
            raise Crash


def log(kind: str = "retries, one request in flight") -> list[Delivery]:
    """Three hundred messages, some of them twice."""
    return troubles(7, messages=300)[kind].read()


def read_with_crashes(
    deliveries: Sequence[Delivery],
    effect: Effect,
    order: Order,
    batch: int,
    opened: Callable[[], tuple[Filter, Callable[[], None]]],
) -> int:
    """Reads to the end, with a new filter and a new consumer after each crash; how many there were."""
    records, position, crashes = [one.record for one in deliveries], 0, 0
    while True:
        accepts, close = opened()
        consumer = FilteringConsumer(accepts, effect, order, batch, position)
        try:
            consumer.read(records)
            return crashes
        except Crash:
            crashes += 1
            position = consumer.position
        finally:
            close()


def scored(deliveries: Sequence[Delivery], ids: Sequence[object]) -> Score:
    """Of effects by the ids of their records."""
    by_id = {one.record.id: one.message for one in deliveries}
    return score(deliveries, [by_id[one] for one in ids])  # type: ignore[index]


def on_disk(path: Path, name: str) -> Callable[[], tuple[Filter, Callable[[], None]]]:
    """Opens the filter of that name with what it had committed."""

    def opened() -> tuple[Filter, Callable[[], None]]:
        database = Database(path / "filter.db")
        return ON_DISK[name](database), database.close

    return opened


@pytest.mark.parametrize("name", ON_DISK)
@pytest.mark.parametrize(("order", "cost"), [(EFFECT_FIRST, Score(3, 0)), (MARK_FIRST, Score(0, 3))])
def test_a_crash_costs_a_duplicate_or_a_loss(tmp_path: Path, name: str, order: Order, cost: Score) -> None:
    """Three crashes between effect and mark: three effects twice, or three never; no others."""
    effects = Effects(order, crashes=(10, 100, 290))
    assert read_with_crashes(log(), effects, order, 1, on_disk(tmp_path, name)) == 3
    assert scored(log(), effects.done) == cost


@pytest.mark.parametrize("name", ON_DISK)
@pytest.mark.parametrize("order", Order)
def test_a_crash_costs_at_most_a_batch(tmp_path: Path, name: str, order: Order) -> None:
    """Marks are committed once for 50 records: the crash at the 30th effect leaves 30 twice, or 20 never."""
    effects = Effects(order, crashes=(30,))
    deliveries = log()
    assert read_with_crashes(deliveries, effects, order, 50, on_disk(tmp_path, name)) == 1
    wrong = scored(deliveries, effects.done)
    new = len({one.message for one in deliveries[:50]})
    assert wrong == (Score(30, 0) if order is EFFECT_FIRST else Score(0, new - 29))


class EffectsInDatabase:
    """Effects as rows in the filter's own database; the consumer dies at some of them."""

    def __init__(self, path: Path, name: str, crashes: Sequence[int]) -> None:
        self._path, self._name, self._crashes, self._calls = path, name, set(crashes), 0
        self._database: Database

    def opened(self) -> tuple[Filter, Callable[[], None]]:
        """The filter, in the database that the effects go to."""
        self._database = Database(self._path)
        self._database.connection.execute("CREATE TABLE IF NOT EXISTS effects (id)")
        return ON_DISK[self._name](self._database), self._database.close

    def __call__(self, record: NumberedRecord) -> None:
        self._calls += 1
        self._database.connection.execute("INSERT INTO effects VALUES (?)", (record.id,))
        if self._calls in self._crashes:
            raise Crash


@pytest.mark.parametrize("name", ON_DISK)
@pytest.mark.parametrize("batch", [1, 7, 50])
def test_effect_and_mark_in_one_commit_cost_no_loss_or_duplicate(
    tmp_path: Path, name: str, batch: int
) -> None:
    """One commit for both: a crash takes back the effect together with the mark."""
    path = tmp_path / "filter.db"
    effects = EffectsInDatabase(path, name, crashes=(3, 150, 151, 270))
    assert read_with_crashes(log(), effects, EFFECT_FIRST, batch, effects.opened) == 4
    rows = Database(path).connection.execute("SELECT id FROM effects").fetchall()
    assert scored(log(), [row[0] for row in rows]) == Score(0, 0)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (EveryId, "every id"),
        (HighWaterMark, "mark per topic-partition"),
        (OneProducer, "one producer per partition"),
    ],
)
def test_filter_with_lost_memory_passes_earlier_duplicates(
    tmp_path: Path, made: Callable[[], Filter], name: str
) -> None:
    """The consumer goes on from its position; a copy of a message before it is new to an empty memory."""
    records = [NumberedRecord("orders", 0, at, seq, 0, seq, 0, seq) for at, seq in enumerate([0, 1, 2, 2, 3])]
    deliveries = [Delivery(record, record.seq) for record in records]

    def read(opened: Callable[[], tuple[Filter, Callable[[], None]]]) -> Score:
        done: list[int] = []
        position = 0
        for end in (3, 5):  # a restart after the third record
            accepts, close = opened()
            consumer = FilteringConsumer(accepts, lambda record: done.append(record.seq), position=position)
            consumer.read(records[:end])
            position = consumer.position
            close()
        return score(deliveries, done)

    assert read(lambda: (made(), lambda: None)) == Score(1, 0)
    assert read(on_disk(tmp_path, name)) == Score(0, 0)
