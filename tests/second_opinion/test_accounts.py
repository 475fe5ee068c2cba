"""What is said of mirrors, plans, stores, resized topics, losses and expectations: none of it is false about
drawn histories, and each definition has a mutant that is called false.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from fakes.histories import History, at
from fakes.mirror_histories import HERE, THERE, two_clusters
from property.keepers import Keeper
from property.twins import SIDE_BY_SIDE, Twin, beside
from property.worlds import together
from second_opinion.accounts import Accounts
from second_opinion.copies import Copies
from second_opinion.judging import findings_of, timeline_of
from second_opinion.opinion import FALSE, TRUE, Examiner
from second_opinion.raw import Row
from second_opinion.timeline import Timeline

SEED = 144
RECORDED = Path(__file__).parents[1] / "recorded"


def _mirrors(first: int) -> History:
    return beside([Twin(SEED, first + number) for number in range(SIDE_BY_SIDE)])


def _stores(number: int) -> History:
    return together([Keeper(SEED, number) for number in range(number, number + 10)])


def _resized(number: int) -> History:
    """Two topics get more partitions; of one there may be no keys, and of both records of others."""
    random = Random(number)
    keys = (random.choice((2, 3, "producer", "seq")), random.choice((2, 5, "seq")), random.choice((2, "seq")))
    topics = ("orders", "orders", "other")
    history = History(
        producers=[{"topic": of, "acks": "all", "key": key} for of, key in zip(topics, keys, strict=True)],
        topics=[{"name": name} for name in ("orders", "other")],
        groups={"billing": True},
        expect={"lost": "<=50%", "slump": "<=1", "standstill-ms": "<=5", "stuck": 0, "nonsense": 1},
    )
    after = {name: random.choice((2, 3)) for name in ("orders", "other")}
    for number_, (name, partitions) in enumerate(after.items(), 1):
        step = {"fault": "resize", "target": f"topic {name}"}
        history.faults.append({"at": "1s", "partitions": partitions, **step})
        times = dict.fromkeys(("injected_ns", "effective_ns", "healed_ns"), at(100))
        history.add("faults", id=f"{number_}-resize", **step, **times, brokers=[], bit=True, proof="seen")
    ends: dict[tuple[str, int], int] = {}
    for seq in range(random.randint(3, 30)):
        for producer, name in enumerate(topics):
            partition = random.randrange(after[name])
            _message(history, random, producer, seq, {"topic": name, "partition": partition}, ends)
    return history.read_to_end()


def _message(
    history: History,
    random: Random,
    producer: int,
    seq: int,
    where: dict[str, Any],
    ends: dict[tuple[str, int], int],
) -> None:
    """It is lost, hidden or stored; or there is a record of another program in its place."""
    place = where["topic"], where["partition"]
    offset = ends.get(place, 0)
    ends[place] = offset + 1
    if random.random() < 0.05:
        history.stored(offset, None, None, **where)
        return
    times = {"attempt_ns": at(seq * 10), "done_ns": at(seq * 10 + 5)}
    history.sent(producer, seq, offset, **where, **times)
    if random.random() < 0.9:
        visible = random.random() < 0.9
        history.stored(offset, producer, seq, **where, visible=visible)
        if visible and random.random() < 0.8:
            history.handed(offset, producer, seq, 300 + random.randint(0, 50), **where)


DRAWN: dict[str, tuple[Callable[[int], History], int]] = {
    "a target that was not read": (_mirrors, 4),
    "lost at home after its mirror's end": (_mirrors, 20),
    "a mirror": (_mirrors, 0),
    "stores": (_stores, 500),
    "hidden messages of a key": (_resized, 4),
    "a partition with records of others": (_resized, 17),
    "keys": (_resized, 6),
}


_MADE = TemporaryDirectory(prefix="kaput-accounts-")  # removed when the worker ends


@cache
def judged(name: str) -> tuple[Examiner, Row]:
    """A drawn history, or a copy of a recorded one, as the second opinion reads it, and its findings."""
    folder = Path(_MADE.name) / name
    if name in DRAWN:
        make, number = DRAWN[name]
        make(number).write(folder)
    else:
        shutil.copytree(RECORDED / name, folder)
    return Examiner(folder), findings_of(folder)


@cache
def called_false(name: str) -> set[str]:
    """What is called false about it as it was judged."""
    return _false(*judged(name))


def _false(of: Examiner, found: Row) -> set[str]:
    """By the parts that examine accounts: the others have mutants of their own."""
    of.findings = found
    every = (one for part in (Accounts, Copies) for one in part(of).all())
    return {one.claim for one in every if one.verdict == FALSE}


def _is_an_account(claim: str) -> bool:
    """Not silences: drawn messages come before they are attempted."""
    words = ("mirror ", "plan: ", "kept", "store ", "resized ", "expect ", "losses ", "fault ")
    return claim.startswith(words)


@pytest.mark.parametrize("name", DRAWN)
def test_nothing_is_false_about_drawn_histories(name: str) -> None:
    examiner, found = judged(name)
    accounts = [one for one in examiner.opinions(found) if _is_an_account(one.claim)]
    assert [one for one in accounts if one.verdict == FALSE] == []
    assert any(one.verdict == TRUE for one in accounts)


@pytest.mark.parametrize("more", [0, 1000])
def test_messages_in_stores_over_time(more: int) -> None:
    """As the timeline shows them, and more of them."""
    examiner, found = judged("stores")
    examiner.findings = found
    shown = timeline_of(examiner.tables.folder, found)
    points = [one._replace(messages=one.messages + more) for one in shown.in_stores]
    every = Timeline(examiner, replace(shown, in_stores=points)).all()
    wrong = {one.verdict == FALSE for one in every if one.claim.startswith("timeline: in stores at")}
    assert wrong == {bool(more)}


def _more(part: str, field: str, by: float = 1) -> Callable[[Row], None]:
    """The field of the first row of a part that has it."""

    def change(found: Row) -> None:
        rows = found[part] if isinstance(found[part], list) else [found[part]]
        row = next(row for row in rows if row[field] is not None)
        row[field] += by

    return change


def _another(part: str, field: str, value: object) -> Callable[[Row], None]:
    def change(found: Row) -> None:
        (found[part][0] if isinstance(found[part], list) else found[part])[field] = value

    return change


def _continued_elsewhere(found: Row) -> None:
    step = next(one for one in found["plan"]["steps"] if " at 910" in one["proof"])
    step["proof"] = step["proof"].replace(" at 910", " at 911")


def _longer_rto(found: Row) -> None:
    found["plan"]["rto_writes"]["from_ns"] -= 1


def _another_rto_of_a_group(found: Row) -> None:
    found["plan"]["groups"][0]["rto"]["to_ns"] += 1


def _no_other_cause(found: Row) -> None:
    mirror = next(m for m in found["mirrors"] if m["causes"])
    mirror["causes"] = {"behind": mirror["unmirrored"], "stopped": 1}


def _all_delivered_later(found: Row) -> None:
    kept = found["kept"]
    kept["delivered_later"], kept["waiting"] = kept["delivered_later"] + kept["waiting"], 0


def _met(found: Row) -> None:
    next(row for row in found["expectations"] if row["met"] == "unmet")["found"] = 0


def _not_told(found: Row) -> None:
    found["expectations"] = [row for row in found["expectations"] if row["name"] != "nonsense"]


def _after_the_heal(found: Row) -> None:
    row = next(row for row in found["faults"] if row["lost"])
    row["lost_after_heal"] = row["lost"] + 1


def _a_longer_loss_window(found: Row) -> None:
    row = next(row for row in found["faults"] if row["lost"])
    row["first_lost_ack_ns"] -= 1_000_000
    row["loss_window_ms"] += 1


MUTANTS: dict[str, tuple[str, Callable[[Row], None]]] = {
    "RPO: a message more": ("lost at home after its mirror's end", _more("mirrors", "rpo_messages")),
    "RPO: older": ("a mirror", _more("mirrors", "rpo_s", 0.01)),
    "RPO of a target that was not read": (
        "a target that was not read",
        _another("mirrors", "rpo_messages", 0),
    ),
    "mirrored: one more": ("a mirror", _more("mirrors", "mirrored")),
    "mirrored twice: one more": ("a mirror", _more("mirrors", "mirrored_twice")),
    "in another order: one more": ("a mirror", _more("mirrors", "reordered")),
    "brought back: one more": ("a mirror", _more("mirrors", "looped")),
    "continued elsewhere": ("dc1-dies-and-returns", _continued_elsewhere),
    "another cause": ("a mirror", _no_other_cause),
    "it ended": ("mirror", _another("mirrors", "ended", "fault")),
    "it was restarted": ("dc1-dies-and-returns", _more("mirrors", "restarts")),
    "a longer lag": ("dc1-dies-and-returns", _more("mirrors", "lag_max")),
    "writes waited longer": ("dc1-dies-and-returns", _longer_rto),
    "reads waited longer": ("dc1-dies-and-returns", _another_rto_of_a_group),
    "moved from the other cluster": ("dc1-dies-and-returns", _another("plan", "source", "dc2")),
    "kept: one more": ("stores", _more("kept", "kept")),
    "nothing waits in a store": ("stores", _all_delivered_later),
    "in doubt: one more": ("stores", _more("kept", "in_doubt")),
    "lost after a replay": ("stores", _more("kept", "lost_after_replay")),
    "stored and left": ("stores", _more("kept", "stored_and_left")),
    "a key more": ("keys", _more("resized", "keys")),
    "a key moved": ("keys", _more("resized", "keys_moved")),
    "a partition more was written": ("keys", _more("resized", "partitions_written")),
    "an expectation is met": ("keys", _met),
    "an expectation is left out": ("keys", _not_told),
    "lost after the heal": ("unclean-election", _after_the_heal),
    "a longer loss window": ("leader-kill-lagging-acks-1", _a_longer_loss_window),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_statement_is_called_false(name: str) -> None:
    world, change = MUTANTS[name]
    examiner, right = judged(world)
    wrong = copy.deepcopy(right)
    change(wrong)
    assert wrong != right
    assert _false(examiner, wrong) - called_false(world)


def _switch(*steps: tuple[str, float, float], served_until: float = 10_000, stay: bool = False) -> History:
    """Two producers send to dc1 every 500 ms until `served_until`; from 12 s on they send to dc2, but for the
    second one if it is to `stay`. dc2 has broker 1001.
    """
    history = two_clusters()
    history.producers *= 2
    ends = {"dc1": 0, "dc2": 0}
    for number in range(40):
        ms = number * 500
        for producer in (0, 1):
            moved = ms >= 12_000 and not (stay and producer)
            if not moved and ms >= (20_000 if stay and producer else served_until):
                continue
            where = THERE if moved else HERE
            offset = ends["dc2" if moved else "dc1"]
            ends["dc2" if moved else "dc1"] += 1
            times = {"attempt_ns": at(ms), "done_ns": at(ms + 5)}
            history.sent(producer, number, offset, **where, **times).stored(offset, producer, number, **where)
    for number, (kind, begin, end) in enumerate(steps, 1):
        row = {"step": f"{number} {kind}", "kind": kind, "outcome": "done", "proof": "seen"}
        history.add("plan", started_ns=at(begin), ended_ns=at(end), **row)
        key = {"fence": {"cluster": "dc1"}, "promote": {"mirror": "dc1->dc2"}}.get(kind, {"to": "dc2"})
        history.plan.append({"step": kind, **key})
    return history


FENCE, MOVE = ("fence", 10_000, 10_200), ("move-producers", 10_300, 11_900)


@pytest.mark.parametrize(
    ("history", "waited"),
    [
        (_switch(FENCE, MOVE), (9_505, 12_005)),
        (_switch(FENCE, MOVE, served_until=6_000).fault(1, 6_000), (5_505, 12_005)),
        # Over, or without an effect on them, before they were moved.
        (_switch(FENCE, MOVE).fault(1, 3_000, 5_000), (9_505, 12_005)),
        (_switch(FENCE, MOVE).fault(1, 3_000, 15_000, fault="isolate"), (9_505, 12_005)),
        (_switch(FENCE, MOVE, served_until=6_000).fault(1, 2_000, 3_000).fault(1, 6_100), (5_505, 12_005)),
        # In the cluster that they are moved to.
        (_switch(FENCE, MOVE, served_until=6_000).fault(1001, 1_000, 2_000).fault(1, 6_000), (5_505, 12_005)),
        # The other producer stays.
        (_switch(("fence", 10_000, 11_600), MOVE, stay=True), (9_505, 12_005)),
        # A fence that comes later, and a switch in one step.
        (_switch(MOVE, ("fence", 13_000, 14_000)), (9_505, 12_005)),
        (_switch(("fail-back", 10_100, 14_000)), (9_505, 12_005)),
        (_switch(("promote", 10_000, 10_200)), None),
    ],
)
def test_writers_waited_from_their_own_last_acknowledgement(
    history: History, waited: tuple[float, float] | None, tmp_path: Path
) -> None:
    """Whatever hit one of the clusters before, and of those that moved."""
    run = history.read_to_end().write(tmp_path / "run").path
    found = findings_of(run)
    wait = found["plan"]["rto_writes"]
    expected = waited and (at(waited[0]), at(waited[1]))
    assert (wait and (wait["from_ns"], wait["to_ns"])) == expected
    assert _false(Examiner(run), found) == set()


def test_nothing_is_measured_of_acknowledgements_without_times(tmp_path: Path) -> None:
    """No rate, no slump and no standstill, and expectations of them are not met."""
    expect = {"slump": 0, "standstill-ms": "<5000", "stuck": 0, "ack-p99-ms": "<9", "lost": 0}
    history = History(producers=[{"topic": "orders", "acks": "all", "rate": 10}], expect=expect)
    for seq in range(60):
        history.acked(0, seq, seq, attempt_ns=at(seq * 100), done_ns=None)
    run = history.read_to_end().write(tmp_path / "run").path
    found = findings_of(run)
    assert _false(Examiner(run), found) == set()
    assert found["rates"]["slumps"] == found["rates"]["means"] == []
    assert "load" not in {claim["kind"] for claim in found["claims"]}
    unmet = {row["name"]: row["why"] for row in found["expectations"] if row["met"] == "unmet"}
    assert unmet == dict.fromkeys([*expect][:4], "not measured: acknowledgements have no times")
    assert found["verdict"] == "inconclusive"


def test_loss_acknowledged_after_the_heal_counts_whatever_its_cause(tmp_path: Path) -> None:
    """With acks=0, a fault is to blame for what was attempted during it; its client may say so later."""
    history = History(producers=[{"topic": "orders", "acks": "0"}]).led(1, 0, -1_000, [1])
    for seq, done in enumerate((10, 2_100, 2_110, 2_260, 3_010)):
        history.sent(0, seq, None, attempt_ns=at(seq * 750), done_ns=at(done))
    run = (
        history.fault(1, 700, 2_000)
        .stored(0, 0, 0)
        .stored(1, 0, 4)
        .read_to_end()
        .write(tmp_path / "run")
        .path
    )
    found = findings_of(run)
    assert (found["faults"][0]["lost"], found["faults"][0]["lost_after_heal"]) == (2, 2)
    assert _false(Examiner(run), found) == set()


def _deposed(epoch: int = 1) -> History:
    """Broker 1 acknowledges ten messages alone, of which broker 2 lacks four; broker 1 was seen to hold three
    of these, and broker 3 one. `epoch`: that of broker 2; of several, the first one had no leader.
    """
    history = History(producers=[{"topic": "orders", "acks": "1"}]).led(1, 0, -1_000, [1, 2, 3])
    for seq in range(6):
        history.acked(0, seq, seq, attempt_ns=at(seq * 100), done_ns=at(seq * 100 + 5))
    for seq in range(6, 10):
        history.sent(0, seq, seq, attempt_ns=at(seq * 100), done_ns=at(seq * 100 + 5))
        held = {
            "topic": "orders",
            "partition": 0,
            "producer": 0,
            "seq": seq,
            "offset": seq,
            "at_ns": at(2_000),
        }
        for broker in {6: (1, 3), 7: (1,), 8: (1,), 9: ()}[seq]:
            history.add("replica_log", broker=broker, leader_epoch=0, **held)
    if epoch > 1:
        history.led(-1, 1, 650, [1])
    history.led(2, epoch, 3_000, [2, 3]).fault(1, 1_000, 9_000)
    history.acked(0, 10, 6, attempt_ns=at(3_100), done_ns=at(3_105), leader_epoch=epoch)
    return history.read_to_end()


def test_what_was_acknowledged_before_a_leader_was_elected_is_not_after_the_election(tmp_path: Path) -> None:
    """The partition had none by then, and the broker that had led went on."""
    run = _deposed(epoch=2).write(tmp_path / "run").path
    found = findings_of(run)
    (change,) = (row for row in found["leader_changes"] if row["lost"])
    assert (change["deposed_acks"], change["deposed_acks_after_election"]) == (4, 0)
    assert _false(Examiner(run), found) == set()


def test_what_replicas_were_seen_to_hold(tmp_path: Path) -> None:
    """By broker, and on none; one more or less is called false."""
    run = _deposed().write(tmp_path / "run").path
    found = findings_of(run)
    (change,) = (row for row in found["leader_changes"] if row["lost"])
    assert (change["lost"], change["lost_seen"], change["lost_unseen"]) == (4, {"1": 3, "3": 1}, 1)
    assert _false(Examiner(run), found) == set()
    for field, value in (("lost_seen", {"1": 4}), ("lost_unseen", 0)):
        wrong = copy.deepcopy(found)
        next(row for row in wrong["leader_changes"] if row["lost"])[field] = value
        assert len(_false(Examiner(run), wrong)) == 1
