"""The proofs of loss, bandwidth, delay and reset: which numbers prove what, and what is said of them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.cluster import FakeNode
from fakes.network import FakeNetwork
from fakes.world import World
from kaput.cluster.access import OPEN, Access
from kaput.cluster.properties import NodeLayout
from kaput.cluster.wire import Endpoint
from kaput.errors import LabError
from kaput.faults.bandwidth import End, Flow, keeps
from kaput.faults.delay import least_ms, rounds
from kaput.faults.fault import Effect, now_ns
from kaput.faults.loss import LossSample, loses
from kaput.faults.rules import blocking

RATE = 1e6


@pytest.mark.parametrize(
    ("sent", "arrived", "percent", "lossy"),
    [
        (300, 300, 10, False),
        (300, 270, 10, True),
        (300, 291, 10, False),  # 9 of 30
        (300, 290, 10, True),
        (300, 0, 100, True),
        (32, 0, 100, True),
        (3000, 2991, 1, False),
        (3000, 2990, 1, True),
        (64, 64, 0.01, False),
        (64, 63, 0.01, True),  # so few were sent that one is many
        (0, 0, 10, False),
        (30_000, 29_001, 10, False),
        (30_000, 29_000, 10, True),
    ],
)
def test_loss_is_proven_from_a_third_of_the_configured_rate(
    sent: int, arrived: int, percent: float, lossy: bool
) -> None:
    """And never without a single loss."""
    assert loses(LossSample(sent, arrived), percent) is lossy


@pytest.mark.parametrize(
    ("offered", "carried", "waited", "kept"),
    [
        (1.5e6, 1.0e6, 1, True),
        (1.5e6, 1.25e6, 1, True),
        (1.5e6, 1.26e6, 1, False),  # as with a rate in bytes, told to one who reads bits
        (1.5e6, 0.5e6, 1, True),
        (1.5e6, 0.49e6, 1, False),
        (1.5e6, 1.0e6, 0, False),
        (0.4e6, 0.2e6, 1, True),  # a busy machine could not offer more
        (0.4e6, 0.19e6, 1, False),
    ],
)
def test_bandwidth_limit_is_proven_by_measured_throughput(
    offered: float, carried: float, waited: int, kept: bool
) -> None:
    """Something had to wait, and it is about the rate that was asked for."""
    assert keeps(Flow(offered, carried, waited), RATE) is kept


@pytest.mark.parametrize(
    ("delay", "jitter", "least", "answers"),
    [
        (250, 50, 160, 5),
        (100, 0, 80, 5),
        (100, 75, 25, 5),
        (100, 76, 25, 11),
        (100, 100, 25, 11),
        (1, 1, 0.25, 11),
    ],
)
def test_least_delay_and_sample_count_depend_on_jitter(
    delay: int, jitter: int, least: float, answers: int
) -> None:
    """An answer that takes as long as before is never late."""
    assert least_ms(delay, jitter) == pytest.approx(least)
    assert rounds(delay, jitter) == answers


@pytest.mark.parametrize("jitter", [0, 10, 30, 40])
def test_ineffective_delay_is_not_effective_for_any_jitter(jitter: int) -> None:
    """ "0 ms before and 0 ms now" proves nothing, and neither that it was healed."""
    world = World("delay", {"delay": 40, "jitter": jitter})
    world.network.works = False
    effect = world.inject()
    assert not effect.confirmed and "response time 0 ms before and 0 ms" in effect.proof
    assert not world.heal(effect)[1].confirmed


@pytest.mark.parametrize("jitter", [0, 10, 30, 40])
def test_delay_heal_requires_response_times_as_before(jitter: int) -> None:
    """Not only when they take no time at all; and not while they are late."""
    world = World("delay", {"delay": 40, "jitter": jitter})
    effect = world.inject()
    assert effect.confirmed and re.search(
        r", by netem; response time [01] ms before and 4\d ms now$", effect.proof
    )
    healed, after = world.heal(effect)
    assert healed is not None and after.confirmed
    assert re.fullmatch(
        r"it is gone, response time [01] ms after the heal", after.proof[len(effect.proof) + 2 :]
    )
    world = World("delay", {"delay": 40, "jitter": jitter})
    effect = world.inject()
    world.network.stays = True
    healed, after = world.heal(effect)
    assert healed is None and "the delay of node 1 is still in place" in after.proof
    assert re.search(r"response time 4\d ms after the heal", after.proof)


def test_delay_removed_before_its_heal_is_not_effective() -> None:
    """By somebody else, or because the machine lost it."""
    world = World("delay")
    effect = world.inject()
    world.network.queues[1, False].clear()
    healed, after = world.heal(effect)
    assert healed is not None and not after.confirmed
    assert "the delay of node 1 was gone before the heal, it is gone, response time" in after.proof


def test_delay_heal_without_a_probe_reports_it() -> None:
    """The target is paused, dead, or under another step's rules: what is seen is that the delay is gone."""
    for trouble in ("stopped", "dead", "busy"):
        world = World("delay")
        effect = world.inject()
        world.node.stopped, world.node.running = trouble == "stopped", trouble != "dead"
        if trouble == "busy":
            world.network.tables[1] = {"kaput_9_cut": []}
        healed, after = world.heal(effect)
        assert healed is not None and after.confirmed
        assert after.proof.endswith("it is gone, no node could be asked"), trouble


