"""Certificates, users and rights of one cluster: who is believed what, and where secrets stand."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.net.sasl.scram import ScramClient
from kafka.record.memory_records import MemoryRecords

from kaput.cluster.access import Access
from kaput.cluster.admin.requests import metadata
from kaput.cluster.distribution import Distribution
from kaput.cluster.properties import NodeLayout, write_properties
from kaput.cluster.record_batches import header
from kaput.cluster.security import Security, Unsecured, User, all_rights, create_security, with_records
from kaput.cluster.wire import AccessRefused, Endpoint, ask
from kaput.errors import UsageError
from kaput.scenario.model import Cluster

HERE = "127.0.0.1"


@pytest.fixture
def security(tmp_path: Path) -> Security:
    """Of a cluster of one node, which has been let in."""
    made = Security(tmp_path / "secrets")
    place = NodeLayout(1, "combined", HERE, 9092, 9093, tmp_path / "1", internal_port=9094)
    place.folder.mkdir()
    write_properties(place, [place], Cluster(brokers=1), made.node_settings(place))
    return made


@contextlib.contextmanager
def serving(certificate: Path, trusted: Path | None = None) -> Iterator[Endpoint]:
    """A server with that certificate, for one connection; who is `trusted` must show one as well."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if trusted is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(trusted)
    with contextlib.closing(socket.create_server((HERE, 0))) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection, _ = server.accept()
                with context.wrap_socket(connection, server_side=True) as encrypted:
                    encrypted.sendall(encrypted.recv(1 << 16))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Endpoint(*server.getsockname())
        thread.join(5)


def connect(endpoint: Endpoint, access: Access) -> None:
    """A handshake, to its end on both sides: the server answers whom it believes alone."""
    context = access.tls
    assert context is not None
    opened = socket.create_connection(endpoint.address, 5)
    with context.wrap_socket(opened, server_hostname=endpoint.host) as encrypted:
        encrypted.sendall(b"x")
        assert encrypted.recv(1) == b"x"


def test_node_certificate_is_valid_for_its_address(security: Security) -> None:
    """And by its authority: another cluster's nodes are nobody here."""
    with serving(security.folder / "node-1.pem", security.folder / "ca.pem") as endpoint:
        connect(endpoint, security.controller_access)


def test_certificate_of_another_ca_is_rejected(security: Security, tmp_path: Path) -> None:
    """A question is refused at once, with a sentence: the next one would be, too."""
    other = Security(tmp_path / "other")
    with serving(security.folder / "node-1.pem") as endpoint:
        asked = endpoint._replace(access=other.access())
        with pytest.raises(AccessRefused, match="its certificate is not trusted"):
            ask(asked, metadata(), 5)


def test_certificate_for_another_address_is_rejected(security: Security, tmp_path: Path) -> None:
    """A node elsewhere cannot use it."""
    place = NodeLayout(2, "broker", "10.77.0.2", 9092, None, tmp_path / "2")
    place.folder.mkdir()
    security.node_settings(place)
    with serving(security.folder / "node-2.pem") as endpoint:
        asked = endpoint._replace(access=security.access())
        with pytest.raises(AccessRefused, match="IP address mismatch"):
            ask(asked, metadata(), 5)


def test_secrets_are_readable_by_their_owner_only(security: Security) -> None:
    """A folder that nobody else enters, files that nobody else reads, and no secret in a node's settings."""
    assert security.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in security.folder.iterdir()} == {0o600}
    passwords = [security.access(user).librdkafka()["sasl.password"] for user in ("kaput", "nobody")]
    assert len({*passwords}) == 2 and min(map(len, passwords)) >= 32
    told = (security.folder.parent / "1" / "server.properties").read_text()
    assert not any(password in told for password in passwords) and "PRIVATE KEY" not in told
    assert (security.folder.parent / "1" / "data").stat().st_mode & 0o777 == 0o700


def test_secured_node_has_client_internal_and_controller_listeners(security: Security) -> None:
    """Clients by SASL, brokers and voters by certificates; what the lab sets else stays."""
    lines = (security.folder.parent / "1" / "server.properties").read_text().splitlines()
    told = dict(line.split("=", 1) for line in lines)
    assert told["listeners"] == f"CLIENTS://{HERE}:9092,INTERNAL://{HERE}:9094,CONTROLLER://{HERE}:9093"
    assert told["inter.broker.listener.name"] == "INTERNAL" and told["auto.create.topics.enable"] == "false"
    assert told["super.users"] == "User:node" and "allow.everyone.if.no.acl.found" not in told


def test_unsecured_node_has_plaintext_listeners_only(tmp_path: Path) -> None:
    place = NodeLayout(1, "combined", HERE, 9092, 9093, tmp_path / "1", internal_port=9094)
    write_properties(place, [place], Cluster(brokers=1), Unsecured().node_settings(place))
    told = place.properties.read_text()
    assert "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER" in told and "ssl" not in told


def test_scram_credentials_verify_the_password() -> None:
    """By the keys that are written, as a client proves that it knows it (RFC 5802)."""
    user, client = User.with_password("kaput", "hush"), ScramClient("kaput", "hush", "SCRAM-SHA-512")
    client.create_salted_password(user.salt, 4096)
    client_key = client.hmac(client.salted_password, b"Client Key")
    assert client.hashfunc(client_key).digest() == user.stored_key
    assert client.hmac(client.salted_password, b"Server Key") == user.server_key
    assert b"hush" not in user.record()


def test_snapshot_records_are_inserted_before_the_footer() -> None:
    """Offsets go on without a gap, checksums are right, and the footer stays last."""
    first, footer = ([b"one", b"two"], [b"footer"])
    snapshot = _snapshot(first) + _snapshot(footer, 2)
    more = [User.with_password("kaput", "hush").record(), *all_rights("User:kaput")]
    whole = with_records(snapshot, more)
    read = MemoryRecords(whole)
    found: list[tuple[int, bytes]] = []
    while read.has_next():
        batch = read.next_batch()
        assert batch.validate_crc()
        found += [(record.offset, record.value) for record in batch]
    assert [offset for offset, _ in found] == list(range(8))
    assert [value for _, value in found] == [*first, *more, *footer]
    with pytest.raises(ValueError, match="torn"):
        with_records(snapshot[:-1], more)
    last = header(whole, len(whole) - len(_snapshot(footer)))
    assert last is not None and last.base_offset == 7


def _snapshot(records: list[bytes], base: int = 0) -> bytes:
    from kaput.cluster.security import _batch

    return base.to_bytes(8, "big") + _batch(records)[8:]


@pytest.mark.parametrize(("mode", "version"), [("zookeeper", "3.9.2"), ("kraft", "3.4.1")])
def test_scram_requires_kraft_and_kafka_3_5(mode: str, version: str, tmp_path: Path) -> None:
    """Before anything starts, with what would be right."""
    spec = Cluster.model_validate({"mode": mode, "kafka": version, "security": "scram-tls"})
    with pytest.raises(UsageError, match=r"scram-tls needs mode: kraft and Kafka 3\.5 or newer, not"):
        create_security(spec, Distribution(version, (), "id"), tmp_path / "secrets")
    assert not (tmp_path / "secrets").exists()
