"""Security and the clients of a scenario: each disagreement, at its path; secrets are never taken."""

from __future__ import annotations

from typing import Any

import pytest

from kaput.scenario.checks.scenario import check
from kaput.scenario.model import Scenario
from kaput.scenario.source import dotted

SECURED = {"security": "scram-tls"}


def found(
    cluster: dict[str, Any], producers: dict[str, Any], members: dict[str, Any], **group: Any
) -> dict[str, str]:
    """Mistakes by their path, with these settings of clients."""
    raw = {
        "version": 1,
        "title": "x",
        "cluster": {"brokers": 1, **cluster},
        "topics": [{"name": "orders", "replication-factor": 1}],
        "workload": {
            "producers": [{"topic": "orders", "messages": 10, "config": producers}],
            "groups": [{"id": "billing", "topics": ["orders"], "config": members, **group}],
        },
    }
    return {dotted(m.path).removeprefix("workload."): m.text for m in check(Scenario.model_validate(raw))}


def test_clients_may_use_any_sasl_user_of_the_cluster() -> None:
    """Each kind of clients for itself."""
    nobody = {"sasl.username": "nobody"}
    assert found(SECURED, {"sasl.username": "kaput"}, nobody) == {}
    assert found({}, nobody, {}) == {}  # where nobody signs in it is a setting like others


@pytest.mark.parametrize("client", ["java", "librdkafka"])
def test_java_clients_have_users_only_with_security(client: str) -> None:
    """Java's client does not know sasl.username, also as a setting of a single member."""
    nobody = {"sasl.username": "nobody"}
    more = {"client": client, "member-config": {1: nobody}}
    paths = ["groups.0.config.sasl.username", "groups.0.member-config.1.sasl.username"]
    assert list(found({}, {}, nobody, **more)) == (paths if client == "java" else [])
    assert found(SECURED, {}, nobody, **more) == {}


def test_password_of_a_user_changes_only_if_a_client_signs_in_as_it() -> None:
    """Else the step would show nothing."""
    raw: dict[str, Any] = {
        "version": 1,
        "title": "x",
        "cluster": {"brokers": 1, **SECURED},
        "topics": [{"name": "orders", "replication-factor": 1}],
        "workload": {"producers": [{"topic": "orders", "messages": 10}]},
        "faults": [{"at": "1s", "fault": "change-password", "target": "cluster", "for": "1s"}],
    }
    (mistake,) = check(Scenario.model_validate(raw))
    assert "no client signs in as app; write config: {sasl.username: app}" in mistake.text
    raw["workload"]["producers"][0]["config"] = {"sasl.username": "app"}
    assert not check(Scenario.model_validate(raw))
    raw["workload"]["producers"][0]["client"] = "java"
    assert not check(Scenario.model_validate(raw))
    (mistake, *_) = check(Scenario.model_validate({**raw, "cluster": {"brokers": 1}, "faults": []}))
    assert "there are users only with cluster: {security: scram-tls}" in mistake.text


def test_tls_settings_are_free_without_cluster_security() -> None:
    """Settings of TLS are a client's own there."""
    assert found({}, {"security.protocol": "PLAINTEXT"}, {}) == {}


@pytest.mark.parametrize("name", ["sasl.password", "ssl.key.password", "ssl.key.pem", "sasl.jaas.config"])
@pytest.mark.parametrize("cluster", [SECURED, {}])
def test_secrets_in_client_config_are_rejected(name: str, cluster: dict[str, Any]) -> None:
    """They would stand in every run folder; the message does not repeat them."""
    mistakes = found(cluster, {name: "hush"}, {name: "hush"})
    assert list(mistakes) == [f"producers.0.config.{name}", f"groups.0.config.{name}"]
    assert all("do not belong in a scenario" in text and "hush" not in text for text in mistakes.values())


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"security.protocol": "PLAINTEXT"}, "cluster.security decides it"),
        ({"sasl.mechanism": "PLAIN"}, "cluster.security decides it"),
        ({"ssl.ca.location": "/ca.pem"}, "cluster.security decides it"),
        ({"sasl.username": "nobodi"}, "no user nobodi; did you mean nobody?"),
    ],
)
def test_invalid_client_security_config_is_rejected(config: dict[str, Any], text: str) -> None:
    (mistake,) = found(SECURED, config, {}).items()
    assert mistake[0] == f"producers.0.config.{next(iter(config))}" and text in mistake[1]


@pytest.mark.parametrize(
    ("cluster", "text"),
    [
        ({"mode": "zookeeper", "kafka": "3.9.2"}, "scram-tls needs mode: kraft"),
        ({"kafka": "3.4.1"}, "scram-tls needs Kafka 3.5 or newer, not 3.4.1"),
    ],
)
def test_scram_tls_requires_kraft_and_kafka_3_5(cluster: dict[str, Any], text: str) -> None:
    assert found({**SECURED, **cluster}, {}, {}) == {"cluster.security": text}
    assert found(cluster, {}, {}) == {}
