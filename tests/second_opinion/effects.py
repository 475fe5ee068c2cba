"""What each fault does to whom, and when a process runs: by `faults`, `started`, `stopped` and the steps."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from functools import cache, cached_property
from itertools import pairwise
from typing import NamedTuple

from second_opinion.raw import MS, SECOND, Place, Row, RunTables

FOREVER = 1 << 62
CLIENTS = -1
ENDS = ("kill", "stop", "power-loss", "disk-loss")
_CUTS = ("isolate", "cut", "partition", "flap")
_NEVER_END = (
    *("resize", "grow", "delete-records", "delete-topic", "reassign", "seek", "reset-offsets"),
    *("elect-preferred", "move-leader"),
)
# A heal is confirmed by probes, up to so much after it works.
CONFIRMED_WITHIN = 2 * SECOND


class Effect(NamedTuple):
    """One fault that took effect. `healed`: FOREVER if its end was not confirmed; `heal_began`: the earliest
    time at which the heal may have worked.
    """

    id: str
    fault: str
    target: str
    brokers: frozenset[int]
    begin: int
    healed: int
    heal_began: int
    bit: bool
    step: Row
    asked: int = 0  # when it was injected
    works: tuple[tuple[int, int], ...] = ()  # from when to when a flapping link let everything pass
    cluster: str | None = None  # null: there is only one

    def is_in(self, cluster: str | None) -> bool:
        """Whether it is one of this cluster."""
        return None in (cluster, self.cluster) or cluster == self.cluster

    @property
    def of_requests(self) -> str | None:
        """What clients ask, if it is only about that."""
        from_ = self.step.get("from") or "clients"
        only = self.fault == "protocol" and from_ in ("clients", ["clients"])
        return self.step.get("api") if only else None


class Effects:
    """Of one run."""

    def __init__(self, tables: RunTables, heals_began: Container[str] = ()) -> None:
        """`heals_began`: these faults end when their heal began, if that is recorded."""
        self.tables, self._heals_began = tables, heals_began
        self.all = sorted(self._read(), key=lambda e: e.begin)

    def _read(self) -> Iterable[Effect]:
        steps = self.tables.scenario.get("faults") or []
        for row in self.tables.rows("faults"):
            if row["effective_ns"] is None:
                continue
            number = re.match(r"\d+", row["id"])
            index = int(number[0]) - 1 if number else -1
            known = 0 <= index < len(steps) and steps[index].get("fault") == row["fault"]
            step = steps[index] if known else {}
            healed = row["effective_ns"] if row["bit"] and _never_ends(row["fault"], step) else FOREVER
            healed = healed if row["healed_ns"] is None else row["healed_ns"]
            began = row.get("heal_began_ns")
            if began is None:
                began = max(row["effective_ns"], healed - CONFIRMED_WITHIN)
            elif row["id"] in self._heals_began and healed != FOREVER:
                healed = min(began, healed)  # a change that never ends is looked at again at the end
            # Without a command that proves it, its proof is that the broker did not answer.
            silent = row["fault"] == "command" and row["bit"] and known and not step.get("prove")
            yield Effect(
                row["id"],
                "kill" if silent else row["fault"],
                row["target"],
                frozenset(row["brokers"] or ()),
                row["effective_ns"],
                healed,
                began,
                bool(row["bit"]),
                step,
                row["injected_ns"],
                self._works(row, healed),
                row.get("cluster"),
            )

    def _works(self, row: Row, healed: int) -> tuple[tuple[int, int], ...]:
        times = row.get("toggles_ns") or []
        return tuple(zip(times[::2], [*times[1::2], healed], strict=False))

    @cached_property
    def of_brokers(self) -> list[Effect]:
        """Those that hit nodes, not only requests of clients."""
        return [e for e in self.all if e.brokers and e.of_requests is None]

    @cached_property
    def nodes(self) -> frozenset[int]:
        """Every node that the evidence or the scenario names."""
        found = {e["broker"] for e in self.tables.rows("cluster_events") if e["broker"] is not None}
        for event in self.tables.rows("cluster_events"):
            found.update(event["isr"] or ())
            if event["leader"] is not None and event["leader"] >= 0:
                found.add(event["leader"])
        for effect in self.all:
            found |= effect.brokers
        return frozenset(found)

    @cached_property
    def processes(self) -> dict[int, list[tuple[int, bool]]]:
        """By node: when its process started (true) and stopped (false)."""
        found: dict[int, list[tuple[int, bool]]] = {}
        for event in self.tables.rows("cluster_events"):
            if event["kind"] in ("started", "stopped"):
                found.setdefault(event["broker"], []).append((event["at_ns"], event["kind"] == "started"))
        for changes in found.values():
            changes.sort()
        return found

    def runs(self, node: int, at: int) -> bool:
        """Whether its process is up and not frozen."""
        frozen = any(node in e.brokers and e.fault == "pause" for e in self.in_effect(at))
        return not frozen and self.is_up(node, at)

    def is_up(self, node: int, at: int) -> bool:
        """Whether its process is there, frozen or not."""
        up = True
        for when, started in self.processes.get(node, ()):
            if when <= at:
                up = started
        return up and not any(node in e.brokers and self._gone(e, node, at) for e in self.in_effect(at))

    def _gone(self, effect: Effect, node: int, at: int) -> bool:
        """Whether a fault that ends processes has ended this one: after SIGTERM it goes on for a while. Each
        is back with its own start, the fault is over with the last.
        """
        changes = self.processes.get(node, ())
        if effect.healed < FOREVER and any(started and effect.begin <= t <= at for t, started in changes):
            return False
        ends = [t for t, started in changes if not started and effect.begin <= t < effect.healed]
        return effect.fault in ENDS and (effect.fault != "stop" or not ends or ends[0] <= at)

    @cached_property
    def boots(self) -> dict[int, list[tuple[int, int]]]:
        """By node: from when to when its process was back and the cluster had not unfenced it yet."""
        found: dict[int, list[tuple[int, int]]] = {}
        for node, changes in self.processes.items():
            rows = [e for e in self.tables.rows("cluster_events") if e["kind"] == "unfenced"]
            unfenced = sorted(e["at_ns"] for e in rows if e["broker"] == node)
            for (_, stopped), (back, started) in pairwise(changes):
                if started and not stopped:
                    next_stop = min((t for t, up in changes if not up and t > back), default=FOREVER)
                    boot = [(back, at) for at in unfenced if back <= at < next_stop][:1]
                    boot = [b for b in boot if not any(back <= at < b[1] for at in self._taken_in(node))]
                    found.setdefault(node, []).extend(boot)
        return found

    def _taken_in(self, node: int) -> list[int]:
        """When an ISR grew by a broker: it had registered by then, seen or not."""
        found: list[int] = []
        before: dict[Place | None, list[int]] = {}
        for e in sorted(self.tables.rows("cluster_events"), key=lambda e: e["at_ns"]):
            if e["isr"] is not None:
                place = self.tables.place(e)
                if e["kind"] == "isr" and node in e["isr"] and node not in before.get(place, e["isr"]):
                    found.append(e["at_ns"])
                before[place] = e["isr"]
        return found

    def is_booting(self, node: int, at: int) -> bool:
        """Whether its process is back, and it has not registered yet."""
        return any(begin <= at < end for begin, end in self.boots.get(node, ()))

    def disk_hangs(self, node: int, at: int) -> bool:
        """Whether its disk takes nothing."""
        return any(node in e.brokers and e.fault == "disk-stall" for e in self.in_effect(at))

    def in_effect(self, at: int) -> list[Effect]:
        """At this time."""
        now = [e for e in self.all if e.begin <= at < e.healed]
        return [e for e in now if not any(up <= at < down for up, down in e.works)]

    def cut(self, one: int, other: int, at: int) -> list[Effect]:
        """The faults in effect that let nothing pass between two nodes, or a node and CLIENTS."""
        return [e for e in self.in_effect(at) if self.cuts(e, one, other)]

    def cuts(self, effect: Effect, one: int, other: int) -> bool:
        """Whether a fault lets nothing pass between them, while it lasts."""
        return effect.fault in _CUTS and self._separates(effect, one, other)

    def _separates(self, effect: Effect, one: int, other: int) -> bool:
        inside = [node in effect.brokers for node in (one, other)]
        if not any(inside):
            if effect.fault == "partition" and effect.step.get("clients-with") == "target":
                return CLIENTS in (one, other)
            return False
        if effect.fault == "partition":
            if CLIENTS in (one, other):
                return effect.step.get("clients-with") == "others"
            return not all(inside)
        if all(inside):
            return effect.fault == "isolate" and not effect.target.startswith("cluster ")
        far = other if inside[0] else one
        return any(self._is_party(word, far) for word in self._from(effect))

    def _from(self, effect: Effect) -> list[str]:
        words = effect.step.get("from")
        if words is None:
            whole = effect.fault == "isolate" and effect.target.startswith("cluster ")
            return ["everybody"] if whole else ["all-nodes"]
        return words if isinstance(words, list) else [words]

    def _is_party(self, word: str, who: int) -> bool:
        if word == "everybody":
            return True
        if who == CLIENTS or word == "clients":
            return who == CLIENTS and word == "clients"
        if word == "all-nodes":
            return True
        if word == "controllers":
            return who in self.controllers
        if word == "brokers":
            return who % 1000 < 100
        if word == "zookeeper":
            return 200 < who % 1000 < 300
        if word.startswith("broker "):
            return who == int(word.removeprefix("broker "))
        names = list(self.tables.scenario.get("clusters") or {})
        name = word.removeprefix("cluster ")
        return name in names and who // 1000 == names.index(name)

    @cached_property
    def controllers(self) -> frozenset[int]:
        """Nodes that elect leaders: dedicated ones if any is known, else all brokers."""
        dedicated = frozenset(node for node in self.nodes if 100 < node % 1000 < 200)
        return dedicated or self.nodes

    def no_quorum(self, cluster: str | None, at: int) -> bool:
        """Whether no majority of a cluster's controllers runs; no leader or ISR changed in all that time."""
        return any(since <= at < until for since, until in self._times_without_quorum(cluster))

    @cache  # noqa: B019
    def _times_without_quorum(self, cluster: str | None) -> list[tuple[int, int]]:
        voters, spans = self.tables.voters(cluster), []
        for since, until in pairwise(sorted(self.moments())):
            if voters and 2 * sum(not self.is_up(one, since) for one in voters) >= len(voters):
                begin = spans.pop()[0] if spans and spans[-1][1] == since else since
                spans.append((begin, until))
        rows = [e for e in self.tables.rows("cluster_events") if e["cluster"] == cluster]
        changes = [e["at_ns"] // MS for e in rows if e["kind"] in ("leader", "isr")]
        return [(a, b) for a, b in spans if not any(a // MS < at < b // MS for at in changes)]

    def denies(self, operation: str, place: Place, at: int, users: set[str]) -> bool:
        """Whether the partition's topic is gone, or each of these users may not use it, or not sign in."""
        effects = self.in_effect(at)
        return all(any(self._denies(e, operation, place, user) for e in effects) for user in users)

    def _denies(self, effect: Effect, operation: str, place: Place, user: str) -> bool:
        if effect.fault in ("deny", "change-password") and not self.is_about(effect, operation, {user}):
            return False
        if effect.fault == "change-password":
            return effect.is_in(place.cluster)
        if effect.fault == "deny" and effect.step.get("operation", "Write") not in (operation, "All"):
            return False
        mine = self.tables.place_of(None, effect.target.removeprefix("topic "), place.partition) == place
        return effect.fault in ("deny", "recreate", "delete-topic") and mine

    @staticmethod
    def is_about(effect: Effect, operation: str, users: set[str]) -> bool:
        """Whether what a step does to users may concern one of these."""
        if effect.fault == "change-password":
            return "app" in users
        if effect.fault != "deny":
            return True
        whose = effect.step.get("principal", "User:kaput").removeprefix("User:")
        other = {"Write": "Read", "Read": "Write"}[operation]
        return whose in users and effect.step.get("operation", "Write") != other

    def members_users(self, group: str, owner: str | None = None) -> set[str]:
        """As whom the owner of a partition signs in, or all members of the group."""
        spec = self.tables.group_specs.get(group) or {}
        own = {int(n): config for n, config in (spec.get("member-config") or {}).items()}
        steps = (s for s in self.tables.scenario.get("faults") or [] if s.get("fault") == "join")
        joins = (re.fullmatch(r"member (\d+) of (.+)", s["target"]) for s in steps)
        numbers = {*range(1, spec.get("members", 1) + 1), *own}
        numbers |= {int(found[1]) for found in joins if found and found[2] == group}
        if owner and (found := re.fullmatch(r"member-(\d+)(\.\d+)?", owner)):
            numbers = {int(found[1])}
        configs = ({**(spec.get("config") or {}), **own.get(n, {})} for n in numbers)
        return {config.get("sasl.username", "kaput") for config in configs}

    def producers_users(self, producers: Iterable[int]) -> set[str]:
        """As whom producers sign in; those of pipes have the numbers behind the others'."""
        specs, groups = self.tables.producer_specs, self.tables.group_specs.values()
        pipes = [group["produces"] for group in groups if group.get("produces")]
        each = (specs.get(n) or (pipes[(n - len(specs)) % len(pipes)] if pipes else {}) for n in producers)
        return {(one.get("config") or {}).get("sasl.username", "kaput") for one in each} or {"kaput"}

    def cut_from_controllers(self, node: int, at: int) -> list[Effect]:
        """The faults in effect that keep a node from every controller of its cluster but itself."""
        others = [c for c in self.controllers if c != node and c // 1000 == node // 1000]
        cuts = [self.cut(node, controller, at) for controller in others]
        return cuts[0] if cuts and all(cuts) else []

    def min_isr(self, place: Place, leader: int, at: int, by: int | None) -> int:
        """min.insync.replicas of a partition at this time. A step works when it is asked for; else (`by`: the
        end of a silence) when all brokers show it, or what lowers it by that end. A leader has its own
        broker's value, unless the topic has one.
        """
        found, topics = self.tables.min_isr(place), False
        for effect in self.all:
            value = self.tables.sets_min_isr(effect.step, place)
            mine = not effect.brokers or leader in effect.brokers
            if value is None or not mine:
                continue
            by_then = effect.begin if by is None or value >= self.tables.min_isr(place) else by
            since = effect.asked if by is None else max(effect.asked, min(effect.begin, by_then))
            if since <= at < effect.healed and not (topics and effect.brokers):
                found, topics = value, not effect.brokers
        return found

    def lowers(self, place: Place) -> bool:
        """Whether a step lowers min.insync.replicas of a partition."""
        values = (self.tables.sets_min_isr(effect.step, place) for effect in self.all)
        return any(value is not None and value < self.tables.min_isr(place) for value in values)

    def moments(self) -> set[int]:
        """Every time at which an effect began or ended, or a process started, stopped or was unfenced."""
        found = {t for e in self.all for t in (e.begin, e.healed)}
        found |= {t for e in self.all for span in e.works for t in span}
        found |= {e.asked for e in self.all if e.fault == "change-config"}
        found |= {end for boots in self.boots.values() for _, end in boots}
        return found | {t for changes in self.processes.values() for t, _ in changes}


def _never_ends(fault: str, step: Row) -> bool:
    return fault in _NEVER_END or (fault == "recreate" and bool(step) and step.get("for") is None)


def hits_member(effect: Effect, group: str, member: str) -> bool | None:
    """Whether a fault is one of this member of this group; null if its name does not tell."""
    target = re.fullmatch(r"members?(?: ([\d, ]+))? of (.+)", effect.target)
    if target is None or target[2] != group:
        return False
    if target[1] is None:
        return True
    name = re.fullmatch(r"member-(\d+)(?:\.\d+)?", member)
    return None if name is None else name[1] in re.findall(r"\d+", target[1])


def hits_producer(effect: Effect, producer: int) -> bool:
    """Whether a fault is one of this producer."""
    return effect.target == f"producer {producer}"
