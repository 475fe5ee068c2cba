"""Java's client properties, read as operators write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaput.cluster.access import OPEN, Access, read_properties, write_secret
from kaput.errors import UsageError


def test_properties_syntax_matches_java(tmp_path: Path) -> None:
    """Comments, blanks, lines that go on, and values with equals signs."""
    path = tmp_path / "client.properties"
    path.write_text("# one\n! two\n\nacks = all\nsasl.jaas.config=a \\\n   b=c\n")
    assert read_properties(path) == {"acks": "all", "sasl.jaas.config": "a b=c"}


def test_error_names_file_and_line(tmp_path: Path) -> None:
    """File and line."""
    path = tmp_path / "client.properties"
    path.write_text("acks=all\nnonsense\n")
    with pytest.raises(UsageError, match=r"client\.properties:2: 'nonsense' has no value"):
        read_properties(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_properties(tmp_path / "nowhere")


def test_scram_over_tls_is_translated_for_both_client_libraries() -> None:
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


def test_jks_truststore_is_rejected() -> None:
    """Java's own formats."""
    with pytest.raises(UsageError, match=r"x: ssl\.truststore\.type=JKS: kaput only reads PEM"):
        Access({"ssl.truststore.type": "JKS"}, Path("x")).librdkafka()


def test_pem_keystore_is_certificate_and_key() -> None:
    """As PEM has them; who one is, the certificate says."""
    access = Access({"security.protocol": "SSL", "ssl.keystore.location": "/me.pem"})
    told = access.librdkafka()
    assert told["ssl.key.location"] == told["ssl.certificate.location"] == "/me.pem"
    assert access.kafka_python()["ssl_certfile"] == "/me.pem" and access.mechanism is None


def test_open_access_has_no_client_settings() -> None:
    """No TLS, no SASL, no settings."""
    assert OPEN.librdkafka() == OPEN.kafka_python() == {}
    assert OPEN.tls is None and OPEN.mechanism is None and OPEN.principal == "User:ANONYMOUS"


def test_secrets_are_not_in_repr_or_errors() -> None:
    """Neither by repr nor in what a certificate's trouble says."""
    jaas = 'x required username="u" password="hush";'
    secret = {"security.protocol": "SASL_SSL", "sasl.jaas.config": jaas, "ssl.truststore.location": "/none"}
    access = Access(secret)
    assert "hush" not in repr(access)
    with pytest.raises(UsageError, match="certificates cannot be read") as raised:
        _ = access.tls
    assert "hush" not in str(raised.value)


def test_secret_file_has_mode_600_and_is_not_overwritten(tmp_path: Path) -> None:
    """Whatever the umask; and never over a file of somebody else's making."""
    path = write_secret(tmp_path / "secret", "hush")
    assert path.read_text() == "hush" and path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write_secret(path, "again")
