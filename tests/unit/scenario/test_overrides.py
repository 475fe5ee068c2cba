"""`--set` changes a scenario before it is checked, and its mistakes are named after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaput.errors import UsageError
from kaput.runner.folder_setup import resolved
from kaput.scenario.loader import load_builtin, load_file

NAME = "leader-kill-lagging-acks-1"


def test_override_values_are_parsed_as_yaml() -> None:
    """Numbers, words, lists and null, in mappings and in list positions."""
    scenario = load_builtin(
        NAME,
        [
            "workload.producers.0.acks=all",
            "workload.producers.0.messages=null",
            "workload.producers.0.duration=30s",
            "faults.1.for=12s",
            "tags=[a, b]",
        ],
    )
    producer = scenario.workload.producers[0]
    assert (producer.acks, producer.messages, producer.duration) == ("all", None, 30_000)
    assert scenario.faults[1].for_ == 12_000
    assert scenario.tags == ["a", "b"]


def test_dotted_config_names_are_kept_as_one_key() -> None:
    """Kafka's names have dots; they are not taken apart, whether there was a config before or not."""
    scenario = load_builtin(
        NAME,
        [
            "topics.0.config.min.insync.replicas=2",
            "cluster.config.log.segment.bytes=1048576",
            "workload.producers.0.config.linger.ms=5",
        ],
    )
    assert scenario.topics[0].config == {"min.insync.replicas": 2}
    assert scenario.cluster.config["log.segment.bytes"] == 1_048_576
    assert scenario.workload.producers[0].config == {"linger.ms": 5}


def _with_a_group(tmp_path: Path, more: str = "") -> Path:
    """A scenario whose group has two members, and `more`."""
    path = tmp_path / "a.yaml"
    path.write_text(
        "version: 1\ntitle: x\ntopics: [{name: a}]\nworkload:\n  producers: [{topic: a, messages: 1}]\n"
        f"  groups: [{{id: g, topics: [a], members: 2{more}}}]\n"
    )
    return path


def test_settings_and_version_of_one_member_are_changed(tmp_path: Path) -> None:
    """Members are by number; other settings of a member that the file has stay."""
    path = _with_a_group(tmp_path, ", member-config: {2: {fetch.max.bytes: 9000}}")
    group = load_file(
        path,
        [
            "workload.groups.0.member-config.2.fetch.min.bytes=7",
            "workload.groups.0.member-config.1.fetch.min.bytes=8",
            "workload.groups.0.member-versions.2=2.3.0",
        ],
    ).workload.groups[0]
    assert group.member_config == {
        2: {"fetch.max.bytes": 9000, "fetch.min.bytes": 7},
        1: {"fetch.min.bytes": 8},
    }
    assert group.member_versions == {2: "2.3.0"}


def test_settings_of_one_member_are_changed_in_the_scenario_of_a_run_too(tmp_path: Path) -> None:
    """It is written by way of JSON, where numbers that are keys are texts."""
    more = ", member-config: {2: {fetch.max.bytes: 9000}}, member-versions: {2: 2.2.0}"
    path = _with_a_group(tmp_path, more)
    path.write_text(resolved(load_file(path)))
    assert "'2':" in path.read_text()
    place = "workload.groups.0"
    changes = [f"{place}.member-config.2.fetch.min.bytes=7", f"{place}.member-versions.2=2.3.0"]
    group = load_file(path, changes).workload.groups[0]
    assert group.member_config == {2: {"fetch.max.bytes": 9000, "fetch.min.bytes": 7}}
    assert group.member_versions == {2: "2.3.0"}


def test_mistakes_in_settings_of_one_member_name_the_override(tmp_path: Path) -> None:
    path = _with_a_group(tmp_path)
    place = "workload.groups.0.member-config"
    for override, text in (
        (f"{place}.2.auto.offset.reset=latest", "it is the same for the whole group; write it into config"),
        (f"{place}.b.fetch.min.bytes=7", f"{place} is by number; write one, not 'b'"),
        (f"{place}.2=7", "7 is not valid here; write a mapping of keys to values"),
    ):
        with pytest.raises(UsageError) as caught:
            load_file(path, [override])
        assert str(caught.value) == f"--set {override}: {text}"


