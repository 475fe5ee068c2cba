"""A silence, what happened in it, and its likeliest causes (docs/GLOSSARY.md).

Not here: finding silences (silences.py), and what they waited for (facts/waits.py).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import polars as pl

from kaput.analysis.engine.spells import FAILED, LONG, PRODUCERS
from kaput.analysis.facts.leader_history import Change, PartitionState, may_concern, state_after
from kaput.analysis.facts.open_transactions import Transaction
from kaput.analysis.facts.rebalances import Rebalance
from kaput.analysis.facts.serving import ACKS_WAIT_FOR, OF_TRANSACTIONS, how_of, options_of
from kaput.analysis.facts.waits import SHORTEST_NS, Story
from kaput.analysis.run import Run
from kaput.core import FOREVER_NS, MS, SECOND, TopicPartition, cluster_and_topic, duration, first_few
from kaput.evidence.fault_rows import FaultRow
from kaput.evidence.findings_claims import Claim, EndedBy, NotableEvent, Wait
from kaput.scenario.fault_kinds import DELETE_TOPIC, PERMANENT, ChangeConfigOptions
from kaput.scenario.model import member_transactional_id
from kaput.scenario.targets import CLUSTER, MIRROR, TOPIC
from kaput.scenario.vocabulary import NOOP

_BROKER_KINDS = ("fenced", "unfenced", "started", "stopped")
_MAX_EVENTS = 20  # of one standstill
_MAX_NAMED = 3  # partitions of one change
_SLOWS_CLIENTS = "quota"  # no condition is unmet by it
# Conditions that no fault on a broker is behind.
_OWN = ("client", "reread", "transaction", "unknown")
_MEMBER = re.compile(r"member-\d+(\.\d+)?")
_MOVES_PRODUCERS, _MOVES_GROUPS = ("fence", "move-producers", "fail-back"), ("move-groups", "fail-back")


@dataclass(frozen=True)
class Silence:
    """One silence. `place`: None for all partitions together; `group`: None of acknowledgements; `producer`:
    None of all together. `ended`: by an acknowledgement (or a delivery).
    """

    place: TopicPartition | None
    group: str | None
    producer: int | None
    from_ns: int
    to_ns: int
    ended: bool
    story: Story

    @property
    def ended_by(self) -> EndedBy | None:
        """What ended it; None if it ended with the load."""
        return self.story.ended_by if self.ended else None

    @property
    def waited_for(self) -> list[Wait]:
        """What it waited for; nothing if it ended with the load."""
        return self.story.waits if self.ended else []

    @property
    def _subject(self) -> dict[str, Any]:
        return {
            "cluster": self.place and cluster_and_topic(self.place.topic)[0],
            "topic": self.place and self.place.topic,
            "partition": self.place and self.place.partition,
            "group": self.group,
            "producer": self.producer,
            "from_ns": self.from_ns,
            "to_ns": self.to_ns,
        }

    def caused_by(self, cause: Cause) -> Claim:
        """The claim that this is a cause of it."""
        about = {"fault": cause.fault, "figures": {"since_ns": cause.since_ns}, "why": cause.text}
        return Claim(kind="cause", **self._subject, **about)

    def claim(self, kind: str = "silence", fault_id: str | None = None) -> Claim:
        """The claim that findings.json has of it."""
        return Claim.model_validate(
            {
                "kind": kind,
                **self._subject,
                "fault": fault_id,
                "figures": {"length_ms": (self.to_ns - self.from_ns) / MS},
                "waited_for": self.waited_for,
                "ended_by": self.ended_by,
                "decidable": not self.ended or self.story.decidable,
                "why": self.story.why if self.ended else "no acknowledgement ended it",
            }
        )


class _Event(NamedTuple):
    """An event; `place` or `group` if it concerns only that partition or group."""

    at_ns: int
    kind: str
    what: str
    place: TopicPartition | None = None
    group: str | None = None

    def concerns(self, place: TopicPartition | None, group: str | None) -> bool:
        """Whether it may concern the partition and the group. None stands for any."""
        return (None in (place, self.place) or self.place == place) and (
            None in (group, self.group) or self.group == group
        )


class Cause(NamedTuple):
    """What held up a silence, likely. `fault`: its id; None for a rebalance, or a step of the plan."""

    text: str
    since_ns: int
    fault: str | None = None


class Single(NamedTuple):
    """The silence of a single partition. `place`: None if no partition is known."""

    place: TopicPartition | None
    from_ns: int
    to_ns: int
    ended: bool


def held_up(run: Run, fault: FaultRow, place: TopicPartition, silence: tuple[int, int, bool]) -> bool:
    """Whether a fault is a likely cause of a silence of a partition."""
    (from_ns, to_ns, ended), since_ns = silence, fault.effective_ns
    if since_ns is None or not fault.in_effect(from_ns, to_ns):
        return False
    if needed(run, fault, place, (max(since_ns, from_ns), to_ns, ended), None) is not None:
        return True
    waits = run.story(place, from_ns, to_ns, None, None).waits if ended else ()
    return any(wait.condition == "heal" and fault.id in wait.faults for wait in waits)


def needed(
    run: Run, fault: FaultRow, place: TopicPartition, within: tuple[int, int, bool], group: str | None
) -> str | None:
    """What a fault's brokers were to a partition at the first of two times (in a rolling restart, when it was
    their turn; the second is the end of a silence, and whether anything ended it): its leader, or members of
    the ISR if acknowledgements (or deliveries) wait for that, or those without which it was too small; None
    if nothing. One that only slows members of the ISR is nothing to a partition that waits for something
    else. A delivery did not wait for brokers that do not run then, and still lead or are still in the ISR.
    """
    history, (at_ns, to_ns, _) = run.leader_history, within
    if place not in history.changes or not may_concern(fault, place):
        return None
    api = run.given.asked_by_clients(fault)
    if api in OF_TRANSACTIONS or (group is None and api is not None and api not in ACKS_WAIT_FOR):
        return None
    turns = run.serving.turns.get(fault.id, {})
    since = {broker: turns.get(broker, (at_ns, to_ns)) for broker in fault.brokers}
    away = group is not None and fault.may_end_ns > to_ns
    not_running = away and how_of(fault, run.given.scenario) in ("ended", "frozen")
    still = history.possible_by(place, to_ns).holders if not_running else ()
    then = {
        broker: history.before(place, max(at_ns, from_ns))
        for broker, (from_ns, until_ns) in since.items()
        if from_ns < to_ns and until_ns > at_ns and broker not in still
    }
    for broker, state in then.items():
        if state.leader == broker:
            return f"broker {broker} led {place}"
        if state.leader is not None and state.leader < 0 and state.led_last == broker:
            return f"{place} had no leader after broker {broker}"
        if group is None and _still_asked(run, broker, place, max(at_ns, since[broker][0])):
            return f"broker {broker} was the last that had acknowledged anything in {place}"
    if api is not None or (group is None and not run.terms(place).acks_all):
        return None
    what = "acks=all waits for" if group is None else "records become visible with"
    hit = [
        f"{broker} was in the ISR of {place}, which {what}"
        for broker, state in then.items()
        if broker in (state.isr or ())
    ]
    hit += [
        f"{broker} had left the ISR of {place}, which was too small without it"
        for broker in (then if not hit else ())
        if _too_small_without(run, fault, place, broker, within, group)
    ]
    return f"broker {hit[0]}" if hit and not _waited_for_more(run, fault, place, within[:2], group) else None


def _too_small_without(
    run: Run,
    fault: FaultRow,
    place: TopicPartition,
    broker: int,
    within: tuple[int, int, bool],
    group: str | None,
) -> bool:
    """Whether a broker had left the ISR since the fault took effect, and the partition waited, without it,
    while fewer than min.insync.replicas were in sync.
    """
    (at_ns, to_ns, ended), begin_ns = within, fault.effective_ns or 0
    changes, minimum = run.leader_history.changes[place], run.terms(place).min_isr
    before = run.leader_history.before(place, begin_ns).isr
    later = [one.isr for one in changes if begin_ns <= one.at_ns < at_ns]
    if not any(broker in (isr or ()) for isr in (before, *later)):
        return False
    until_ns = min(to_ns, fault.until_ns)
    moments = {at_ns, until_ns, *minimum.moments(), *(one.at_ns for one in changes)}
    state, number, waits = PartitionState(), 0, list[Wait]()
    for from_ns, end_ns in pairwise(sorted(at for at in moments if at_ns <= at <= until_ns)):
        upto = bisect_right(changes, from_ns, key=lambda one: one.at_ns)
        state, number = state_after(changes[number:upto], state), upto
        leader, _, isr, *_ = state
        if not isr or broker in isr or leader is None or leader < 0:
            continue
        if len(isr) >= minimum.at(leader, from_ns)[0]:
            continue
        if not ended:
            return True
        waits = waits or run.story(place, at_ns, to_ns, group, None).waits
        unmet = (one for one in waits if one.condition not in _OWN)
        if any(one.from_ns < end_ns and one.to_ns > from_ns for one in unmet):
            return True
    return False


def _waited_for_more(
    run: Run, fault: FaultRow, place: TopicPartition, within: tuple[int, int], group: str | None
) -> bool:
    """Whether, while a fault only slowed members of the ISR, a partition waited for something else all the
    time: who slows a follower holds up nothing that waits for an election. A broker that ended meanwhile (its
    disk was full) is waited for.
    """
    if how_of(fault, run.given.scenario) != "slow" or fault.effective_ns is None:
        return False
    waits = run.story(place, *within, group, None).waits
    mine = [wait for wait in waits if fault.in_effect(wait.from_ns, wait.to_ns)]
    cluster = cluster_and_topic(place.topic)[0]

    def for_this(wait: Wait) -> bool:
        ended = (run.serving.down(broker, wait.to_ns - 1, cluster) for broker in fault.brokers)
        of_this = wait.condition == "heal" and any(ended)
        return of_this or wait.condition in ("isr", *_OWN) or fault.id in wait.faults

    return bool(mine) and not any(map(for_this, mine))


def _still_asked(run: Run, broker: int, place: TopicPartition, at_ns: int) -> bool:
    """Whether clients were asking a broker that led before, whose process was there."""
    cluster = cluster_and_topic(place.topic)[0]
    return run.record.asked(place, at_ns) == broker and not run.serving.down(broker, at_ns, cluster)


def plan_moves(run: Run, from_ns: int, to_ns: int, group: str | None) -> list[Cause]:
    """The first step of the plan that moved these clients meanwhile."""
    kinds = _MOVES_PRODUCERS if group is None else _MOVES_GROUPS
    return [
        Cause(f"the plan's step {step['step']} was under way", step["started_ns"])
        for step in run.given.plan
        if step["kind"] in kinds
        and step["started_ns"] < to_ns
        and (step["ended_ns"] is None or step["ended_ns"] > from_ns)
    ][:1]


def _rebalanced(one: Rebalance, at_ns: int) -> str:
    """`rebalanced`; with its length up to then if it had begun long before, maybe for another reason."""
    since_ns = at_ns - one.started_ns
    return "rebalanced" if since_ns < SECOND else f"had been rebalancing for {since_ns / SECOND:,.1f} s"


class RunEvents:
    """`silent`: by group (None: acknowledgements), the silences of its single partitions."""

    def __init__(self, run: Run, silent: Mapping[str | None, Sequence[Single]]) -> None:
        self._run, self._faults, self._silent = run, run.given.faults, silent

    def happened(
        self, from_ns: int, to_ns: int, place: TopicPartition | None, group: str | None
    ) -> tuple[list[NotableEvent], int]:
        """The first events within a time, and how many more. Without `place` (`group`): of all of them."""
        # Cluster events have a resolution of 1 ms.
        first = bisect_left(self._events, from_ns // MS * MS, key=lambda one: one.at_ns)
        last = bisect_right(self._events, to_ns // MS * MS + MS - 1, key=lambda one: one.at_ns)
        mine = (one for one in self._events[first:last] if one.concerns(place, group))
        texts = [
            (at_ns, kind, _places_prefix(str(one.place) for one in same if one.place) + what)
            for (at_ns, kind, what), same in groupby(mine, key=lambda one: one[:3])
        ]
        shown = [NotableEvent(at_ns=at, kind=kind, what=what) for at, kind, what in texts[:_MAX_EVENTS]]
        return shown, max(0, len(texts) - _MAX_EVENTS)

    def causes(self, silence: Silence) -> list[Cause]:
        """The likeliest causes of a silence: faults whose heal it waited for, or that were in effect and hit
        this partition (or its owner in the group); else a rebalance of the group that it waited for; else a
        step of the plan that moved these clients. None of them: not known.
        """
        from_ns, to_ns, group = silence.from_ns, silence.to_ns, silence.group
        healed = {fault for wait in silence.waited_for if wait.condition == "heal" for fault in wait.faults}
        ended = {fault for wait in silence.waited_for if wait.condition == "setting" for fault in wait.faults}
        singly = self._singly(silence)
        likely: list[Cause] = []
        for one in self._faults:
            if one.fault == NOOP or one.id in ended or (one.effective_ns or to_ns) >= to_ns:
                continue
            hit = {
                each.place: how
                for each in singly
                if (how := self._hit(one, each, group, from_ns)) is not None
            }
            text = f"{_fault_text(one)} {_when(one, from_ns, to_ns)}"
            if silence.place is not None:
                text += "".join(f"; {how}" for how in hit.values() if how)
            elif places := [place for place, how in hit.items() if how and place]:
                text += f", and hit {first_few(places, _MAX_NAMED)}"
            if not hit and one.id in healed and one.in_effect(from_ns, to_ns):
                text += "; it waited for the heal"
            elif not hit:
                continue
            likely.append(Cause(text, one.effective_ns or from_ns, one.id))
        return likely or self._rebalances(silence) or plan_moves(self._run, from_ns, to_ns, group)

    def _rebalances(self, silence: Silence) -> list[Cause]:
        if not any(wait.condition == "rebalance" for wait in silence.waited_for):
            return []
        return [
            Cause(f"group {one.group} {_rebalanced(one, silence.from_ns)}: {one.trigger}", one.started_ns)
            for one in self._run.rebalances.found
            if one.group == silence.group
            and one.started_ns < silence.from_ns + SHORTEST_NS
            and (one.ended_ns is None or one.ended_ns >= silence.from_ns)
        ][:1]

    def _singly(self, silence: Silence) -> list[Single]:
        """The silence of a partition; of one of all partitions, those of single ones meanwhile: a fault on a
        partition where nothing waited holds up nothing. If there are none at all, that of every partition.
        """
        from_ns, to_ns, group = silence.from_ns, silence.to_ns, silence.group
        if silence.place is not None:
            return [Single(silence.place, from_ns, to_ns, silence.ended)]
        meanwhile = [
            one for one in self._silent.get(group, ()) if one.from_ns < to_ns and one.to_ns > from_ns
        ]
        if meanwhile:
            return meanwhile
        every = self._run.leader_history.changes if group is None else self._run.given.places_of(group)
        return [Single(one, from_ns, to_ns, silence.ended) for one in [*every] or [None]]

    def _hit(self, fault: FaultRow, silence: Single, group: str | None, all_ns: int) -> str | None:
        """How a fault hit a partition in a silence, or its owner in a group: what its brokers were to it
        (empty: it has none). None if it did not; or came when it had been a silence already, or was over
        when all were silent (`all_ns`), and can have been behind no condition that was unmet from then on.
        """
        place, from_ns, to_ns, ended = silence
        if place is not None and self._deleted(fault, place, from_ns):
            return "its topic was deleted for good"
        if not fault.in_effect(from_ns, to_ns):
            return None
        over = fault.until_ns <= all_ns
        late = ended and (over or fault.injected_ns >= from_ns + SHORTEST_NS)
        if late and not self._unmet_since(fault, silence, group, all_ns if over else fault.effective_ns or 0):
            return None
        since, until = max(fault.effective_ns or 0, from_ns), min(fault.until_ns, to_ns)
        # Of what came late, or was over, it is not known: no condition is about copies.
        copies: dict[TopicPartition, frozenset[str]] = {}
        if place is not None and group is not None and self._run.mirrors and not late:
            copies = self._run.copies(place, group, since, until)
        each = [] if place is None else [place, *copies]
        if self._held_open(fault, silence, group, (since, until)):
            known = True
        elif fault.hit.members_of is not None:
            # One that joins holds nothing up; one that is assigned something after its heal began is back.
            back = min(until, fault.may_end_ns)
            known = (
                group is not None and fault.fault != "join" and self._owned(fault, since, back, place, group)
            )
        elif fault.hit.producer is not None:
            known = group is None and self._waited(fault.hit.producer, place, since, until)
        elif fault.hit.hits in (TOPIC, CLUSTER):
            mine = any(self._is_about(fault, one, group, (since, until)) for one in (place, *copies))
            known = mine and fault.until_ns > (fault.effective_ns or 0)
        elif fault.hit.hits == MIRROR:
            known = any(fault.hit.name in mirrors for mirrors in copies.values())
        else:
            hows = (needed(self._run, fault, one, (since, to_ns, ended), group) for one in each)
            return next((how for how in hows if how is not None), None)
        return "" if known else None

    def _deleted(self, fault: FaultRow, place: TopicPartition, at_ns: int) -> bool:
        """Whether a step had deleted the partition's topic, and no client had another one created by then."""
        hit = fault.hit.whole_topic
        if fault.fault != DELETE_TOPIC or hit is None or fault.effective_ns is None:
            return False
        later = (change.at_ns for change in self._run.leader_history.changes.get(place, ()))
        again = any(fault.effective_ns < change_ns <= at_ns for change_ns in later)
        return place.topic == self._run.given.full_name(hit) and not again

    def _is_about(
        self, fault: FaultRow, place: TopicPartition | None, group: str | None, within: tuple[int, int]
    ) -> bool:
        """Whether a fault on a topic or a cluster is one on that of the partition, and on who waited."""
        if place is None:
            return self._run.may_concern_users(fault, place, group, ())
        topic, members = fault.hit.whole_topic, self._owners(*within, place, group) if group else ()
        there = (
            may_concern(fault, place) if topic is None else place.topic == self._run.given.full_name(topic)
        )
        mine = there and not self._only_eases(fault, place)
        return mine and self._run.may_concern_users(fault, place, group, members)

    def _only_eases(self, fault: FaultRow, place: TopicPartition) -> bool:
        """Whether all that a step changes is min.insync.replicas, and not upward: it holds up nothing."""
        options = options_of(fault, self._run.given.scenario)
        if not isinstance(options, ChangeConfigOptions) or set(options.config) != {"min.insync.replicas"}:
            return False
        minimum = self._run.terms(place).min_isr
        values = [value for one, _, value in minimum.steps if one.fault == fault.id]
        return max(values, default=minimum.configured) <= minimum.configured

    def _unmet_since(self, fault: FaultRow, silence: Single, group: str | None, since_ns: int) -> bool:
        """Whether conditions that a fault can have been behind were unmet after some time, for a second or
        more; or its heal was, if it was still in effect.
        """
        if silence.place is None or fault.fault == _SLOWS_CLIENTS:
            return False
        story = self._run.story(silence.place, silence.from_ns, silence.to_ns, group, None)
        later = [wait for wait in story.waits if wait.to_ns > since_ns]
        if fault.brokers or fault.hit.hits in (TOPIC, CLUSTER):
            mine = [wait for wait in later if wait.condition not in _OWN]
        else:
            of_members = fault.hit.members_of is not None
            mine = [wait for wait in later if wait.condition == "rebalance" and of_members]
        unmet_ns = sum(wait.to_ns - max(wait.from_ns, since_ns) for wait in mine)
        return unmet_ns >= SHORTEST_NS or (
            fault.until_ns > since_ns and any(fault.id in wait.faults for wait in later)
        )

    def _owned(
        self, fault: FaultRow, from_ns: int, to_ns: int, place: TopicPartition | None, group: str
    ) -> bool:
        """Whether the member hit owned the partition in that time, or was its last owner."""
        owners = set() if place is None else self._owners(from_ns, to_ns, place, group)
        return any(fault.hit.includes_member(group, member) for member in owners)

    def _owners(self, from_ns: int, to_ns: int, place: TopicPartition, group: str) -> set[str]:
        """Who owned the partition in that time, or was its last owner."""
        history = self._run.record.owners.get((group, place), ())
        found, last = set[str](), frozenset[str]()
        for (since, members), (until, _) in zip(history, [*history[1:], (FOREVER_NS, last)], strict=False):
            last = members or last
            found |= last if since < to_ns and until > from_ns else set()
        return found

    def _held_open(
        self, fault: FaultRow, silence: Single, group: str | None, within: tuple[int, int]
    ) -> bool:
        """Whether a group waited for a transaction of the producer, or of the pipe's member, that was hit."""
        place, from_ns, to_ns, ended = silence
        hit = fault.hit.members_of is not None or fault.hit.producer is not None
        if place is None or group is None or not (hit and ended) or fault.fault == "join":
            return False
        held = [one for one in self._run.holds(place, group, (from_ns, to_ns)) if _made(fault, one.of)]
        waits = self._run.story(place, from_ns, to_ns, group, None).waits if held else ()
        waited = (one for one in waits if one.condition == "transaction")
        return any(
            max(wait.from_ns, one.from_ns, within[0]) < min(wait.to_ns, one.to_ns, within[1])
            for wait in waited
            for one in held
        )

    def _waited(self, producer: int, place: TopicPartition | None, from_ns: int, to_ns: int) -> bool:
        """Whether a message of a producer waited meanwhile, for a second or in vain."""
        slack_ns = pl.when(kind=FAILED).then(SHORTEST_NS).otherwise(0)
        mine = self._run.sums["service_spells"].filter(
            pl.col("kind").is_in([LONG, FAILED]),
            pl.col("first_ns") < to_ns,
            pl.col("last_ns") + slack_ns > from_ns,
            group=PRODUCERS,
            producer=producer,
        )
        return bool(mine.height if place is None else mine.filter(place=self._run.names.code(place)).height)

    @cached_property
    def _events(self) -> list[_Event]:
        every = [*self._of_faults(), *self._of_brokers(), *self._of_groups(), *self._of_partitions()]
        return sorted(every, key=lambda one: (*one[:3], str(one.place)))

    def _of_faults(self) -> Iterator[_Event]:
        for one in self._faults:
            if one.effective_ns is not None:
                yield _Event(one.effective_ns, "fault", f"{_fault_text(one)} took effect")
            if one.healed_ns not in (None, one.effective_ns):  # a change that never ends
                over = "was complete" if one.fault in PERMANENT else "was healed"
                yield _Event(one.healed_ns, "heal", f"{_fault_text(one)} {over}")

    def _of_brokers(self) -> Iterator[_Event]:
        for row in self._run.given.cluster_events:
            if row["kind"] in _BROKER_KINDS and row["broker"] is not None:
                yield _Event(row["at_ns"], row["kind"], f"broker {row['broker']} {row['kind']}")

    def _of_groups(self) -> Iterator[_Event]:
        for one in self._run.rebalances.found:
            until = "" if one.ended_ns is None else f" for {(one.ended_ns - one.started_ns) / 1e9:.1f} s"
            if one.ended_ns is not None and one.resumed_ns is not None:
                again = f"read again {(one.resumed_ns - one.started_ns) / 1e9:.1f} s after it began"
                until += f" ({again}{f', {one.unresumed} not' if one.unresumed else ''})"
            what = f"group {one.group} rebalanced{until}: {one.trigger}"
            yield _Event(one.started_ns, "rebalance", what, group=one.group)
        last = self._run.sums["sent"]["last_attempt_ns"].max()
        if isinstance(last, int):
            yield _Event(last, "load-end", "everything had been sent")

    def _of_partitions(self) -> Iterator[_Event]:
        for place, changes in self._run.leader_history.changes.items():
            for one in changes:
                if _known(one):
                    yield _Event(one.at_ns, *_change_text(one), place=place)


