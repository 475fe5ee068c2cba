"""A small cluster, played in steps of 10 ms: its record is a history with the tables that claims need.

Leaders, in-sync replicas, sessions, clients that know a leader, and members that own partitions are modelled;
an acknowledgement comes only when the cluster could have given it. Not modelled: throughput, internal topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from fakes.histories import History, at

STEP = 10
DOWN = ("kill", "power-loss", "disk-loss")
GROUP = "billing"
SESSION = 6_000  # of a member of a group


@dataclass(frozen=True)
class FaultSpec:
    """`target`: a broker's number, `producer 0`, `member 1`, `mirror`, or `topic orders` for `change-config`,
    which gives min.insync.replicas the `value`, and was requested `early` before that.
    """

    fault: str
    target: int | str
    begin: int
    length: int
    value: int | None = None
    early: int = 1


@dataclass(frozen=True)
class World:
    """One run, with times in ms.

    `clusters`: each has three brokers and its own partitions. `moved`: when a plan moves clients from one to
    the other. `timeout`: after which a message is given up. `misled`: clients that reach a deposed leader
    learn of no other.
    """

    seed: int
    acks: str | int = "all"
    min_isr: int = 1
    partitions: int = 2
    replicas: int = 3
    clusters: int = 1
    session: int = 9_000
    lag_time: int = 4_000
    unclean: bool = False
    timeout: int = 120_000
    misled: bool = False
    transactions: bool = False
    moved: int | None = None
    faults: tuple[FaultSpec, ...] = ()
    length: int = 30_000


@dataclass
class _Broker:
    id: int
    fenced: bool = False
    silent_since: int | None = None
    back_since: int | None = None
    stopping: bool = False


@dataclass
class _Partition:
    cluster: str | None
    number: int
    replicas: list[int]
    leader: int
    isr: list[int]
    epoch: int = 0
    log: list[tuple[int, int, int, bool]] = field(default_factory=list)  # producer, seq, epoch, visible
    have: dict[int, int] = field(default_factory=dict)  # by replica: how much of the log it has
    shown: list[int] = field(default_factory=list)  # by offset: when readers could see it
    out_since: dict[int, int] = field(
        default_factory=dict
    )  # by follower: since when it cannot fetch, or is back
    fork: list[tuple[int, int, int, bool]] | None = None  # what a deposed leader has that does not know it
    deposed: int | None = None


@dataclass
class _Client:
    """A producer's view of one partition."""

    queue: list[tuple[int, int, bool]] = field(default_factory=list)  # attempt, seq, visible
    knows: int = 0
    retry_at: int = 0