def test_delay_heal_requires_an_answer_if_there_was_one_before() -> None:
    """Silence is not the time of an answer."""
    world = World("delay")
    effect = world.inject()
    world.network.deaf.add(1)
    healed, after = world.heal(effect)
    assert healed is None and not after.confirmed and "response time no answer after the heal" in after.proof


def test_delay_is_not_proven_without_an_answer_before() -> None:
    """Nor who does not answer now."""
    world = World("delay")
    world.network.deaf.add(1)
    effect = world.inject()
    assert not effect.confirmed and "response time no answer before" in effect.proof
    world.network.deaf.clear()
    healed, after = world.heal(effect)
    assert healed is not None and not after.confirmed and "no node could be asked" in after.proof


def test_delay_without_another_node_is_not_effective() -> None:
    """Nobody is asked, nothing is put."""
    world = World("delay", {"from_": ("broker 1",)})
    effect = world.inject()
    assert (effect.confirmed, effect.effective_ns) == (False, None)
    assert effect.proof == "zookeeper 1 (pid 1001): there is no other node to delay traffic to"
    assert world.heal(effect)[1] == effect


def test_delay_must_affect_every_target() -> None:
    """Each target must be late, and each must be as before after the heal."""
    world = World("delay", targets=(1, 2))
    effect = world.inject()
    assert effect.confirmed
    assert re.search(r"response time [01] ms, [01] ms before and 4\d ms, 4\d ms now$", effect.proof)
    world.network.stays = True
    world.network.queues[2, False].clear = lambda: None  # type: ignore[method-assign]
    assert world.heal(effect)[0] is None
    world = World("delay", targets=(1, 2))
    world.network.deaf.add(2)
    assert not world.inject().confirmed


def test_failed_delay_injection_leaves_nothing_behind() -> None:
    """Neither netem nor a proxy can be had."""
    world = World("delay")
    world.network.netem = world.network.starts = False
    with pytest.raises(LabError, match="nothing can be started"):
        world.inject()
    healed, _ = world.heal(Effect(None, False, "failed"))
    assert healed is not None and not any(world.network.tables.values())


@pytest.mark.parametrize(("direction", "ways"), [("both", 2), ("in", 1), ("out", 1)])
def test_loss_is_probed_in_its_directions(direction: str, ways: int) -> None:
    """Datagrams of before, of now and of after the heal, and the filter's counts."""
    world = World("loss", {"direction": direction})
    effect = world.inject()
    assert effect.confirmed, effect.proof
    samples = ", ".join([r"\d+ of 160"] * ways)
    arrived = rf"datagrams that arrived: {samples} before, {samples} now; "
    assert re.search(arrived + r"node 1: \d+ of \d+ packets dropped so far", effect.proof)
    assert effect.proof.startswith("broker 1 (pid 1001): 20 % of the packets are dropped; ")
    assert ", ".join(["160 of 160"] * ways) + " before" in effect.proof
    healed, after = world.heal(effect)
    assert healed is not None and after.confirmed
    assert after.proof.endswith(
        f"; the rules are gone; datagrams that arrived: {', '.join(['160 of 160'] * ways)} after the heal"
    )
    assert re.search(r"; node 1: \d+ of \d+ packets dropped when it was healed; ", after.proof)


