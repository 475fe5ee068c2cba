"""Generates logs with duplicates from a seed: what producers write when requests and acknowledgements are
lost, when producers crash and restart, and when partitions move between them.

A small simulation, a request at a time. Each topic-partition has a source, whose messages are numbered from
0. A producer takes the next message of one of its sources, has up to `in_flight` requests open, and sends
unacknowledged ones again. Not here: scoring filters (dedup_scoring.py), and Kafka's protocol.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from random import Random
from typing import NamedTuple

from kaput.clients.dedup.filters import NumberedRecord

Place = tuple[str, int]  # topic and partition
CLAIM = -1  # instead of a message: written first by a producer that takes over
_RESENT_MAX = 3  # acknowledged messages that a restarted producer repeats, since its source lags behind


class Memory(Enum):
    """What a producer still knows after a crash."""

    ALL = "all: it sends what was not acknowledged once more, with the same numbers"
    NUMBER = "its producer number: it counts from 0 again"
    SOURCE = "nothing; the source still numbers its messages: a new producer number, counted from 0"
    NOTHING = "nothing, nor does the source: new ids and new numbers for everything"


class Delivery(NamedTuple):
    """A record of the log, and its message (or CLAIM), which filters do not see."""

    record: NumberedRecord
    message: int


@dataclass(frozen=True)
class Traffic:
    """The traffic to generate, with the probability of each trouble per attempt or producer step."""

    seed: int
    messages: int = 1000
    producers: int = 1
    topics: int = 1
    partitions: int = 1
    in_flight: int = 1
    lost_requests: float = 0.0
    lost_acks: float = 0.0
    elsewhere: bool = False  # each retry goes to a newly chosen partition
    crashes: float = 0.0
    memory: Memory = Memory.ALL
    moves: float = 0.0  # a partition gets another producer, and the previous one does not know it yet
    claims: bool = True  # the new producer writes its epoch first
    shared: bool = False  # every producer writes to every partition

    def read(self) -> list[Delivery]:
        """Generates the log in a consumer's order: each partition by offset, a few records at a time."""
        written: dict[Place, deque[Delivery]] = defaultdict(deque)
        for one in _Simulation(self).run():
            written[one.record.topic, one.record.partition].append(one)
        random = Random(f"read {self.seed}")
        deliveries: list[Delivery] = []
        while left := [place for place, records in written.items() if records]:
            records = written[random.choice(left)]
            deliveries += [records.popleft() for _ in range(min(len(records), random.randint(1, 20)))]
        return deliveries


@dataclass
class _SimulatedSource:
    """The messages of a partition; `next`: the next to send; `first`: the one with number 0."""

    place: Place
    messages: range
    epoch: int = 0
    next: int = 0
    first: int = 0
    new_ids: bool = False


@dataclass(frozen=True)
class _SimulatedRequest:
    place: Place
    message: int
    index: int  # in its source
    id: int
    producer: int
    seq: int
    epoch: int
    number: int
    zombie: bool = False


@dataclass
class _SimulatedProducer:
    number: int
    sources: list[_SimulatedSource]
    seq: int = 0
    resend: deque[_SimulatedRequest] = field(default_factory=deque)
    open: deque[_SimulatedRequest] = field(default_factory=deque)
    acked: deque[_SimulatedRequest] = field(default_factory=lambda: deque(maxlen=_RESENT_MAX))

    @property
    def busy(self) -> bool:
        """Whether it has anything left to send."""
        return bool(self.open or self.resend or any(s.next < len(s.messages) for s in self.sources))


