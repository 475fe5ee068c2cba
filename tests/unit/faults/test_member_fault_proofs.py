"""What the proofs of faults on members say, to the letter but for milliseconds, and what they wait for."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fakes.members import FakeGroups, FakeMember, FakePaceReport, member_scene
from kaput.core import TopicPartition
from kaput.faults.catalogue import fault_class
from kaput.faults.fault import Effect, now_ns
from kaput.faults.members import MemberFault, taken_over_ns
from kaput.faults.slow import slows

MS = r"\d{1,3}"  # the doubles do all at once


def made(fault: str, groups: FakeGroups, has_duration: bool = True) -> MemberFault:
    return fault_class(fault, "members")(member_scene(fault, groups, has_duration))


def joined(groups: FakeGroups, has_duration: bool = True) -> tuple[MemberFault, FakeMember, Effect]:
    fault, new = made("join", groups, has_duration), groups.member("billing", 4)
    return fault, new, fault.inject([new])  # type: ignore[list-item]


def said(pattern: str, effect: Effect) -> None:
    assert re.fullmatch(pattern, effect.proof), effect.proof


def test_join_proof_of_a_member_that_joins_and_leaves() -> None:
    """When it had joined, how much it owned at most, and that it left."""
    fault, new, effect = joined(FakeGroups())
    said(rf"member 4 of billing \(pid 2004\): joined after {MS} ms", effect)
    _, after = fault.heal([new], effect)  # type: ignore[list-item]
    assert after.confirmed is True
    assert after.proof == f"{effect.proof}; it owned up to 1 partition; it left again"


class Rival(FakeMember):
    """Another member has its group.instance.id: its group refuses it as soon as it is started."""

    def start(self) -> None:
        self.fenced = f"{self.title} was refused: member 1 has the same group.instance.id"


@pytest.mark.parametrize("lasts", [True, False])
def test_new_member_that_is_refused_for_its_instance_id_is_effective(lasts: bool) -> None:
    """It is what such a step is for."""
    groups = FakeGroups()
    groups.made.append(Rival(4, running=False, groups=groups))
    fault, new, effect = joined(groups, lasts)
    said(rf"member 4 of billing was refused: .* group.instance.id, {MS} ms after its start", effect)
    healed, after = fault.heal([new], effect)  # type: ignore[list-item]
    assert effect.confirmed and after == effect and healed is not None
    assert (healed == effect.effective_ns) != lasts


def test_new_member_without_partitions_is_effective() -> None:
    """Of a group that has no partition for it."""
    groups = FakeGroups()
    groups.deals = False
    fault, new, effect = joined(groups, has_duration=False)
    new.owned.append((now_ns(), frozenset()))
    healed, after = fault.heal([new], effect)  # type: ignore[list-item]
    assert healed == effect.effective_ns
    assert after == Effect(healed, True, f"{effect.proof}; it owned no partition so far; it stays")


def test_existing_member_is_not_a_new_member() -> None:
    """Nothing is added to that at the heal."""
    groups = FakeGroups()
    fault, old = made("join", groups), groups.member("billing", 2)
    effect = fault.inject([old])  # type: ignore[list-item]
    assert effect == Effect(None, False, "member 2 of billing (pid 1002): already in the group")
    assert fault.heal([old], effect)[1] == effect  # type: ignore[list-item]


def test_member_that_never_joins_is_stopped_at_the_heal() -> None:
    """It has begun to try."""
    groups = FakeGroups()
    late = groups.member("billing", 4)
    late.stands, late.last_error = True, "GROUP_MAX_SIZE_REACHED: Broker: the group is full"
    fault, new, effect = joined(groups)
    text = r"member 4 of billing \(pid 2004\): not in the group [\d,]+ ms after its start "
    last = r"\(the last error of its client: GROUP_MAX_SIZE_REACHED: Broker: the group is full\)"
    assert effect.effective_ns is None and re.fullmatch(text + last, effect.proof), effect.proof
    assert new.running
    fault.heal([new], effect)  # type: ignore[list-item]
    assert not new.running


def test_member_whose_client_gives_up_is_not_waited_for() -> None:
    """Such as at UNRELEASED_INSTANCE_ID: its process has ended before it joined."""
    groups = FakeGroups()
    late = groups.member("billing", 4)
    late.fails = True
    fault = made("join", groups)
    began = fault.scene.clock.now()
    assert fault.inject([late]).effective_ns is None  # type: ignore[list-item]
    assert fault.scene.clock.now() - began < 1


@pytest.mark.parametrize("replaced", [True, False])
def test_new_member_that_exited_or_was_replaced_is_not_effective(replaced: bool) -> None:
    """Whether another took its place or not: it was not there all the time."""
    fault, new, effect = joined(FakeGroups())
    new.kill()
    if replaced:
        new.start()
    healed, after = fault.heal([new], effect)  # type: ignore[list-item]
    assert healed is not None and after.confirmed is False
    said(r".* partition; member 4 of billing \(.*\) had ended or been replaced", after)


def test_new_member_that_stays_has_joined_whatever_became_of_it() -> None:
    """A later step may kill it; its process then is named, not the one that took its place."""
    groups = FakeGroups()
    fault, new = made("join", groups, has_duration=False), groups.member("billing", 4)
    effect = fault.inject([new])  # type: ignore[list-item]
    pid = new.pid
    new.kill()
    new.start()
    healed, after = fault.heal([new], effect)  # type: ignore[list-item]
    assert healed == effect.effective_ns and after.confirmed and new.pid != pid
    assert after.proof.endswith(f"; member 4 of billing (pid {pid}) had ended or been replaced")


def test_new_member_that_does_not_leave_is_not_healed() -> None:
    fault, new, effect = joined(FakeGroups())
    new.survives = True
    healed, after = fault.heal([new], effect)  # type: ignore[list-item]
    assert healed is None and after.confirmed is False
    assert after.proof.endswith("; member 4 of billing (pid 2004) still running after SIGTERM")


class Doorstep(FakeMember):
    """Has its place in the group only when it has been asked some times."""

    asked = 0

    @property
    def ready(self) -> bool:
        self.asked += 1
        return self.running and (self.starts == 1 or self.asked > 5)


def test_new_member_has_joined_when_it_says_so() -> None:
    """Not when it is noticed, some looks later."""
    groups = FakeGroups()
    groups.made.append(late := Doorstep(4, running=False, groups=groups))
    late.starts = 1  # ready at the fifth look
    _, new, effect = joined(groups)
    assert new is late and late.asked > 5 and effect.effective_ns == late.joined_ns is not None


def test_heal_waits_until_the_member_rejoins() -> None:
    """To run is not yet to have a place in the group, which it has had since it says."""
    groups = FakeGroups()
    groups.made[1] = late = Doorstep(2, groups=groups)
    fault = made("kill", groups)
    effect = fault.inject([late])  # type: ignore[list-item]
    late.asked = 0
    healed, after = fault.heal([late], effect)  # type: ignore[list-item]
    assert healed == late.joined_ns is not None and after.confirmed is True
    said(rf".*; in the group again after {MS} ms", after)


def test_member_that_does_not_rejoin_is_not_healed() -> None:
    """With the time that was given to it."""
    groups = FakeGroups()
    fault, hit = made("kill", groups), groups.member("billing", 2)
    effect = fault.inject([hit])  # type: ignore[list-item]
    hit.stands = True
    healed, after = fault.heal([hit], effect)  # type: ignore[list-item]
    assert healed is None and after.confirmed is False
    said(r".*; member 2 of billing \(pid 2002\): not in the group \d{1,2}\.\d s later", after)


def test_leave_waits_until_partitions_are_reassigned() -> None:
    """Once the others own what it had; where it had nothing there is nothing to wait for."""
    groups = FakeGroups()
    fault, hit = made("leave", groups), groups.member("billing", 2)
    said(rf".*; its partition had a new owner {MS} ms after SIGTERM", fault.inject([hit]))  # type: ignore[list-item]
    idle = FakeGroups()
    idle.member("billing", 2).owned.clear()
    fault = made("leave", idle)
    before = fault.scene.clock.now()
    effect = fault.inject([idle.member("billing", 2)])  # type: ignore[list-item]
    assert effect.confirmed and fault.scene.clock.now() == before
    said(rf"member 2 of billing \(pid 1002\): SIGTERM, ended after {MS} ms", effect)


@pytest.mark.parametrize(("numbers", "words"), [([2], "it owned"), ([2, 3], "they owned")])
def test_kill_of_members_without_partitions_needs_no_takeover(numbers: list[int], words: str) -> None:
    """Whether one or more of them were hit."""
    groups = FakeGroups()
    hit: list[Any] = [groups.member("billing", number) for number in numbers]
    for member in hit:
        member.owned[:] = [(now_ns(), frozenset())]
    groups.deals = False
    fault = made("kill", groups, has_duration=False)
    effect = fault.inject(hit)
    healed, after = fault.heal(hit, effect)
    assert (healed, after) == (
        effect.effective_ns,
        Effect(healed, True, f"{effect.proof}; {words} no partition"),
    )


def test_leave_proof_counts_partitions() -> None:
    """The first of three has two of four."""
    groups = FakeGroups()
    fault, hit = made("leave", groups), groups.member("billing", 1)
    effect = fault.inject([hit])  # type: ignore[list-item]
    said(rf".*; its 2 partitions had new owners {MS} ms after SIGTERM", effect)
    assert effect.confirmed


def test_partitions_of_several_members_are_theirs() -> None:
    """Of two members that were killed."""
    fault, hit = made("kill", groups := FakeGroups(), has_duration=False), groups.made[:2]
    healed, after = fault.heal(hit, effect := fault.inject(hit))  # type: ignore[arg-type]
    assert healed is not None and effect.effective_ns is not None
    said(rf".*; their 3 partitions had new owners {MS} ms after their end", after)


def test_pause_was_over_before_others_had_the_partitions() -> None:
    """What they are assigned after SIGCONT they did not have during the pause."""
    groups = FakeGroups()
    fault, hit = made("pause", groups), groups.member("billing", 2)
    effect = fault.inject([hit])  # type: ignore[list-item]
    everything = frozenset(TopicPartition("orders", partition) for partition in range(4))
    groups.made[0].owned.append((now_ns() + 10**12, everything))
    healed, after = fault.heal([hit], effect)  # type: ignore[list-item]
    assert healed is not None and after.confirmed is True
    said(".*; its partition had no new owner by the heal", after)


def test_ineffective_kill_proof_omits_partitions() -> None:
    """They are where they were."""
    groups = FakeGroups()
    fault, hit = made("kill", groups), groups.member("billing", 2)
    hit.survives = True
    effect = fault.inject([hit])  # type: ignore[list-item]
    healed, after = fault.heal([hit], effect)  # type: ignore[list-item]
    assert (healed, after.confirmed) == (None, False) and effect.effective_ns is None
    assert after.proof == f"{effect.proof}; member 2 of billing (pid 1002) has not ended"


def test_member_restarted_without_a_duration_is_not_healed() -> None:
    """It is no heal, and nothing that lasted."""
    groups = FakeGroups()
    fault, hit = made("kill", groups, has_duration=False), groups.member("billing", 2)
    effect = fault.inject([hit])  # type: ignore[list-item]
    hit.start()
    healed, after = fault.heal([hit], effect)  # type: ignore[list-item]
    runs = "member 2 of billing (pid 2002) runs although it should not have been started"
    assert (healed, after) == (None, Effect(effect.effective_ns, False, f"{effect.proof}; {runs}"))


def test_partitions_not_reassigned_are_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the time since; what the injection has said of it the heal neither repeats nor makes better."""
    groups = FakeGroups()
    groups.deals = False
    fault, hit = made("kill", groups, has_duration=False), groups.member("billing", 2)
    healed, after = fault.heal([hit], fault.inject([hit]))  # type: ignore[list-item]
    assert healed is None
    said(rf".*; its partition had no new owner {MS} ms after its end", after)

    groups = FakeGroups()
    groups.deals = False
    fault, hit = made("leave", groups), groups.member("billing", 2)
    monkeypatch.setattr("kaput.faults.members.now_ns", lambda: 10**19)  # no time passes
    effect = fault.inject([hit])  # type: ignore[list-item]
    _, after = fault.heal([hit], effect)  # type: ignore[list-item]
    assert not effect.confirmed and not after.confirmed
    assert after.proof.count("its partition had no new owner") == 1