def test_loss_probe_sends_enough_for_thirty_losses() -> None:
    """By handfuls of 32."""
    effect = World("loss", {"percent": 1.0, "direction": "in"}).inject()
    assert effect.confirmed and "arrived: 3,008 of 3,008 before" in effect.proof


def test_loss_present_before_the_injection_proves_nothing() -> None:
    """Another step drops as many already."""
    world = World("loss")
    other = World("loss")
    other.network = world.network
    assert other.inject().confirmed
    world.network.tables[1]["kaput_9_loss"] = world.network.tables[1].pop("kaput_1_loss")
    effect = world.inject()
    assert not effect.confirmed
    healed, after = world.heal(effect)
    assert healed is not None and after.proof.endswith("; the rules are gone; nothing could be tried")
    assert set(world.network.tables[1]) == {"kaput_9_loss"}


def test_loss_rules_removed_before_the_heal_are_reported() -> None:
    """They did not last; nothing is left to be healed."""
    world = World("loss")
    effect = world.inject()
    world.network.tables[1].clear()
    healed, after = world.heal(effect)
    assert healed is not None and not after.confirmed
    assert "the rules of node 1 were gone before the heal; the rules are gone" in after.proof


def test_loss_must_affect_every_target() -> None:
    """One whose packets nobody counts, and one that has nobody else to lose packets of."""
    world = World("loss", targets=(1, 2))
    world.network.uncounted = {2}
    assert not world.inject().confirmed
    world = World("loss", {"from_": ("broker 2",)}, targets=(1, 2))
    effect = world.inject()
    assert not effect.confirmed and effect.effective_ns is not None and not world.heal(effect)[1].confirmed
    world = World("loss", {"from_": ("broker 1",)})
    effect = world.inject()
    assert (effect.effective_ns, effect.confirmed) == (None, False)
    assert effect.proof == "broker 1 (pid 1001): there is no other party to drop packets from"
    assert world.heal(effect)[1] == effect


def test_loss_rules_left_after_the_heal_are_reported() -> None:
    """Node by node."""
    world = World("loss")
    effect = world.inject()
    world.network.keeps = True
    _, after = world.heal(effect)
    assert "; the rules of node 1 are still there; datagrams that arrived:" in after.proof


@pytest.mark.parametrize(
    ("direction", "way", "ends"),
    [("both", "8mbit each way", {True, False}), ("in", "8mbit in", {True}), ("out", "8mbit out", {False})],
)
def test_bandwidth_is_measured_in_its_directions(direction: str, way: str, ends: set[bool]) -> None:
    """What was offered and what was carried, and what had to wait."""
    world = World("bandwidth", {"direction": direction})
    effect = world.inject()
    assert effect.confirmed, effect.proof
    assert effect.proof.startswith(f"broker 1 (pid 1001): {way}; under load ")
    carried = ", ".join([r"(?:7\.9|8\.0)\d of (?:11\.9|12\.0)\d Mbit/s"] * len(ends))
    assert re.search(
        rf"; under load {carried} carried; [\d,]+ bytes, \d+ packets had to wait so far$", effect.proof
    )
    assert {inward for (_, inward), queue in world.network.queues.items() if queue.kind} == ends
    healed, after = world.heal(effect)
    assert healed is not None and after.confirmed
    assert re.search(
        r"; [\d,]+ bytes, \d+ packets had to wait when it was healed; no limit is left$", after.proof
    )


@pytest.mark.parametrize("strange", [1.4, 0.3])
def test_bandwidth_at_the_wrong_rate_is_not_effective(strange: float) -> None:
    """As where one tells bytes and the other reads bits."""
    world = World("bandwidth", {"direction": "in"})
    world.network.strange = strange
    assert not world.inject().confirmed


def test_bandwidth_is_measured_again_after_a_machine_stall() -> None:
    """The bucket fills up in the meantime, and its burst passes on top of the rate: measured again."""
    world = World("bandwidth", {"direction": "in", "rate": "1mbit"})
    world.network.stalls_s = [0.3]
    effect = world.inject()
    assert world.network.stalls_s == [] and effect.confirmed, effect.proof


