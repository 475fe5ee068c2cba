"""The search as a whole, in a world without brokers: finds, shrinks, tells bugs apart, survives its end."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from fakes.trials import World, findings, has, lost
from kaput.errors import LabError
from kaput.evidence.findings_claims import FaultFindings
from kaput.evidence.folder import RunFolder
from kaput.scenario.timeline import step_id
from kaput.search.experiments import Experiments
from kaput.search.loading import from_text, load
from kaput.search.searching import FINAL_TRIES, Search, merged
from kaput.search.space import Choices, Space, time_in_words
from kaput.search.store import SearchSettings, SearchStore
from kaput.search.summary import lines
from kaput.search.symptoms import symptoms
from kaput.trials import batch
from kaput.trials.batch import Judged, Trial
from kaput.trials.scaling import scaled
from waiting import PATIENCE_S

SPACE = """\
version: 1
title: A space
base: leader-kill-acks-all
vary:
  faults:
    - {fault: [kill, stop, pause], target: [broker 1, broker 2], at: [1s, 8s], for: [4s, 16s]}
    - {fault: resize, target: topic orders, partitions: [13, 14], at: 3s, times: 1}
  settings:
    cluster.config.min.insync.replicas: [1]
    cluster.config.num.io.threads: [2, 4]
"""
SPACE_OF = from_text("mine", "mine.yaml", SPACE)
RATES = from_text(
    "mine",
    "mine.yaml",
    SPACE.replace("cluster.config.num.io.threads: [2, 4]", "workload.producers.0.rate: [300, 400, 500]")
    + "    workload.producers.0.payload-bytes: [100, 200, 300]\n",
)
SPACE_OF_NOTHING = Choices((), {})


def search(
    store: SearchStore, world: World, budget_s: float = 600, wanted: int | None = 1, space: Space = SPACE_OF
) -> None:
    experiments = Experiments(space, store, world.run, budget_s, lambda _: None)
    Search(experiments, wanted=wanted, publish=lambda find: f"find-{find.id}").run()


def new(folder: Path, seed: int = 1, together: int = 1) -> SearchStore:
    folder.mkdir(exist_ok=True)
    return SearchStore(folder, SearchSettings("mine", seed, together=together))


def loses(trial: Trial) -> bool:
    """With a stop and a resize, if one replica is enough."""
    scenario = trial.scenario
    return has(scenario, "stop", "resize") and scenario.cluster.config.get("min.insync.replicas") == 1


def test_bug_is_found_and_shrunk_to_its_minimal_choices(tmp_path: Path) -> None:
    store = new(tmp_path)
    search(store, World(loses))
    [find] = store.finds("found")
    assert sorted(step["fault"] for step in find.choices.steps) == ["resize", "stop"]
    needed = {key: value for key, value in find.choices.settings.items() if not key.endswith("messages")}
    assert needed == {"cluster.config.min.insync.replicas": 1}
    assert (find.symptom, find.rate.hits, find.rate.of) == ("lost:deposed-leader", 5, 5)
    messages = find.choices.settings["workload.producers.0.messages"]
    assert messages < SPACE_OF.scenario(find.choices).workload.producers[0].count * 100_000


@pytest.mark.parametrize(("helps", "steps"), [(True, 1), (False, 2)])
def test_steps_on_two_brokers_are_merged_if_that_reproduces(tmp_path: Path, helps: bool, steps: int) -> None:
    """A stop of brokers 1 and 2; once that was seen, of both at once as well, if that `helps`."""
    seen: list[Trial] = []

    def both(trial: Trial) -> bool:
        stopped = {step.target.text for step in trial.scenario.faults if step.fault == "stop"}
        if {"broker 1", "broker 2"} <= stopped:
            seen.append(trial)
            return True
        return helps and bool(seen) and "followers-of orders/0" in stopped

    text = SPACE.replace("[broker 1, broker 2]", "[broker 1, broker 2, followers-of orders/0]")
    store = new(tmp_path)
    search(store, World(both), space=from_text("mine", "mine.yaml", text), budget_s=6000)
    [find] = store.finds("found")
    assert len(find.choices.steps) == steps


def test_merged_steps_may_lose_messages_by_another_cause(tmp_path: Path) -> None:
    """The find is known by the cause of its smallest choices, and explains what it was first seen as."""

    def loss(trial: Trial) -> str | bool:
        stopped = {step.target.text for step in trial.scenario.faults if step.fault == "stop"}
        if {"broker 1", "broker 2"} <= stopped:
            return "deposed-leader"
        return bool(store.experiments("probe")) and "followers-of orders/0" in stopped and "leader-restarted"

    text = SPACE.replace("[broker 1, broker 2]", "[broker 1, broker 2, followers-of orders/0]")
    store = new(tmp_path)
    space = from_text("mine", "mine.yaml", text)
    search(store, World(loss), space=space, budget_s=6000)
    [find] = store.finds("found")
    assert (len(find.choices.steps), find.rate.hits) == (1, 5)
    assert (find.symptom, find.seen_as) == ("lost:leader-restarted", "lost:deposed-leader")
    assert "first seen as lost:deposed-leader" in "\n".join(lines(space, store))
    two = Choices((*find.choices.steps, *find.choices.steps), find.choices.settings)
    assert find.explains(["lost:deposed-leader"], two) and not find.explains(["lost:unexplained"], two)


def test_merged_steps_may_need_another_event_for_the_rest() -> None:
    """Two stops are two ISR changes; followers that stop at once may be one."""
    text = SPACE.replace("[broker 1, broker 2]", "[broker 1, broker 2, followers-of orders/0]").replace(
        "at: 3s, times: 1", "at: [{event: election}, {event: isr-shrink}, 3s]"
    )
    stops = [{"fault": "stop", "target": f"broker {n}", "at": "1s", "for": "4s"} for n in (1, 2)]
    resize = {"fault": "resize", "target": "topic orders", "partitions": 13, "at": {"event": "election"}}
    found = list(merged(from_text("mine", "mine.yaml", text), Choices((*stops, resize), {})))
    both = {**stops[0], "target": "followers-of orders/0"}
    other = {**resize, "at": {"event": "isr-shrink"}}
    assert [each.steps for each in found] == [(both, resize), (both, other)] * 2


def test_merged_steps_may_need_another_target_for_the_rest() -> None:
    """Both stopped at once, another broker leads."""
    text = SPACE.replace("[broker 1, broker 2]", "[broker 1, broker 2, followers-of orders/0]")
    stops = [{"fault": "stop", "target": f"broker {n}", "at": "1s", "for": "4s"} for n in (1, 2)]
    pause = {"fault": "pause", "target": "broker 1", "at": "8s", "for": "4s"}
    found = list(merged(from_text("mine", "mine.yaml", text), Choices((*stops, pause), {})))
    both = {**stops[0], "target": "followers-of orders/0"}
    others = [{**pause, "target": target} for target in ("broker 1", "broker 2", "followers-of orders/0")]
    assert [each.steps for each in found][:3] == [(both, other) for other in others]


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("2s", "2s"), ({"message": 500}, "message 500"), ({"event": "election"}, "election"),
        ({"event": "isr-shrink", "of": "orders/0", "nth": 2}, "isr-shrink of orders/0 number 2"),
        ({"event": "request", "api": "EndTxn", "after": "4s"}, "request of EndTxn after 4s"),
    ],
)  # fmt: skip
def test_time_of_a_step_in_words(at: object, words: str) -> None:
    assert time_in_words(at) == words


def test_shortened_find_that_reproduces_rarely_is_lengthened_again(tmp_path: Path) -> None:
    """Two tries of the shortened one showed the bug by luck, the five that measure its rate do not."""
    tries: Counter[str] = Counter()

    def rarely_if_short(trial: Trial) -> bool:
        stops = [step.for_ or 0 for step in trial.scenario.faults if step.fault == "stop"]
        if not stops or max(stops) >= 4000:
            return bool(stops)
        tries[trial.scenario.model_dump_json()] += 1
        return tries[trial.scenario.model_dump_json()] <= 2

    store = new(tmp_path)
    search(store, World(rarely_if_short))
    [find] = store.finds("found")
    [step] = find.choices.steps
    assert step["fault"] == "stop" and step["for"] in ("4s", "16s")
    assert (find.rate.hits, find.rate.of) == (5, 5)


def test_tries_of_what_cannot_share_a_cluster_are_played_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first question about a candidate takes three tries at least. Later ones end with their answer: two
    tries that show the symptom, though a third one was to be played with them. The rate is of tries alone.
    """
    monkeypatch.setattr(batch, "cores", lambda: 2)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    asked: list[int] = []
    world = World(lambda trial: has(trial.scenario, "protocol"))

    def play(trials: Iterable[Trial]) -> Iterator[Judged]:
        asked.append(0)
        for judged in world.run(trials):
            asked[-1] += 1
            yield judged

    store = new(tmp_path, together=3)
    experiments = Experiments(load("hanging-transaction"), store, play, 600, lambda _: None)
    Search(experiments, wanted=1, publish=lambda find: f"find-{find.id}").run()
    assert store.finds("found") and asked[:2] == [1, 3]
    assert asked[-FINAL_TRIES:] == [1] * FINAL_TRIES
    shown = Counter(each.choices.key for each in store.experiments("probe") if each.symptoms)
    assert Counter(shown.values()).keys() == {2, 3}


