"""kaput matrix and kaput regress without brokers: what is done, what is left, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import JsonValue
from typer.testing import CliRunner

from fakes.program import app
from kaput.cli import regress
from kaput.cli.trials import TrialBudget, key_of, not_judged, play
from kaput.errors import UsageError
from kaput.evidence.folder import Manifest, RunFolder
from kaput.scenario.matrix import chosen, load_matrix
from kaput.scenario.overrides import for_every
from kaput.trials.batch import Trial
from unit.report.handmade_findings import anomaly, document

CELL = "fault=crash,acks=1,min-isr=1,unclean=off"


def judged(
    runs: Path,
    name: str,
    changes: Mapping[str, JsonValue],
    lost: int = 0,
    verdict: str = "held",
    seed: int = 1,
) -> None:
    """Writes the findings of such a run."""
    raw = document()
    raw["run"] |= {"scenario": name, "varied": dict(changes), "seed": seed}
    raw["verdict"] = verdict
    anomaly(raw, "lost")["count"] = lost
    folder = runs / f"run-{len(list(runs.glob('*')))}"
    folder.mkdir()
    (folder / "findings.json").write_text(json.dumps(raw))


def call(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(args))
    return result.exit_code, result.stdout


@pytest.mark.parametrize(("verdict", "status"), [("held", 0), ("violated", 1), ("inconclusive", 3)])
def test_matrix_is_computed_from_matching_run_folders(tmp_path: Path, verdict: str, status: int) -> None:
    """Nothing is played with --budget 0s; a run of other settings is not the cell's."""
    (cell,) = chosen(load_matrix(None)[1], [CELL])
    judged(tmp_path, cell.scenario_name, cell.changes, lost=3, verdict=verdict)
    judged(tmp_path, cell.scenario_name, {**cell.changes, "faults.0.for": "30s"}, lost=9)
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "findings.json").write_text('{"schema": "kap')
    args = [
        "matrix",
        "--default",
        "--cells",
        CELL,
        "--runs",
        str(tmp_path),
        "--resume",
        "--budget",
        "0s",
        "--json",
    ]
    exit_code, text = call(*args)
    (found,) = json.loads(text)
    assert exit_code == status
    assert [(one["lost"], one["verdict"]) for one in found["runs"]] == [(3, verdict)]


def test_existing_runs_are_continued_only_with_resume(tmp_path: Path) -> None:
    """Or another matrix in the same directory would be taken for this one."""
    (cell,) = chosen(load_matrix(None)[1], [CELL])
    trials = [Trial(cell.scenario_name, cell.scenario, seed, cell.changes) for seed in (1, 2)]
    judged(tmp_path, cell.scenario_name, cell.changes)
    with pytest.raises(UsageError, match=r"1 of these runs .* --resume continues"):
        play(trials, tmp_path, "0s", resume=False, title="matrix")
    done = play(trials, tmp_path, "0s", resume=True, title="matrix").runs
    assert [key_of(trial) in done for trial in trials] == [True, False]


def test_versions_alternate_in_order_with_the_same_seed() -> None:
    """A B, then B A, with the same seed: what drifts on the machine affects both."""
    made = regress._trials(["4.0.2", "4.3.1"], ["noop"], [], ["workload.producers.0.messages=100"], 2)
    assert [(side, trial.seed) for side, trial in made] == [
        ("4.0.2", 1), ("4.3.1", 1), ("4.3.1", 2), ("4.0.2", 2)
    ]  # fmt: skip
    assert [trial.scenario.cluster.kafka for _, trial in made] == ["4.0.2", "4.3.1", "4.3.1", "4.0.2"]
    assert made[0][1].labels == {"expect": {}, "workload.producers.0.messages": 100, "cluster.kafka": "4.0.2"}


def test_space_draws_the_same_experiment_for_both_versions() -> None:
    """And another experiment with each seed."""
    made = regress._space_trials(["4.0.2", "4.3.1"], "last-replica-standing", [], 2)
    assert [(side, trial.seed) for side, trial in made] == [
        ("4.0.2", 1), ("4.3.1", 1), ("4.3.1", 2), ("4.0.2", 2)
    ]  # fmt: skip
    faults = [trial.scenario.faults for _, trial in made]
    assert faults[0] == faults[1] and faults[2] == faults[3] and faults[0] != faults[2]
    assert [trial.scenario.cluster.kafka for _, trial in made[:2]] == ["4.0.2", "4.3.1"]