def test_bandwidth_limit_of_another_step_is_left_in_place() -> None:
    """Both cannot be had; what was put of ours goes."""
    world = World("bandwidth")
    world.network.queue(1, inward=False).limit(1e6, 1000, 400)
    effect = world.inject()
    assert (effect.confirmed, effect.effective_ns) == (False, None)
    assert effect.proof == (
        "broker 1 (pid 1001): cannot be limited (by another step?): there is something already"
    )
    assert not world.network.queue(1, inward=True).kind
    healed, after = world.heal(effect)
    assert healed is not None and after == effect and world.network.queue(1, inward=False).kind == "tbf"


def test_bandwidth_limit_removed_before_its_heal_is_not_effective() -> None:
    """The other end is freed all the same."""
    world = World("bandwidth")
    effect = world.inject()
    world.network.queue(1, inward=True).clear()
    healed, after = world.heal(effect)
    assert healed is not None and not after.confirmed
    assert "; the limit of node 1 was gone before the heal; no limit is left" in after.proof
    assert not world.network.queue(1, inward=False).kind


def test_bandwidth_limit_left_after_the_heal_is_reported() -> None:
    """No heal is claimed."""
    world = World("bandwidth", {"direction": "out"})
    effect = world.inject()
    world.network.stays = True
    healed, after = world.heal(effect)
    assert healed is None and after.proof.endswith("; a limit of node 1 is still there")


def test_reset_must_also_close_its_probe_connections() -> None:
    """Those of others may end by themselves in that moment."""
    world = World("reset")
    effect = world.inject()
    assert effect.confirmed
    assert re.search(
        r": 1 of 1 open connections torn down within \d+ ms, and 4 of 4 opened as a check$", effect.proof
    )
    gone = now_ns()
    healed, after = world.heal(effect)
    assert after.proof.endswith("; at the end 4 of 4 parties connect")
    assert effect.effective_ns is not None and healed is not None
    assert effect.effective_ns <= healed <= gone  # over when they are gone, not when that is looked at

    class Lucky(type(world.network)):  # type: ignore[misc]
        def tear_down(self, node: int, peers: Any) -> None:
            self.open[node] = set()  # its owner closed it

    world = World("reset", network=Lucky())
    effect = world.inject()
    assert (
        not effect.confirmed and "1 of 1 open connections" in effect.proof and "0 of 4 opened" in effect.proof
    )


def test_reset_counts_connections_left_open() -> None:
    """One of two that were open is still there."""
    world = World("reset")
    world.network.has_connection(1, "10.77.0.2")

    class Half(type(world.network)):  # type: ignore[misc]
        def tear_down(self, node: int, peers: Any) -> None:
            super().tear_down(node, peers)
            self.has_connection(node, self.clients)

    world = World("reset", network=Half())
    world.network.has_connection(1, "10.77.0.2")
    effect = world.inject()
    assert not effect.confirmed and ": 1 of 2 open connections torn down" in effect.proof


def test_reset_is_not_effective_without_open_connections() -> None:
    """Those that kaput makes itself are no load; nor does a target count that nobody reaches."""
    world = World("reset", targets=(1, 2))
    world.network.open[2].clear()
    assert not world.inject().confirmed
    world = World("reset", targets=(1, 2))
    world.network.deaf = {2}
    effect = world.inject()
    assert not effect.confirmed and "2 of 2 open connections" in effect.proof
    _, after = world.heal(effect)
    assert "4 of 4 parties" in after.proof


def test_reset_heal_skips_targets_that_cannot_be_probed() -> None:
    """Dead, paused, or under another step's rules."""
    for trouble in ("stopped", "dead", "busy"):
        world = World("reset")
        effect = world.inject()
        world.node.stopped, world.node.running = trouble == "stopped", trouble != "dead"
        if trouble == "busy":
            world.network.tables[1] = {"kaput_9_cut": []}
        healed, after = world.heal(effect)
        assert (
            healed is not None
            and after.confirmed
            and after.proof.endswith("; at the end 0 of 0 parties connect")
        )