def test_ineffective_leave_does_not_wait_for_reassignment() -> None:
    """A process that goes on after SIGTERM has left nothing to the others."""
    groups = FakeGroups()
    fault, hit = made("leave", groups), groups.member("billing", 2)
    hit.survives = True
    effect = fault.inject([hit])  # type: ignore[list-item]
    assert effect.confirmed is False and "others" not in effect.proof


def test_pause_proof_reports_when_partitions_were_reassigned() -> None:
    """And one that owned nothing, that it did not."""
    groups = FakeGroups()
    fault, hit = made("pause", groups), groups.member("billing", 2)
    effect = fault.inject([hit])  # type: ignore[list-item]
    groups.made.remove(hit)
    groups.rebalance()
    groups.made.append(hit)
    said(
        rf".*; its partition had a new owner {MS} ms after it stopped",
        fault.heal([hit], effect)[1],  # type: ignore[list-item]
    )
    idle = FakeGroups()
    fault, hit = made("pause", idle), idle.member("billing", 2)
    hit.owned.append((now_ns(), frozenset()))
    effect = fault.inject([hit])  # type: ignore[list-item]
    assert fault.heal([hit], effect)[1].proof.endswith("; no partition was owned")  # type: ignore[list-item]


def test_pause_counts_what_was_owned_when_it_took_effect() -> None:
    """Whatever was assigned between the request and SIGSTOP, and nothing after it."""
    groups = FakeGroups()
    fault, hit = made("pause", groups), groups.member("billing", 2)
    hit.owned[:] = [(now_ns(), frozenset())]
    effect = fault.inject([hit])  # type: ignore[list-item]
    assert effect.effective_ns is not None
    hit.owned.append((effect.effective_ns, frozenset({TopicPartition("bills", 0)})))
    hit.owned.append((effect.effective_ns + 1, frozenset()))
    _, after = fault.heal([hit], effect)  # type: ignore[list-item]
    said(".*; its partition had no new owner by the heal", after)