@pytest.mark.parametrize(
    ("text", "every"),
    [
        ("workload.producers.acks=1", ["workload.producers.0.acks=1", "workload.producers.1.acks=1"]),
        ("workload.producers.1.acks=1", ["workload.producers.1.acks=1"]),
        ("topics.config.min.insync.replicas=2", ["topics.0.config.min.insync.replicas=2"]),
        ("cluster.kafka=4.0.2", ["cluster.kafka=4.0.2"]),
    ],
)
def test_setting_without_an_index_applies_to_every_list_item(text: str, every: list[str]) -> None:
    """As a side of a regression is one setting, whatever scenario it meets."""
    data = {"workload": {"producers": [{}, {}]}, "topics": [{"config": {}}], "cluster": {}}
    assert for_every(text, data) == every


def test_a_regression_ends_with_status_1(tmp_path: Path) -> None:
    """With the page that names it; better is 0."""
    for side, lost in (("4.0.2", 0), ("4.3.1", 50)):
        for seed in range(1, 9):
            judged(tmp_path, "noop", {"expect": {}, "cluster.kafka": side}, lost=lost + seed, seed=seed)
    options = ["noop", "--repeat", "8", "--runs", str(tmp_path), "--resume", "--budget", "0s"]
    status, text = call("regress", "4.0.2", "4.3.1", *options)
    assert status == 1 and "noop, lost: 4.3.1 is worse" in text
    assert "kaput regress 4.0.2 4.3.1 noop --repeat 8" in text
    status, text = call("regress", "4.3.1", "4.0.2", *options)
    assert status == 0 and "No figure is significantly worse" in text


@pytest.mark.parametrize("sides", [["4.0.2"], ["4.0.2", "4.0.2"], ["noop", "4.0.2"]])
def test_regress_needs_two_different_versions(sides: list[str], tmp_path: Path) -> None:
    """A usage error, before anything starts."""
    with pytest.raises(UsageError, match="two or more different versions"):
        regress._split(sides)


def test_matrix_needs_a_file_or_default() -> None:
    """An overnight job does not begin by itself."""
    result = CliRunner().invoke(app, ["matrix"])
    assert "either FILE or --default" in str(result.exception)
    assert call("matrix", "--default", "--print-matrix")[1].startswith("version: 1\n")


def test_no_run_starts_that_would_exceed_the_budget() -> None:
    """As far as the longest one so far tells; what has begun is never cut off."""
    (cell,) = chosen(load_matrix(None)[1], [CELL])
    trials = [Trial(cell.scenario_name, cell.scenario, seed, cell.changes) for seed in (1, 2, 3)]
    clock = TrialBudget(budget_s=60)
    drawn = clock.in_time(trials)
    assert next(drawn) is trials[0]
    clock.longest_s = 30
    assert next(drawn) is trials[1]
    clock.longest_s = 61
    assert list(drawn) == []
    assert list(TrialBudget(budget_s=None).in_time(trials)) == trials


def test_completely_recorded_run_is_judged_and_not_repeated(tmp_path: Path) -> None:
    """What a kill during the judgement left; a run that was still being recorded is played anew."""
    (cell,) = chosen(load_matrix(None)[1], [CELL])
    trials = [Trial(cell.scenario_name, cell.scenario, seed, cell.changes) for seed in (1, 2, 3)]
    for seed, state in ((1, "sealed"), (2, "recording"), (3, "analysed"), (4, "sealed")):
        manifest = Manifest(
            run_id=uuid4(), scenario=cell.scenario_name, seed=seed, varied=dict(cell.changes), state=state
        )
        (tmp_path / f"run-{seed}").mkdir()
        RunFolder(tmp_path / f"run-{seed}").write_manifest(manifest)
    assert not_judged(trials, tmp_path) == {key_of(trials[0]): (trials[0], RunFolder(tmp_path / "run-1"))}
