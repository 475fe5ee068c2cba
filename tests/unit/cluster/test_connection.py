"""A connection for many requests, against a server that answers in pieces."""

from __future__ import annotations

import socket
import struct
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from types import SimpleNamespace

import pytest
from kafka.protocol.admin import CreateTopicsResponse, DeleteTopicsResponse
from kafka.protocol.metadata import MetadataResponse

from kaput.cluster.access import OPEN, Access
from kaput.cluster.admin import Admin
from kaput.cluster.protocol import metadata
from kaput.cluster.wire import Connection, Endpoint, Unanswered, WrongProtocol, ask_first
from kaput.errors import LabError
from kaput.scenario.model import Topic

_TLS_ALERT = b"\x15\x03\x03\x00\x02\x02\x46"
ID = uuid.UUID(int=7)


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def answering(server: socket.socket, *pieces: bytes) -> threading.Thread:
    """Accepts a connection, and sends each piece after a request."""

    def serve() -> None:
        accepted, _ = server.accept()
        with accepted:
            for piece in pieces:
                accepted.recv(1000)
                accepted.sendall(piece[:8])
                # Another segment: the client reads what is there.
                threading.Event().wait(0.2)
                accepted.sendall(piece[8:])

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def answering_in_turn(server: socket.socket, answers: Sequence[bytes]) -> None:
    """Each answer is the only one of a connection; none: it is closed."""

    def serve() -> None:
        for answer in answers:
            accepted, _ = server.accept()
            with accepted:
                accepted.recv(1000)
                if answer:
                    accepted.sendall(struct.pack(">iib", len(answer) + 5, 1, 0) + answer)

    threading.Thread(target=serve, daemon=True).start()


def admin_of(server: socket.socket) -> Admin:
    """Of a cluster whose only broker is the server."""
    cluster = SimpleNamespace(
        broker_endpoints={1: Endpoint(*server.getsockname())}, controller_endpoints={}, zookeeper_endpoints={}
    )
    return Admin(cluster, 30)  # type: ignore[arg-type]


def described(error_code: int) -> MetadataResponse:
    """What a broker knows of a topic."""
    id_ = uuid.UUID(int=0) if error_code else ID
    topic = MetadataResponse.MetadataResponseTopic(name="orders", topic_id=id_, error_code=error_code)
    return MetadataResponse(version=10, topics=[topic])


def versions(correlation_id: int, error_code: int) -> bytes:
    """An answer to ApiVersions without any."""
    body = struct.pack(">ihi", correlation_id, error_code, 0)
    return struct.pack(">i", len(body)) + body


def test_tls_alert_bytes_within_a_response_are_data(server: socket.socket) -> None:
    """Only what a connection begins with can be one: here the second piece of each answer has its bytes."""
    thread = answering(server, versions(1, 0x1503), versions(2, 0x1503))
    with closing(Connection(Endpoint("127.0.0.1", server.getsockname()[1]), 30)) as connection:
        for _ in range(2):
            assert connection.ask(metadata.ApiVersionsRequest(version=0)).error_code == 0x1503
    thread.join()


def test_tls_alert_is_reported_as_wrong_protocol(server: socket.socket) -> None:
    """And not a broker that does not answer."""
    thread = answering(server, _TLS_ALERT)
    address = Endpoint("127.0.0.1", server.getsockname()[1])
    refused = pytest.raises(WrongProtocol, match="requires TLS")
    with closing(Connection(address, 30)) as connection, refused:
        connection.ask(metadata.ApiVersionsRequest(version=0))
    thread.join()


def test_closed_or_unreachable_server_is_unanswered(server: socket.socket) -> None:
    """Whether it never was there, or closes the connection."""
    address = Endpoint("127.0.0.1", server.getsockname()[1])
    thread = answering(server)
    with closing(Connection(address, 30)) as connection, pytest.raises(Unanswered):
        connection.ask(metadata.ApiVersionsRequest(version=0))
    thread.join()
    server.close()
    with pytest.raises(Unanswered):
        Connection(address, 30)


