"""Consumers that die between effect and mark: what each order costs, by filter. Called by idempotence.py."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from dedup_scoring import score, troubles

from kaput.clients.dedup import (
    Database,
    DiskIds,
    DiskMarks,
    EveryId,
    Filter,
    FilteringConsumer,
    HighWaterMark,
    NumberedRecord,
    OneProducer,
    Order,
)

CRASHES, MESSAGES = 20, 4_000
FILTERS: dict[str, Callable[[Database], Filter]] = {
    "every id": lambda database: EveryId(DiskIds(database)),
    "high-water mark": lambda database: HighWaterMark(marks=DiskMarks(database)),
    "one producer": lambda database: OneProducer(DiskMarks(database)),
}
WHERE = ("effect, then mark", "mark, then effect", "effect in the filter's database")


class Crash(Exception):
    """The process dies."""


class Effects:
    """Appended where no crash takes them back, or in the filter's database; dies at 20 of them."""

    def __init__(self, where: str) -> None:
        self.database: Database
        self.done: list[NumberedRecord] = []
        self.crashes = self._calls = 0
        self._where = where
        self._deaths = set(Random(1).sample(range(1, MESSAGES // 2), CRASHES))

    def __call__(self, record: NumberedRecord) -> None:
        self._calls += 1
        dies = self._calls in self._deaths
        self.crashes += dies
        if dies and self._where == "mark, then effect":
            raise Crash
        if self._where == "effect in the filter's database":
            self.database.connection.execute("INSERT INTO effects VALUES (?)", (record.id,))
        else:
            self.done.append(record)
        if dies:
            raise Crash


def crashed(name: str, where: str, batch: int) -> list[int]:
    """Duplicates passed and messages wrongly dropped, over 20 crashes."""
    log = troubles(1, messages=MESSAGES)["retries, one request in flight"].read()
    records, effects, position = [one.record for one in log], Effects(where), 0
    order = Order.MARK_THEN_EFFECT if where == "mark, then effect" else Order.EFFECT_THEN_MARK
    with tempfile.TemporaryDirectory() as folder:
        while position < len(records):
            database = effects.database = Database(Path(folder) / "filter.db")
            database.connection.execute("CREATE TABLE IF NOT EXISTS effects (id)")
            consumer = FilteringConsumer(FILTERS[name](database), effects, order, batch, position)
            with suppress(Crash):
                consumer.read(records)
            position = consumer.position
            ids = [row[0] for row in database.connection.execute("SELECT id FROM effects")]
            database.close()
    assert effects.crashes == CRASHES
    message = {one.record.id: one.message for one in log}
    # An open transaction's effects are read here too; of the last one, which is committed, all are.
    return list(score(log, (message[one] for one in [*ids, *(record.id for record in effects.done)])))


def results() -> list[dict[str, object]]:
    """Each filter, each place of the mark, two sizes of a batch."""
    return [
        {"filter": name, "where": where, "batch": batch, "score": crashed(name, where, batch)}
        for name in FILTERS
        for where in WHERE
        for batch in (1, 100)
    ]
