"""After which faults a cluster is not used again."""

from __future__ import annotations

import pytest

from kaput.scenario.builtin import builtin_names
from kaput.scenario.fault_kinds import PROTOCOL
from kaput.scenario.loader import load_builtin
from kaput.trials.warm import lasting_faults


@pytest.mark.parametrize("controllers", ["1", "3", "combined"])
def test_power_loss_is_lasting_only_on_combined_nodes(controllers: str) -> None:
    scenario = load_builtin("power-loss", [f"cluster.controllers={controllers}"])
    assert lasting_faults(scenario) == (["power-loss"] if controllers == "combined" else [])


@pytest.mark.parametrize("name", ["leader-disk-full-acks-1", "rolling-upgrade", "cpu-pressure"])
def test_lasting_faults_prevent_cluster_reuse(name: str) -> None:
    assert lasting_faults(load_builtin(name, [])) != []


def test_protocol_faults_are_not_lasting() -> None:
    scenarios = [load_builtin(name, []) for name in builtin_names()]
    held_up = [each for each in scenarios if PROTOCOL in {step.fault for step in each.faults}]
    assert held_up and not any(map(lasting_faults, held_up))
