"""move-replicas: the target's replicas move to other brokers while they are in use: one partition's
(`leader-of T/P`, `follower-of T/P`), or all of a broker's, as when it is to be taken out of service.

With `throttle`, the copying is limited as by kafka-reassign-partitions; the limits are removed at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from kaput.cluster.admin import requests
from kaput.cluster.placement import Assignment, Goal, plan
from kaput.core import first_few
from kaput.errors import LabError, UsageError
from kaput.faults.bandwidth import bits_per_second
from kaput.faults.fault import Effect, Fault, ms, now_ns
from kaput.scenario.fault_kinds import MoveReplicasOptions

_MOVED_S = 300.0


class MoveReplicas(Fault[Sequence[int]]):
    """One injection. The change counts from the request to when all new replicas are in sync: brokers copy
    meanwhile, and a leader that has to move does so at the end.

    Proof: each partition has its new replicas, all of them in sync, and none of the old ones; the limits of a
    throttle are gone.
    """

    name = "move-replicas"
    options: MoveReplicasOptions
    _over_ns: int | None = None

    def inject(self, brokers: Sequence[int]) -> Effect:
        """Moves them, and waits until they are there. Raises LabError."""
        admin, wanted = self.scene.admin, self._wanted(brokers)
        topics = sorted({topic for topic, _ in wanted})
        throttle = self.options.throttle
        self._limit(topics, throttle)
        began = now_ns()
        try:
            admin.reassign(wanted)
            there = self.wait(lambda: self._complete(wanted), _MOVED_S)
            ended = now_ns()
            self._over_ns = ended if there else None
        finally:
            self._limit(topics, None, lift=throttle is not None)
        details = first_few([f"{place} to {list(new)}" for place, new in sorted(wanted.items())], 3)
        limited = f" at {throttle}" if throttle else ""
        state = "all in sync" if there else "not complete"
        return Effect(began, there, f"{details}{limited}, {state} after {ms(began, ended)}")

    def heal(self, brokers: Sequence[int], effect: Effect) -> tuple[int | None, Effect]:
        """Does nothing: the replicas stay where they are. It was over when all were in sync."""
        return effect.with_nothing_to_heal() if self._over_ns is None else (self._over_ns, effect)

    def _wanted(self, brokers: Sequence[int]) -> Assignment:
        """The new replicas of each partition that is meant. Raises LabError."""
        admin, place = self.scene.admin, self.scene.step.target.place
        now = {each: state.replicas for each, state in admin.partitions(admin.topics()).items()}
        meant = [
            each
            for each, replicas in now.items()
            if set(replicas) & set(brokers)
            and (place is None or each == (place.topic.rpartition(":")[2], place.partition))
        ]
        try:
            wanted = plan(
                dict.fromkeys(sorted(admin.live([])[0])), now, meant, Goal(away_from=frozenset(brokers))
            )
        except UsageError as error:
            raise LabError(f"the replicas cannot move: {error}") from None
        if not wanted:
            raise LabError(f"broker {', '.join(map(str, brokers))} has no replicas")
        return wanted

    def _complete(self, wanted: Assignment) -> bool:
        states = self.scene.admin.partitions({topic for topic, _ in wanted})
        return all(
            set(states[place].replicas) == set(new) and set(states[place].isr) == set(new)
            for place, new in wanted.items()
        )

    def _limit(self, topics: Sequence[str], throttle: str | None, *, lift: bool = False) -> None:
        """Sets the limits of the throttle, or removes them. Raises LabError."""
        if throttle is None and not lift:
            return
        rate, every = (None, None) if throttle is None else (str(int(bits_per_second(throttle)) // 8), "*")
        rates = dict.fromkeys(requests.THROTTLED_RATES, rate)
        replicas = dict.fromkeys(requests.THROTTLED_REPLICAS, every)
        for broker in sorted(self.scene.admin.live([])[0]):
            self.scene.admin.alter_settings(requests.BROKER, str(broker), rates)
        for topic in topics:
            self.scene.admin.alter_settings(requests.TOPIC, topic, replicas)
