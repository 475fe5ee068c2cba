"""`python -m kaput.cluster.frames.proxy`: forwards connections to one broker, and applies rules to them.

Commands come as JSON lines on standard input, reports about frames go to standard output; the process ends
when its input ends. frame_proxy.py starts it and sends the commands. A link is one connection through it.
Counts are exact; the number of reported frames is bounded.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kaput.cluster.frames.connection_end import (
    REQUEST,
    RESPONSE,
    SIZE_BYTES,
    ConnectionEnd,
    Request,
    Splitter,
)
from kaput.cluster.frames.error_answers import ErrorAnswer, error_answer
from kaput.cluster.message_schemas import Schema

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
    """A client's connection, and the matching one to the broker. `rules`: the rules in force by API key,
    which may change. `listener`: clients or brokers. `count` is called with the number of requests in each
    chunk, `on_end` when both connections are closed.
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


REPORTED_ACTED = 10_000  # the most frames acted upon that are reported, per rule and proxy
REPORTED_PASSED = 100  # the same for frames that matched but passed


class RuleInForce:
    """One rule in force at one proxy. `report` is called with the details of frames that matched."""

    def __init__(self, spec: Mapping[str, Any], report: Callable[[dict[str, Any]], None]) -> None:
        self.id: str = spec["rule"]
        self.api: int = spec["api"]
        self.what: str = spec["what"]
        self.delay_s: float = spec["delay_s"]
        self._nth: int | None = spec["nth"]
        self._share: float = spec["share"]
        self._from: list[str] | None = spec["from"]
        self._schemas: Sequence[Schema] = spec["schemas"]
        self._error = ErrorAnswer(*spec["error"]) if spec["error"] else None
        self._draw = random.Random(spec["seed"])
        self._report = report
        self.matched = self.acted = 0
        self.ended = False

    def acts_on(self, request: Request, listener: str, peer: tuple[str, int]) -> bool:
        """Whether the rule acts on the request. Counts and reports it if it matches."""
        if request.api != self.api or not self._matches_sender(listener, peer[0]):
            return False
        self.matched += 1
        acts = self._is_chosen() and (self._error is None or self.answer(request) is not None)
        self.acted += acts
        passed = self.matched - self.acted
        if self.acted <= REPORTED_ACTED if acts else passed <= REPORTED_PASSED:
            self._report(
                {
                    "rule": self.id,
                    "at_ns": time.time_ns(),
                    "acted": acts,
                    "api_version": request.version,
                    "correlation_id": request.correlation_id,
                    "client_id": request.client_id,
                    "connection": f"{peer[0]}:{peer[1]}",
                }
            )
        return acts

    def answer(self, request: Request) -> bytes | None:
        """The rule's error response to a request; None if it cannot be answered with that error."""
        assert self._error is not None
        frame = error_answer(self._schemas, request.data[SIZE_BYTES:], self._error)
        return None if frame is None else len(frame).to_bytes(4, "big") + frame

    def _matches_sender(self, listener: str, host: str) -> bool:
        return self._from is None or listener in self._from or host in self._from

    def _is_chosen(self) -> bool:
        if self.what == "observe":
            return False
        if self._nth is not None:
            return self.matched == self._nth
        return self._draw.random() * 100 < self._share


_BACKLOG = 512


class Proxy:
    """All connections to one broker. `host`: the broker's address, and the proxy's own."""

    def __init__(self, host: str, out: asyncio.WriteTransport) -> None:
        self._host, self._out = host, out
        self._rules: dict[int, list[RuleInForce]] = {}  # by API key
        self._seen_before: dict[str, int] = {}  # by rule: the value of _seen when it began
        self._links: set[Link] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._seen = 0

    async def listen(self, listener: str, port: int, broker_port: int) -> None:
        """Accepts connections to `port` from now on."""
        loop = asyncio.get_running_loop()

        def accepted() -> asyncio.BaseProtocol:
            link = Link(listener, self._rules, self._count, self._links.discard)
            self._links.add(link)
            connecting = loop.create_task(link.connect(self._host, broker_port))
            self._connecting.add(connecting)
            connecting.add_done_callback(self._connecting.discard)
            return link.client

        await loop.create_server(accepted, self._host, port, backlog=_BACKLOG, reuse_address=True)

    def handle_command(self, line: bytes) -> None:
        """Executes a command: `{"rule": ID, "api": ...}` begins a rule, `{"end": ID}` ends it."""
        command = json.loads(line)
        if "rule" in command:
            rule = RuleInForce(command, self.report)
            rules = self._rules.setdefault(rule.api, [])
            # Observers come first: they see every frame, also those that a fault acts upon.
            rules.insert(0 if rule.what == "observe" else len(rules), rule)
            self._seen_before[rule.id] = self._seen
            self.report({"rule": rule.id, "in_force": True})
        else:
            self._end(command["end"])

    def report(self, what: dict[str, Any]) -> None:
        self._out.write(json.dumps(what).encode() + b"\n")

    def _end(self, rule_id: str) -> None:
        for api, rules in list(self._rules.items()):
            for rule in [each for each in rules if each.id == rule_id]:
                rules.remove(rule)
                rule.ended = True
                if not rules:
                    del self._rules[api]
                for link in list(self._links):
                    link.end_rule(rule)
                seen = self._seen - self._seen_before.pop(rule_id)
                counts = {"seen": seen, "matched": rule.matched, "acted": rule.acted}
                self.report({"rule": rule_id, "ended": True, **counts})

    def _count(self, requests: int) -> None:
        self._seen += requests


async def serve(host: str, listeners: list[str]) -> None:
    """Serves until standard input ends. `listeners`: each `NAME:PORT:BROKER_PORT`."""
    loop = asyncio.get_running_loop()
    out, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout.buffer)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    proxy = Proxy(host, out)
    for each in listeners:
        name, port, broker_port = each.split(":")
        await proxy.listen(name, int(port), int(broker_port))
    proxy.report({"ready": True})
    while line := await reader.readline():
        proxy.handle_command(line)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", required=True)
    parser.add_argument("--listener", action="append", required=True)
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.host, arguments.listener))


if __name__ == "__main__":
    main()
