"""The scenario in a run folder is read leniently: written by any version, yet right where it counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kaput.errors import EvidenceError
from kaput.scenario.builtin import builtin_names
from kaput.scenario.loader import load_builtin, read_resolved


def read(tmp_path: Path, document: Any) -> Any:
    """Writes the document as scenario.yaml, as kaput does, and reads it back."""
    path = tmp_path / "scenario.yaml"
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document, sort_keys=False))
    return read_resolved(path)


@pytest.mark.parametrize("name", builtin_names())
def test_recorded_builtin_scenario_round_trips(tmp_path: Path, name: str) -> None:
    """Every built-in, dumped and read; nothing of what was dumped is unknown to the model."""
    scenario = load_builtin(name)
    assert read(tmp_path, scenario.dump()) == scenario
    assert type(scenario).model_validate(scenario.dump()) == scenario


def test_unknown_keys_are_ignored_at_every_depth(tmp_path: Path) -> None:
    """Keys of a later version change nothing for this one."""
    scenario = load_builtin("noop")
    document = scenario.dump()
    document["later"] = {"a": [1]}
    document["cluster"]["later"] = 1
    document["topics"][0]["later"] = 1
    document["workload"]["producers"][1]["side-traffic"] = True
    document["faults"][0]["later"] = 1
    assert read(tmp_path, document) == scenario


def test_numbers_of_members_are_read(tmp_path: Path) -> None:
    """kaput writes them as texts, others as numbers."""
    document = load_builtin("noop").dump()
    group = {"id": "g", "topics": ["orders"], "member-config": {2: {"client.rack": "b"}}, "later": {1: 1}}
    document["workload"]["groups"] = [group]
    (found,) = read(tmp_path, document).workload.groups
    assert found.member_config == {2: {"client.rack": "b"}}


def test_unreadable_faults_and_expectations_are_skipped(tmp_path: Path) -> None:
    """An unknown fault keeps its name; a step or expectation that makes no sense here is left out."""
    document = load_builtin("noop").dump()
    document["faults"] = [
        {"at": "whenever", "fault": "kill", "target": "broker 1"},
        {"at": "1s", "fault": "isolate", "target": "leader-of orders/0", "extra": 1},
        {"at": "1s", "fault": "kill", "target": "rack-of b"},
    ]
    document["expect"] = {"verdict": "held", "lost": "about 5", "unseen": 0}
    found = read(tmp_path, document)
    assert [(number, step.fault, step.at) for number, step in found.numbered_faults()] == [
        (2, "isolate", "1s")
    ]
    assert list(found.unreadable_steps) == [1, 3]
    first, third = found.unreadable_steps.values()
    assert "faults.0.at" in first and "whenever" in first and "faults.2.target" in third
    assert (found.expect.verdict, found.expect.lost, found.expect.unseen) == ("held", None, 0)
    assert found.expect.unreadable == {"lost": "about 5"}


@pytest.mark.parametrize(
    ("expect", "unreadable"),
    [
        ({"lost": 0, "losst": 0}, {"losst": "0"}),
        ({1: 2, "unavailable_ms": 5}, {"1": "2"}),
        (["lost"], {"expect": "['lost']"}),
        (None, {}),
        ({}, {}),
    ],
)
def test_expectations_that_cannot_be_read_are_kept_apart(
    expect: Any, unreadable: dict[str, str], tmp_path: Path
) -> None:
    """None is left out without a word, and none is of the next scenario."""
    document = load_builtin("noop").dump() | {"expect": expect}
    assert read(tmp_path, document).expect.unreadable == unreadable
    assert load_builtin("noop").expect.unreadable == {}


def test_missing_title_and_unsupported_mode_are_readable(tmp_path: Path) -> None:
    document = load_builtin("noop").dump()
    del document["title"]
    document["cluster"] |= {"mode": "zookeeper", "network": "namespaces"}
    found = read(tmp_path, document)
    assert (found.title, found.cluster.mode) == ("", "zookeeper")


def test_recorded_scenario_is_not_cross_checked(tmp_path: Path) -> None:
    """What was recorded has happened; whether it could be run again is not asked."""
    document = load_builtin("noop").dump()
    document["cluster"]["brokers"] = 1
    assert read(tmp_path, document).cluster.brokers == 1


def test_invalid_values_are_evidence_errors_with_file_and_line(tmp_path: Path) -> None:
    """All of them, at their lines; dropping unknown keys does not move them."""
    text = "version: 1\nlater: 1\ntopics:\n  - name: a\n    partitions: x\n"
    text += "workload:\n  producers:\n    - acks: 5\n"
    with pytest.raises(EvidenceError) as caught:
        read(tmp_path, text)
    path = tmp_path / "scenario.yaml"
    assert str(caught.value).splitlines() == [
        f"{path}:5: topics.0.partitions: 'x' is not valid here; write a whole number",
        f"{path}:8: workload.producers.0.topic: missing",
        f"{path}:8: workload.producers.0.acks: '5' is not valid here; write 0, 1 or all",
    ]


@pytest.mark.parametrize("text", ["", "a: [", "- 1\n", "version: 9\ntopics: []\n"])
def test_malformed_scenario_is_an_evidence_error(tmp_path: Path, text: str) -> None:
    """Named by file; never a guess."""
    with pytest.raises(EvidenceError, match=r"scenario\.yaml"):
        read(tmp_path, text)


def test_missing_file_is_an_evidence_error(tmp_path: Path) -> None:
    """The caller decides whether that matters."""
    with pytest.raises(EvidenceError, match=r"scenario\.yaml: no such file"):
        read_resolved(tmp_path / "scenario.yaml")
