"""Loading a scenario file: every mistake at once, each with its line and the nearest valid word."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kaput.errors import UsageError
from kaput.scenario.loader import load, load_file

GOOD = """\
version: 1
title: fine
topics:
  - {name: orders, partitions: 2, replication-factor: 3}
workload:
  producers:
    - topic: orders
      acks: all
      messages: 100
  groups:
    - {id: billing, topics: [orders]}
faults:
  - {at: 10%, fault: kill, target: leader-of orders/1, for: 1.5s}
"""


def mistakes(tmp_path: Path, text: str, *overrides: str) -> list[str]:
    """What loading `text` says, a line each, without the file's name."""
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_file(path, overrides)
    assert caught.value.exit_status == 2
    return [line.removeprefix(f"{path}:") for line in str(caught.value).splitlines()]


def test_valid_file_is_loaded_as_written(tmp_path: Path) -> None:
    """Name from the file, values from the text, defaults from the model."""
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    name, scenario = load(str(path))
    assert name == "mine"
    assert scenario.workload.producers[0].messages == 100
    assert scenario.faults[0].for_ == 1500
    assert scenario.cluster.brokers == 3


def test_all_errors_are_reported_at_once_with_line_numbers(tmp_path: Path) -> None:
    """Unknown keys, wrong values and a reference to nowhere, in the order of the file."""
    text = GOOD.replace("acks: all", "aks: all").replace("version: 1", "version: 2")
    text = text.replace("fault: kill", "fault: kil").replace("topics: [orders]", "topics: [order]")
    assert mistakes(tmp_path, text) == [
        "1: version: 2 is not valid here; write 1",
        "8: workload.producers.0.aks: no such key; did you mean acks?",
        "13: faults.0.fault: 'kil' is not a fault; did you mean kill?",
    ]


def test_value_errors_do_not_hide_cross_reference_errors(tmp_path: Path) -> None:
    """A misspelt key and a topic that does not exist are both reported."""
    text = GOOD.replace("acks: all", "aks: all").replace("topics: [orders]", "topics: [order]")
    text = text.replace("kill, target: leader-of orders/1", "kil, target: leader-of orders/1")
    assert mistakes(tmp_path, text) == [
        "8: workload.producers.0.aks: no such key; did you mean acks?",
        "11: workload.groups.0.topics.0: no such topic: order; did you mean orders?",
        "13: faults.0.fault: 'kil' is not a fault; did you mean kill?",
    ]


def test_invalid_key_causes_no_follow_up_errors(tmp_path: Path) -> None:
    """Without the number of partitions nothing is reported of partitions that may well exist."""
    assert mistakes(tmp_path, GOOD.replace("partitions: 2", "partitons: 2")) == [
        "4: topics.0.partitons: no such key; did you mean partitions?"
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("acks: all", "acks: 2", "8: workload.producers.0.acks: '2' is not valid here; write 0, 1 or all"),
        (
            "acks: all",
            "acks: alll",
            "8: workload.producers.0.acks: 'alll' is not valid here; did you mean all?",
        ),
        ("messages: 100", "messages: yes", "9: workload.producers.0.messages: true is not a number"),
        (
            "messages: 100",
            "messages: 0",
            "9: workload.producers.0.messages: 0 is not valid here; write at least 1",
        ),
        ("messages: 100", "messages: 1.5", "write a whole number"),
        ("replication-factor: 3", "replication_factor: 3", "did you mean replication-factor?"),
        ("title: fine", "titel: fine", "2: titel: no such key; did you mean title?"),
        (
            "title: fine",
            "cluster: {kafka: 4.3}\ntitle: x",
            "2: cluster.kafka: 4.3 is not valid here; write text",
        ),
        ("title: fine", "cluster:\ntitle: x", "2: cluster: nothing is not valid here; write a mapping"),
        (
            "title: fine",
            "cluster: {brokers: 0}\ntitle: x",
            "cluster.brokers: 0 is not valid here; write at least 1",
        ),
        ("at: 10%", "at: {mesage: 3}", "13: faults.0.at.mesage: no such key; did you mean message?"),
        ("at: 10%", "at: 101%", "'101%' is not a share from 0% to 100%"),
        ("at: 10%", "at: soon", "'soon' is not a moment"),
        ("for: 1.5s", "for: long", "'long' is not a duration"),
        ("for: 1.5s", f"for: {'9' * 400}s", "is not a duration"),
        ("leader-of orders/1", "leadr-of orders/1", "did you mean leader-of T/P?"),
        (
            "leader-of orders/1",
            "'brokers 1, 4'",
            "write a step for each, at the same time: broker 1, broker 4",
        ),
        (
            "leader-of orders/1",
            "brokers 2 and 3",
            "write a step for each, at the same time: broker 2, broker 3",
        ),
        ("title: fine", "title: fine\nexpect: {lsot: 0}", "3: expect.lsot: no such key; did you mean lost?"),
        ("title: fine", "title: fine\nexpect: {verdict: hold}", "did you mean held?"),
        ("title: fine", "title: fine\nexpect: {lost: some}", "is not a number or a comparison"),
        (
            "title: fine",
            "title: fine\nexpect:\n  standstill-ms: <5s",
            "4: expect.standstill-ms: '<5s' is not a number or a comparison",
        ),
        ("title: fine", "title: fine\nexpect: {ack-p99-ms: <5%}", "'<5%' is a share; write a number"),
        ("title: fine", "title: fine\nexpect: {unavailable: 5}", "did you mean unavailable-ms?"),
        ("title: fine", "title: fine\ncluster: {config: {1: 2}}", "a key must be text; put it in quotes"),
        (
            "title: fine",
            "title: fine\ncluster: {config: {a: [1]}}",
            "3: cluster.config.a: [1] is not valid here",
        ),
    ],
)
def test_error_message_for_each_kind_of_error(tmp_path: Path, old: str, new: str, said: str) -> None:
    """One change to a good file, and the sentence that it brings."""
    assert old in GOOD
    found = mistakes(tmp_path, GOOD.replace(old, new))
    assert any(said in line for line in found), found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("# nothing\n", "empty"),
        ("- a\n- b\n", "1: a scenario is a mapping"),
        ("just text", "1: a scenario is a mapping"),
        ("a: [1\nb: 2\n", "2:2: not valid YAML"),
        ("a: b: c\n", "1:5: not valid YAML"),
        ("title: Lost: 5\n", "put a value that has ': ' in it into quotes"),
        ("a: !!python/name:os.system x\n", "1:4: not valid YAML"),
        ("b: 1\na: 2001-99-99\n", "2:4: not valid YAML: month must be in 1..12"),
        ("b: 1\na: !!bool maybe\n", "2:4: not valid YAML: 'maybe' is no bool"),
        ("a: !!timestamp foo\n", "1:4: not valid YAML: 'foo' is no timestamp"),
        ("a: !!int ''\n", "1:4: not valid YAML: '' is no int"),
        ("a: !!float ''\n", "1:4: not valid YAML: '' is no float"),
        ('b: 1\na: "\\U00110000"\n', "2:7: not valid YAML: chr() arg not in range"),
        ('a: "\\UFFFFFFFF"\n', "1:7: not valid YAML: "),
        (f"%YAML {'1' * 5000}.1\n---\na: 1\n", "1:7: not valid YAML: Exceeds the limit"),
        ("a: 1\n---\nb: 2\n", "2:1: not valid YAML"),
        ("b: 1\na: \x07\n", "2:4: not valid YAML: special characters are not allowed ('\\x07')"),
        ("[" * 5000, "nested too deeply"),
        ("a: &a [*a]\n", "1: a: no such key"),
    ],
)
def test_malformed_yaml_is_reported_without_traceback(tmp_path: Path, text: str, said: str) -> None:
    """Syntax errors have line and column; nothing ends in a traceback."""
    found = mistakes(tmp_path, text)
    assert any(said in line for line in found), found