def test_delay_is_measured_against_the_response_time_before() -> None:
    """Answers that always took that long prove nothing; those that come from nowhere neither."""
    world = World("delay")
    world.network.slow_s, world.network.works = 0.1, False
    effect = world.inject()
    assert not effect.confirmed and "response time 100 ms before and 100 ms" in effect.proof
    world = World("delay")
    world.network.slow_s = 0.1
    effect = world.inject()
    assert effect.confirmed and "response time 100 ms before and 140 ms" in effect.proof
    assert world.heal(effect)[1].confirmed

    class Wakes(FakeNetwork):
        def has_put(self, number: int) -> None:
            self.deaf.clear()

    world = World("delay", network=Wakes(deaf={1}))
    effect = world.inject()
    assert not effect.confirmed and "response time no answer before and 40 ms now" in effect.proof


@pytest.mark.parametrize(("delay", "answered"), [(3_000, True), (3_900, True)])
def test_delay_probe_timeout_covers_long_delays(delay: int, answered: bool) -> None:
    """An answer has as long as the line needs, and some seconds more."""
    world = World("delay", {"delay": delay, "jitter": 0})
    assert world.inject().confirmed is answered


def test_delay_is_probed_from_an_affected_node() -> None:
    """Broker 2 asks, where only broker 2 hears the target."""
    world = World("delay", {"from_": ("broker 2", "broker 3")})
    world.network.tables[1] = {"theirs": blocking([world.network.clients, "10.77.0.3"], "both", "drop")}
    effect = world.inject()
    assert effect.confirmed and "by a proxy (open connections were reset); response time 0 ms" in effect.proof
    assert ": outgoing traffic to broker 2, broker 3 delayed by 40 ms" in effect.proof
    assert world.heal(effect)[1].confirmed
    world.network.tables[1] = {"theirs": blocking(["10.77.0.2"], "both", "drop")}
    assert not world.inject().confirmed


def test_ended_delay_proxy_is_reported() -> None:
    """What was redirected to it went nowhere, which is no delay."""
    world = World("delay", {"from_": ("clients",)}, targets=(1,))
    effect = world.inject()
    assert effect.confirmed and world.network.open[1] == set()
    world.network.proxies[1].running = False
    healed, after = world.heal(effect)
    assert healed is not None and not after.confirmed
    assert "the delay of node 1 was gone before the heal, it is gone" in after.proof


def test_reset_accepts_connections_closed_by_fin() -> None:
    """What still talks is not."""
    world = World("reset")
    world.network.politely = True
    assert world.inject().confirmed
    world = World("reset")
    world.network.works, world.network.talks = False, True
    world.network.open[1].clear()
    assert "0 of 4 opened as a check" in world.inject().proof


def test_reset_waits_five_seconds_for_the_last_connection() -> None:
    """And says when they were gone."""
    world = World("reset")
    world.network.lingers_s = 4.0
    effect = world.inject()
    assert effect.confirmed
    (took,) = re.findall(r"within (\d+) ms", effect.proof)
    assert int(took) < 5000
    world = World("reset")
    world.network.lingers_s = 6.0
    effect = world.inject()
    assert not effect.confirmed and ": 0 of 1 open connections" in effect.proof


def test_loss_counts_equal_the_packet_filter_counters() -> None:
    """Of those seen, those dropped; node by node."""
    world = World("loss", {"direction": "in"}, targets=(1, 2))
    effect = world.inject()
    found = re.findall(r"node (\d): (\d+) of (\d+) packets dropped", effect.proof)
    assert [int(node) for node, _, _ in found] == [1, 2]
    for node, dropped, seen in found:
        counted = world.network.counted[int(node), "kaput_1_loss"]
        assert (int(dropped), int(seen)) == (counted["in_dropped"], counted["in_seen"])
        assert 0 < int(dropped) < int(seen) == 160
    assert re.search(r"dropped; node 2: \d+ of 160 packets dropped so far$", effect.proof)


@pytest.mark.parametrize(("rate", "burst"), [("8mbit", 32_000), ("80mbit", 100_000), ("0.4gbit", 500_000)])
def test_token_bucket_holds_ten_milliseconds(rate: str, burst: int) -> None:
    """And 32 kB at least."""
    world = World("bandwidth", {"rate": rate, "direction": "in"})
    effect = world.inject()
    assert effect.confirmed and world.network.queues[1, True].burst == burst


