"""`security: scram-tls`: all connections use TLS, all clients sign in, and ACLs decide what they may do.
Certificates, users and ACLs are made for one cluster, and deleted with it.

Nodes authenticate with certificates (a controller cannot look up a password before there is a metadata log),
clients with SCRAM (docs/SECURITY.md, decision 33). Each password and key has its own file in a folder that
only its owner can read; the nodes' settings name these files and contain no secret.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import ipaddress
import os
import secrets
import struct
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kaput.cluster.access import OPEN, Access, write_secret
from kaput.cluster.distribution import Distribution
from kaput.cluster.properties import NodeLayout
from kaput.cluster.protocol import DefaultRecordBatchBuilder
from kaput.cluster.record_batches import header
from kaput.errors import UsageError
from kaput.java_properties import properties_text
from kaput.scenario.model import Cluster
from kaput.scenario.vocabulary import APP_USER, CLIENT_USER, USERS

# No issued certificate may have this name: it would look self-signed.
_AUTHORITY = "authority of one cluster"
_VALIDITY = datetime.timedelta(days=365)
# The clock of a container, or of a machine after a suspend, may be a little behind.
_BACKDATED = datetime.timedelta(days=1)


class Authority:
    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(_AUTHORITY)
        self._certificate = (
            _certificate_builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def certificate(self) -> str:
        """The authority's own certificate in PEM format; not a secret."""
        return _pem(self._certificate)

    def issue(self, name: str, host: str) -> str:
        """A key and its certificate in PEM format, for `name` at `host`."""
        key = ec.generate_private_key(ec.SECP256R1())
        signed = (
            _certificate_builder(_name(name), self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.SubjectAlternativeName([_alternative_name(host)]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        # Java only reads PKCS 8 keys.
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return private.decode() + _pem(signed) + self.certificate


def _certificate_builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _VALIDITY)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


MECHANISM = "SCRAM-SHA-512"
_SHA_512 = 2  # the mechanism's number in records
ITERATIONS = 4096  # the minimum: a password of 32 random bytes needs no more
_USER, _RIGHT = 11, 18  # record types
_LITERAL, _ALL, _ALLOW = 3, 2, 3
_TOPIC, _GROUP, _CLUSTER, _TRANSACTIONAL_ID = 2, 3, 4, 5
_ALL_RESOURCES = ((_TOPIC, "*"), (_GROUP, "*"), (_CLUSTER, "kafka-cluster"), (_TRANSACTIONAL_ID, "*"))
_EPOCH_AT, _BASE_OFFSET = 12, struct.Struct(">q")  # in a batch; the checksum covers neither


def salted_password(password: str, salt: bytes) -> bytes:
    return hashlib.pbkdf2_hmac("sha512", password.encode(), salt, ITERATIONS)


@dataclass(frozen=True)
class User:
    """A user, and the keys that verify the password."""

    name: str
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def with_password(cls, name: str, password: str, salt: bytes | None = None) -> User:
        """Derives the keys as in RFC 5802; the salt is random unless given."""
        salt = os.urandom(16) if salt is None else salt
        salted = salted_password(password, salt)
        client_key, server_key = (
            hmac.digest(salted, what, "sha512") for what in (b"Client Key", b"Server Key")
        )
        return cls(name, salt, hashlib.sha512(client_key).digest(), server_key)

    def record(self) -> bytes:
        return (
            _record_frame(_USER)
            + _text(self.name)
            + bytes([_SHA_512])
            + b"".join(map(_bytes, (self.salt, self.stored_key, self.server_key)))
            + struct.pack(">i", ITERATIONS)
            + _NO_TAGGED_FIELDS
        )


def all_rights(principal: str) -> list[bytes]:
    """Records that allow a principal (`User:kaput`) everything; ACLs that deny still apply."""
    return [
        _record_frame(_RIGHT)
        + uuid.uuid4().bytes
        + bytes([kind])
        + _text(name)
        + bytes([_LITERAL])
        + _text(principal)
        + _text("*")  # from any host
        + bytes([_ALL, _ALLOW])
        + _NO_TAGGED_FIELDS
        for kind, name in _ALL_RESOURCES
    ]


def with_records(snapshot: bytes, records: Sequence[bytes]) -> bytes:
    """Inserts these records before the footer of a snapshot that storage was formatted with."""
    at = last = 0
    while at < len(snapshot):
        head = header(snapshot, at)
        if head is None or at + head.size > len(snapshot):
            raise ValueError("a snapshot is torn")
        at, last = at + head.size, at
    (base,) = _BASE_OFFSET.unpack_from(snapshot, last)
    batch, footer = bytearray(_batch(records)), bytearray(snapshot[last:])
    _BASE_OFFSET.pack_into(batch, 0, base)
    struct.pack_into(">i", batch, _EPOCH_AT, 0)
    _BASE_OFFSET.pack_into(footer, 0, base + len(records))
    return snapshot[:last] + bytes(batch) + bytes(footer)


def _batch(records: Sequence[bytes]) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    now_ms = time.time_ns() // 1_000_000
    for number, record in enumerate(records):
        builder.append(number, timestamp=now_ms, key=None, value=record, headers=[])
    return bytes(builder.build())


_NO_TAGGED_FIELDS = b"\x00"


def _record_frame(number: int) -> bytes:
    """The frame of a record: version of the frame, kind, version of the record."""
    return bytes([1, number, 0])


def _text(text: str) -> bytes:
    return _bytes(text.encode())


def _bytes(data: bytes) -> bytes:
    """Compact bytes: length + 1 in one byte, then the data."""
    if len(data) > 126:
        raise ValueError("too long for a length of one byte")
    return bytes([len(data) + 1]) + data


_FOLDER = "secrets"
CLIENT_PROPERTIES = "client.properties"
_NODE = "node"  # the name in all nodes' certificates
_CLIENTS, _INTERNAL, _CONTROLLER = "CLIENTS", "INTERNAL", "CONTROLLER"
_OLDEST_KAFKA = (3, 5)  # with users in the metadata log
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Unsecured:
    """A cluster without security: all clients may do everything."""

    records: Sequence[bytes] = ()
    """Users and ACLs, for the first snapshot of the metadata log."""
    controller_access = OPEN
    """kaput's access to the voters of the metadata quorum."""

    def access(self, user: str = CLIENT_USER) -> Access:
        return OPEN

    def node_settings(self, layout: NodeLayout) -> Mapping[str, str]:
        """A node's security settings: brokers permit everything, and record who sends which requests."""
        if layout.role == "controller":
            return {}
        return {"authorizer.class.name": "RequestVersions", "kaput.requests": str(layout.requests)}


class Security(Unsecured):
    """The security of one cluster. Creates `folder`, which the cluster's owner removes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._authority = Authority()
        folder.mkdir(mode=0o700, parents=True)
        self._authority_path = write_secret(folder / "ca.pem", self._authority.certificate)
        records = [*all_rights(f"User:{CLIENT_USER}"), *all_rights(f"User:{APP_USER}")]
        for user in USERS:
            password = secrets.token_urlsafe(32)
            write_secret(client_properties_path(folder, user), self._client_properties(user, password))
            records.append(User.with_password(user, password).record())
        self.records = records
        key = write_secret(folder / f"{CLIENT_USER}.pem", self._authority.issue(CLIENT_USER, "localhost"))
        # Controllers only accept certificates, also from kaput.
        self.controller_access = Access(
            {
                "security.protocol": "SSL",
                **self._trust,
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(key),
            }
        )

    def access(self, user: str = CLIENT_USER) -> Access:
        return Access.read(client_properties_path(self.folder, user))

    def node_settings(self, layout: NodeLayout) -> Mapping[str, str]:
        """A node's security settings; also creates its certificate."""
        layout.data.mkdir(exist_ok=True)
        layout.data.chmod(0o700)  # the metadata log has the SCRAM credentials
        mine = write_secret(
            self.folder / f"{_NODE}-{layout.id}.pem", self._authority.issue(_NODE, layout.host)
        )
        listeners = {
            _CLIENTS: layout.broker_port,
            _INTERNAL: layout.internal_port,
            _CONTROLLER: layout.controller_port,
        }
        settings = {
            "listeners": ",".join(
                f"{name}://{layout.host}:{port}" for name, port in listeners.items() if port is not None
            ),
            "listener.security.protocol.map": f"{_CLIENTS}:SASL_SSL,{_INTERNAL}:SSL,{_CONTROLLER}:SSL",
            "sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.{_CLIENTS.lower()}.{MECHANISM.lower()}.sasl.jaas.config": f"{_SCRAM} required;",
            **{
                f"listener.name.{name.lower()}.ssl.client.auth": "required"
                for name in (_INTERNAL, _CONTROLLER)
            },
            **self._trust,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(mine),
            "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{_NODE}",
        }
        if layout.broker_port is not None:
            settings["inter.broker.listener.name"] = _INTERNAL
        return settings

    @property
    def _trust(self) -> dict[str, str]:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self._authority_path)}

    def _client_properties(self, user: str, password: str) -> str:
        settings = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": f'{_SCRAM} required username="{user}" password="{password}";',
            **self._trust,
        }
        return properties_text(settings)


def secrets_folder(nodes: Path, spec: Cluster) -> Path:
    """The folder of a cluster's secrets, next to the folders of its nodes, whose ids are unique."""
    first, *_ = spec.broker_ids()
    return nodes / (_FOLDER if first == 1 else f"{_FOLDER}-{first}")


def create_security(spec: Cluster, distribution: Distribution, folder: Path) -> Security:
    """Creates the security that `spec` requires. Raises UsageError if this Kafka does not support it."""
    if spec.mode == "zookeeper" or distribution.release < _OLDEST_KAFKA:
        raise UsageError(
            f"security: {spec.security} needs mode: kraft and Kafka {_OLDEST_KAFKA[0]}.{_OLDEST_KAFKA[1]} or "
            f"newer, not {spec.mode} and {distribution.version}"
        )
    return Security(folder)


def client_properties_path(folder: Path, user: str) -> Path:
    return folder / (CLIENT_PROPERTIES if user == CLIENT_USER else f"{user}.properties")
