"""Until when a listener's certificate is valid, also where it is over, or nobody trusts it."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from kaput.cluster.wire import Endpoint, Unanswered
from kaput.monitor.sources.answers import valid_until


def certificate(path: Path, until: datetime) -> Path:
    """A PEM file with a key and its own certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody else")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(until - timedelta(days=9))
        .not_valid_after(until)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(pem + made.public_bytes(Encoding.PEM))
    return path


@contextmanager
def listener(pem: Path | None) -> Iterator[Endpoint]:
    """A listener with this certificate; without one it closes each connection."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            with suppress(OSError):
                opened, _ = server.accept()
                with closing(opened):
                    if pem is not None:
                        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                        context.load_cert_chain(pem)
                        with context.wrap_socket(opened, server_side=True) as talking:
                            talking.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        yield Endpoint(*server.getsockname())
    thread.join()


@pytest.mark.parametrize("days", [30, -3])
def test_certificate_expiry_is_read_without_verification(tmp_path: Path, days: int) -> None:
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)
    with listener(certificate(tmp_path / "pem", until)) as endpoint:
        assert valid_until(endpoint, 10) == until.timestamp()


def test_plaintext_listener_has_no_certificate() -> None:
    with listener(None) as endpoint, pytest.raises(Unanswered):
        valid_until(endpoint, 10)