class Simulation:
    """One world, played once."""

    def __init__(self, world: World) -> None:
        self.world, self.random = world, Random(world.seed)
        names: list[str | None] = ["dc1", "dc2"] if world.clusters == 2 else [None]
        self.names = names
        self.brokers = {b: _Broker(b) for n in range(len(names)) for b in self._ids(n)}
        self.partitions = [
            self._partition(name, number, p)
            for number, name in enumerate(names)
            for p in range(world.partitions)
        ]
        self.history = self._history()
        self.clients = {
            (p, c): _Client(knows=part.leader) for p in (0, 1) for c, part in enumerate(self.partitions)
        }
        self.seqs = {0: 0, 1: 0}
        self.acked: list[dict[str, Any]] = []
        self.now = 0
        self.active: list[tuple[FaultSpec, int]] = []  # and when it really ends

    def _ids(self, number: int) -> list[int]:
        return [1000 * number + b for b in (1, 2, 3)]

    def _partition(self, name: str | None, number: int, partition: int) -> _Partition:
        ids = self._ids(number)
        replicas = [ids[(partition + n) % 3] for n in range(self.world.replicas)]
        return _Partition(
            name, partition, replicas, replicas[0], list(replicas), have=dict.fromkeys(replicas, 0)
        )

    def _history(self) -> History:
        world = self.world
        config: dict[str, Any] = {"min.insync.replicas": world.min_isr}
        if world.unclean:
            config["unclean.leader.election.enable"] = "true"
        topic = {"name": "orders", "partitions": world.partitions, "replication-factor": world.replicas}
        clusters = {n: {} for n in self.names if n}
        topics = [{**topic, "config": config, **({"cluster": n} if n else {})} for n in self.names]
        producers = [{"topic": "orders", "acks": world.acks, "rate": 10, "messages": 1} for _ in (0, 1)]
        return History(
            producers=producers,
            topics=topics,
            clusters=clusters,
            groups={GROUP: True},
            subscriptions={GROUP: ["orders"]},
        )

    # The record.

    def _event(self, kind: str, broker: int) -> None:
        self.history.add(
            "cluster_events", kind=kind, broker=broker, at_ns=at(self.now), source="test", **self._in(broker)
        )

    def _in(self, broker: int) -> dict[str, Any]:
        return {"cluster": self.names[broker // 1000]}

    def _change(self, part: _Partition, kind: str) -> None:
        self.history.led(
            part.leader,
            part.epoch,
            self.now,
            list(part.isr),
            kind=kind,
            topic="orders",
            partition=part.number,
            cluster=part.cluster,
        )

    # What holds at this moment.

    def _hit(self, broker: int, *faults: str) -> bool:
        return any(f.target == broker and f.fault in faults for f, _ in self.active)

    def runs(self, broker: int) -> bool:
        return not self._hit(broker, *DOWN, "pause", "stop")

    def heard(self, broker: int) -> bool:
        """Whether the controllers hear of it."""
        return self.runs(broker) and not self._hit(broker, "isolate")

    def fetches(self, follower: int, leader: int) -> bool:
        both = self.runs(follower) and self.runs(leader)
        apart = self._hit(follower, "isolate") or self._hit(leader, "isolate")
        return both and not apart and not self._hit(follower, "disk-stall")

    def serves(self, broker: int) -> bool:
        return self.runs(broker) and not self._hit(broker, "disk-stall", "cut")

    # One step.

    def play(self) -> History:
        """The whole run; its history."""
        for part in self.partitions:
            self.now = -1_000
            self._change(part, "leader")
        for broker in self.brokers:
            self.now = -2_000
            self._event("started", broker)
            self._event("unfenced", broker)
        readers = _Readers(self)
        end = self.world.length + 25_000
        for now in range(0, end, STEP):
            self.now = now
            self._faults()
            self._controllers()
            for part in self.partitions:
                self._replicate(part)
                self._show(part)
            for producer in (0, 1):
                self._produce(producer)
        self._store()
        readers.read()
        return self.history.read_to_end()

    def _faults(self) -> None:
        for fault, ends in list(self.active):
            if ends <= self.now:
                self.active.remove((fault, ends))
                if fault.fault in (*DOWN, "stop") and isinstance(fault.target, int):
                    if not self.brokers[
                        fault.target
                    ].fenced:  # it registers anew, which ends what it was before
                        self._leave(self.brokers[fault.target])
                    self._event("started", int(fault.target))
        for fault in self.world.faults:
            if fault.begin == self.now:
                self._inject(fault)

    def _inject(self, fault: FaultSpec) -> None:
        ends = self.now + fault.length
        self.active.append((fault, ends))
        late = (
            self.random.choice((0, 300, 1_400))
            if fault.fault in ("isolate", "cut", "change-config")
            else self.random.choice((0, 1, 4))
        )
        slow = fault.fault in ("disk-stall", "change-config")  # until it is proven
        effect = self.now + (min(500, fault.length // 2) if slow else 0)
        brokers = [fault.target] if isinstance(fault.target, int) else []
        number = len(self.history.rows["faults"]) + 1
        target = f"broker {fault.target}" if brokers else str(fault.target)
        target = {"member 1": f"member 1 of {GROUP}", "mirror": "mirror dc1->dc2"}.get(target, target)
        self.history.add(
            "faults",
            id=f"{number}-{fault.fault}",
            fault=fault.fault,
            target=target,
            brokers=brokers,
            injected_ns=at(self.now - fault.early),
            effective_ns=at(effect) + 1_000,
            heal_began_ns=at(ends) - 5_000,
            healed_ns=at(ends + late) + 20_000,
            bit=True,
            proof="seen",
            cluster=self.names[brokers[0] // 1000] if brokers else None,
        )
        step: dict[str, Any] = {
            "at": f"{self.now}ms",
            "fault": fault.fault,
            "target": target,
            "for": f"{fault.length}ms",
        }
        if fault.fault == "cut":
            step["from"] = ["clients"]
        if fault.value is not None:
            step["config"] = {"min.insync.replicas": fault.value}
        self.history.faults.append(step)
        if fault.fault in DOWN and brokers:
            self._event("stopped", brokers[0])
        if fault.fault == "stop" and brokers:
            self._leave(self.brokers[brokers[0]])
            self._event("stopped", brokers[0])

    def _controllers(self) -> None:
        for broker in self.brokers.values():
            if self.heard(broker.id):
                broker.silent_since = None
                if broker.fenced:
                    self._come_back(broker)
                continue
            broker.back_since = None
            if broker.silent_since is None:
                broker.silent_since = self.now
            if not broker.fenced and self.now - broker.silent_since >= self.world.session:
                self._leave(broker)

    def _come_back(self, broker: _Broker) -> None:
        if broker.back_since is None:
            broker.back_since = self.now + self.random.choice((0, 500, 2_500))
        if self.now >= broker.back_since:
            broker.fenced, broker.back_since = False, None
            self._event("unfenced", broker.id)
            for part in self.partitions:
                if part.leader < 0 and broker.id in part.replicas:
                    self._elect(part)

    def _leave(self, broker: _Broker) -> None:
        """It is fenced: out of every ISR, and another leads."""
        broker.fenced = True
        self._event("fenced", broker.id)
        for part in self.partitions:
            if broker.id not in part.replicas:
                continue
            if broker.id in part.isr and len(part.isr) > 1:
                part.isr = [b for b in part.isr if b != broker.id]
                if part.leader != broker.id:
                    self._change(part, "isr")
            if part.leader == broker.id:
                self._elect(part)

    def _elect(self, part: _Partition) -> None:
        alive = [b for b in part.isr if not self.brokers[b].fenced]
        if not alive and self.world.unclean:
            alive = [b for b in part.replicas if not self.brokers[b].fenced]
            part.isr = alive[:1] or part.isr
        leader = alive[0] if alive else -1
        if leader == part.leader == -1:
            return
        old = part.leader
        if old >= 0 and leader != old and self.runs(old) and self._hit(old, "isolate"):
            part.fork, part.deposed = list(part.log), old
        part.leader, part.epoch = leader, part.epoch + 1
        if leader >= 0:
            del part.log[part.have[leader] :]
            del part.shown[part.have[leader] :]
            part.have = {b: min(n, len(part.log)) for b, n in part.have.items()}
        part.out_since.clear()
        self._change(part, "leader")

    def _replicate(self, part: _Partition) -> None:
        if part.deposed is not None and not self._hit(part.deposed, "isolate"):
            part.fork = part.deposed = None
        if part.leader < 0:
            return
        part.have[part.leader] = len(part.log)
        for follower in part.replicas:
            if follower == part.leader:
                continue
            fetches = self.fetches(follower, part.leader)
            if fetches and self.serves(part.leader):
                part.have[follower] = len(part.log)
            out, since = follower not in part.isr, part.out_since.get(follower)
            changes = fetches if out else not fetches
            if not changes or not self.heard(part.leader) or self.brokers[follower].fenced:
                part.out_since.pop(follower, None)
            elif since is None:
                part.out_since[follower] = self.now
            elif self.now - since >= (self.random.choice((700, 1_500)) if out else self.world.lag_time):
                part.isr = [*part.isr, follower] if out else [b for b in part.isr if b != follower]
                part.out_since.pop(follower)
                self._change(part, "isr")

    def _show(self, part: _Partition) -> None:
        """Moves the high watermark: to what every member has of an ISR that is large enough."""
        if part.leader >= 0 and self.serves(part.leader) and len(part.isr) >= self._min_isr():
            high = min(part.have[broker] for broker in part.isr)
            part.shown += [self.now] * (high - len(part.shown))

    def _min_isr(self) -> int:
        return ([f.value for f, _ in self.active if f.value is not None] or [self.world.min_isr])[-1]

    # Producers.

    def _produce(self, producer: int) -> None:
        if self._hit_producer(producer):
            return
        if self.now < self.world.length and self.now % 100 == 50 * producer:
            self._attempt(producer)
        for number, part in enumerate(self.partitions):
            client = self.clients[producer, number]
            if client.queue:
                self._give_up(producer, part, client)
                self._send(producer, part, client)

    def _hit_producer(self, producer: int) -> bool:
        return any(f.target == f"producer {producer}" for f, _ in self.active)

    def _attempt(self, producer: int) -> None:
        own = [n for n, part in enumerate(self.partitions) if part.cluster == self.names[0]]
        if self.world.moved is not None and self.now >= self.world.moved:
            own = [n for n, part in enumerate(self.partitions) if part.cluster == self.names[-1]]
        seq, self.seqs[producer] = self.seqs[producer], self.seqs[producer] + 1
        aborted = self.world.transactions and producer == 1 and seq // 10 % 3 == 2
        number = own[self.random.randrange(len(own))]
        self.clients[producer, number].queue.append((self.now, seq, not aborted))

    def _give_up(self, producer: int, part: _Partition, client: _Client) -> None:
        while client.queue and self.now - client.queue[0][0] >= self.world.timeout:
            attempt, seq, _ = client.queue.pop(0)
            outcome = self.random.choice(("failed", "unknown"))
            self._sent(producer, seq, part, attempt, self.now, None, outcome)

    def _send(self, producer: int, part: _Partition, client: _Client) -> None:
        if self.now < client.retry_at:
            return
        leader = client.knows
        if part.fork is not None and leader == part.deposed and self.serves(leader):
            if self.world.acks != "all":
                self._append(producer, part, client, part.fork)
                return
            if self.world.misled:
                return
        if leader == part.leader and self.serves(leader):
            if self._accepts(part):
                self._append(producer, part, client, part.log)
            return
        if self.world.misled and part.fork is not None:
            return
        client.retry_at = self.now + self.random.choice((100, 400, 1_200))
        if part.leader >= 0:
            client.knows = part.leader

    def _accepts(self, part: _Partition) -> bool:
        if self.world.acks != "all":
            return True
        members = all(b == part.leader or self.fetches(b, part.leader) for b in part.isr)
        return members and len(part.isr) >= self._min_isr()

    def _append(
        self, producer: int, part: _Partition, client: _Client, log: list[tuple[int, int, int, bool]]
    ) -> None:
        slow = any(f.fault in ("delay", "cpu-pressure") for f, _ in self.active)
        for attempt, seq, visible in client.queue:
            done = self.now + self.random.randint(1, 8) + (self.random.randint(0, 60) if slow else 0)
            epoch = part.epoch if log is part.log else part.epoch - 1
            self._sent(producer, seq, part, attempt, done, len(log), "acked")
            log.append((producer, seq, epoch, visible))
        client.queue.clear()
        if self.world.acks == "all":
            part.have.update({b: len(part.log) for b in part.isr})

    def _sent(
        self,
        producer: int,
        seq: int,
        part: _Partition,
        attempt: int,
        done: int | None,
        offset: int | None,
        outcome: str,
    ) -> None:
        where = {"topic": "orders", "partition": part.number, "cluster": part.cluster}
        done_ns = None if done is None else at(done) + self.random.randint(0, 9_999)
        times = {"attempt_ns": at(attempt) + seq % 7, "done_ns": done_ns}
        error = None if outcome == "acked" else "timed out"
        self.history.sent(producer, seq, offset, outcome, error=error, **where, **times)
        if outcome == "acked":
            self.acked.append(self.history.rows["sends"][-1])

    def _store(self) -> None:
        for (producer, number), client in self.clients.items():
            for attempt, seq, _ in client.queue:
                self._sent(producer, seq, self.partitions[number], attempt, None, None, "unknown")
        for part in self.partitions:
            for offset, (producer, seq, epoch, visible) in enumerate(part.log):
                where = {"topic": "orders", "partition": part.number, "cluster": part.cluster}
                self.history.stored(offset, producer, seq, leader_epoch=epoch, visible=visible, **where)
        if self.world.transactions:
            for number in range(-(-self.seqs[1] // 10)):
                last = min(10 * number + 9, self.seqs[1] - 1)
                outcome = "aborted" if number % 3 == 2 else "committed"
                self.history.transaction(number, 10 * number, last, outcome, producer=1)
        if self.world.moved is not None:
            for number, kind in enumerate(("notice", "move-producers", "move-groups"), 1):
                when = self.world.moved + number
                row = {"step": f"{number} {kind}", "kind": kind, "outcome": "done", "proof": "seen"}
                self.history.add("plan", started_ns=at(when), ended_ns=at(when + 1), **row)


class _Readers:
    """Two members of one group: each owns half of the partitions, and takes over the other's."""

    def __init__(self, of: Simulation) -> None:
        self.of, self.random = of, of.random

    def read(self) -> None:
        """Adds assignments, deliveries, commits and samples of lag."""
        for number, part in enumerate(self.of.partitions):
            spans = list(self._owners(number, part))
            for begin, _, member in spans:
                self._event("assigned", begin, member, part)
            for (_, end, member), following in zip(spans, [*spans[1:], None], strict=True):
                if following is not None:
                    self._event("lost", end, member, part)
            self._deliver(part, spans)

    def _owners(self, number: int, part: _Partition) -> Iterator[tuple[int, int, str]]:
        member, other = ("member-1", "member-2") if number % 2 == 0 else ("member-2", "member-1")
        begin = -500
        if part.cluster not in (None, self.of.names[0]):
            begin = 1_000 + (self.of.world.moved or 0)
        hits = [f for f in self.of.world.faults if f.target == "member 1" and f.length >= SESSION]
        if hits and member == "member-1" and hits[0].begin > begin:
            lost = hits[0].begin + SESSION
            yield begin, lost, member
            yield lost + self.random.choice((3, 40, 900)), 1 << 40, other
        else:
            yield begin, 1 << 40, member

    def _event(self, kind: str, ms: int, member: str, part: _Partition, offset: int | None = None) -> None:
        where = {"topic": "orders", "partition": part.number, "cluster": part.cluster}
        self.of.history.event(kind, ms, offset, group=GROUP, member=member, **where)

    def _frozen(self, member: str, ms: float) -> float:
        """When this member goes on, if a fault holds it then; else the same time."""
        for fault in self.of.world.faults:
            if (
                fault.target == "member 1"
                and member == "member-1"
                and fault.begin <= ms < fault.begin + fault.length
            ):
                return fault.begin + fault.length + 2
        return ms

    def _deliver(self, part: _Partition, spans: list[tuple[int, int, str]]) -> None:
        done = {(s["producer"], s["seq"]): s["done_ns"] for s in self.of.acked}
        last = 0.0
        samples: dict[int, list[float]] = {}
        shown = part.shown + [self.of.now] * (len(part.log) - len(part.shown))
        for offset, (producer, seq, _, visible) in enumerate(part.log):
            if not visible or (producer, seq) not in done:
                continue
            ms = max((done[producer, seq] - at(0)) / 1e6, shown[offset]) + self.random.randint(2, 9)
            ms = max(last, ms)
            for begin, end, member in spans:
                ms = max(ms, self._frozen(member, max(ms, begin + 1.0)))
                if ms < end:
                    where = {
                        "partition": part.number,
                        "cluster": part.cluster,
                        "member": member,
                        "group": GROUP,
                    }
                    self.of.history.handed(offset, producer, seq, ms, **where)
                    samples[offset] = [(done[producer, seq] - at(0)) / 1e6, ms]
                    break
            last = ms
        self._lag(part, samples)

    def _lag(self, part: _Partition, samples: dict[int, list[float]]) -> None:
        """A sample a second: what was stored and not delivered yet."""
        for second in range(0, self.of.world.length + 25_000, 1_000):
            lag = sum(stored <= second < delivered for stored, delivered in samples.values())
            labels = list({"group": GROUP, "topic": "orders", "partition": str(part.number)}.items())
            row = {
                "source": "test",
                "name": "lag",
                "labels": labels,
                "value": float(lag),
                "cluster": part.cluster,
            }
            self.of.history.add("samples", at_ns=at(second), **row)