@pytest.mark.parametrize("name", ["pause", "kill", "stop", "join"])
def test_proof_says_nothing_of_partitions_in_a_share_group(name: str) -> None:
    """Its members never report any, not even when they end."""
    groups = FakeGroups()
    groups.deals = False
    fault, hit = made(name, groups), groups.member("billing", 4 if name == "join" else 2)
    hit.owned.clear()
    effect = fault.inject([hit])  # type: ignore[list-item]
    healed, after = fault.heal([hit], effect)  # type: ignore[list-item]
    assert healed is not None and after.confirmed and "partition" not in after.proof


def test_slow_proof_reports_processing_time_per_record() -> None:
    """Each at the beginning, each over the whole time, and that it is over."""
    groups = FakeGroups()
    fault, hit = made("slow", groups), groups.made[:2]
    effect = fault.inject(hit)  # type: ignore[arg-type]
    each = r"member {} of billing took 50\.0 ms for each of \d+ records"
    both = f"{each.format(1)}; {each.format(2)}"
    said(both, effect)
    _, after = fault.heal(hit, effect)  # type: ignore[arg-type]
    said(f"{both}; {both}; set back to their normal pace", after)
    assert after.confirmed


class Thorough(FakeMember):
    """Works on each record for 8 s, whatever its pace."""

    def work(self, ms: int | None) -> None:
        super().work(ms)
        if self.pace_report is not None:
            self.pace_report = FakePaceReport(self.pace, 1, 8 * 10**9)


