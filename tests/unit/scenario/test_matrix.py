"""Matrices: every cell is an ordinary scenario, chosen by its labels, and repeated by its command."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from kaput.core import NEWEST_KAFKA
from kaput.errors import UsageError
from kaput.scenario.loader import load
from kaput.scenario.matrix import chosen, load_matrix

SMALL = """
version: 1
title: Small
set: {expect: {}}
vary:
  acks: {key: workload.producers.0.acks, values: [1, all]}
faults:
  crash: {scenario: leader-kill-acks-1, set: {faults.0.for: 12s}}
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A matrix of two cells."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def test_default_matrix_crosses_every_fault_with_every_setting() -> None:
    """Neighbors share a fault, so that they can share a cluster."""
    matrix, cells = load_matrix(None)
    assert [cell.fault for cell in cells] == [fault for fault in matrix.faults for _ in range(12)]
    assert len({cell.selector for cell in cells}) == len(cells) == 120
    assert all(cell.scenario.cluster.kafka == NEWEST_KAFKA for cell in cells)
    assert {spec.acks for cell in cells for spec in cell.scenario.workload.producers} == {"0", "1", "all"}


def test_cell_command_reproduces_the_cell_scenario() -> None:
    """So whoever doubts a number can run it alone."""
    for cell in load_matrix(None)[1][::12]:
        words = shlex.split(cell.command)
        assert words[:2] == ["kaput", "run"]
        assert load(words[2], words[4::2])[1] == cell.scenario


def test_single_value_setting_is_not_part_of_cell_name(small: Path) -> None:
    """It tells no cells apart; --vary gives it more values, or adds a setting."""
    changes = ["cluster.kafka=3.9.2", "cluster.kafka=4.3.1", "workload.producers.0.acks=0"]
    _, cells = load_matrix(small, changes)
    assert [cell.selector for cell in cells] == [
        "fault=crash,cluster.kafka=3.9.2",
        "fault=crash,cluster.kafka=4.3.1",
    ]
    assert [cell.scenario.cluster.kafka for cell in cells] == ["3.9.2", "4.3.1"]
    assert [cell.changes["workload.producers.0.acks"] for cell in cells] == [0, 0]


def test_cells_are_selected_by_labels_and_patterns() -> None:
    """All terms of one selector must hold, of several selectors any."""
    cells = load_matrix(None)[1]
    found = chosen(cells, ["fault=crash*,acks=1,min-isr=2", "fault=power-loss,acks=all,unclean=off"])
    assert [cell.selector for cell in found] == [
        "fault=crash,acks=1,min-isr=2,unclean=off",
        "fault=crash,acks=1,min-isr=2,unclean=on",
        "fault=crash-lagging,acks=1,min-isr=2,unclean=off",
        "fault=crash-lagging,acks=1,min-isr=2,unclean=on",
        "fault=power-loss,acks=all,min-isr=1,unclean=off",
        "fault=power-loss,acks=all,min-isr=2,unclean=off",
    ]
    assert chosen(cells, [cells[17].selector]) == [cells[17]]


@pytest.mark.parametrize(
    ("selector", "says"),
    [
        ("ack=1", "did you mean acks"),
        ("acks=2", "no cell has acks=2"),
        ("crash", "'crash' is not LABEL=VALUE"),
    ],
)
def test_selector_without_matches_is_a_usage_error(selector: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        chosen(load_matrix(None)[1], [selector])


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "scenario: leader",
            "scenario: lader",
            "faults.crash.scenario: no scenario named lader-kill-acks-1",
        ),
        ("faults.0.for", "faults.0.four", "faults.crash: --set faults.0.four=12s: no such key"),
        ("values: [1, all]", "values: [1, most]", "workload.producers.0.acks=most"),
        ("title: Small", "titel: Small", r"small.yaml:3: titel"),
    ],
)
def test_matrix_file_errors_are_reported_with_their_path(small: Path, old: str, new: str, says: str) -> None:
    small.write_text(SMALL.replace(old, new))
    with pytest.raises(UsageError, match=says):
        load_matrix(small)
