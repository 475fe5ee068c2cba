"""One connection through the proxy: passes bytes from each end to the other, unless a rule applies.

A single frame is never removed from a connection: Kafka answers in the order of the requests, and TCP loses
nothing. So frames after a delayed one wait for it, and frames after a dropped one are dropped too.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kaput.cluster.frames.connection_end import REQUEST, RESPONSE, ConnectionEnd, Request, Splitter
from kaput.cluster.frames.rule import RuleInForce

# Size, API key and version, correlation id, no client id. Sent in place of a request that gets an error, so
# that the error takes the place of Kafka's answer and keeps the order.
_API_VERSIONS = struct.Struct(">ihhih")
_WAITING_BYTES_MAX = 1 << 24  # queued behind a delayed frame; with more, reading from the client pauses
_LINGER_S = 10.0  # for the broker's answers to delayed requests of a client that has disconnected


class _Waiting(NamedTuple):
    """Bytes for the broker. `due`: on the event loop's clock; `rule`: the rule that delays them."""

    due: float
    data: bytes
    rule: RuleInForce | None


class Link:
    """A client's connection, and the matching one to the broker.

    `rules`: the rules in force by API key, which may change. `listener`: clients or brokers. `count` is
    called with the number of requests in each chunk, `on_end` when both connections are closed.
    """

    def __init__(
        self,
        listener: str,
        rules: Mapping[int, list[RuleInForce]],
        count: Callable[[int], None],
        on_end: Callable[[Link], None],
    ) -> None:
        self._listener, self._rules, self._count, self._on_end = listener, rules, count, on_end
        self._loop = asyncio.get_running_loop()
        self._answer_handlers: dict[int, list[Callable[[bytes], None]]] = {}  # by correlation id
        self._requests, self._answers = Splitter(REQUEST, rules), Splitter(RESPONSE, self._answer_handlers)
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._wake: asyncio.TimerHandle | None = None
        self._drops_requests: RuleInForce | None = None  # drops all requests from now on
        self._drops_answers: RuleInForce | None = None
        self.client = ConnectionEnd(self._from_client, self._client_lost)
        self.broker = ConnectionEnd(self._from_broker, self._broker_lost)
        self.client.other, self.broker.other = self.broker, self.client

    async def connect(self, host: str, port: int) -> None:
        """Connects to the broker; closes the client's connection if the broker refuses."""
        try:
            await self._loop.create_connection(lambda: self.broker, host, port)
        except OSError:
            self.broker.lost = True
            self.client.abort()
            self._client_lost()
        else:
            self._flush()
            self._client_lost()

    def abort(self) -> None:
        """Ends both connections now."""
        self._waiting.clear()
        self._waiting_bytes = 0
        self.client.abort()
        self.broker.abort()

    def end_rule(self, rule: RuleInForce) -> None:
        """Sends what the rule delayed; closes the connection if the rule dropped anything on it."""
        if rule in (self._drops_requests, self._drops_answers):
            self.abort()
        self._waiting = deque(each._replace(due=0.0) if each.rule is rule else each for each in self._waiting)
        self._flush()

    def _from_client(self, data: bytes) -> None:
        before = self._requests.seen
        parts = self._requests.split(data)
        self._count(self._requests.seen - before)
        for part in parts:
            if isinstance(part, Request):
                self._handle_request(part)
            elif isinstance(part, bytes):
                self._to_broker(part)
        if self._drops_requests is None and not self._waiting:
            self.client.splice_to_other(self._requests.bytes_to_skip, self._requests.skip)

    def _handle_request(self, request: Request) -> None:
        if self._drops_requests is not None:
            return
        for rule in self._rules.get(request.api, ()):
            if rule.acts_on(request, self._listener, self.client.peer):
                self._apply(request, rule)
                return
        self._to_broker(request.data)

    def _apply(self, request: Request, rule: RuleInForce) -> None:
        handlers = self._answer_handlers.setdefault(request.correlation_id, [])
        match rule.what:
            case "delay":
                self._to_broker(request.data, rule)
            case "drop-request":
                self._drops_requests = rule
            case "drop-response":
                handlers.append(lambda answer: self._drop_answers(rule, answer))
                self._to_broker(request.data)
            case "disconnect":
                self._drops_requests = rule
                self.abort()
            case "duplicate":
                handlers += [self._to_client, lambda _: None]
                self._to_broker(request.data + request.data)
            case "error":
                frame = rule.answer(request)
                assert frame is not None, "acts_on has made sure of that"
                handlers.append(lambda _: self._to_client(frame))
                self._to_broker(_API_VERSIONS.pack(10, 18, 0, request.correlation_id, -1))
        if not handlers:
            del self._answer_handlers[request.correlation_id]

    def _to_broker(self, data: bytes, rule: RuleInForce | None = None) -> None:
        if self._drops_requests is not None:
            return
        if rule is None and not self._waiting and self.broker.transport is not None:
            self.broker.transport.write(data)
            return
        due = self._loop.time() + (rule.delay_s if rule is not None else 0.0)
        self._waiting.append(_Waiting(due, data, rule))
        self._waiting_bytes += len(data)
        if self._waiting_bytes > _WAITING_BYTES_MAX:
            self.client.stop_reading("waiting")
        self._flush()

    def _flush(self) -> None:
        """Sends the bytes that are due, and schedules itself for the next ones."""
        if self.broker.transport is None:
            return
        if self._wake is not None:
            self._wake.cancel()
        while self._waiting and self._waiting[0].due <= self._loop.time():
            data = self._waiting.popleft().data
            self._waiting_bytes -= len(data)
            self.broker.transport.write(data)
        if self._waiting:
            self._wake = self._loop.call_at(self._waiting[0].due, self._flush)
            return
        self.client.resume_reading("waiting")
        if self.client.lost:
            self._loop.call_later(_LINGER_S, self.broker.abort)

    def _from_broker(self, data: bytes) -> None:
        for part in self._answers.split(data):
            if isinstance(part, bytes):
                self._to_client(part)
                continue
            handlers = self._answer_handlers.pop(part.correlation_id, [self._to_client])
            handlers.pop(0)(part.data)
            if handlers:
                self._answer_handlers[part.correlation_id] = handlers
        if self._drops_answers is None:
            self.broker.splice_to_other(self._answers.bytes_to_skip, self._answers.skip)

    def _to_client(self, data: bytes) -> None:
        if self._drops_answers is None and self.client.transport is not None and not self.client.lost:
            self.client.transport.write(data)

    def _drop_answers(self, rule: RuleInForce, answer: bytes) -> None:
        """Drops this answer and all that follow, unless the rule has ended."""
        if rule.ended:
            self._to_client(answer)
        else:
            self._drops_answers = rule

    def _client_lost(self) -> None:
        """Closes the broker's connection, but after sending delayed requests, as a slow network would."""
        if self.client.lost and not self._waiting and self.broker.transport is not None:
            self.broker.transport.close()
        self._report_end()

    def _broker_lost(self) -> None:
        self._waiting.clear()
        if self.client.transport is not None:
            self.client.transport.close()
        self._report_end()

    def _report_end(self) -> None:
        if self.client.lost and self.broker.lost:
            self._on_end(self)