def test_durations_are_halved_while_the_bug_reproduces(tmp_path: Path) -> None:
    def long_stop(trial: Trial) -> bool:
        return any(step.fault == "stop" and (step.for_ or 0) >= 3000 for step in trial.scenario.faults)

    store = new(tmp_path)
    search(store, World(long_stop))
    [step] = store.finds("found")[0].choices.steps
    assert step["for"] == "4s"
    assert step["at"] in ("500ms", "250ms", "1s")


def test_failed_shrink_step_is_tried_once(tmp_path: Path) -> None:
    def long_stop(trial: Trial) -> bool:
        return any(step.fault == "stop" and (step.for_ or 0) >= 3000 for step in trial.scenario.faults)

    store = new(tmp_path)
    search(store, World(long_stop))
    misses = Counter(each.choices.key for each in store.experiments("probe") if not each.symptoms)
    asked = {each.choices.key: each.choices for each in store.experiments("probe")}
    halved = {
        misses[key] for key, choices in asked.items() if choices.steps and choices.steps[0].get("for") == "2s"
    }
    assert halved == {1}
    assert max(misses.values()) > 1  # whether a fault is needed is a question of more weight


def test_same_seed_runs_the_same_experiments(tmp_path: Path) -> None:
    worlds = [World(loses), World(loses)]
    for number, world in enumerate(worlds):
        search(new(tmp_path / str(number), seed=7), world)
    first, second = ([(t.scenario, t.seed) for t in world.played] for world in worlds)
    assert first == second