def test_exact_proof_text_of_a_delay() -> None:
    """How late, how unevenly, by what means, and what was measured."""
    world = World("delay", targets=(1, 2))
    world.network.queue(2, inward=False).limit(1e6, 1000, 400)  # there netem cannot be had
    effect = world.inject()
    assert effect.confirmed and effect.proof == (
        "zookeeper 1 (pid 1001), zookeeper 2 (pid 1002): outgoing traffic delayed by 40 ms ± 5 ms,"
        " by a proxy (open connections were reset); netem;"
        " response time 0 ms, 0 ms before and 40 ms, 40 ms now"
    )


@pytest.mark.parametrize(
    ("role", "request_of", "port", "access", "limit_s"),
    [
        ("broker", "MetadataRequest", 9092, OPEN, 3.08),
        ("combined", "MetadataRequest", 9092, OPEN, 3.08),
        ("controller", "DescribeQuorumRequest", 9093, OPEN, 3.08),
        ("broker", "MetadataRequest", 9092, Access({"security.protocol": "SSL"}), 3.48),
    ],
)
def test_delay_probe_request_depends_on_the_role(
    role: Any, request_of: str, port: int, access: Access, limit_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each over its own connection, with more time where it lets nobody in but after words to and fro."""
    asked: list[tuple[Any, ...]] = []
    world = World("delay")
    node = world.nodes[1] = _Guarded(1, role=role, access=access)

    def answer(endpoint: Any, request: Any, timeout_s: float, connection: Any) -> None:
        asked.append((endpoint, type(request).__name__, timeout_s))
        assert connection.target == 1 and connection.source is not None, (
            "by node 2, over the given connection"
        )
        world.network.clock.sleep(world.network.late_s(1))

    monkeypatch.setattr("kaput.faults.delay.ask", answer)
    world.options = {"from_": ("broker 2",)}
    effect = world.inject()
    assert effect.confirmed and effect.proof.endswith("response time 0 ms before and 40 ms now"), effect.proof
    assert asked == [(Endpoint(node.layout.host, port, access), request_of, pytest.approx(limit_s))] * 10


class _Guarded(FakeNode):
    """A node that lets in by `access` alone, on either port."""

    def __init__(self, number: int, role: Any, access: Access) -> None:
        super().__init__(number, role=role, folder=Path(f"/{number}"))
        self.access = access

    @property
    def layout(self) -> NodeLayout:
        return replace(super().layout, access=self.access, controller_access=self.access)


def test_delay_still_measured_after_its_heal_is_not_healed() -> None:
    """Nothing is in place any more, and answers are as late as ever."""
    world = World("delay")
    effect = world.inject()
    world.network.slow_s = 0.04
    healed, after = world.heal(effect)
    assert healed is None and not after.confirmed
    assert after.proof.endswith("; it is gone, response time 40 ms after the heal")


def test_failed_delay_injection_left_in_place_is_not_healed() -> None:
    """No moment, and no bite."""
    world = World("delay")
    world.inject()
    world.network.stays = True
    assert world.heal(Effect(None, False, "failed")) == (None, Effect(None, False, "failed"))


@pytest.mark.parametrize(("rate", "seconds"), [("8mbit", 0.2), ("300kbit", 0.996), ("100kbit", 2.0)])
def test_bandwidth_probe_lasts_longer_at_low_rates(rate: str, seconds: float) -> None:
    """Until forty datagrams were offered, but for two seconds at most."""
    world = World("bandwidth", {"rate": rate, "direction": "out"})
    assert world.inject().confirmed
    assert world.network.clock.now() - 1000 == pytest.approx(seconds, abs=0.002)


def test_counters_of_another_qdisc_are_ignored() -> None:
    """A delay's numbers are none of a limit."""
    world = World("bandwidth")
    queue = world.network.queue(1, inward=True)
    queue.kind, queue.sent, queue.waited = "netem", 5, 6
    end = End(world.make().scene, 1, inward=True)
    assert end.stats() == (0, 0) and not end.limited()
    queue.kind = "tbf"
    assert end.stats() == (5, 6) and end.limited()


def test_bandwidth_limit_behind_a_cut_is_not_proven() -> None:
    """Nothing comes as far as the line: the sender is told so, and nothing has to wait."""
    world = World("bandwidth", {"direction": "out"})
    world.network.filter(1).put("kaput_9_cut", blocking([world.network.clients], "out", "drop"))
    effect = world.inject()
    assert not effect.confirmed and "under load 0.00 of 12.0" in effect.proof
