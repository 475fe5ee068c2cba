"""Signals from answers as brokers give them: the metadata quorum, log directories, and until when a
listener's certificate is valid, also if it has expired or is untrusted.
"""

from __future__ import annotations

import math
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace as Answer
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from kaput.cluster.wire import Endpoint, Unanswered
from kaput.monitor.sources.answers import quorum_leaders, quorum_samples, valid_until, volume_samples

NOW_NS = 1_700_000_000_000_000_000
NOW_MS = NOW_NS // 1_000_000


def quorum(leader: int, epoch: int = 3, error: int = 0, voters: Any = ()) -> Any:
    states = [
        Answer(replica_id=node, log_end_offset=end, last_caught_up_timestamp=ms) for node, end, ms in voters
    ]
    partition = Answer(
        error_code=error, leader_id=leader, leader_epoch=epoch, high_watermark=100, current_voters=states
    )
    return Answer(error_code=0, topics=[Answer(partitions=[partition])])


def values(samples: Any) -> dict[tuple[str, ...], float]:
    return {(s.name.removeprefix("kaput_"), *s.labels.values()): s.value for s in samples}


def test_agreeing_brokers_report_one_controller() -> None:
    assert set(quorum_leaders([quorum(1), quorum(1), quorum(1)])) == {1}


def test_two_active_controllers_are_both_counted() -> None:
    """One was cut off with a broker, and does not know yet that it is deposed."""
    assert set(quorum_leaders([quorum(1, 3), quorum(2, 4)])) == {1, 2}


def test_error_responses_are_not_controllers() -> None:
    assert quorum_leaders([quorum(1, error=6), Answer(error_code=41, topics=[]), quorum(-1)]) == {}


def test_quorum_follower_lag_in_records_and_seconds() -> None:
    voters = [(1, 100, NOW_MS), (2, 90, NOW_MS - 4000), (3, -1, -1)]
    found = values(quorum_samples(quorum_leaders([quorum(1, voters=voters), quorum(9, 2)]), NOW_NS))
    records, seconds = "quorum_follower_lag_records", "quorum_follower_lag_seconds"
    assert (found[records, "1"], found[seconds, "1"]) == (0, 0)
    assert (found[records, "2"], found[seconds, "2"]) == (10, pytest.approx(4))
    assert math.isnan(found[records, "3"]) and math.isnan(found[seconds, "3"]), "it was never heard of"


def directory(error: int = 0, total: int = 100, usable: int = 40) -> Any:
    return Answer(error_code=error, total_bytes=total, usable_bytes=usable)


def test_log_dir_usage_is_that_of_the_fullest_directory() -> None:
    answer = Answer(error_code=0, results=[directory(), directory(usable=10), directory(56, -1, -1)])
    found = values(volume_samples(1, answer, 0))
    assert found == {("log_dirs_offline", "1"): 1, ("log_dir_used_ratio", "1"): pytest.approx(0.9)}


@pytest.mark.parametrize("answer", [None, Answer(error_code=31, results=[])])
def test_unanswered_log_dirs_are_unknown(answer: Any) -> None:
    assert all(math.isnan(value) for value in values(volume_samples(1, answer, 0)).values())


def test_unreported_log_dir_size_is_unknown() -> None:
    found = values(volume_samples(1, Answer(error_code=0, results=[directory(0, -1, -1)]), 0))
    assert found["log_dirs_offline", "1"] == 0 and math.isnan(found["log_dir_used_ratio", "1"])


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
