"""Java's client properties, read as operators write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaput.errors import UsageError
from kaput.operate.clients import for_asking, read_properties


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
    assert for_asking(given, Path("x")) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": 'ad"min',
        "sasl_plain_password": "s=1",
        "ssl_cafile": "/ca.pem",
        "ssl_check_hostname": False,
    }


def test_a_store_that_python_cannot_read_is_said() -> None:
    """Java's own formats."""
    with pytest.raises(UsageError, match=r"x: ssl\.truststore\.type=JKS: kaput reads PEM alone"):
        for_asking({"ssl.truststore.type": "JKS"}, Path("x"))