def test_slow_counts_from_the_beginning_of_the_first_slow_record() -> None:
    """Not from its end, 8 s later, when it is known. If none follows, the proof has it once."""
    groups = FakeGroups()
    groups.made[0] = long = Thorough(1, groups=groups)
    before, fault = now_ns(), made("slow", groups)
    effect = fault.inject([long])  # type: ignore[list-item]
    assert effect.confirmed and effect.effective_ns is not None
    assert before <= effect.effective_ns + 8 * 10**9 <= now_ns()
    _, after = fault.heal([long], effect)  # type: ignore[list-item]
    assert after.proof.count("member 1 of billing took 8,000.0 ms for one record") == 1


def test_member_that_stays_slow_is_reported() -> None:
    """Reported as it is, after ten seconds."""
    groups = FakeGroups()
    fault, hit = made("slow", groups), groups.made[:1]
    clock = fault.scene.clock
    effect = fault.inject(hit)  # type: ignore[arg-type]
    assert clock.now() == 1000, "who answers at once is not waited for"
    hit[0].stubborn = True
    assert fault.heal(hit, effect)[1].proof.endswith("; not set back to their normal pace")  # type: ignore[arg-type]
    assert clock.now() == pytest.approx(1010, abs=0.1)


class Mute(FakeMember):
    """Says nothing of its pace until it is let."""

    speaks = False

    def work(self, ms: int | None) -> None:
        if self.speaks:
            super().work(ms)