@pytest.mark.parametrize("dies_after", [4, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 9, 15))])
def test_interrupted_search_resumes(tmp_path: Path, dies_after: int) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    at_once = World(loses)
    search(new(whole), at_once)
    world = World(loses, dies_after=dies_after)
    with pytest.raises(KeyboardInterrupt):
        search(new(parts), world)
    world.dies_after = None
    search(SearchStore(parts), world)
    assert [trial.scenario for trial in world.played] == [trial.scenario for trial in at_once.played]
    assert SearchStore(parts).finds("found") != []


def test_search_resumes_after_sigkill(tmp_path: Path) -> None:
    program = """
        import os, signal, sys
        from pathlib import Path
        from fakes.trials import World
        from unit.search.test_searching import loses, new, search
        world = World(loses)
        def fatal(trial):
            if len(world.played) == 7:
                os.kill(os.getpid(), signal.SIGKILL)
            return loses(trial)
        world.loses = fatal
        search(new(Path(sys.argv[1])), world)
    """
    tests = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)], check=False, cwd=tests,
        env={"PYTHONPATH": tests, "PATH": ""}, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == -9
    store, world = SearchStore(tmp_path), World(loses)
    kept = len(store.experiments())
    assert kept == 6
    search(store, world)
    assert len(store.finds("found")) == 1
    at_once = World(loses)
    search(new(tmp_path / "whole"), at_once)
    assert [t.scenario for t in world.played] == [t.scenario for t in at_once.played[kept:]]


