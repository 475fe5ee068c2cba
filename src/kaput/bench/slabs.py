"""Generates one slab as arrays: the times of sends and acknowledgements, and its part of every partition's
log.

Applies plants (plan.py) to sends and logs. Not here: deliveries (tables.py). Vectorized: most is
computed per batch and spread over its messages.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kaput.bench.plan import HOLES, BatchTable, Longs, PlantingPlan, PlantKind, Plants, slots_more, spread
from kaput.core import MS

ACKED, FAILED, UNKNOWN, KEPT, REFUSED = range(5)  # positions in scenario.vocabulary.OUTCOMES
NOBODY = -1  # producer and seq of a record without identity
_CALLBACK_NS = 300  # approximate time between the acknowledgements of a batch
_OUTCOME = {
    PlantKind.RECOVERED: UNKNOWN,
    PlantKind.UNKNOWN: UNKNOWN,
    PlantKind.GHOST: FAILED,
    PlantKind.FAILED: FAILED,
    PlantKind.KEPT: KEPT,
    PlantKind.WAITING: KEPT,
    PlantKind.LOST_IN_STORE: KEPT,
    PlantKind.REFUSED: REFUSED,
}


@dataclass(frozen=True)
class Log:
    """One partition's records of the slab in offset order. `batch`: each record's batch, as position in the
    slab. `ends`: positions of the last record of each batch; `plants`: the partition's plants; `planted`:
    positions of their messages (or of the next record).
    """

    partition: int
    offset: Longs
    producer: Longs
    seq: Longs
    intact: npt.NDArray[np.bool_]
    timestamp_ms: Longs
    batch: Longs
    ends: Longs
    plants: Plants
    planted: Longs


class Slab:
    """Arrays over the slab's messages, producer after producer: seq, attempt_ns, outcome, offset."""

    def __init__(self, plan: PlantingPlan, number: int) -> None:
        self.plan, self.shape, self.number, self.plants = plan, plan.shape, number, plan.plants_of(number)
        self.rng = np.random.default_rng([plan.shape.seed, 1, number])
        self.batches = BatchTable(plan.shape, number)
        self._send()
        self._acknowledge()
        self.plant_batch = self.batches.index(self.plants.producer, self.plants.batch)
        self.outcome = np.full(len(self.seq), ACKED, np.int8)
        for kind, outcome in _OUTCOME.items():
            chosen = self.plants.kind == kind
            self.outcome[self._message(chosen)] = outcome
        self.offset = np.empty(len(self.seq), np.int64)
        self.logs = [self._log(partition) for partition in range(self.shape.partitions)]

    @property
    def waiting(self) -> Longs:
        return self._message(self.plants.kind == PlantKind.WAITING)

    def _message(self, chosen: npt.NDArray[np.bool_]) -> Longs:
        before: Longs = self.batches.messages_before[self.plant_batch[chosen]]
        return before + self.plants.at[chosen]

    def _send(self) -> None:
        shape, batches = self.shape, self.batches
        self.seq: Longs = spread(batches.number * shape.batch, batches.size)
        since = self.seq - self.number * shape.width
        own = np.repeat(batches.producer * (shape.interval_ns // shape.producers), batches.size)
        noise = self.rng.integers(0, shape.interval_ns // 2, len(self.seq), np.int64)
        self.attempt_ns: Longs = shape.starts_ns(self.number) + since * shape.interval_ns + own + noise

    def _acknowledge(self) -> None:
        """Sets when each batch was appended and acknowledged. A producer's requests stay in order."""
        batches = self.batches
        full_ns = self.attempt_ns[batches.messages_before[1:] - 1]
        arrived_ns = full_ns + self.delays_ns(len(full_ns), median_ms=1.0, spread=0.6)
        for producer in range(self.shape.producers):
            own = slice(batches.begins[producer], batches.begins[producer + 1])
            arrived_ns[own] = np.maximum.accumulate(arrived_ns[own])
        self.appended_ns: Longs = arrived_ns
        self.acked_ns: Longs = arrived_ns + self.delays_ns(len(full_ns), median_ms=2.5, spread=0.7)

    def delays_ns(self, count: int, median_ms: float, spread: float) -> Longs:
        """Lognormal delays of at most 250 ms."""
        drawn = median_ms * np.exp(self.rng.normal(0, spread, count))
        return (np.minimum(drawn, 250.0) * MS).astype(np.int64)

    def completed(self, producer: int) -> tuple[Longs, Longs]:
        """The positions of a producer's messages in the order of completion, and the completion times."""
        begin, end = self.batches.begins[producer : producer + 2]
        order = begin + np.argsort(self.acked_ns[begin:end], kind="stable")
        sizes = self.batches.size[order]
        since_first = _CALLBACK_NS * spread(np.zeros_like(sizes), sizes)
        noise = self.rng.integers(0, _CALLBACK_NS, len(since_first), np.int64)
        return self.batches.among(order), np.repeat(self.acked_ns[order], sizes) + since_first + noise

    def _log(self, partition: int) -> Log:
        """The records of one partition; also sets the acknowledged offsets."""
        batches, start = self.batches, self.plan.offsets[self.number, partition]
        here = np.flatnonzero(batches.partition == partition)
        order = here[np.argsort(self.appended_ns[here], kind="stable")]
        sizes = batches.size[order]
        before = np.cumsum(sizes) - sizes
        message = batches.among(order)
        chosen = batches.partition[self.plant_batch] == partition
        plants = self.plants.only(chosen)
        rank = np.empty(len(batches.size), np.int64)
        rank[order] = np.arange(len(order))
        at = before[rank[self.plant_batch[chosen]]] + plants.at
        swapped = at[plants.kind == PlantKind.REORDERED]
        message[swapped], message[swapped + 1] = message[swapped + 1], message[swapped]
        slots = np.ones(len(message), np.int64)
        slots[at] += slots_more(plants.kind)
        slot = np.cumsum(slots) - slots  # where each message is, or would be
        claimed = start + slot
        claimed[at[plants.kind == PlantKind.MISCLAIMED]] += 1
        self.offset[message] = claimed
        kept = np.ones(int(slots.sum()), bool)
        kept[slot[at[np.isin(plants.kind, HOLES)]]] = False
        row = np.cumsum(kept) - kept
        which = np.repeat(np.arange(len(message)), slots)
        producer = np.repeat(batches.producer[order], sizes)[which]
        seq = self.seq[message][which]
        intact = np.ones(len(which), bool)
        self._overwrite_identities(plants, slot[at], producer, seq, intact)
        return Log(
            partition,
            (start + np.arange(len(which)))[kept],
            producer[kept],
            seq[kept],
            intact[kept],
            (self.attempt_ns[message] // MS)[which][kept],
            np.repeat(order, sizes)[which][kept],
            row[slot[before + sizes - 1]],
            plants,
            row[slot[at]],
        )

    def _overwrite_identities(
        self, plants: Plants, slot: Longs, producer: Longs, seq: Longs, intact: npt.NDArray[np.bool_]
    ) -> None:
        """Overwrites the identities of damaged, foreign and phantom records."""
        damaged = slot[plants.kind == PlantKind.DAMAGED_RECORD]
        intact[damaged] = False
        nameless = np.concatenate([damaged, slot[plants.kind == PlantKind.FOREIGN_SKIPPED] + 1])
        producer[nameless] = seq[nameless] = NOBODY
        unsent = plants.kind == PlantKind.PHANTOM
        ordinal = plants.ordinal[unsent]
        # Half of the phantoms are from a producer of this run, numbered after everything it sent.
        known = ordinal % 2 == 0
        own = ordinal % self.shape.producers
        counts = np.array(self.shape.counts, np.int64)
        producer[slot[unsent] + 1] = np.where(known, own, self.shape.producers + ordinal % 3)
        seq[slot[unsent] + 1] = np.where(known, counts[own], 0) + ordinal
