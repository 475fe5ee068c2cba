"""One connection through the proxy: what each end sends is passed to the other, unless a rule says otherwise.

No frame is taken out of the middle of a connection: Kafka answers in the order of the requests, and TCP loses
nothing. So what follows a delayed frame waits behind it, and what follows a dropped one is dropped as well.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kaput.cluster.frames.connection_end import ConnectionEnd
from kaput.cluster.frames.rule import Rule
from kaput.cluster.frames.splitter import REQUEST, RESPONSE, Request, Splitter

_MOST_WAITING = 1 << 24  # bytes behind a delayed frame; beyond that the client's connection is not read
_LINGER_S = 10.0  # for a broker's answer to delayed requests whose sender has gone
# Size, API key and version, correlation id, no client id: asked instead of a request that gets an error.
# Kafka's answer to it holds the error's place among the other answers.
_API_VERSIONS = struct.Struct(">ihhih")


class _Waiting(NamedTuple):
    """Bytes for the broker, due at a time of the loop's clock; `rule`: what delays them."""

    due: float
    data: bytes
    rule: Rule | None


class Link:
    """A client's connection, and the one to the broker that continues it.

    `rules`: by API key, those in force; changes. `listener`: whose connections these are, clients or brokers.
    `count` is called with the number of requests in each chunk, `over` when both connections are gone.
    """

    def __init__(
        self,
        listener: str,
        rules: Mapping[int, list[Rule]],
        count: Callable[[int], None],
        over: Callable[[Link], None],
    ) -> None:
        self._listener, self._rules, self._count, self._over = listener, rules, count, over
        self._loop = asyncio.get_running_loop()
        self._fates: dict[int, list[Callable[[bytes], None]]] = {}  # of answers, by correlation id
        self._requests, self._answers = Splitter(REQUEST, rules), Splitter(RESPONSE, self._fates)
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._wake: asyncio.TimerHandle | None = None
        self._drops_requests: Rule | None = None  # all from now on
        self._drops_answers: Rule | None = None
        self.client = ConnectionEnd(self._from_client, self._client_lost)
        self.broker = ConnectionEnd(self._from_broker, self._broker_lost)
        self.client.other, self.broker.other = self.broker, self.client

    async def connect(self, host: str, port: int) -> None:
        """Continues the client's connection to the broker; ends it if the broker refuses."""
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

    def forget(self, rule: Rule) -> None:
        """Sends what the rule delays; closes the connection if the rule dropped something on it."""
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
                self._request(part)
            elif isinstance(part, bytes):
                self._to_broker(part)
        if self._drops_requests is None and not self._waiting:
            self.client.pass_on(self._requests.to_come, self._requests.passed)

    def _request(self, request: Request) -> None:
        if self._drops_requests is not None:
            return
        for rule in self._rules.get(request.api, ()):
            if rule.acts_on(request, self._listener, self.client.peer):
                self._act(request, rule)
                return
        self._to_broker(request.data)

    def _act(self, request: Request, rule: Rule) -> None:
        fates = self._fates.setdefault(request.correlation_id, [])
        match rule.what:
            case "delay":
                self._to_broker(request.data, rule)
            case "drop-request":
                self._drops_requests = rule
            case "drop-response":
                fates.append(lambda answer: self._drop_answers(rule, answer))
                self._to_broker(request.data)
            case "disconnect":
                self._drops_requests = rule
                self.abort()
            case "duplicate":
                fates += [self._to_client, lambda _: None]
                self._to_broker(request.data + request.data)
            case "error":
                fates.append(lambda _: self._to_client(rule.answer(request)))
                self._to_broker(_API_VERSIONS.pack(10, 18, 0, request.correlation_id, -1))
        if not fates:
            del self._fates[request.correlation_id]

    def _to_broker(self, data: bytes, rule: Rule | None = None) -> None:
        if self._drops_requests is not None:
            return
        if rule is None and not self._waiting and self.broker.transport is not None:
            self.broker.transport.write(data)
            return
        due = self._loop.time() + (rule.delay_s if rule is not None else 0.0)
        self._waiting.append(_Waiting(due, data, rule))
        self._waiting_bytes += len(data)
        if self._waiting_bytes > _MOST_WAITING:
            self.client.stop_reading("waiting")
        self._flush()

    def _flush(self) -> None:
        """Sends what is due, and comes again when the next is."""
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
        self.client.read_on("waiting")
        if self.client.lost:
            self._loop.call_later(_LINGER_S, self.broker.abort)

    def _from_broker(self, data: bytes) -> None:
        for part in self._answers.split(data):
            if isinstance(part, bytes):
                self._to_client(part)
                continue
            fates = self._fates.pop(part.correlation_id, [self._to_client])
            fates.pop(0)(part.data)
            if fates:
                self._fates[part.correlation_id] = fates
        if self._drops_answers is None:
            self.broker.pass_on(self._answers.to_come, self._answers.passed)

    def _to_client(self, data: bytes) -> None:
        if self._drops_answers is None and self.client.transport is not None and not self.client.lost:
            self.client.transport.write(data)

    def _drop_answers(self, rule: Rule, answer: bytes) -> None:
        """This one and all that follow, unless it comes after the end of the rule."""
        if rule.ended:
            self._to_client(answer)
        else:
            self._drops_answers = rule

    def _client_lost(self) -> None:
        """Requests that are on their way arrive all the same, as those do that a network delays."""
        if self.client.lost and not self._waiting and self.broker.transport is not None:
            self.broker.transport.close()
        self._when_over()

    def _broker_lost(self) -> None:
        self._waiting.clear()
        if self.client.transport is not None:
            self.client.transport.close()
        self._when_over()

    def _when_over(self) -> None:
        if self.client.lost and self.broker.lost:
            self._over(self)
