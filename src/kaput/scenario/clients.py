"""Checks blocks whose client is another program: Kafka's Java tools, or any command.

Settings that Kafka's Verifiable tools do not support are rejected, never ignored. Called by producers.py and
groups.py.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kaput.scenario.vocabulary import CLIENT_USER, Client

if TYPE_CHECKING:  # with pydantic and YAML, which a client's process, that needs the names, has no use for
    from kaput.scenario.block import Found
    from kaput.scenario.values import Config

# librdkafka's names that Java's clients do not know, and would only warn about: Java's own.
_JAVA_NAMES = {
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
    "auto.commit.enable": "enable.auto.commit",
    "compression.level": "compression.zstd.level (or that of gzip, lz4)",
    "fetch.error.backoff.ms": "retry.backoff.ms",
    "interceptors": "interceptor.classes",
    "message.max.bytes": "max.request.size",
    "partitioner": "partitioner.class",
    "receive.message.max.bytes": "fetch.max.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.username": "sasl.jaas.config",
    "sasl.password": "sasl.jaas.config",
    "sasl.kerberos.keytab": "sasl.jaas.config",
    "sasl.kerberos.principal": "sasl.jaas.config",
    "sasl.oauthbearer.config": "sasl.jaas.config",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "ssl.ca.location": "ssl.truststore.location (with ssl.truststore.type=PEM)",
    "ssl.ca.pem": "ssl.truststore.certificates (with ssl.truststore.type=PEM)",
    "ssl.certificate.location": "ssl.keystore.location (with ssl.keystore.type=PEM)",
    "ssl.key.location": "ssl.keystore.location (one PEM file with the key and the certificate)",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain (with ssl.keystore.type=PEM)",
    "ssl.key.pem": "ssl.keystore.key (with ssl.keystore.type=PEM)",
    "enable.ssl.certificate.verification": "ssl.endpoint.identification.algorithm (empty for none)",
}
# And those for which Java has none.
_WITHOUT_JAVA = (
    "api.version.fallback.ms", "api.version.request", "api.version.request.timeout.ms",
    "broker.address.family", "broker.address.ttl", "broker.version.fallback", "builtin.features",
    "client.software.name", "client.software.version", "consume.callback.max.messages",
    "coordinator.query.interval.ms", "debug", "delivery.report.only.error", "enable.auto.offset.store",
    "enable.gapless.guarantee", "enable.partition.eof", "enable.random.seed",
    "enable.sasl.oauthbearer.unsecure.jwt", "enable.sparse.connections", "fetch.queue.backoff.ms",
    "group.protocol.type", "https.ca.location", "https.ca.pem", "log.connection.close", "log.thread.name",
    "log_level", "message.copy.max.bytes", "metadata.request.timeout.ms", "offset.store.method",
    "offset.store.path", "offset.store.sync.interval.ms", "plugin.library.paths", "produce.offset.report",
    "queue.buffering.backpressure.threshold", "queued.max.messages.kbytes", "queued.min.messages",
    "queuing.strategy", "reconnect.backoff.jitter.ms", "sasl.oauthbearer.assertion.jwt.template.file",
    "sasl.oauthbearer.assertion.private.key.pem", "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.grant.type", "sasl.oauthbearer.metadata.authentication.type",
    "sasl.oauthbearer.method", "socket.blocking.max.ms", "socket.keepalive.enable", "socket.max.fails",
    "socket.nagle.disable", "ssl.ca.certificate.stores", "ssl.crl.location", "ssl.curves.list",
    "ssl.engine.id", "ssl.engine.location", "ssl.providers", "ssl.sigalgs.list", "statistics.interval.ms",
    "sticky.partitioning.linger.ms", "test.mock.broker.rtt", "test.mock.num.brokers", "topic.blacklist",
    "topic.metadata.propagation.max.ms", "topic.metadata.refresh.fast.cnt",
    "topic.metadata.refresh.fast.interval.ms", "topic.metadata.refresh.sparse",
)  # fmt: skip
USER = "sasl.username"  # as whom a client signs in: kaput's word for a Java client, too
# What only librdkafka knows; empty: Java has no such setting.
LIBRDKAFKA_ONLY: Mapping[str, str] = {**_JAVA_NAMES, **dict.fromkeys(_WITHOUT_JAVA, "")}
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
            if name in LIBRDKAFKA_ONLY and name != USER:
                java = LIBRDKAFKA_ONLY[name]
                in_java = f"in Java it is {java}" if java else "Java's clients have no such setting"
                yield ("config", name), f"this is librdkafka's name; {in_java}"
            elif name in _JAVA_TYPES:
                yield ("config", name), "kaput sets this itself; leave it out"
    elif client == "command" and version is not None:
        yield ("client-version",), "the command decides this; leave it out"


def user_of(config: Config) -> str:
    """The user as whom a client with these settings signs in to a cluster of kaput."""
    return str(config.get(USER, CLIENT_USER))


def java_settings(config: Config) -> Config:
    """A Java client's settings without its user, which is in its credentials."""
    return {name: value for name, value in config.items() if name != USER}


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