def test_second_bug_is_found_and_repeats_are_not_new_finds(tmp_path: Path) -> None:
    def two_bugs(trial: Trial) -> bool:
        return loses(trial) or has(trial.scenario, "pause")

    store = new(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        search(store, World(two_bugs, dies_after=150), wanted=None)
    finds = store.finds("found")
    kinds = sorted(sorted(step["fault"] for step in find.choices.steps) for find in finds)
    assert kinds == [["pause"], ["resize", "stop"]]
    assert sum(find.again for find in finds) > 0


def test_candidates_explained_by_a_find_are_not_pursued(tmp_path: Path) -> None:
    """Experiments of one batch show the same bug with other settings, before any of it is known."""

    def stopped(trial: Trial) -> bool:
        return has(trial.scenario, "stop")

    explained = 0
    for seed in (1, 2):
        store = new(tmp_path / str(seed), seed, together=6)
        with pytest.raises(KeyboardInterrupt):
            search(store, World(stopped, dies_after=60), wanted=None, space=RATES)
        [find] = store.finds("found")
        assert find.again >= len(store.finds("explained"))
        assert {each.find for each in store.experiments("probe", "final")} == {find.id}
        explained += len(store.finds("explained"))
    assert explained > 0


def test_search_stops_after_the_wanted_number_of_finds(tmp_path: Path) -> None:
    """Of one batch each may be one: the bug needs what differs between them."""

    def slow(trial: Trial) -> bool:
        return has(trial.scenario, "stop") and trial.scenario.workload.producers[0].rate in (300, 400, 500)

    store = new(tmp_path, 2, together=6)
    search(store, World(slow), wanted=1, space=RATES)
    assert len(store.finds("found")) == 1
    assert store.finds("candidate")
    assert {each.find for each in store.experiments("probe", "final")} == {1}


class OneMisses(World):
    """The first step of each trial takes effect; the second has no record."""

    def run(self, trials: Iterable[Trial]) -> Iterator[Judged]:
        for trial in trials:
            self.played.append(trial)
            step = trial.scenario.faults[0]
            worked = FaultFindings(
                id=step_id(1, step), fault=step.fault, target=step.target.text, brokers=[1], bit=True,
                proof="", injected_ns=5, effective_ns=6, healed_ns=9,
            )  # fmt: skip
            yield Judged(trial, None, findings(faults=[worked]), None, 1.0)


def test_steps_without_effect_are_remembered_and_optional_in_the_scenario(tmp_path: Path) -> None:
    """By their place; a search judges them as steps that were not there."""
    store, world = new(tmp_path), OneMisses(lambda _: False)
    steps = [
        {"fault": fault, "target": f"broker {n}", "at": "1s"} for n, fault in ((1, "kill"), (2, "pause"))
    ]
    experiments = Experiments(SPACE_OF, store, world.run, 600, lambda _: None)
    (done,) = experiments.run([store.begin("draw", Choices(tuple(steps), {}), 1)])
    assert done.missed == (1,)
    assert [step.optional for step in world.played[0].scenario.faults] == [True, True]
    assert not any(step.optional for step in SPACE_OF.scenario(done.choices).faults)  # as it is published


def test_experiments_on_a_shared_cluster_differ_only_in_workload(tmp_path: Path) -> None:
    text = SPACE.replace("  settings:", "  settings:\n    workload.producers.0.rate: [100, 200, 300]")
    store, world = new(tmp_path, together=3), World(lambda _: False, dies_after=9)
    with pytest.raises(KeyboardInterrupt):
        search(store, world, space=from_text("mine", "mine.yaml", text))
    for first in (0, 3, 6):
        batch = world.played[first : first + 3]
        assert len({(t.seed, str(t.scenario.faults), str(t.scenario.cluster)) for t in batch}) == 1
        assert len({str(t.scenario.workload) for t in batch}) == 3


@pytest.mark.parametrize(("together", "calls"), [(4, 1), (2, 2), (1, 3)])
def test_repeated_tries_share_a_cluster(tmp_path: Path, together: int, calls: int) -> None:
    """Whether it shows without any fault takes three tries to deny."""

    class Calls(World):
        def run(self, trials: Iterable[Trial]) -> Iterator[Judged]:
            began.append(len(self.played))
            yield from super().run(trials)

    began: list[int] = []
    world = Calls(lambda trial: bool(trial.scenario.faults))
    search(new(tmp_path, together=together), world)
    without = [number for number, trial in enumerate(world.played) if not trial.scenario.faults]
    assert len(without) == 3
    assert len({sum(call <= number for call in began) for number in without}) == calls


def test_final_confirmation_uses_unscaled_times(tmp_path: Path) -> None:
    store, world = SearchStore(tmp_path, SearchSettings("mine", 1, scale=0.5)), World(loses)
    search(store, world)
    finals = {f"mine-{each.id}" for each in store.experiments("final")}
    sessions = {
        (
            trial.name in finals,
            trial.scale,
            scaled(trial.scenario, trial.scale).cluster.config.get("broker.session.timeout.ms"),
        )
        for trial in world.played
    }
    assert sessions == {(False, 0.5, 4500), (True, 1.0, None)}


def test_candidate_that_does_not_reproduce_is_rejected(tmp_path: Path) -> None:
    shown: list[Trial] = []

    def once(trial: Trial) -> bool:
        shown.append(trial)
        return len(shown) == 3

    store, world = new(tmp_path), World(once)
    world.dies_after = 20
    with pytest.raises(KeyboardInterrupt):
        search(store, world)
    assert [find.state for find in store.finds()] == ["rejected"]


def test_search_without_finds_ends_with_its_budget(tmp_path: Path) -> None:
    store, world = new(tmp_path), World(lambda _: False)
    search(store, world, budget_s=0.3, wanted=None)
    assert store.finds() == []
    assert world.played


def test_repeated_lab_errors_end_the_search(tmp_path: Path) -> None:
    class Broken(World):
        def run(self, trials):  # type: ignore[no-untyped-def]
            for trial in trials:
                yield Judged(trial, None, None, "no broker came up", 1.0)

    with pytest.raises(LabError, match="no broker came up"):
        search(new(tmp_path), Broken(loses))


def test_hangs_and_fatal_broker_errors_are_symptoms(tmp_path: Path) -> None:
    trial = Trial("x", SPACE_OF.scenario(SPACE_OF_NOTHING), 1)
    group = {"group": "g", "drained": False, "delivered_messages": 0, "fates": []}
    hanging = Judged(trial, None, findings("inconclusive", groups=[group]), None, 1.0)
    assert [each.key for each in symptoms(hanging)] == ["hang:not-drained"]
    log = tmp_path / "brokers" / "1" / "server.log"
    log.parent.mkdir(parents=True)
    log.write_text(
        "[2026-01-01 00:00:00,000] ERROR Encountered fatal fault: Error replaying (o.a.k.Fault)\n"
        "java.lang.IllegalStateException: no\n\tat x\n"
    )
    fatal = Judged(trial, RunFolder(tmp_path), findings(), None, 1.0)
    assert [each.key for each in symptoms(fatal)] == ["fatal:IllegalStateException"]
    assert [each.key for each in symptoms(Judged(trial, None, lost("unexplained"), None, 1))] == [
        "lost:unexplained"
    ]