def test_duplicate_key_is_rejected(tmp_path: Path) -> None:
    """YAML would keep the last one silently."""
    text = GOOD.replace("title: fine\n", "title: fine\ntitle: other\n")
    assert mistakes(tmp_path, text) == ["3: title: given twice; the first is on line 2"]


@pytest.mark.parametrize("key", ["", " ", "\\r", "\\e[2J"])
def test_invisible_key_is_quoted_in_the_error(tmp_path: Path, key: str) -> None:
    """It neither disappears from its line, nor breaks it."""
    quoted = f'"{key}"'
    (said,) = mistakes(tmp_path, f"{GOOD}{quoted}: 1\n")
    assert said.startswith(f"14: {yaml.safe_load(quoted)!r}: no such key")


def test_missing_key_is_reported_at_its_block(tmp_path: Path) -> None:
    """The line is that of the block which lacks it."""
    text = GOOD.replace("topic: orders\n      acks", "acks")
    assert mistakes(tmp_path, text) == ["7: workload.producers.0.topic: missing"]


def test_missing_or_binary_file_is_a_usage_error(tmp_path: Path) -> None:
    """The message names the file and what is wrong with it."""
    with pytest.raises(UsageError, match=r"nowhere\.yaml: no such file"):
        load(str(tmp_path / "nowhere.yaml"))
    with pytest.raises(UsageError, match="cannot be read"):
        load_file(tmp_path)
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"a: \xff\xfe\n")
    with pytest.raises(UsageError, match="not UTF-8"):
        load_file(binary)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("leader-kill-acks1", "leader-kill-acks-1"),
        ("nop", "noop"),
        ("LEADER-KILL-ACKS-ALL", "leader-kill-acks-all"),
    ],
)
def test_unknown_scenario_name_suggests_the_closest(name: str, near: str) -> None:
    """A slip in a built-in's name is answered with the name that was meant, first."""
    with pytest.raises(UsageError, match=f"no scenario named {name}; did you mean {near}"):
        load(name)


def test_yaml_merge_keys_and_aliases_are_supported(tmp_path: Path) -> None:
    """YAML's own way of saying a thing once is understood, and mistakes in it have a line."""
    text = GOOD.replace("title: fine\n", "title: fine\ncluster: {config: &c {a.b: 1}}\n")
    text = text.replace(
        "replication-factor: 3}", "replication-factor: 3, config: {<<: *c, min.insync.replicas: 2}}"
    )
    path = tmp_path / "x.yaml"
    path.write_text(text)
    assert load_file(path).topics[0].config == {"a.b": 1, "min.insync.replicas": 2}


def test_kafka_version_without_zookeeper_is_reported_with_line(tmp_path: Path) -> None:
    """Whether the file names the version or only the mode comes from the command line."""
    text = GOOD.replace("title: fine", "title: fine\ncluster:\n  kafka: 4.3.1")
    (line,) = mistakes(tmp_path, text, "cluster.mode=zookeeper")
    assert line.startswith("4: cluster.kafka: Kafka 4.3.1 has no ZooKeeper mode")


@pytest.mark.parametrize("count", ["2", "true", "0"])
def test_zookeeper_ensemble_size_must_be_one_or_three(tmp_path: Path, count: str) -> None:
    """Two nodes would be no safer than one."""
    (line,) = mistakes(tmp_path, GOOD, f"cluster.zookeepers={count}")
    assert line.startswith(f"--set cluster.zookeepers={count}: ")
