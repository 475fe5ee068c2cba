"""`kaput scenarios check`: every mistake of every file, without a run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fakes.program import app
from kaput.errors import UsageError
from kaput.scenario.builtin import builtin_text

RUNNER = CliRunner()


def test_valid_file(tmp_path: Path) -> None:
    """A line for each scenario, or a JSON document, in which a title is as it was written."""
    mine = tmp_path / "mine.yaml"
    mine.write_text(re.sub("(?m)^title: .*", "title: Übung", builtin_text("noop")), encoding="utf-8")
    result = RUNNER.invoke(app, ["scenarios", "check", str(mine), "mirror"], catch_exceptions=False)
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "mine: valid; 3 brokers, 10,000 messages, 1 step",
        "mirror: valid; 2 brokers, 20,000 messages, 2 steps",
    ]
    shown = RUNNER.invoke(app, ["scenarios", "check", str(mine), "--json"], catch_exceptions=False)
    assert [(one["name"], one["messages"]) for one in json.loads(shown.output)] == [("mine", 10_000)]
    assert '"title": "Übung"' in shown.output


EXAMPLE = Path(__file__).parents[3] / "docs" / "existing-cluster" / "compose-kill.yaml"


def test_scenario_for_an_existing_cluster_is_valid() -> None:
    """A note says what it needs; with another mistake only that is reported."""
    result = RUNNER.invoke(app, ["scenarios", "check", str(EXAMPLE)], catch_exceptions=False)
    assert result.stdout == "compose-kill: valid; an existing cluster, 60,000 messages, 1 step\n"
    needs = "1-command needs an existing cluster: run it with --bootstrap-servers"
    assert f"compose-kill: {needs}" in result.stderr
    with pytest.raises(UsageError) as raised:
        RUNNER.invoke(
            app,
            ["scenarios", "check", str(EXAMPLE), "--set", "topics.0.partitions=0"],
            catch_exceptions=False,
        )
    assert "partitions" in str(raised.value) and "--bootstrap-servers" not in str(raised.value)


def test_mistakes_of_all_files(tmp_path: Path) -> None:
    """With their lines, those of --set too."""
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(builtin_text("noop").replace("brokers:", "broker:"))
    second.write_text("version: 1\n")
    with pytest.raises(UsageError) as raised:
        RUNNER.invoke(app, ["scenarios", "check", str(first), str(second)], catch_exceptions=False)
    text = str(raised.value)
    assert "did you mean brokers?" in text and f"{first}:" in text
    assert f"{second}:1: topics: missing" in text


def test_changed_keys_are_checked() -> None:
    with pytest.raises(UsageError, match=r"--set topics.0.partitions=0"):
        RUNNER.invoke(
            app, ["scenarios", "check", "noop", "--set", "topics.0.partitions=0"], catch_exceptions=False
        )


@pytest.mark.parametrize(
    ("setting", "near"),
    [
        ("cluster.config.min.insync.replica=2", "min.insync.replicas"),
        ("topics.0.config.retention.mss=2", "retention.ms"),
    ],
)
def test_settings_that_nothing_reads(setting: str, near: str) -> None:
    """As `kaput run` does, if Kafka's jars are here."""
    with pytest.raises(UsageError, match=f"did you mean {near}?"):
        RUNNER.invoke(app, ["scenarios", "check", "noop", "--set", setting], catch_exceptions=False)
    arguments = ["scenarios", "check", "noop", "--set", setting, "--allow-unknown"]
    assert RUNNER.invoke(app, arguments, catch_exceptions=False).exit_code == 0


def test_settings_without_the_jars_are_said_not_to_be_checked() -> None:
    """Nothing is fetched."""
    arguments = ["scenarios", "check", "noop", "--set", "cluster.kafka=3.8.0", "--set", "cluster.config.a=1"]
    result = RUNNER.invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0 and "not checked" in result.stderr


def test_settings_that_kafka_does_not_know_are_listed_by_from(tmp_path: Path) -> None:
    """In the first lines, with the nearest; the scenario has them, since they may be a plugin's."""
    mine = tmp_path / "server.properties"
    mine.write_text("min.insync.replica=2\nour.plugin=1\ncompression.type=gz\n")
    result = RUNNER.invoke(app, ["scenarios", "from", str(mine)], catch_exceptions=False)
    assert f"#   {mine}:1: min.insync.replica: no broker setting of Kafka" in result.output
    assert f"refuses:\n#   {mine}:3: compression.type: Kafka 4.4.0 refuses 'gz': String must" in result.output
    assert "did you mean min.insync.replicas?\n" in result.output and "    our.plugin: 1\n" in result.output
    mine.write_text("min.insync.replica=2\n")
    result = RUNNER.invoke(app, ["scenarios", "from", str(mine)], catch_exceptions=False)
    assert "did you mean min.insync.replicas?\n" in result.output


@pytest.mark.parametrize(
    ("text", "other"),
    [("kafka.acks=all\nmp.messaging.x=1\n", ", nor is any other one of the file"), ("kafka.acks=all\n", "")],
)
def test_file_without_a_setting_of_brokers_is_a_mistake(tmp_path: Path, text: str, other: str) -> None:
    """Of Quarkus, for example, with names that are not even near one of Kafka's."""
    mine = tmp_path / "server.properties"
    mine.write_text(text)
    mistake = f"{mine}:1: kafka.acks: no broker setting of Kafka 4.4.0{other}"
    with pytest.raises(UsageError, match=f"{re.escape(mistake)}$"):
        RUNNER.invoke(app, ["scenarios", "from", str(mine)], catch_exceptions=False)
