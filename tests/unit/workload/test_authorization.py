"""What a cluster refuses ends in a sentence at once, and counts as definite where it is."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kaput.workload.client_spec import (
    MemberSpec,
    NotAuthorizedError,
    client_properties,
    client_settings,
    write_spec,
)
from kaput.workload.librdkafka.client_setup import AuthorizationErrors
from kaput.workload.librdkafka.delivery_reports import outcome_of

NOBODY = {"sasl.username": "nobody", "sasl.password": "hush"}
UNAUTHORIZED = KafkaError.TOPIC_AUTHORIZATION_FAILED


class Client:
    """Knows the topic with that error; without one it cannot be reached, which is reported to `heard`."""

    def __init__(
        self, authorization: AuthorizationErrors, error: int | None, sign_in: str | None = None
    ) -> None:
        self._authorization, self._error, self._sign_in_error = authorization, error, sign_in

    def list_topics(self, topic: str, timeout: float) -> Any:
        if self._error is None:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        error = KafkaError(self._error) if self._error else None
        return SimpleNamespace(topics={topic: SimpleNamespace(error=error)})

    def poll(self, timeout: float) -> None:
        if self._sign_in_error is not None:
            self._authorization.on_error(KafkaError(KafkaError._AUTHENTICATION, self._sign_in_error))


def test_missing_describe_permission_fails_the_start() -> None:
    """Who, what, where, in Kafka's words; no password."""
    authorization = AuthorizationErrors(NOBODY)
    with pytest.raises(NotAuthorizedError) as raised:
        authorization.describe_topic(Client(authorization, UNAUTHORIZED), "orders", 30)
    said = "User:nobody is not allowed to Describe topic orders (TOPIC_AUTHORIZATION_FAILED)"
    assert str(raised.value) == said


def test_authentication_error_is_not_retried() -> None:
    """The first word of the brokers about it is enough."""
    authorization = AuthorizationErrors(NOBODY)
    with pytest.raises(NotAuthorizedError, match="User:nobody cannot authenticate: invalid credentials"):
        authorization.describe_topic(Client(authorization, None, "invalid credentials"), "orders", 30)


def test_metadata_request_is_retried_until_the_timeout() -> None:
    authorization = AuthorizationErrors({})
    with pytest.raises(KafkaException):
        authorization.describe_topic(Client(authorization, None), "orders", 0.2)
    authorization.describe_topic(Client(authorization, 0), "orders", 0.2)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "User:nobody is not allowed to Read group billing"),
        (UNAUTHORIZED, "User:nobody is not allowed to Read topic orders, bills"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, "User:nobody is not allowed to do this with the cluster"),
        (KafkaError._ALL_BROKERS_DOWN, None),
        (KafkaError._AUTHENTICATION, None),  # also a broker that dies while one signs in
    ],
)
def test_authorization_errors_of_a_member(code: int, said: str | None) -> None:
    """And what passes by itself."""
    found = AuthorizationErrors(NOBODY).of_member(KafkaError(code), "billing", ["orders", "bills"])
    assert found is None if said is None else found is not None and found.startswith(said)


@pytest.mark.parametrize("code", [UNAUTHORIZED, KafkaError.CLUSTER_AUTHORIZATION_FAILED])
def test_authorization_error_is_failed_if_never_written(code: int) -> None:
    """Brokers look at rights before they append; once something may be written nobody knows about a retry."""
    assert outcome_of(code, retries_disabled=False, never_written=True) == "failed"
    assert outcome_of(code, retries_disabled=False, never_written=False) == "unknown"
    assert outcome_of(code, retries_disabled=True) == "failed"
    assert outcome_of(KafkaError._MSG_TIMED_OUT, retries_disabled=False, never_written=True) == "unknown"


def test_member_spec_contains_no_secret(tmp_path: Path) -> None:
    """It names the file that does; what the scenario says wins over it."""
    secret = tmp_path / "nobody.properties"
    jaas = 'x required username="nobody" password="hush";'
    secret.write_text(f"security.protocol=SASL_SSL\nsasl.jaas.config={jaas}\n")
    config = {"bootstrap.servers": "b:1", "security.protocol": "SASL_PLAINTEXT"}
    spec = MemberSpec("run", "id", "billing", "member-1", ["orders"], config, access=str(secret))
    write_spec(tmp_path / "order.json", spec)
    written = (tmp_path / "order.json").read_text()
    assert "hush" not in written and json.loads(written)["access"] == str(secret)
    assert client_settings(spec) == {**NOBODY, **config}
    assert client_properties(spec) == {"client_properties": str(secret)}


def test_without_security_no_client_properties_are_added() -> None:
    spec = MemberSpec("run", "id", "billing", "member-1", ["orders"], {"bootstrap.servers": "b:1"})
    assert client_settings(spec) == spec.config and client_properties(spec) == {}
