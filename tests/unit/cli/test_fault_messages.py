"""What `kaput fault` says about a cluster that cannot have a fault: in words of the command line."""

from __future__ import annotations

from inspect import signature

import pytest

from fakes.called import called
from kaput.cli.fault import _value, in_options
from kaput.cli.up import up_command
from kaput.errors import UsageError
from kaput.operate.fault_injection import checked_step
from kaput.scenario.fault_kinds import KINDS
from kaput.scenario.model import Cluster


def message(fault: str, **cluster: object) -> str:
    """Why a cluster of `kaput up` cannot have a fault."""
    with pytest.raises(UsageError) as raised:
        checked_step(fault, "any", {}, Cluster.model_validate(cluster))
    return in_options(str(raised.value))


def test_missing_network_names_the_option_of_up() -> None:
    assert message("isolate").endswith("start the cluster with kaput up --network namespaces")
    assert message("disk-loss", controllers="combined").endswith("kaput up --controllers 1")
    assert {"network", "controllers", "security"} <= {*signature(up_command).parameters}


def test_key_without_an_option_is_one_of_a_file() -> None:
    assert "kaput up SCENARIO, a file with cluster.disk-mb: 256" in message("disk-full")


@pytest.mark.parametrize("fault", [kind.name for kind in KINDS.values() if kind.needs])
def test_no_need_is_left_in_the_words_of_a_scenario(fault: str) -> None:
    needs = KINDS[fault].needs
    assert needs is not None and "write cluster." in needs.otherwise
    text = in_options(needs.otherwise.replace("write cluster.", "start the cluster with cluster."))
    assert "start the cluster with kaput up " in text


def test_other_messages_stay() -> None:
    assert in_options("target: no topic orders") == "target: no topic orders"


@pytest.mark.parametrize(
    ("key", "text", "instead"),
    [
        ("config.segment.bytes", "9", "write --option 'config={segment.bytes: 9}'"),
        ("config", "segment.bytes=9", "write --option 'config={segment.bytes: 9}'"),
        ("config", "segment.bytes", "write --option 'config={segment.bytes: VALUE}'"),
        ("target", "broker 2", "give it as --target"),
        ("for", "3s", "give it as --for"),
    ],
)
def test_option_that_is_written_otherwise_says_how(key: str, text: str, instead: str) -> None:
    with pytest.raises(UsageError) as raised:
        _value(key, text)
    assert str(raised.value) == f"--option {key}={text}: {instead}"
    assert _value("config", "{segment.bytes: 9}") == {"segment.bytes": 9}


@pytest.mark.parametrize("key", ["at", "optional", "delay"])
def test_key_that_is_no_option_of_the_fault_is_refused(key: str) -> None:
    """Also those that only steps of a scenario have."""
    with pytest.raises(UsageError, match=f"{key}: pause takes no {key}; it takes no options"):
        checked_step("pause", "broker 1", {key: "3s"}, Cluster())


def test_option_of_up_is_named_as_such() -> None:
    assert in_options("no broker setting (--allow-unknown: it is a plugin's)").endswith(
        "(kaput up --allow-unknown: it is a plugin's)"
    )


def test_fault_cannot_last_no_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a scenario: it would be healed at once."""
    done = called(["fault", "inject", "pause", "--for", "0s"], monkeypatch, capsys)
    assert (done.status, done.stderr) == (2, "kaput: --for 0s: a duration must be longer than 0\n")
