"""Plans of reassignments, held against every assignment that there could be."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaput.cluster.placement import Assignment, Goal, Racks, plan
from kaput.core import TopicPartition
from kaput.errors import UsageError

Wanted = dict[TopicPartition, list[int]]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Racks, Assignment]:
    """Up to five brokers, in racks or not, and up to four partitions."""
    brokers = range(1, draw(st.integers(2, 5)) + 1)
    racks = {broker: draw(st.sampled_from(["a", "b", "c"])) for broker in brokers}
    if draw(st.booleans()):
        racks = dict.fromkeys(brokers)
    return racks, {
        ("orders", number): draw(st.permutations(brokers))[: draw(st.integers(1, len(brokers)))]
        for number in range(draw(st.integers(1, 4)))
    }


def goals(racks: Racks) -> st.SearchStrategy[Goal]:
    """More replicas, fewer, or none on some brokers."""
    return st.builds(
        Goal,
        factor=st.one_of(st.none(), st.integers(1, len(racks))),
        away_from=st.frozensets(st.sampled_from(sorted(racks)), max_size=1),
    )


def after(now: Assignment, planned: Assignment) -> Wanted:
    return {place: list(planned.get(place, replicas)) for place, replicas in now.items()}


def added(now: Assignment, wanted: Assignment) -> int:
    return sum(len(set(wanted[place]) - set(now[place])) for place in now)


def squares(load: Counter[int], brokers: list[int]) -> int:
    """The less, the more even."""
    return sum(load[broker] ** 2 for broker in brokers)


def uneven(racks: Racks, replicas: tuple[int, ...]) -> tuple[int, ...]:
    """How many replicas are in each rack, the fullest first: the less, the better they are spread."""
    return tuple(sorted(Counter(racks[b] or b for b in replicas).values(), reverse=True))


def fewest(racks: Racks, before: list[int], goal: Goal) -> list[tuple[int, ...]]:
    """Of all sets of replicas that reach the goal those that copy least, of these the best spread ones."""
    open_ = [broker for broker in racks if broker not in goal.away_from]
    every = list(combinations(open_, goal.factor or len(before)))
    least = min(len(set(each) - set(before)) for each in every)
    every = [each for each in every if len(set(each) - set(before)) == least]
    best = min(uneven(racks, each) for each in every)
    return [each for each in every if uneven(racks, each) == best]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_plan_is_optimal(data: st.DataObject) -> None:
    """Nothing copies less; nothing that copies as little is better spread over racks; and with more replicas
    nothing like it is more even, in replicas and, with these replicas, in leaders."""
    racks, now = data.draw(clusters())
    goal = data.draw(goals(racks))
    open_ = [broker for broker in racks if broker not in goal.away_from]
    if max(goal.factor or len(replicas) for replicas in now.values()) > len(open_):
        with pytest.raises(UsageError, match="cannot have"):
            plan(racks, now, now, goal)
        return
    wanted = after(now, plan(racks, now, now, goal))
    for place, replicas in wanted.items():
        assert len(set(replicas)) == len(replicas) == (goal.factor or len(now[place]))
        assert not set(replicas) & goal.away_from
    possible = [fewest(racks, list(now[place]), goal) for place in now]
    lower = [len(set(each[0]) - set(before)) for each, before in zip(possible, now.values(), strict=True)]
    assert added(now, wanted) == sum(lower)
    grows = all((goal.factor or len(each)) >= len(set(each) - goal.away_from) for each in now.values())
    if grows:  # which ones go, where some do, is decided one partition at a time
        for place, each in zip(now, possible, strict=True):
            assert uneven(racks, tuple(wanted[place])) == uneven(racks, each[0])
        load = Counter(broker for replicas in wanted.values() for broker in replicas)
        best = min(squares(Counter(b for each in all_ for b in each), open_) for all_ in product(*possible))
        assert squares(load, open_) == best
    led = Counter(replicas[0] for replicas in wanted.values())
    assert squares(led, open_) == min(squares(Counter(all_), open_) for all_ in product(*wanted.values()))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_balance_is_optimal_and_stable(data: st.DataObject) -> None:
    """Also where everything would have to move; and what is even already stays."""
    racks, now = data.draw(clusters())
    wanted = after(now, plan(racks, now, now, Goal(balance=True)))
    every = []
    for before in now.values():
        sets = list(combinations(racks, len(before)))
        best = min(uneven(racks, each) for each in sets)
        every.append([each for each in sets if uneven(racks, each) == best])
    load = Counter(broker for replicas in wanted.values() for broker in replicas)
    assert squares(load, list(racks)) == min(
        squares(Counter(b for each in all_ for b in each), list(racks)) for all_ in product(*every)
    )
    assert plan(racks, wanted, wanted, Goal(balance=True)) == {}


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_rack_spreading_moves_the_minimum_of_replicas(data: st.DataObject) -> None:
    """Each partition is in as many racks as it can be, with as few new replicas as that takes."""
    racks, now = data.draw(clusters())
    wanted = after(now, plan(racks, now, now, Goal(spread_racks=True)))
    for place, before in now.items():
        sets = list(combinations(racks, len(before)))
        most = max(len(uneven(racks, each)) for each in sets)
        assert len(uneven(racks, tuple(wanted[place]))) == most
        least = min(len(set(each) - set(before)) for each in sets if len(uneven(racks, each)) == most)
        assert len(set(wanted[place]) - set(before)) == least


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_plan_is_independent_of_input_order(data: st.DataObject) -> None:
    """In whatever order it is given."""
    racks, now = data.draw(clusters())
    goal = Goal(factor=data.draw(st.integers(1, len(racks))), balance=data.draw(st.booleans()))
    shuffled = dict(data.draw(st.permutations(list(now.items()))))
    backwards = dict(reversed(racks.items()))
    assert plan(racks, now, now, goal) == plan(backwards, shuffled, list(shuffled), goal)


def test_replication_factor_of_200_topics_is_raised_to_three() -> None:
    """Each partition keeps the one it has, and gets two more; brokers lead 400 each."""
    now = {(f"t{topic}", number): [1] for topic in range(200) for number in range(6)}
    planned = plan(dict.fromkeys((1, 2, 3)), now, now, Goal(factor=3))
    assert len(planned) == 1200 and all(sorted(each) == [1, 2, 3] for each in planned.values())
    assert Counter(each[0] for each in planned.values()) == {1: 400, 2: 400, 3: 400}


def test_other_partitions_count_for_balance_but_do_not_move() -> None:
    """Brokers are balanced over all partitions, and only the chosen ones move."""
    now = {("orders", 0): [1], ("others", 0): [2], ("others", 1): [2]}
    planned = plan(dict.fromkeys((1, 2, 3)), now, [("orders", 0)], Goal(factor=2))
    assert planned == {("orders", 0): [1, 3]}


def test_replica_on_a_down_broker_is_kept_but_not_preferred_leader() -> None:
    """Broker 9 is not there: what it has is still counted as a replica."""
    planned = plan(dict.fromkeys((1, 2)), {("orders", 0): [9, 1]}, [("orders", 0)], Goal(factor=3))
    assert planned == {("orders", 0): [1, 9, 2]}


def test_new_replica_is_placed_in_another_rack() -> None:
    """Also where a broker of the same rack comes first and has less."""
    racks = {1: "a", 2: "a", 3: "b", 4: "c"}
    now = {("orders", 0): [2], ("others", 0): [3, 4]}
    assert plan(racks, now, [("orders", 0)], Goal(factor=2)) == {("orders", 0): [2, 3]}
