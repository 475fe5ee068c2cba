"""Which cluster a verb works on, and what its `--json` prints; without any broker."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from fakes.program import app
from kaput.cli import running_clusters
from kaput.cli.options import entry_of, servers_of
from kaput.errors import UsageError
from kaput.operate import registry
from kaput.operate.registry import ClusterEntry, directory_of
from kaput.processes.records import start_of


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("KAPUT_CLUSTER", raising=False)
    with tempfile.TemporaryDirectory(prefix="k-") as short:
        monkeypatch.setenv("XDG_STATE_HOME", short)
        yield


def running(name: str, *, alive: bool = True) -> ClusterEntry:
    """A registered cluster with this process as its daemon."""
    start = start_of(os.getpid()) if alive else "another start"
    entry = ClusterEntry(name, os.getpid(), start or "", f"{name}:9092", "/nodes", "loopback", "4.3.1")
    directory_of(name).create()
    directory_of(name).write(entry)
    return entry


def test_the_only_running_cluster_is_the_default() -> None:
    entry = running("mine")
    assert entry_of(None) == entry and servers_of(None, None) == "mine:9092"
    assert servers_of("yours:9092", None) == "yours:9092"


def test_cluster_must_be_named_when_several_run() -> None:
    """The error names them all, also if one has the default name."""
    one, two = running("lab"), running("other")
    with pytest.raises(UsageError, match=r"2 clusters are running \(lab, other\); choose one with --cluster"):
        entry_of(None)
    assert entry_of("lab") == one and entry_of("other") == two


def test_without_a_cluster_the_error_suggests_up() -> None:
    """For every verb that needs one."""
    for verb in (["status"], ["grow"], ["fault", "list"], ["shell", "ls"]):
        result = CliRunner().invoke(app, verb)
        assert isinstance(result.exception, UsageError)
        assert "no cluster is running; kaput up --detach starts one" in str(result.exception)


def test_dead_cluster_is_named_with_the_cleanup_command() -> None:
    """With the verb that cleans up after it."""
    running("lab", alive=False)
    with pytest.raises(
        UsageError, match=r"no cluster is running \(lab: its daemon died; kaput down cleans up\)"
    ):
        entry_of(None)


def test_down_with_all_says_that_there_is_none() -> None:
    """Which is no mistake: a script may always end with it."""
    result = CliRunner().invoke(app, ["down", "--all"])
    assert (result.exit_code, result.stdout) == (0, "no cluster is running\n")


def test_down_cleans_up_what_a_killed_cluster_left() -> None:
    """Under the default name, if none is running; and says which in JSON."""
    running("lab", alive=False)
    result = CliRunner().invoke(app, ["down", "--json"])
    assert result.exit_code == 0 and json.loads(result.stdout) == {"down": ["lab"]}
    assert not directory_of("lab").path.exists()


def test_down_is_refused_when_several_clusters_run() -> None:
    """Nothing is stopped by mistake."""
    for name in ("lab", "other"):
        running(name)
    result = CliRunner().invoke(app, ["down"])
    assert isinstance(result.exception, UsageError) and "2 clusters are running" in str(result.exception)
    assert directory_of("lab").entry() and directory_of("other").entry()


def test_lists_and_files_are_available_as_json() -> None:
    """The tools, and a built-in scenario as kaput reads it."""
    tools = json.loads(CliRunner().invoke(app, ["tool", "--list", "--json"]).stdout)
    assert "topics" in tools
    scenario = json.loads(CliRunner().invoke(app, ["scenarios", "show", "noop", "--json"]).stdout)
    assert scenario["cluster"]["brokers"] >= 1 and scenario["topics"]
    assert isinstance(CliRunner().invoke(app, ["tool", "--json"]).exception, UsageError)


@pytest.mark.parametrize(
    "verb",
    [
        "status", "grow", "shell --cluster no ls", "down", "fault list", "fault heal", "fault inject kill",
        "watch", "doctor", "metrics --once", "reassign --all-topics --replication-factor 3",
        "peek t/0 --replica 1", "replay a b", "tool --cluster no topics --list", "tool topics --list",
        "tool kafka-topics.sh --describe --topic x", "tool topics --cluster=no --list", "compare no also",
    ],
)  # fmt: skip
def test_an_unknown_cluster_is_one_sentence_with_the_known_ones(verb: str) -> None:
    """Of every verb that takes one, also after the name of one of Kafka's tools."""
    running("one")
    running("other")
    words = verb.split()
    named = "--cluster" in verb or words[0] == "compare"
    result = CliRunner().invoke(app, words if named else [*words, "--cluster", "no"])
    assert isinstance(result.exception, UsageError), result.exception
    assert str(result.exception) == "no cluster named 'no' is running; write one or other"


def test_down_of_all_goes_on_past_a_cluster_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, with its reason; the others are gone."""
    monkeypatch.setattr(running_clusters, "_DOWN_TIMEOUT_S", 0.1)
    running("a-stays")
    entry = running("b-ends")
    real = registry.call
    with subprocess.Popen(["sleep", "60"]) as daemon:
        directory_of("b-ends").write(replace(entry, pid=daemon.pid, start=start_of(daemon.pid) or ""))

        def asked(of: ClusterEntry, request: dict[str, Any]) -> Any:
            """The daemon of one ends when it is asked to."""
            if of.name == "b-ends":
                daemon.kill()
                daemon.wait()
            return real(of, request)

        monkeypatch.setattr(registry, "call", asked)
        result = CliRunner().invoke(app, ["down", "--all", "--json"])
        daemon.kill()
    document = json.loads(result.stdout)
    assert document["down"] == ["b-ends"] and not directory_of("b-ends").path.exists()
    assert [text.partition(":")[0] for text in document["failed"]] == ["a-stays"]
    assert str(result.exception) == document["failed"][0]


def test_cluster_of_a_tool_needs_a_name() -> None:
    result = CliRunner().invoke(app, ["tool", "topics", "--list", "--cluster"])
    assert str(result.exception) == "--cluster needs the name of a cluster"
