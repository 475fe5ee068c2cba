"""One question to one node: a request of Kafka's protocol over a connection of its own, with a deadline.

A client library chooses whom it asks and for how long it waits; in a cluster with paused and cut-off brokers
that must be ours to choose. The bytes are kafka-python's, the socket is ours. Its place: admin.py, lab.py.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from typing import Any, NamedTuple

from kaput.cluster.access import OPEN, Access
from kaput.cluster.protocol import (
    KafkaError,
    KafkaProtocol,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    for_code,
    get_sasl_mechanism,
)
from kaput.errors import LabError, UsageError

_RECEIVED_BYTES = 1 << 16
_TLS_ALERT = b"\x15\x03"  # what TLS answers to bytes that are none of it; no answer of Kafka's begins so
# Codes that the next answer will have as well: *_AUTHORIZATION_FAILED, SASL_AUTHENTICATION_FAILED.
REFUSALS = frozenset({29, 30, 31, 53, 58, 65})


class Endpoint(NamedTuple):
    """Where a node listens, and how a question is let in there."""

    host: str
    port: int
    access: Access = OPEN

    @property
    def address(self) -> tuple[str, int]:
        """For sockets."""
        return self.host, self.port


class Unanswered(LabError):
    """A node did not answer in time, or not at all."""


class Refused(Unanswered):
    """A node does not let us in, or does not let us do this; asking again is of no use."""


class WrongProtocol(Refused):
    """A node speaks otherwise than the user has said, or has not said: exit status 2."""

    exit_status = UsageError.exit_status

    def __init__(self, endpoint: Endpoint, what: str) -> None:
        access = endpoint.access
        if access.path is not None:
            how = f"{access.path} (--command-config) says security.protocol={access.protocol}"
        else:
            how = "nothing says how to be let in: --command-config FILE does (Java's client properties)"
        super().__init__(f"{endpoint.host}:{endpoint.port} {what}, and {how}")


def ask(endpoint: Endpoint, request: Any, timeout_s: float, connection: socket.socket | None = None) -> Any:
    """The node's response to a kafka-python request, over `connection` if one is given.

    Raises Unanswered; Refused where the node does not let us in.
    """
    limit = time.monotonic() + timeout_s
    where = f"{endpoint.host}:{endpoint.port}"
    try:
        opened = connection or socket.create_connection(endpoint.address, timeout_s)
        with contextlib.closing(_encrypted(opened, endpoint, limit)) as talking:
            exchange = _Exchange(talking, endpoint, limit, timeout_s)
            if endpoint.access.mechanism is not None:
                _sign_in(exchange, endpoint)
            return exchange.answer_to(request)
    except (OSError, KafkaError) as error:
        raise Unanswered(f"{where}: {error}") from None


def error_name(code: int) -> str:
    """Kafka's word for an error code, such as NOT_LEADER_OR_FOLLOWER."""
    return str(getattr(for_code(code), "message", code))


def trouble(what: str, code: int, said: str | None = None) -> LabError:
    """The exception for an answer with that error code, `what: why`; Refused where it is a matter of rights.

    said: Kafka's own sentence, where the answer has one.
    """
    kind = Refused if code in REFUSALS else LabError
    return kind(f"{what}: {said or error_name(code)}")


class _Exchange:
    """Requests and their answers on one connection."""

    def __init__(self, connection: socket.socket, endpoint: Endpoint, limit: float, timeout_s: float) -> None:
        self._connection, self._limit, self._timeout_s = connection, limit, timeout_s
        self._endpoint, self._where = endpoint, f"{endpoint.host}:{endpoint.port}"
        self._protocol = KafkaProtocol(client_id="kaput")

    def answer_to(self, request: Any) -> Any:
        self._protocol.send_request(request)
        self._connection.sendall(self._protocol.send_bytes())
        while (left_s := self._limit - time.monotonic()) > 0:
            self._connection.settimeout(left_s)
            data = self._connection.recv(_RECEIVED_BYTES)
            if not data:
                raise Unanswered(f"{self._where} hung up")
            if data.startswith(_TLS_ALERT) and self._endpoint.access.tls is None:
                raise WrongProtocol(self._endpoint, "speaks TLS")
            for _, response in self._protocol.receive_bytes(data):
                return response
        raise Unanswered(f"{self._where} did not answer within {self._timeout_s} s")


def _encrypted(opened: socket.socket, endpoint: Endpoint, limit: float) -> socket.socket:
    """The same connection under TLS, where the access asks for it; closed where that fails."""
    context = endpoint.access.tls
    if context is None:
        return opened
    try:
        opened.settimeout(max(0.001, limit - time.monotonic()))
        return context.wrap_socket(opened, server_hostname=endpoint.host)
    except ssl.SSLCertVerificationError as error:
        opened.close()
        raise Refused(
            f"{endpoint.host}:{endpoint.port}: its certificate is not trusted: {error.verify_message}"
        ) from None
    except OSError:
        opened.close()
        raise


def _sign_in(exchange: _Exchange, endpoint: Endpoint) -> None:
    """Raises Refused with the broker's word, which has no secrets in it."""
    access, where = endpoint.access, f"{endpoint.host}:{endpoint.port}"
    given = access.kafka_python()
    known = exchange.answer_to(SaslHandshakeRequest(version=1, mechanism=access.mechanism))
    if known.error_code:
        raise Refused(f"{where} knows no {access.mechanism}; it knows {', '.join(known.mechanisms)}")
    try:
        mechanism = get_sasl_mechanism(access.mechanism)(host=endpoint.host, **given)
        while not mechanism.is_done():
            proof = SaslAuthenticateRequest(version=1, auth_bytes=mechanism.auth_bytes())
            answer = exchange.answer_to(proof)
            if answer.error_code:
                raise Refused(f"{where} does not let {access.principal} in: {answer.error_message}")
            mechanism.receive(answer.auth_bytes)
    except (KeyError, ValueError) as error:
        # A mechanism that kafka-python does not have, settings that it lacks, a server that proves nothing.
        raise Refused(f"{where}: {access.principal} cannot sign in by {access.mechanism}: {error}") from None
