"""Sends one request of Kafka's protocol to one node, over a new connection, with a deadline.

A client library decides which node it asks and how long it waits; with paused and isolated brokers kaput must
decide that. kafka-python encodes the requests; the socket is kaput's own. Its place: admin/, own_cluster.py.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kaput.cluster.access import OPEN, Access
from kaput.cluster.protocol import KafkaError, KafkaProtocol, for_code, get_sasl_mechanism, sasl
from kaput.errors import LabError, UnknownFormat, UsageError

_ADDRESS = re.compile(r"(?:\[(?P<ipv6>[\w:.%]+)\]|(?P<host>[\w.-]+)):(?P<port>\d{1,5})")
_RECEIVED_BYTES = 1 << 18
_TLS_ALERT = b"\x15\x03"  # a TLS server's answer to anything else; no answer of Kafka starts with it
# Codes for which a retry is useless: *_AUTHORIZATION_FAILED, SASL_AUTHENTICATION_FAILED.
REFUSALS = frozenset({29, 30, 31, 53, 58, 65})


class Endpoint(NamedTuple):
    """A node's address, and the security settings to connect with."""

    host: str
    port: int
    access: Access = OPEN

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port


class Unanswered(LabError):
    """A node did not answer, or not in time."""

    sent = False
    """Whether the request itself was sent, not only a sign-in: then it may have been carried out."""


class Closed(Unanswered):
    """A node closed the connection instead of answering."""


class AccessRefused(Unanswered):
    """A node refuses access or this request; a retry is useless."""


class WrongProtocol(AccessRefused):
    """A node uses another security protocol than the client properties: exit status 2."""

    exit_status = UsageError.exit_status

    def __init__(self, endpoint: Endpoint, what: str) -> None:
        access = endpoint.access
        if access.path is not None:
            how = f"{access.path} (--command-config) has security.protocol={access.protocol}"
        else:
            how = "no client properties were given (--command-config FILE, in Java's format)"
        super().__init__(f"{endpoint.host}:{endpoint.port} {what}, but {how}")


def addresses(bootstrap_servers: str) -> list[tuple[str, int]]:
    """Parses HOST:PORT,... Raises UsageError."""
    parsed = []
    for text in bootstrap_servers.split(","):
        match = _ADDRESS.fullmatch(text.strip())
        if match is None or not 0 < int(match["port"]) < 1 << 16:
            raise UsageError(f"--bootstrap-servers {bootstrap_servers}: {text!r} is not HOST:PORT")
        parsed.append((match["ipv6"] or match["host"], int(match["port"])))
    return parsed


def unreachable(servers: str, why: str) -> LabError:
    """The exception for bootstrap servers of which none answers; `why`: what the last one did instead."""
    return LabError(
        f"{servers} cannot be reached: {why.removeprefix(f'{servers}: ')}; "
        "check that a broker runs there, and that this machine may connect to it"
    )


def ask(endpoint: Endpoint, request: Any, timeout_s: float, connection: socket.socket | None = None) -> Any:
    """The node's response, over `connection` if given. Raises Unanswered, AccessRefused, UnknownFormat."""
    with contextlib.closing(Connection(endpoint, timeout_s, connection)) as talking:
        try:
            return talking.ask_in_time(request)
        except Unanswered as error:
            error.sent = True
            raise


def ask_first(endpoints: Iterable[Endpoint], make: Callable[[], Any], timeout_s: float) -> tuple[Any, bool]:
    """The first response that a node gives, and whether an earlier request, whose answer was lost, may have
    been carried out; a node that closes the connection (connections.max.idle.ms) is asked once more. Raises
    AccessRefused, or Unanswered as the last one did.
    """
    why, lost = "there are no nodes", False
    for endpoint in endpoints:
        for _ in range(2):
            try:
                return ask(endpoint, make(), timeout_s), lost
            except AccessRefused:
                raise
            except Unanswered as error:
                why, lost = str(error), lost or error.sent
                if not isinstance(error, Closed):
                    break
    failure = Unanswered(why)
    failure.sent = lost
    raise failure