def test_node_that_closes_the_connection_is_asked_once_more(server: socket.socket) -> None:
    """As with a small connections.max.idle.ms: what was asked may have been carried out. A node at whose
    port nothing listens has done nothing.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        unused = Endpoint(*listening.getsockname())

    def serve() -> None:
        first, _ = server.accept()
        with first:
            first.recv(1000)
        answering(server, versions(1, 7)).join()

    thread = threading.Thread(target=serve)
    thread.start()
    endpoints = [unused, Endpoint(*server.getsockname())]
    answer, lost = ask_first(endpoints, lambda: metadata.ApiVersionsRequest(version=0), 30)
    assert answer.error_code == 7 and lost
    thread.join()


@pytest.mark.parametrize("how", ["timed out", "reset"])
@pytest.mark.parametrize("signs_in", [False, True])
def test_answer_is_lost_only_if_the_request_was_sent(server: socket.socket, how: str, signs_in: bool) -> None:
    """Whether the node is silent or resets the connection; a sign-in asks for no change."""
    over = threading.Event()

    def serve() -> None:
        accepted, _ = server.accept()
        with accepted:
            accepted.recv(1000)
            if how == "reset":
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            else:
                over.wait(30)

    thread = threading.Thread(target=serve)
    thread.start()
    signing = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    access = Access(signing) if signs_in else OPEN
    endpoint = Endpoint("127.0.0.1", server.getsockname()[1], access)
    with pytest.raises(Unanswered, match=how) as caught:
        request = metadata.ApiVersionsRequest(version=0)
        ask_first([endpoint], lambda: request, 0.5 if how == "timed out" else 30)
    assert caught.value.sent != signs_in
    over.set()
    thread.join()


@pytest.mark.parametrize("closes_first", [True, False])
def test_partitions_that_an_earlier_try_added_are_no_mistake(
    server: socket.socket, closes_first: bool
) -> None:
    """The broker says then that there are as many; whether there are, resize looks at itself."""

    def serve() -> None:
        for closes in [True, False] if closes_first else [False]:
            accepted, _ = server.accept()
            with accepted:
                accepted.recv(1000)
                has = struct.pack(">iiih6shh", 1, 0, 1, 6, b"orders", 37, -1)
                if not closes:
                    accepted.sendall(struct.pack(">i", len(has)) + has)

    thread = threading.Thread(target=serve)
    thread.start()
    refused = nullcontext() if closes_first else pytest.raises(LabError, match="cannot have 6 partitions")
    with admin_of(server) as admin, refused:
        admin.add_partitions("orders", 6)
    thread.join()


@pytest.mark.parametrize("closes_first", [True, False])
def test_topic_that_an_earlier_try_created_is_no_mistake(server: socket.socket, closes_first: bool) -> None:
    """The broker closes the connection when it has created the topic, and says then that there is one."""
    asked = threading.Event()

    def serve() -> None:
        exists = struct.pack(">iiih6shh", 1, 0, 1, 6, b"orders", 36, -1)
        known = struct.pack(">iiihiihh6s?i", 1, 0, 0, -1, 1, 1, 0, 6, b"orders", False, 0)
        while not asked.is_set():
            accepted, _ = server.accept()
            with accepted:
                creates = accepted.recv(1000)[4:6] == struct.pack(">h", 19)
                if not creates or next(tries):
                    answer = exists if creates else known
                    accepted.sendall(struct.pack(">i", len(answer)) + answer)

    tries = iter([False, True] if closes_first else [True])
    threading.Thread(target=serve, daemon=True).start()
    refused = nullcontext() if closes_first else pytest.raises(LabError, match="TOPIC_ALREADY_EXISTS")
    with admin_of(server) as admin, refused:
        admin.create_topics([Topic(name="orders")], in_sync=False)
    asked.set()


@pytest.mark.parametrize("closes_first", [True, False])
def test_topic_made_by_a_request_whose_answer_was_lost_has_its_id(
    server: socket.socket, closes_first: bool
) -> None:
    """Else a run would leave it on the user's cluster. A broker may learn of it late."""
    told = CreateTopicsResponse.CreatableTopicResult
    exists = CreateTopicsResponse(version=7, topics=[told(name="orders", error_code=36)])
    answers = [one.encode() for one in (exists, described(3), described(0))]
    answering_in_turn(server, ([b""] if closes_first else []) + answers)
    with admin_of(server) as admin:
        made, refused = admin.make_topics([Topic(name="orders")])
    assert made == ({"orders": ID} if closes_first else {}) and len(refused) == (0 if closes_first else 1)


@pytest.mark.parametrize("there", [True, False])
def test_topic_that_an_earlier_try_deleted_is_no_mistake(server: socket.socket, there: bool) -> None:
    """Also one of a broker, which sends a request to the controller again; one that never was there is."""
    told = DeleteTopicsResponse.DeletableTopicResult
    unknown = DeleteTopicsResponse(version=4, responses=[told(name="orders", error_code=3)])
    gone = MetadataResponse(version=10)
    answering_in_turn(server, [one.encode() for one in (described(0 if there else 3), unknown, gone)])
    refused = nullcontext() if there else pytest.raises(LabError, match="UNKNOWN_TOPIC_OR_PARTITION")
    with admin_of(server) as admin, refused:
        admin.delete_topic("orders")