def test_missing_blocks_are_created() -> None:
    """A key may be set where the file has not even its block."""
    scenario = load_builtin(NAME, ["workload.drain.timeout=5s"])
    assert scenario.workload.drain.timeout == 5_000


def test_comparisons_need_no_quotes() -> None:
    """YAML would take the > of >0 for a block of text; the user means a comparison."""
    assert load_builtin("noop", ["expect.redelivered=>=0"]).expect.redelivered == ">=0"  # type: ignore[attr-defined]


def test_last_override_of_a_key_wins() -> None:
    """As on every command line."""
    scenario = load_builtin(NAME, ["workload.producers.0.rate=1", "workload.producers.0.rate=max"])
    assert scenario.workload.producers[0].rate == "max"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("workload.producers.0.aks=1", "no such key: workload.producers.0.aks; did you mean acks?"),
        ("worklod.producers.0.acks=1", "no such key: worklod; did you mean workload?"),
        ("workload.producers.7.acks=1", "workload.producers has 1 entries, counted from 0"),
        ("workload.producers.acks=1", "workload.producers is a list; write a position such as 0, not 'acks'"),
        ("workload.producers.\N{SUPERSCRIPT TWO}=1", "workload.producers is a list; write a position"),
        ("title.x=1", "no such key: title.x"),
        ("cluster.0=1", "no such key: cluster.0"),
        ("nonsense", "write a path, an equals sign and a value"),
        ("=1", "write a path, an equals sign and a value"),
        ("a..b=1", "write a path, an equals sign and a value"),
        ("tags=[a", "'[a' is not a YAML value"),
        ("tags.99999999999999999999=a", "tags is a list"),
        ("workload.producers.0.acks=7", "'7' is not valid here; write 0, 1 or all"),
        ("workload.producers.0.topic=order", "no such topic: order; did you mean orders?"),
        ("cluster={brokrs: 3}", "cluster.brokrs: no such key; did you mean brokers?"),
        ("faults.0.at.message=x", "faults.0.at is not a mapping in the file"),
    ],
)
def test_errors_name_the_override(override: str, said: str) -> None:
    """Each mistake is behind its --set; there is no line in the file to blame."""
    with pytest.raises(UsageError) as caught:
        load_builtin(NAME, [override])
    assert f"--set {override}: {said}" in str(caught.value)


def test_override_and_file_errors_are_reported_together(tmp_path: Path) -> None:
    """Nobody has to fix one to see the other."""
    path = tmp_path / "a.yaml"
    path.write_text(
        "version: 1\ntitel: x\ntopics: [{name: a}]\nworkload: {producers: [{topic: a, messages: 1}]}\n"
    )
    with pytest.raises(UsageError) as caught:
        load_file(path, ["cluster.brokrs=3", "cluster.brokers=none"])
    assert str(caught.value).splitlines() == [
        "--set cluster.brokrs=3: no such key: cluster.brokrs; did you mean brokers?",
        "--set cluster.brokers=none: 'none' is not valid here; write a whole number",
        f"{path}:1: title: missing",
        f"{path}:2: titel: no such key; did you mean title?",
    ]


def test_override_of_a_yaml_alias_changes_one_place_only(tmp_path: Path) -> None:
    """A block that YAML shares between two places is not shared any more once one of them is changed."""
    path = tmp_path / "a.yaml"
    path.write_text(
        "version: 1\ntitle: x\ntopics:\n  - {name: a, config: &c {x: 1}}\n  - {name: b, config: *c}\n"
        "workload: {producers: [{topic: a, messages: 1}]}\n"
    )
    scenario = load_file(path, ["topics.0.config.x=2"])
    assert [topic.config for topic in scenario.topics] == [{"x": 2}, {"x": 1}]
