"""Checks blocks whose client is another program: Kafka's Java tools, or any command.

Settings that Kafka's Verifiable tools do not support are rejected, never ignored. Called by producers.py and
groups.py.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from kaput.scenario.block import Found
from kaput.scenario.values import Config
from kaput.scenario.vocabulary import Client

# librdkafka's names of settings that have other names in Java, which would only warn about them.
JAVA_NAMES = {
    "message.timeout.ms": "delivery.timeout.ms",
    "message.send.max.retries": "retries",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "queue.buffering.max.ms": "linger.ms",
    "queue.buffering.max.kbytes": "buffer.memory",
    "queue.buffering.max.messages": "buffer.memory",
    "batch.num.messages": "batch.size",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "socket.timeout.ms": "request.timeout.ms",
    "request.required.acks": "acks",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "compression.codec": "compression.type",
}
_JAVA_TYPES = ("key.serializer", "value.serializer", "key.deserializer", "value.deserializer")


def check_client(client: Client, version: str | None, command: str | None, config: Config) -> Found:
    """Mistakes in settings that a client does not support."""
    if client != "command":
        if command is not None:
            yield ("command",), f"client: {client} takes no command; write client: command"
    elif command is None or not command.strip():
        yield ("client",), "a command line is missing; write command: ... (docs/ADDING_A_CLIENT.md)"
    elif wrong := no_command_line(command):
        yield ("command",), wrong
    if client == "java":
        for name in config:
            if name in JAVA_NAMES:
                yield ("config", name), f"this is librdkafka's name; in Java it is {JAVA_NAMES[name]}"
            elif name in _JAVA_TYPES:
                yield ("config", name), "kaput sets this itself; leave it out"
    elif client == "command" and version is not None:
        yield ("client-version",), "the command decides this; leave it out"


def no_command_line(line: str) -> str:
    """Why a text is not a valid command line; empty if it is."""
    try:
        shlex.split(line)
    except ValueError as error:
        return f"not a command line ({error})"
    return ""


def check_reserved(config: Config, keys: Mapping[str, str | None]) -> Found:
    """Mistakes for reserved client settings (by name, the scenario's key for it, or None)."""
    for name in config:
        if name in keys:
            own = keys[name]
            yield (
                ("config", name),
                f"kaput sets this itself; {f'use the key {own}' if own else 'leave it out'}",
            )


def check_limit(config: Config, key: str, place: str) -> Found:
    """Checks that a delivery limit is a number."""
    value = config.get(key)
    if value is not None and not re.fullmatch("0*[1-9][0-9]*", str(value)):
        yield (place, key), f"{value!r} is not a number of deliveries"
