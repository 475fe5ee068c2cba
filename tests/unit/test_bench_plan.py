"""The plan of a made run: its counts add up, and where there is no room it says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fakes.kinds_of_anomalies import (
    NOT_PLANTED,
    OF_MIRRORS,
    OF_SETTINGS,
    OF_SHARE_GROUPS,
    OF_TRANSACTIONS,
    PLANTED,
)
from fakes.program import app
from kaput.bench.generate import shape_of
from kaput.bench.plan import EFFECTS, BatchTable, PlantingPlan, PlantKind, Shape
from kaput.errors import UsageError
from kaput.scenario.anomalies import ANOMALIES, GROUP_ANOMALIES, RUN_ANOMALIES


def test_every_kind_has_an_effect() -> None:
    """Nothing is planted that needs share groups, transactions, mirrors or settings of topics."""
    assert set(EFFECTS) == set(PlantKind)
    assert {name for effect in EFFECTS.values() for name in effect.run} <= set(RUN_ANOMALIES)
    assert {name for effect in EFFECTS.values() for name in effect.group} <= set(GROUP_ANOMALIES)
    assert not PLANTED & (OF_SHARE_GROUPS | OF_TRANSACTIONS | OF_MIRRORS | OF_SETTINGS)


@pytest.mark.parametrize("uneven", [False, True])
def test_expected_counts_add_up(uneven: bool) -> None:
    """Every message has one fate, in the run and in each group; every anomaly is planted at least once."""
    plan = PlantingPlan(shape_of(20_000, 6, 5, 3, seed=4, uneven=uneven, slab_messages=3_000), 0.0005)
    expected = plan.expected()
    assert sum(expected["fates"].values()) == expected["sent"] == 20_000 == sum(plan.shape.counts)
    assert list(expected["anomalies"]) == list(ANOMALIES)
    assert all((count > 0) != (name in NOT_PLANTED) for name, count in expected["anomalies"].items())
    assert expected["verdict"] == "violated"
    for group in expected["groups"].values():
        assert sum(group["fates"].values()) == 20_000
        assert all((count > 0) != (name in NOT_PLANTED) for name, count in group["anomalies"].items())
    assert expected["fates"]["acked/0"] == expected["anomalies"]["lost"]
    assert expected["fates"]["acked/n"] == expected["anomalies"]["duplicate"]


def test_the_same_seed_makes_the_same_plan() -> None:
    """And another seed another one."""
    plans = [PlantingPlan(shape_of(20_000, 6, 5, 1, seed), 0.0005) for seed in (1, 1, 2)]
    assert np.array_equal(plans[0].plants.batch, plans[1].plants.batch)
    assert not np.array_equal(plans[0].plants.batch, plans[2].plants.batch)


def test_slabs_hold_every_message_once() -> None:
    """Also where producers end at different times, in the middle of a batch."""
    shape = Shape(counts=(1, 77, 300), partitions=4, groups=0, seed=0, batch=8, width=80)
    seen: set[tuple[int, int]] = set()
    for slab in range(shape.slabs):
        batches = BatchTable(shape, slab)
        for producer, number, size in zip(batches.producer, batches.number, batches.size, strict=True):
            found = {(int(producer), int(number) * 8 + i) for i in range(size)}
            assert not seen & found
            seen |= found
    assert seen == {(producer, seq) for producer, count in enumerate(shape.counts) for seq in range(count)}


def test_plants_do_not_share_a_batch() -> None:
    """And each of them is in the slab that is given it."""
    plan = PlantingPlan(shape_of(20_000, 3, 2, 2, seed=1, slab_messages=3_000), 0.001)
    places = list(zip(plan.plants.producer.tolist(), plan.plants.batch.tolist(), strict=True))
    assert len(set(places)) == len(places)
    given = [plan.plants_of(number) for number in range(plan.shape.slabs)]
    assert sum(len(plants.kind) for plants in given) == len(places)
    for number, plants in enumerate(given):
        assert set(plants.batch * plan.shape.batch // plan.shape.width) <= {number}


def test_a_clean_plan_holds() -> None:
    """Nothing planted: every message acknowledged, stored and delivered once."""
    expected = PlantingPlan(shape_of(1_000, 3, 2, 1, seed=0)).expected()
    assert expected["fates"] == {"acked/1": 1_000}
    assert expected["groups"]["group-0"]["fates"] == {"acked/1/1": 1_000}
    assert set(expected["anomalies"].values()) == {0}
    assert expected["verdict"] == "held"


def test_too_few_messages_are_a_usage_error() -> None:
    """No room for what should be planted, or nothing to send for some producer."""
    with pytest.raises(UsageError, match="no room"):
        PlantingPlan(shape_of(100, 10, 1, 1, seed=0), 0.0001)
    with pytest.raises(UsageError, match="too few"):
        shape_of(9, 10, 1, 1, seed=0)


def test_invalid_options_are_rejected(tmp_path: Path) -> None:
    """Exit status 2, and nothing is made."""
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    taken = CliRunner().invoke(app, ["bench", "generate", str(tmp_path / "taken"), "--messages", "1000"])
    assert isinstance(taken.exception, UsageError) and "empty" in str(taken.exception)
    for wrong in (
        ["--messages", "0"],
        ["--messages", "many"],
        [],
        ["--messages", "9", "--anomaly-rate", "2"],
    ):
        done = CliRunner().invoke(app, ["bench", "generate", str(tmp_path / "new"), *wrong])
        assert done.exit_code == 2
    assert not (tmp_path / "new").exists()
    below_a_file = str(tmp_path / "taken" / "file" / "run")
    refused = CliRunner().invoke(app, ["bench", "generate", below_a_file, "--messages", "100000"])
    assert isinstance(refused.exception, UsageError), refused.exception
    assert str(refused.exception) == f"{below_a_file}: cannot be created (Not a directory)"
