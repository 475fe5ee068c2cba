"""Java's client properties, read as operators write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaput.cluster.access import OPEN, Access, read_properties, write_secret
from kaput.errors import UsageError


def test_properties_are_read_as_java_does(tmp_path: Path) -> None:
    """Comments, blanks, lines that go on, and values with equals signs."""
    path = tmp_path / "client.properties"
    path.write_text("# one\n! two\n\nacks = all\nsasl.jaas.config=a \\\n   b=c\n")
    assert read_properties(path) == {"acks": "all", "sasl.jaas.config": "a b=c"}


def test_a_mistake_is_placed(tmp_path: Path) -> None:
    """File and line."""
    path = tmp_path / "client.properties"
    path.write_text("acks=all\nnonsense\n")
    with pytest.raises(UsageError, match=r"client\.properties:2: 'nonsense' has no value"):
        read_properties(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_properties(tmp_path / "nowhere")


def test_security_is_translated() -> None:
    """SCRAM over TLS with PEM files; what is a producer's alone is left out."""
    jaas = (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="ad\\"min" password="s=1";'
    )
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": jaas,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "",
        "acks": "all",
    }
    access = Access(given)
    assert (access.user, access.principal, access.mechanism) == ('ad"min', 'User:ad"min', "SCRAM-SHA-512")
    assert access.librdkafka() == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": 'ad"min',
        "sasl.password": "s=1",
        "ssl.ca.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert access.kafka_python() == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": 'ad"min',
        "sasl_plain_password": "s=1",
        "ssl_cafile": "/ca.pem",
        "ssl_check_hostname": False,
    }


def test_a_store_that_python_cannot_read_is_said() -> None:
    """Java's own formats."""
    with pytest.raises(UsageError, match=r"x: ssl\.truststore\.type=JKS: kaput only reads PEM"):
        Access({"ssl.truststore.type": "JKS"}, Path("x")).librdkafka()


def test_a_key_of_ones_own_is_certificate_and_key_in_one_file() -> None:
    """As PEM has them; who one is, the certificate says."""
    access = Access({"security.protocol": "SSL", "ssl.keystore.location": "/me.pem"})
    told = access.librdkafka()
    assert told["ssl.key.location"] == told["ssl.certificate.location"] == "/me.pem"
    assert access.kafka_python()["ssl_certfile"] == "/me.pem" and access.mechanism is None


def test_who_lets_everybody_in_asks_for_nothing() -> None:
    """No TLS, no SASL, no settings."""
    assert OPEN.librdkafka() == OPEN.kafka_python() == {}
    assert OPEN.tls is None and OPEN.mechanism is None and OPEN.principal == "User:ANONYMOUS"


def test_a_secret_is_not_shown() -> None:
    """Neither by repr nor in what a certificate's trouble says."""
    jaas = 'x required username="u" password="hush";'
    secret = {"security.protocol": "SASL_SSL", "sasl.jaas.config": jaas, "ssl.truststore.location": "/none"}
    access = Access(secret)
    assert "hush" not in repr(access)
    with pytest.raises(UsageError, match="certificates cannot be read") as raised:
        _ = access.tls
    assert "hush" not in str(raised.value)


def test_a_secret_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    """Whatever the umask; and never over a file of somebody else's making."""
    path = write_secret(tmp_path / "secret", "hush")
    assert path.read_text() == "hush" and path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write_secret(path, "again")