class _Simulation:
    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._random = Random(f"write {traffic.seed}")
        self._offsets: dict[Place, int] = defaultdict(int)
        self._new_ids = 0  # new ids by producers that forgot everything
        self._claims = 0
        self._producers = [_SimulatedProducer(number, []) for number in range(traffic.producers)]
        self._next_number = traffic.producers  # the next producer number
        self._assign()

    def _assign(self) -> None:
        places = [
            (f"topic-{t}", p) for t in range(self._traffic.topics) for p in range(self._traffic.partitions)
        ]
        owned = [
            (place, owner)
            for index, place in enumerate(places)
            for owner in self._producers
            if self._traffic.shared or index % len(self._producers) == owner.number
        ]
        each, begin = self._traffic.messages // len(owned), 0
        for place, owner in owned:
            # In a shared partition, each producer believes that it is the owner; the last one is right.
            epoch = owner.number if self._traffic.shared else 0
            owner.sources.append(_SimulatedSource(place, range(begin, begin + each), epoch))
            begin += each

    def run(self) -> Iterator[Delivery]:
        """Yields the deliveries in the order of writing."""
        random = self._random
        while busy := [producer for producer in self._producers if producer.busy]:
            producer = random.choice(busy)
            if random.random() < self._traffic.crashes:
                self._crash(producer)
            if random.random() < self._traffic.moves:
                yield from self._move()
            if len(producer.open) < self._traffic.in_flight and (request := self._next_request(producer)):
                producer.open.append(request)
            elif producer.open:
                yield from self._send(producer, producer.open.popleft())

    def _next_request(self, producer: _SimulatedProducer) -> _SimulatedRequest | None:
        if producer.resend:
            return producer.resend.popleft()
        left = [source for source in producer.sources if source.next < len(source.messages)]
        if not left:
            return None
        source = self._random.choice(left)
        source.next += 1
        return self._request(producer, source, source.next - 1)

    def _request(
        self, producer: _SimulatedProducer, source: _SimulatedSource, index: int
    ) -> _SimulatedRequest:
        message = source.messages[index]
        known = message if not source.new_ids else self._traffic.messages + self._new_ids
        self._new_ids += source.new_ids
        producer.seq += 1
        number = index - source.first
        return _SimulatedRequest(
            source.place, message, index, known, producer.number, producer.seq - 1, source.epoch, number
        )

    def _send(self, producer: _SimulatedProducer, request: _SimulatedRequest) -> Iterator[Delivery]:
        """Sends a request; without an acknowledgement, it is queued again after the open ones."""
        arrived = self._random.random() >= self._traffic.lost_requests
        if arrived:
            yield self._write(request)
        if request.zombie:
            return
        if arrived and self._random.random() >= self._traffic.lost_acks:
            producer.acked.append(request)
            return
        producer.open.append(
            self._to_other_partition(producer, request) if self._traffic.elsewhere else request
        )

    def _write(self, request: _SimulatedRequest) -> Delivery:
        topic, partition = request.place
        offset = self._offsets[request.place]
        self._offsets[request.place] += 1
        # Spread over 63 bits, like hashes and random ids.
        spread = request.id * 0x9E3779B97F4A7C15 % 2**63
        record = NumberedRecord(
            topic, partition, offset, spread, request.producer, request.seq, request.epoch, request.number
        )
        return Delivery(record, request.message)

    def _to_other_partition(
        self, producer: _SimulatedProducer, request: _SimulatedRequest
    ) -> _SimulatedRequest:
        topic = request.place[0]
        places = [source.place for source in producer.sources if source.place[0] == topic]
        return replace(request, place=self._random.choice(places))

    def _crash(self, producer: _SimulatedProducer) -> None:
        """Drops open requests; whether one was written was decided when it was sent."""
        queues = (producer.acked, producer.open, producer.resend)
        unsure = [request for queue in queues for request in queue if not request.zombie]
        producer.open.clear()
        producer.acked.clear()
        producer.resend.clear()
        memory = self._traffic.memory
        if memory is Memory.ALL:
            producer.resend.extend(sorted(unsure, key=lambda request: request.seq))
            return
        producer.seq = 0
        if memory is not Memory.NUMBER:
            producer.number, self._next_number = self._next_number, self._next_number + 1
        for source in producer.sources:
            source.epoch += 1
            # Back to the first message without a known acknowledgement.
            source.next = min([r.index for r in unsure if r.place == source.place], default=source.next)
            if memory is Memory.NOTHING:
                source.first, source.new_ids = source.next, True

    def _move(self) -> Iterator[Delivery]:
        """Moves a partition: the new producer starts with the unacknowledged messages; the old one continues
        a while.

        Some of the old one's requests have timed out: it skips these, and writes later ones.
        """
        owners = [producer for producer in self._producers if producer.sources]
        if len(self._producers) < 2 or not owners:
            return
        old = self._random.choice(owners)
        new = self._random.choice([producer for producer in self._producers if producer is not old])
        source = old.sources.pop(self._random.randrange(len(old.sources)))
        open_before = _remove_requests(old, source.place)
        ahead = range(source.next, min(source.next + 5, len(source.messages)))
        late = [*open_before, *(self._request(old, source, index) for index in ahead)]
        late = [replace(request, zombie=True) for request in late if self._random.random() < 0.5]
        old.open.extend(sorted(late, key=lambda request: request.index))
        first = min([r.index for r in open_before if not r.zombie], default=source.next)
        moved = replace(source, epoch=source.epoch + 1, next=first)
        new.sources.append(moved)
        if self._traffic.claims:
            self._claims += 1
            yield self._write(
                _SimulatedRequest(source.place, CLAIM, -1, -self._claims, new.number, -1, moved.epoch, -1)
            )


def _remove_requests(producer: _SimulatedProducer, place: Place) -> list[_SimulatedRequest]:
    """Removes and returns a producer's requests for a partition."""
    removed = []
    for queue in (producer.acked, producer.open, producer.resend):
        removed += [request for request in queue if request.place == place]
        kept = [request for request in queue if request.place != place]
        queue.clear()
        queue.extend(kept)
    return removed
