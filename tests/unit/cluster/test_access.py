"""Java's client properties, read as operators write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaput.cluster.access import OPEN, Access, read_producer_settings, write_secret
from kaput.errors import UsageError

_LOGIN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="s=1";'
_SETTINGS = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={_LOGIN}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "spring.kafka.properties.sasl.mechanism=PLAIN\n",
            r":1: spring\.kafka\..* is Spring's name; Kafka's is sasl\.mechanism",
        ),
        (
            "%prod.kafka.security.protocol=SASL_SSL\n",
            r":1: %prod.* is another program's name; Kafka's is sec",
        ),
        (
            '\n{"brokers": ["a:1"]}\n',
            r":2: '\{\"brokers\"' is no setting; properties are lines of NAME=VALUE",
        ),
        ("[default]\nacks=all\n", r":1: '\[default\]' is no setting"),
        ("spring.kafka.bootstrap-servers=a:1\n", r":1: .* is Spring's name; Kafka's is bootstrap\.servers"),
        (
            _SETTINGS.replace("alice", "{{ CLUSTER_API_KEY }}"),
            r":3: sasl\.jaas\.config still has \{\{ CLUSTER_API_KEY \}\}: write what belongs there",
        ),
        (_SETTINGS.replace("alice", "<your api key>"), r":3: sasl\.jaas\.config still has <your api key>"),
        (
            _SETTINGS.replace("mechanism", "mechanisms"),
            r":2: sasl\.mechanisms is librdkafka's name; Kafka's is sasl",
        ),
        (
            "acks=all\nsasl.username=alice\n",
            r":2: sasl\.username is librdkafka's name; Kafka's is sasl\.jaas",
        ),
        ("security.protocl=SSL\n", r":1: security\.protocl is no .* did you mean security\.protocol\?"),
        (
            "acks=all\nssl.truststore.passwrd=x\n",
            r":2: ssl\.truststore\.passwrd is no .* did you mean ssl\.truststore\.password",
        ),
        ("sasl.mechanism=PLAINTEXT\n", r":1: .* is none of Kafka's; did you mean PLAIN\?"),
        ("sasl.mechanism=SCRAM-SHA256\n", r":1: .* is none of Kafka's; did you mean SCRAM-SHA-256\?"),
        ("ssl.endpoint.identification.algorithm=none\n", r":1: .*=none is librdkafka's; Kafka's is empty"),
        ("security.protocol=SASL_SSL \n", r":1: security\.protocol='SASL_SSL ' is none of PLAINTEXT, SSL"),
        (_SETTINGS.replace(' password="s=1"', ""), r":3: sasl\.jaas\.config: has no password="),
        (_SETTINGS.replace(";", ""), r":3: sasl\.jaas\.config: it does not end with a semicolon"),
    ],
)
def test_setting_that_kafka_would_not_take_is_refused_with_its_line(
    tmp_path: Path, text: str, message: str
) -> None:
    """Names that only librdkafka knows, a protocol with a blank, and a login that cannot be read."""
    path = tmp_path / "client.properties"
    path.write_text(text)
    with pytest.raises(UsageError, match="client\\.properties" + message) as raised:
        Access.read(path)
    assert "s=1" not in str(raised.value)


def test_clients_file_with_a_plugins_own_servers_is_accepted(tmp_path: Path) -> None:
    """Kafka's own names show whose file it is, though it needs none to connect."""
    path = tmp_path / "client.properties"
    path.write_text("acks=all\nconfluent.metrics.reporter.bootstrap.servers=h:1\n")
    assert Access.read(path).protocol == "PLAINTEXT"


@pytest.mark.parametrize("mechanism", ["OAUTHBEARER-DPOP", "PLAIN-LDAP", "SCRAM-SHA-384", "GSSAPI"])
def test_mechanism_of_a_plugin_is_accepted(mechanism: str, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"sasl.mechanism={mechanism}\n")
    assert Access.read(path).properties["sasl.mechanism"] == mechanism