def test_member_without_a_pace_report_is_not_effective() -> None:
    """And goes back to no pause at all, since it never told of one."""
    groups = FakeGroups()
    groups.made[1] = mute = Mute(2, groups=groups)
    fault = made("slow", groups)
    effect = fault.inject([mute])  # type: ignore[list-item]
    # Ten seconds for what it does now, and as long for what it does then.
    assert fault.scene.clock.now() == pytest.approx(1020, abs=0.2)
    nothing = "member 2 of billing has processed no record at that pace"
    assert effect == Effect(None, False, f"set to 50 ms for each record: {nothing}")
    mute.speaks = True
    fault.heal([mute], effect)  # type: ignore[list-item]
    assert mute.pace == 0


class Hesitant(FakeMember):
    """Answers some looks late: until then there is what it said before."""

    looks = 0
    told: FakePaceReport | None = None
    next: FakePaceReport | None = None

    @property  # type: ignore[override]
    def pace_report(self) -> FakePaceReport | None:
        self.looks += 1
        if self.looks > 3:
            self.told = self.next
        return self.told

    @pace_report.setter
    def pace_report(self, said: FakePaceReport | None) -> None:
        self.looks, self.next = 0, said


def test_stale_pace_report_is_ignored() -> None:
    """It was slow at the injection and is not at the heal: its new answer is what counts."""
    groups = FakeGroups()
    groups.made[1] = late = Hesitant(2, groups=groups)
    fault = made("slow", groups)
    effect = fault.inject([late])  # type: ignore[list-item]
    assert effect.confirmed, effect.proof
    late.brisk = True
    assert not fault.heal([late], effect)[1].confirmed  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("pace_report", "slow"),
    [
        (None, False),
        (FakePaceReport(50, 0, 0), False),
        (FakePaceReport(50, 2, 100_000_000), True),
        (FakePaceReport(50, 2, 99_999_999), False),
        (FakePaceReport(80, 2, 200_000_000), False),
    ],
)
def test_slow_requires_the_configured_pace_on_average(pace_report: Any, slow: bool) -> None:
    """At the pace that was asked for, on average, and seen on a record."""
    assert slows(pace_report, 50) is slow


def owned(*changes: tuple[int, str]) -> list[tuple[int, frozenset[tuple[str, int]]]]:
    """`(5, "01")`: from 5 ns on partitions 0 and 1."""
    return [(at_ns, frozenset(("orders", int(p)) for p in digits)) for at_ns, digits in changes]


@pytest.mark.parametrize(
    ("others", "since_ns", "given"),
    [
        ([owned((1, "2"), (20, "012"))], 10, 20),
        ([owned((1, "2"), (20, "02")), owned((1, "3"), (30, "13"))], 10, 30),
        ([owned((1, "2"), (20, "02"), (25, "2")), owned((1, "3"), (30, "13"))], 10, None),
        ([owned((1, "2"), (20, "02"))], 10, None),
        ([owned((1, "012"))], 10, 10),
        ([owned((1, "012"), (20, ""))], 10, 10),
        ([owned((1, "012"), (5, "")), owned((1, ""), (40, "01"))], 10, 40),
        ([owned((10, "01"))], 10, 10),
        ([owned((1, "01"))], 10, 10),
        ([owned((1, "01"), (20, ""))], 10, 10),
        ([owned((9, "01"), (10, ""))], 10, None),
        ([], 10, None),
    ],
)
def test_takeover_time_is_when_others_own_all_partitions_at_once(
    others: list[list[tuple[int, frozenset[tuple[str, int]]]]], since_ns: int, given: int | None
) -> None:
    """Together, and at the same moment; what they had before does not count when they gave it up."""
    places = frozenset({("orders", 0), ("orders", 1)})
    assert taken_over_ns(places, since_ns, others) == given
