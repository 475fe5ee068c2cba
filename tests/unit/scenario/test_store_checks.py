"""Stores, the producers that use them, the replay, and faults on stores: each disagreement, at its path."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from kaput.scenario.checks.scenario import check
from kaput.scenario.mistakes import from_validation
from kaput.scenario.model import Scenario
from kaput.scenario.overrides import apply_override, parse_override
from kaput.scenario.source import dotted


def document(**more: Any) -> dict[str, Any]:
    """A scenario with a store of each sort, without a mistake."""
    return {
        "version": 1,
        "title": "x",
        "cluster": {"brokers": 3, "network": "namespaces"},
        "topics": [{"name": "orders"}],
        "stores": {
            "local": {"kind": "sqlite", "disk-mb": 64},
            "far": {"kind": "opensearch"},
            "mine": {"kind": "mongodb", "where": "mongodb://db.example:27017/lab.kept"},
        },
        "workload": {
            "producers": [
                {
                    "topic": "orders",
                    "messages": 10,
                    "on-failure": {"stores": ["far", "local", "mine"], "policy": "spill"},
                }
            ],
        },
        **more,
    }


def found(raw: dict[str, Any], *settings: str) -> dict[str, str]:
    """Mistakes by their path, after changes as with --set."""
    for text in settings:
        apply_override(raw, parse_override(text))
    return {dotted(m.path): m.text for m in check(Scenario.model_validate(raw))}


def test_valid_stores_of_every_kind_are_accepted() -> None:
    """Files, a server of kaput's, one of the user's own; with every fault that they can take."""
    faults = [
        {"at": "1s", "fault": "kill", "target": "store far", "for": "1s"},
        {"at": "1s", "fault": "pause", "target": "store far"},
        {"at": "1s", "fault": "disk-full", "target": "store local"},
    ]
    assert found(document(faults=faults), "workload.replay.kills=3") == {}


@pytest.mark.parametrize(
    ("setting", "place", "text"),
    [
        ("workload.producers.0.on-failure.stores=[fat]", "workload.producers.0.on-failure.stores.0",
         "no such store: fat; did you mean far?"),
        ("workload.producers.0.on-failure.stores=[far, far]", "workload.producers.0.on-failure.stores.1",
         "far is listed twice"),
        ("workload.producers.0.on-failure.policy=block", "workload.producers.0.on-failure.policy", "spill"),
        ("workload.producers.0.client=java", "workload.producers.0.on-failure", "only client: librdkafka"),
        ("workload.producers.0.transactions={size: 5}", "workload.producers.0.on-failure", "aborts its tran"),
        ("workload.producers.0.config={message.timeout.ms: 0}",
         "workload.producers.0.config.message.timeout.ms", "never be kept"),
        ("workload.producers.0.on-failure=null", "stores.local", "no producer uses it; write on-failure"),
        ("stores.mine.where=localhost:27017", "stores.mine.where", "write mongodb://HOST:PORT/DATABASE"),
        ("stores.mine.where=mongodb://localhost:27017", "stores.mine.where", "is not the URL of such a"),
        ("stores.mine.disk-mb=64", "stores.mine.disk-mb", "kaput does not manage"),
        ("stores.local.where=kept.db", "stores.local.where", "in the run folder"),
        ("cluster.network=loopback", "stores.local.disk-mb", "cluster.network: namespaces"),
    ],
)  # fmt: skip
def test_store_inconsistency_is_reported_at_its_path(setting: str, place: str, text: str) -> None:
    """At its key, with what would be right."""
    assert text in found(document(), setting)[place]


@pytest.mark.parametrize(
    ("fault", "target", "text"),
    [
        ("kill", "store fax", "no such store: fax; did you mean far?"),
        ("kill", "store local", "sqlite has no process; write disk-full"),
        ("pause", "store mine", "is your own server, which kaput does not touch"),
        ("disk-full", "store far", "write disk-mb: 64 in stores.far"),
        ("stop", "store far", "stop does not hit stores; kill, pause, disk-full do"),
        ("slow", "store far", "slow does not hit stores"),
    ],
)
def test_unsupported_store_fault_is_rejected(fault: str, target: str, text: str) -> None:
    """With one that it can take."""
    mistakes = found(document(faults=[{"at": "1s", "fault": fault, "target": target}]))
    assert text in mistakes["faults.0.target"]


def test_replay_without_stores_is_rejected() -> None:
    """Also where they are to stay in the stores."""
    raw = document()
    del raw["stores"], raw["workload"]["producers"][0]["on-failure"]
    assert found(raw, "workload.replay=none") == {
        "workload.replay": "there is nothing to replay without stores; write stores: {local: {kind: sqlite}}"
    }


@pytest.mark.parametrize(
    ("setting", "place", "text"),
    [
        ("stores.far.kind=opensaerch", "stores.far.kind", "did you mean opensearch?"),
        ("stores.Far={}", "stores.Far", "write lowercase letters, digits and dashes"),
        ("workload.replay=nome", "workload.replay", "did you mean none?"),
        ("workload.replay={kill: 3}", "workload.replay.kill", "did you mean kills?"),
        (
            "workload.producers.0.on-failure={stores: []}",
            "workload.producers.0.on-failure.stores",
            "one entry",
        ),
    ],
)
def test_invalid_store_value_gets_a_suggestion(setting: str, place: str, text: str) -> None:
    """The nearest valid one is named."""
    raw = document()
    apply_override(raw, parse_override(setting))
    with pytest.raises(ValidationError) as caught:
        Scenario.model_validate(raw)
    (mistake,) = from_validation(caught.value, raw)
    assert dotted(mistake.path) == place and text in mistake.text


def test_replay_is_transactional_unless_disabled_or_at_least_once() -> None:
    """The drain then has to know which records are visible."""
    assert Scenario.model_validate(document()).transactional
    for setting in ("workload.replay=none", "workload.replay.at-least-once=true"):
        raw = document()
        apply_override(raw, parse_override(setting))
        assert not Scenario.model_validate(raw).transactional