def test_settings_of_other_programs_are_no_slips_of_a_producers(tmp_path: Path) -> None:
    """Of Kafka Streams, for example."""
    path = tmp_path / "streams.properties"
    path.write_text("application.id=a\nreplication.factor=3\ntasks=1\nracks=a\nentries=2\n")
    assert read_producer_settings(path)["replication.factor"] == "3"


def test_file_for_both_libraries_is_accepted(tmp_path: Path) -> None:
    """A librdkafka name does no harm where Kafka's own is there."""
    path = tmp_path / "client.properties"
    path.write_text(_SETTINGS + "sasl.mechanisms=PLAIN\nsasl.username=bob\nsasl.password=other\n")
    access = Access.read(path)
    assert (access.user, access.mechanism) == ("alice", "SCRAM-SHA-256")


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


def test_secrets_are_not_in_repr_or_errors(tmp_path: Path) -> None:
    """Neither by repr nor in what a certificate's trouble says."""
    jaas, store = 'x required username="u" password="hush";', tmp_path / "store.pem"
    store.write_text("no certificate\n")
    secret = {
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": jaas,
        "ssl.truststore.location": str(store),
    }
    access = Access(secret)
    assert "hush" not in repr(access)
    with pytest.raises(UsageError, match="certificates cannot be read") as raised:
        _ = access.tls
    assert "hush" not in str(raised.value)


def test_secret_file_has_mode_600_and_is_not_overwritten(tmp_path: Path) -> None:
    """Whatever the umask; and never over a file that it did not make."""
    path = write_secret(tmp_path / "secret", "hush")
    assert path.read_text() == "hush" and path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write_secret(path, "again")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("acks=2\n", r":1: acks=2 is not valid; write all or -1 or 0 or 1"),
        ("retries=many\n", r":1: retries=many is not valid; write a whole number"),
        (
            "min.insync.replicas=2\n",
            r":1: min\.insync\.replicas is a setting of topics, which producers ignore",
        ),
        ("acsk=all\n", r":1: acsk is no setting of Kafka's clients; did you mean acks\?"),
        ("retry=3\n", r":1: retry is no setting of Kafka's clients; did you mean retries\?"),
        ("socket.keepalive.enable=true\n", r":1: socket\..* name; Kafka's Java clients have no such setting"),
        ("socket.send.buffer.bytes=1\n", r":1: .* is librdkafka's name; Kafka's is send\.buffer\.bytes"),
        ("ack=all\n", r":1: ack is no setting of Kafka's clients; did you mean acks\?"),
        ("acks=all\nenable.idempotense=true\n", r":2: .*did you mean enable\.idempotence"),
        ("request.required.acks=1\n", r":1: request\.required\.acks is librdkafka's name; Kafka's is acks"),
    ],
)
def test_slip_in_what_a_producer_promises_is_named(tmp_path: Path, text: str, message: str) -> None:
    """With it, the default would hold, and nothing would say so."""
    path = tmp_path / "producer.properties"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_producer_settings(path)


def test_file_for_both_libraries_may_have_settings_of_librdkafka_alone(tmp_path: Path) -> None:
    """It has another setting in the names of both."""
    path = tmp_path / "client.properties"
    path.write_text("sasl.mechanisms=PLAIN\nsasl.mechanism=PLAIN\nsocket.keepalive.enable=true\n")
    assert Access.read(path).properties["sasl.mechanism"] == "PLAIN"


def test_settings_of_others_are_no_slips(tmp_path: Path) -> None:
    """Names of plugins, and Kafka's own that only look alike."""
    path = tmp_path / "client.properties"
    path.write_text(
        "acks=1\nclient.id=a\ngroup.id=b\nsasl.oauthbearer.token.endpoint.url=c\nssl.protocol=TLSv1.3\n"
        "schema.registry.url=d\nkey.serializer=e\nmetadata.max.age.ms=1\nclient.rack=f\n"
    )
    assert Access.read(path).properties["client.rack"] == "f"
    assert read_producer_settings(path)["acks"] == "1"


def test_store_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/no/such.pem\n")
    with pytest.raises(
        UsageError, match=r"client\.properties: ssl\.truststore\.location=/no/such\.pem: there is"
    ):
        _ = Access.read(path).tls
