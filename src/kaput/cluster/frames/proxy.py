"""`python -m kaput.cluster.frames.proxy`: forwards connections to one broker, and applies rules to them.

Commands come as JSON lines on standard input, reports about frames go to standard output; the process ends
when its input ends. Its place: frame_proxy.py starts it and sends the commands.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any

from kaput.cluster.frames.link import Link
from kaput.cluster.frames.rule import RuleInForce

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
        """Writes one line for kaput."""
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
    """Reads the command line and serves."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", required=True)
    parser.add_argument("--listener", action="append", required=True)
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.host, arguments.listener))


if __name__ == "__main__":
    main()