class Connection:
    """A connection for many requests in turn, such as those of a reader. Close it after use."""

    def __init__(self, endpoint: Endpoint, timeout_s: float, opened: socket.socket | None = None) -> None:
        """Connects, unless `opened` is given, and signs in. Raises Unanswered; AccessRefused if the node
        refuses access.
        """
        self._endpoint, self._where = endpoint, f"{endpoint.host}:{endpoint.port}"
        self._timeout_s, self._limit = timeout_s, time.monotonic() + timeout_s
        self._protocol = KafkaProtocol(client_id="kaput")
        self._first = True
        with self._errors():
            opened = opened or socket.create_connection(endpoint.address, timeout_s)
            self._socket = _with_tls(opened, endpoint, self._limit)
            if endpoint.access.mechanism is not None:
                try:
                    _sign_in(self, endpoint)
                except BaseException:
                    self.close()
                    raise

    def ask(self, request: Any, timeout_s: float | None = None) -> Any:
        """The node's response. Raises Unanswered; after that the connection is of no use."""
        self._limit = time.monotonic() + (self._timeout_s if timeout_s is None else timeout_s)
        return self.ask_in_time(request)

    def ask_in_time(self, request: Any) -> Any:
        """The same, within the time that is left of the last limit."""
        with self._errors():
            self._protocol.send_request(request)
            self._socket.sendall(self._protocol.send_bytes())
            while (left_s := self._limit - time.monotonic()) > 0:
                self._socket.settimeout(left_s)
                data = self._socket.recv(_RECEIVED_BYTES)
                if not data:
                    raise Closed(f"{self._where} closed the connection")
                if self._first and data.startswith(_TLS_ALERT) and self._endpoint.access.tls is None:
                    raise WrongProtocol(self._endpoint, "requires TLS")
                self._first = False  # later on, data may begin with any bytes
                try:
                    for _, response in self._protocol.receive_bytes(data):
                        return response
                except (struct.error, ValueError, LookupError, TypeError) as error:
                    what = f"{self._where} answered {type(request).__name__} with bytes ({error})"
                    raise UnknownFormat(what) from None
        raise Unanswered(f"{self._where} did not answer within {self._timeout_s} s")

    def close(self) -> None:
        self._socket.close()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, KafkaError) as error:
            # `Connection refused`, without the number that the system has for it.
            why = getattr(error, "strerror", None) or error
            raise Unanswered(f"{self._where}: {why}") from None


def error_name(code: int) -> str:
    """Kafka's name of an error code, such as NOT_LEADER_OR_FOLLOWER."""
    return str(getattr(for_code(code), "message", code))


def trouble(what: str, code: int, message: str | None = None) -> LabError:
    """The exception `what: why` for an error code (AccessRefused or not); `message`: Kafka's own."""
    kind = AccessRefused if code in REFUSALS else LabError
    return kind(f"{what}: {message or error_name(code)}")


def _with_tls(opened: socket.socket, endpoint: Endpoint, limit: float) -> socket.socket:
    """The connection, with TLS if the access requires it; closed if that fails."""
    context = endpoint.access.tls
    if context is None:
        return opened
    try:
        opened.settimeout(max(0.001, limit - time.monotonic()))
        return context.wrap_socket(opened, server_hostname=endpoint.host)
    except ssl.SSLCertVerificationError as error:
        opened.close()
        raise AccessRefused(
            f"{endpoint.host}:{endpoint.port}: its certificate is not trusted: {error.verify_message}"
        ) from None
    except OSError:
        opened.close()
        raise


def _sign_in(connection: Connection, endpoint: Endpoint) -> None:
    """Signs in with SASL. Raises AccessRefused with the broker's message, which contains no secrets."""
    access, where = endpoint.access, f"{endpoint.host}:{endpoint.port}"
    given = access.kafka_python()
    known = connection.ask_in_time(sasl.SaslHandshakeRequest(version=1, mechanism=access.mechanism))
    if known.error_code:
        raise AccessRefused(
            f"{where} does not support {access.mechanism}; it supports {', '.join(known.mechanisms)}"
        )
    try:
        mechanism = get_sasl_mechanism(access.mechanism)(host=endpoint.host, **given)
        while not mechanism.is_done():
            proof = sasl.SaslAuthenticateRequest(version=1, auth_bytes=mechanism.auth_bytes())
            answer = connection.ask_in_time(proof)
            if answer.error_code:
                raise AccessRefused(f"{where} refused {access.principal}: {answer.error_message}")
            mechanism.receive(answer.auth_bytes)
    except (KeyError, ValueError) as error:
        # A mechanism that kafka-python lacks, missing settings, or a server that cannot authenticate itself.
        raise AccessRefused(
            f"{where}: {access.principal} cannot authenticate with {access.mechanism}: {error}"
        ) from None
