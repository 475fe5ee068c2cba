"""Steps made by requests alone prove what brokers show afterwards, never what an answer said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.cluster import FakeAdmin, fake_scene
from fakes.nemesis import play, play_until
from fakes.steps import step_of
from kaput.cluster.admin import PartitionState, requests
from kaput.cluster.admin.resources import ResourceSettings
from kaput.cluster.wire import AccessRefused
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.faults.catalogue import fault_class
from kaput.faults.fault import Effect, Fault
from kaput.faults.nemesis import Nemesis
from kaput.scenario.timeline import AfterStart

PLACE = TopicPartition("orders", 0)


class Requested(FakeAdmin):
    """Three brokers and one partition, led by 1. `deaf`: requests are accepted, and nothing changes."""

    def __init__(self, *, deaf: bool = False, state: PartitionState | None = None) -> None:
        super().__init__()
        self.deaf = deaf
        self.state = state or PartitionState(1, [1, 2], [1, 2])
        self.own: dict[str, str] = {"retention.ms": "7"}
        self.limits: list[Mapping[str, str | None]] = []
        self.rules: set[tuple[str, str, str]] = set()
        self.limited: dict[str, float] = {}
        self.changed: set[str] = set()  # users whose clients have another password

    def live(self, topics: Sequence[str]) -> tuple[frozenset[int], dict[Any, Any]]:
        return frozenset({1, 2, 3}), {}

    def partitions(self, topics: Iterable[str]) -> dict[Any, PartitionState]:
        return {PLACE: self.state} if "orders" in topics else {}

    def reassign(self, wanted: Mapping[TopicPartition, Sequence[int]]) -> None:
        (replicas,) = wanted.values()
        if not self.deaf:
            leader = self.state.leader if self.state.leader in replicas else replicas[0]
            self.state = replace(self.state, leader=leader, replicas=list(replicas), isr=list(replicas))

    def elect_preferred(self, places: Sequence[TopicPartition]) -> None:
        if not self.deaf:
            epoch = self.state.leader_epoch + 1
            self.state = replace(self.state, leader=self.state.replicas[0], leader_epoch=epoch)

    def seen_settings(self, kind: int, name: str) -> dict[int, ResourceSettings]:
        every = {"retention.ms": "604800000", "segment.bytes": "1073741824", **self.own}
        return dict.fromkeys((1, 2, 3), ResourceSettings(every, dict(self.own)))

    def alter_settings(self, kind: int, name: str, changes: Mapping[str, str | None]) -> None:
        self.limits.append(changes)
        if not self.deaf:
            self.own |= {key: value for key, value in changes.items() if value is not None}
            for key in [key for key, value in changes.items() if value is None]:
                self.own.pop(key, None)

    def deny(self, *rule: str) -> None:
        if not self.deaf:
            self.rules.add(rule)  # type: ignore[arg-type]

    def deny_no_more(self, *rule: str) -> None:
        if not self.deaf:
            self.rules.discard(rule)  # type: ignore[arg-type]

    def denied_by(self, *rule: str) -> dict[int, bool]:
        return dict.fromkeys((1, 2, 3), rule in self.rules)

    def set_quotas(self, changes: Mapping[str, float | None]) -> None:
        if not self.deaf:
            self.limited = {key: value for key, value in changes.items() if value is not None}

    def set_password(self, user: str, password: str | None = None) -> None:
        if not self.deaf:
            self.changed = {user} if password else set()

    def let_in(self, user: str) -> dict[int, bool]:
        return dict.fromkeys((1, 2, 3), user not in self.changed)

    def quotas(self) -> dict[str, dict[str, float]]:
        return {"client-id <default>": self.limited} if self.limited else {}


HIT: dict[str, tuple[str, str, Any, dict[str, Any]]] = {
    "move-leader": ("leader-of orders/0", "nodes", [1], {}),
    "elect-preferred": ("broker 1", "nodes", [1], {}),
    "move-replicas": ("leader-of orders/0", "nodes", [1], {}),
    "change-config": ("topic orders", "topic", "orders", {"config": {"retention.ms": 1, "segment.bytes": 9}}),
    "deny": ("topic orders", "topic", "orders", {}),
    "quota": ("cluster", "cluster", None, {"request_percentage": 1}),
    "change-password": ("cluster", "cluster", None, {}),
}
PREFERS_2 = PartitionState(1, [2, 1], [1, 2])


def made(name: str, admin: FakeAdmin, **options: Any) -> tuple[Fault[Any], Any]:
    """The fault, and what it hits."""
    target, on, hit, given = HIT[name]
    return fault_class(name, on)(fake_scene(name, admin=admin, target=target, **given, **options)), hit


def played(name: str, admin: FakeAdmin, **options: Any) -> Effect:
    """Its effect."""
    fault, hit = made(name, admin, **options)
    return fault.inject(hit)


@pytest.mark.parametrize("name", HIT)
def test_step_is_not_proven_by_the_answer_alone(name: str) -> None:
    """The cluster accepts the request, and everything stays as it is."""
    admin = Requested(deaf=True, state=PREFERS_2 if name == "elect-preferred" else None)
    try:
        effect = played(name, admin)
    except LabError as error:
        assert "did not arrive" in str(error)
    else:
        assert not effect.confirmed, effect.proof


@pytest.mark.parametrize("name", ["change-config", "change-password", "deny", "quota"])
def test_heal_restores_what_was_there_and_proves_it(name: str) -> None:
    """What was set is set again, the rest is gone; a heal without an effect is not one."""
    admin = Requested()
    fault, hit = made(name, admin)
    effect = fault.inject(hit)
    assert effect.confirmed and effect.effective_ns is not None, effect.proof
    admin.deaf = True
    healed, after = fault.heal(hit, effect)
    assert healed is None and not after.confirmed, after.proof
    admin.deaf = False
    healed, after = fault.heal(hit, effect)
    assert healed is not None and after.confirmed and after.proof.startswith(effect.proof)
    assert (admin.own, admin.rules, admin.limited, admin.changed) == ({"retention.ms": "7"}, set(), {}, set())


def test_broker_that_is_down_at_the_heal_gets_its_setting_back_later() -> None:
    """Only it itself takes its settings; another step may be starting it again."""
    admin = Requested()
    fault, hit = made("change-config", admin)
    effect = fault.inject(hit)
    alter, refused = admin.alter_settings, [LabError("no node answered"), LabError("no node answered")]

    def down(kind: int, name: str, changes: Mapping[str, str | None]) -> None:
        if refused:
            raise refused.pop()
        alter(kind, name, changes)

    admin.alter_settings = down  # type: ignore[method-assign]
    healed, after = fault.heal(hit, effect)
    assert healed is not None and after.confirmed and admin.own == {"retention.ms": "7"}


@pytest.mark.parametrize(
    ("name", "request_"),
    [("deny", "deny_no_more"), ("quota", "set_quotas"), ("change-password", "set_password")],
)
def test_change_is_taken_back_when_a_broker_is_there_again(name: str, request_: str) -> None:
    """Another step may have stopped them all, and be starting them."""
    admin = Requested()
    fault, hit = made(name, admin)
    effect = fault.inject(hit)
    does, refused = getattr(admin, request_), [LabError("no node answered"), LabError("no node answered")]

    def down(*given: Any) -> None:
        if refused:
            raise refused.pop()
        does(*given)

    setattr(admin, request_, down)
    healed, after = fault.heal(hit, effect)
    assert healed is not None and after.confirmed and not refused


def test_password_is_set_back_although_the_answer_to_its_change_was_lost() -> None:
    """As when every broker is stopped right after it: the inject fails, and the engine heals it."""
    admin = Requested()
    fault, hit = made("change-password", admin)
    does = admin.set_password

    def loses_the_answer(user: str, password: str | None = None) -> None:
        does(user, password)
        raise LabError("no node answered")

    admin.set_password = loses_the_answer  # type: ignore[method-assign]
    with pytest.raises(LabError, match="no node answered"):
        fault.inject(hit)
    assert admin.changed == {"app"}
    admin.set_password = does  # type: ignore[method-assign]
    healed, after = fault.heal(hit, Effect(None, False, "no node answered"))
    assert healed is not None and not admin.changed
    assert after.proof == "no node answered; accepted again by 3 of 3 brokers"


def test_password_is_not_changed_unless_every_broker_let_the_user_in() -> None:
    """One that refused and one that did not answer are told apart."""
    admin = Requested()
    fault, hit = made("change-password", admin)
    admin.let_in = lambda user: {1: True, 2: False, 3: True}  # type: ignore[method-assign]
    with pytest.raises(LabError, match="app was refused before by 1 of 3 brokers"):
        fault.inject(hit)
    admin.let_in = lambda user: {1: True, 2: True}  # type: ignore[method-assign]
    with pytest.raises(LabError, match="a broker did not answer when app signed in before"):
        fault.inject(hit)
    assert not admin.changed and fault.heal(hit, Effect(None, False, ""))[0] is not None


def test_heal_that_is_refused_access_does_not_try_again() -> None:
    """No broker that comes back changes that."""
    admin = Requested()
    fault, hit = made("deny", admin)
    effect = fault.inject(hit)
    tries = []

    def refuses(*rule: str) -> None:
        tries.append(rule)
        raise AccessRefused("User:kaput is not authorized")

    admin.deny_no_more = refuses  # type: ignore[method-assign]
    with pytest.raises(AccessRefused, match="not authorized"):
        fault.heal(hit, effect)
    assert len(tries) == 1


def test_leader_moves_to_an_in_sync_follower() -> None:
    """And the proof names both, with their epochs."""
    effect = played("move-leader", Requested())
    assert effect.confirmed
    assert effect.proof.startswith("orders/0 from broker 1 (epoch -1) to broker 2 (epoch 0), after")
    lonely = Requested(state=PartitionState(1, [1, 2], [1]))
    with pytest.raises(LabError, match=r"orders/0: another broker is no in-sync follower; the ISR is \[1\]"):
        played("move-leader", lonely)
    with pytest.raises(LabError, match="orders/0: broker 3 is no in-sync follower"):
        played("move-leader", Requested(), to=3)
    with pytest.raises(LabError, match="broker 1 leads no partition"):
        played("move-leader", Requested(state=PartitionState(2, [2, 1], [1, 2])))


def test_preferred_leader_is_elected_only_where_another_leads() -> None:
    """Otherwise there is no effect, and the reason is given."""
    assert played("elect-preferred", Requested(state=PREFERS_2)).confirmed
    effect = played("elect-preferred", Requested())
    assert (effect.effective_ns, effect.confirmed) == (None, False) and "already" in effect.proof


def test_replicas_move_and_no_throttle_is_left() -> None:
    """The limits are set before, and removed after, also if the move is refused."""
    admin = Requested()
    effect = played("move-replicas", admin, throttle="8mbit")
    assert effect.confirmed and effect.proof.startswith("orders/0 to [2, 3] at 8mbit, all in sync after")
    assert admin.own == {"retention.ms": "7"} and len(admin.limits) == 8
    assert admin.limits[0]["leader.replication.throttled.rate"] == "1000000"

    def refuses(wanted: object) -> None:
        raise LabError("orders/0 cannot be reassigned: INVALID_REPLICA_ASSIGNMENT")

    admin = Requested()
    admin.reassign = refuses  # type: ignore[method-assign, assignment]
    with pytest.raises(LabError, match="INVALID_REPLICA_ASSIGNMENT"):
        played("move-replicas", admin, throttle="8mbit")
    assert admin.own == {"retention.ms": "7"}


def test_move_of_replicas_is_in_effect_until_all_are_in_sync() -> None:
    """Brokers copy until then."""
    fault, hit = made("move-replicas", Requested())
    effect = fault.inject(hit)
    healed, after = fault.heal(hit, effect)
    assert after == effect and healed is not None and effect.effective_ns is not None
    assert healed > effect.effective_ns


def test_move_of_replicas_was_over_before_it_is_looked_at_again(tmp_path: Path) -> None:
    """Its heal does nothing, once all has been sent."""
    admin = Requested()

    def drive(nemesis: Nemesis) -> None:
        play_until(nemesis, lambda: 3 in admin.state.replicas)
        nemesis.workload_over()

    step = step_of("1-move-replicas", "move-replicas", "leader-of orders/0", AfterStart(0), None, 1)
    (row,), _ = play(tmp_path, [step], drive, admin)
    assert row["bit"] and row["heal_began_ns"] == row["healed_ns"] > row["effective_ns"]


def test_settings_that_are_set_already_have_no_effect() -> None:
    """Nor have rules and quotas: what is there belongs to another, and stays at the heal."""
    admin = Requested()
    admin.own = {"retention.ms": "1", "segment.bytes": "9"}
    admin.rules, admin.limited = {("orders", "User:kaput", "Write")}, {"request_percentage": 1.0}
    admin.changed = {"app"}
    for name in ("change-config", "change-password", "deny", "quota"):
        fault, hit = made(name, admin)
        try:
            assert "was set already" in fault.inject(hit).proof
        except LabError as error:
            assert "already" in str(error) or "was refused before by 3 of 3 brokers" in str(error)
        assert fault.heal(hit, Effect(None, False, ""))[0] is not None
    assert admin.own and admin.rules and admin.limited and admin.changed


def test_broker_that_is_down_keeps_no_other_from_being_restored() -> None:
    """It is named; the engine does not take that for a heal."""
    admin = Requested()
    config = {"segment.bytes": 9}
    scene = fake_scene("change-config", admin=admin, target="all", config=config)
    fault = fault_class("change-config", "nodes")(scene)
    effect = fault.inject([1, 2])
    assert effect.confirmed
    restored, alter = [], admin.alter_settings

    def down(kind: int, name: str, changes: Mapping[str, str | None]) -> None:
        if name == "1":
            raise LabError("broker 1 does not answer")
        restored.append(name)
        alter(kind, name, changes)

    admin.alter_settings = down  # type: ignore[method-assign]
    healed, after = fault.heal([1, 2], effect)
    assert healed is None and restored == ["2"] and after.proof.endswith("broker 1 does not answer")


def test_setting_that_no_broker_shows_is_refused() -> None:
    """Without it there would be no proof."""
    target, on, hit, _ = HIT["change-config"]
    fault = fault_class("change-config", on)(
        fake_scene("change-config", admin=Requested(), target=target, config={"retention": 1})
    )
    with pytest.raises(LabError, match=r"topic orders shows no retention; did you mean retention\.ms"):
        fault.inject(hit)


def test_requests_name_what_they_change() -> None:
    """As Kafka's protocol has it: nothing is set where None is given."""
    altered = requests.alter_configs(requests.TOPIC, ["orders"], {"a": "1", "b": None}).resources[0].configs
    assert [(each.name, each.config_operation, each.value) for each in altered] == [
        ("a", 0, "1"),
        ("b", 1, None),
    ]
    (entry,) = requests.alter_quotas({"producer_byte_rate": None}).entries
    assert entry.ops[0].remove and entry.entity[0].entity_name is None
    (made_,) = requests.create_acl("orders", "User:a", 4).creations
    (ended,) = requests.delete_acl("orders", "User:a", 4).filters
    assert (made_.principal, made_.operation, made_.permission_type) == ("User:a", 4, 2)
    assert (ended.principal_filter, ended.operation, ended.permission_type) == ("User:a", 4, 2)