def _made(fault: FaultRow, transaction: Transaction) -> bool:
    """Whether a fault's producer, or member of a pipe, made a transaction."""
    if fault.hit.producer is not None:
        return fault.hit.producer == transaction.producer
    group, id_ = fault.hit.members_of or "", transaction.id or ""
    member = id_.removeprefix(member_transactional_id(group, ""))  # it may be of another pipe: pipe-2
    return bool(_MEMBER.fullmatch(member)) and fault.hit.includes_member(group, member)


def _when(fault: FaultRow, from_ns: int, to_ns: int) -> str:
    """When a fault was in effect, seen from a silence."""
    late_ns = (fault.effective_ns or 0) - from_ns
    if late_ns >= SHORTEST_NS:
        length = f"{late_ns / SECOND:,.1f} s after"
        if fault.injected_ns <= from_ns:  # when between the two it took effect is not known
            return f"was injected before it began, and proven {length} that"
        return f"took effect {length} it began"
    if fault.healed_ns == fault.effective_ns:
        apart = duration(abs(late_ns) / SECOND)
        return f"took effect {apart} {'after' if late_ns >= 0 else 'before'} it began"
    if not fault.in_effect(from_ns, to_ns):
        return "had been in effect"
    over_ns = to_ns - fault.until_ns
    return "was in effect" + (
        f" until {over_ns / SECOND:,.1f} s before its end" if over_ns >= SHORTEST_NS else ""
    )


def _fault_text(fault: FaultRow) -> str:
    return f"{fault.id} ({fault.target})"


def _known(change: Change) -> bool:
    return (
        change.isr is not None if change.kind == "isr" else change.is_election and change.leader is not None
    )


def _change_text(change: Change) -> tuple[str, str]:
    if change.kind == "isr":
        return "isr", f"ISR {', '.join(map(str, change.isr or ())) or 'empty'}"
    if change.leader == -1:
        return "no-leader", "no leader"
    isr = "" if change.isr is None else f", ISR {', '.join(map(str, change.isr)) or 'empty'}"
    return "election", f"broker {change.leader} was elected{isr}"


def _places_prefix(places: Iterable[str]) -> str:
    """`orders/0, orders/1: `: the prefix for partitions with the same change at the same time."""
    named = first_few(list(places), _MAX_NAMED)
    return f"{named}: " if named else ""
