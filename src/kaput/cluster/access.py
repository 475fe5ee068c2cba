"""Security settings of a client: TLS, user and SASL mechanism, in the names of each client library.

Everything that connects to brokers gets an `Access`: kaput's own requests (wire.py), librdkafka's clients
(workload), kafka-python (the doctor), Java's tools (as a file). It is read from a file with Java's names
(--command-config). Secrets stay in that file: they are in no repr, message, client spec or command line.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from kaput.errors import UsageError
from kaput.java_properties import Property, login_options, read_settings, refuse_other_format
from kaput.scenario.clients import LIBRDKAFKA_ONLY
from kaput.scenario.nearest import nearest

# From Java's names to librdkafka's.
_LIBRDKAFKA_NAMES = {
    "security.protocol": "security.protocol",
    "sasl.mechanism": "sasl.mechanism",
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.location": "ssl.certificate.location",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.key.password": "ssl.key.password",
}
# From Java's names to kafka-python's.
_KAFKA_PYTHON_NAMES = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "ssl.truststore.location": "ssl_cafile",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.key.password": "ssl_password",
    "client.id": "client_id",
}
# Names of Java's clients: how they sign in, and what a producer promises. What is almost one of them is a
# slip, which Java would only mention in a log.
_SECURITY = {
    "bootstrap.servers", "security.protocol", "security.providers", "sasl.mechanism", "sasl.jaas.config",
    "sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class",
    "sasl.kerberos.service.name", "sasl.kerberos.kinit.cmd", "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms", "sasl.login.retry.backoff.ms", "sasl.login.retry.backoff.max.ms",
    "ssl.protocol", "ssl.provider", "ssl.cipher.suites", "ssl.enabled.protocols", "ssl.keystore.type",
    "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.key", "ssl.keystore.certificate.chain",
    "ssl.key.password", "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password",
    "ssl.truststore.certificates", "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm",
    "ssl.endpoint.identification.algorithm", "ssl.secure.random.implementation", "ssl.engine.factory.class",
}  # fmt: skip
_CONNECTING = ("bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.jaas.config")
_PRODUCERS = {
    "acks", "enable.idempotence", "max.in.flight.requests.per.connection", "retries", "delivery.timeout.ms",
    "request.timeout.ms", "linger.ms", "batch.size", "buffer.memory", "max.block.ms", "compression.type",
    "max.request.size", "transactional.id", "transaction.timeout.ms", "retry.backoff.ms",
    "retry.backoff.max.ms",
}  # fmt: skip
_SLIP, _SHORT_SLIP = 0.85, 0.65  # of names with parts, and of single words: acsk is acks
_OF_TOPICS = ("min.insync.replicas", "replication.factor", "unclean.leader.election.enable")
_NUMBER = re.compile("-?[0-9]+")
# What a producer takes, where it is no number.
_VALUES = {
    "acks": re.compile("all|-1|0|1"),
    "enable.idempotence": re.compile("true|false", re.IGNORECASE),
    "compression.type": re.compile("none|gzip|snappy|lz4|zstd"),
    "transactional.id": re.compile(".*"),
}
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER")
_MECHANISM_SLIPS = {"PLAINTEXT": "PLAIN", "OAUTH": "OAUTHBEARER", "SCRAM-SHA-1": "SCRAM-SHA-256"}
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_UNFILLED = re.compile(r"\{\{ *[\w.]+ *\}\}|<(?:YOUR|your|API|api)[\w -]*>")
_HOSTNAME_CHECK = "ssl.endpoint.identification.algorithm"


@dataclass(frozen=True, eq=False)
class Access:
    """`properties`: client settings in Java's names. `path`: their file, if any."""

    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    path: Path | None = None

    @classmethod
    def read(cls, path: Path) -> Access:
        """Reads a Java properties file. Raises UsageError naming the file, and the line if possible."""
        settings = read_settings(path)
        _check_names(path, settings)
        access = cls({name: setting.value for name, setting in settings.items()}, path)
        _check_login(path, settings, access)
        return access

    @classmethod
    def of(cls, path: Path | None) -> Access:
        """The settings in a file; without one, those of a cluster without security. Raises UsageError."""
        return OPEN if path is None else cls.read(path)

    @property
    def user(self) -> str | None:
        """The SASL user name; None without SASL."""
        return self._jaas_credentials.get("username")

    @property
    def principal(self) -> str:
        """The principal in ACLs, as far as the settings tell."""
        if self.user is not None:
            return f"User:{self.user}"
        return (
            "the certificate's principal" if "ssl.keystore.location" in self.properties else "User:ANONYMOUS"
        )

    @property
    def protocol(self) -> str:
        return self.properties.get("security.protocol", "PLAINTEXT").upper()

    @property
    def mechanism(self) -> str | None:
        """The SASL mechanism; None without SASL."""
        if not self.protocol.startswith("SASL"):
            return None
        return self.properties.get("sasl.mechanism", "GSSAPI")  # Kafka's default

    def librdkafka(self) -> dict[str, str]:
        """The settings for librdkafka. Raises UsageError for a store that is not in PEM format."""
        self._check_stores()
        settings = {
            name: self.properties[key] for key, name in _LIBRDKAFKA_NAMES.items() if key in self.properties
        }
        if "ssl.certificate.location" in settings:
            settings["ssl.key.location"] = settings["ssl.certificate.location"]  # a PEM file has both
        settings |= {f"sasl.{key}": value for key, value in self._jaas_credentials.items()}
        if self.properties.get(_HOSTNAME_CHECK) == "":
            settings[_HOSTNAME_CHECK] = "none"
        return settings

    def kafka_python(self) -> dict[str, Any]:
        """The settings for kafka-python. Raises UsageError for a store that is not in PEM format. Settings
        that only producers or consumers have are left out.
        """
        self._check_stores()
        given = {
            name: self.properties[key] for key, name in _KAFKA_PYTHON_NAMES.items() if key in self.properties
        }
        given |= {f"sasl_plain_{key}": value for key, value in self._jaas_credentials.items()}
        if "ssl.truststore.certificates" in self.properties:
            return {**given, "ssl_context": self.tls}
        if self.properties.get(_HOSTNAME_CHECK) == "":
            return {**given, "ssl_check_hostname": False}
        return given

    @cached_property
    def tls(self) -> ssl.SSLContext | None:
        """The TLS context; None without TLS. Raises UsageError."""
        if not self.protocol.endswith("SSL"):
            return None
        self._check_stores()
        if "ssl.keystore.key" in self.properties:
            raise UsageError(
                f"{self._file_prefix}ssl.keystore.key: kaput reads keys from files: ssl.keystore.location"
            )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.properties.get(_HOSTNAME_CHECK) != ""
        given = self.properties.get
        for name in ("ssl.truststore.location", "ssl.keystore.location"):
            if (file := given(name)) and not Path(file).is_file():
                raise UsageError(f"{self._file_prefix}{name}={file}: there is no such file")
        try:
            if given("ssl.truststore.location") or given("ssl.truststore.certificates"):
                context.load_verify_locations(
                    given("ssl.truststore.location"), cadata=given("ssl.truststore.certificates")
                )
            else:
                context.load_default_certs()
            if own := given("ssl.keystore.location"):
                context.load_cert_chain(own, password=given("ssl.key.password"))
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"{self._file_prefix}certificates cannot be read: {error}") from None
        return context

    @cached_property
    def _jaas_credentials(self) -> dict[str, str]:
        """The user name and password in sasl.jaas.config. Raises UsageError if Kafka could not read it."""
        try:
            options = login_options(self.properties.get("sasl.jaas.config", ""))
        except ValueError as error:
            raise UsageError(f"{self._file_prefix}sasl.jaas.config: {error}") from None
        return {key: options[key] for key in ("username", "password") if key in options}

    @property
    def _file_prefix(self) -> str:
        return "" if self.path is None else f"{self.path}: "

    def _check_stores(self) -> None:
        for store in ("ssl.truststore.type", "ssl.keystore.type"):
            if (kind := self.properties.get(store)) not in (None, "PEM"):
                raise UsageError(f"{self._file_prefix}{store}={kind}: kaput only reads PEM: {store}=PEM")


OPEN = Access()  # a cluster without security
AccessOf = Callable[[str | None, str], Access]  # of a user; in one of several clusters, or None


def _check_names(path: Path, settings: Mapping[str, Property]) -> None:
    """Raises UsageError for a librdkafka name unless its Kafka name is there too, for one that is almost
    Kafka's, and for a bad protocol.
    """
    _check_library(path, settings)
    _check_filled_in(path, settings)
    _check_slips(path, settings, _SECURITY)
    protocol = settings.get("security.protocol")
    if protocol is not None and protocol.value.upper() not in _PROTOCOLS:
        raise UsageError(
            f"{path}:{protocol.line}: security.protocol={protocol.value!r} is none of {', '.join(_PROTOCOLS)}"
        )
    mechanism = settings.get("sasl.mechanism")
    near = [] if mechanism is None else _meant_mechanism(mechanism.value)
    if mechanism is not None and near not in ([], [mechanism.value]):  # others are plugins'
        where = f"{path}:{mechanism.line}: sasl.mechanism={mechanism.value}"
        raise UsageError(f"{where} is none of Kafka's; did you mean {near[0]}?")
    hostname = settings.get(_HOSTNAME_CHECK)
    if hostname is not None and hostname.value.lower() == "none":
        raise UsageError(f"{path}:{hostname.line}: {_HOSTNAME_CHECK}=none is librdkafka's; Kafka's is empty")


def _check_filled_in(path: Path, settings: Mapping[str, Property]) -> None:
    """Raises UsageError for another format, for names of Spring and others that put something before Kafka's
    (unless some are Kafka's), and for a template in which something is missing.
    """
    refuse_other_format(path, settings)
    for name, setting in settings.items() if not (_SECURITY | _PRODUCERS) & settings.keys() else ():
        if own := next((each for each in _CONNECTING if name.endswith(f".{each}")), ""):
            whose = "Spring's" if name.startswith("spring.") else "another program's"
            raise UsageError(f"{path}:{setting.line}: {name} is {whose} name; Kafka's is {own}")
    for name, setting in settings.items():
        own = name.removeprefix("spring.").removeprefix("kafka.").removeprefix("properties.")
        if name.startswith("spring.kafka.") and own.replace("bootstrap-", "bootstrap.") in _SECURITY:
            kafkas = own.replace("bootstrap-", "bootstrap.")
            raise UsageError(f"{path}:{setting.line}: {name} is Spring's name; Kafka's is {kafkas}")
        if name in _SECURITY and (missing := _UNFILLED.search(setting.value)):
            raise UsageError(
                f"{path}:{setting.line}: {name} still has {missing[0]}: write what belongs there"
            )


def _meant_mechanism(text: str) -> list[str]:
    known = _MECHANISM_SLIPS.get(text.upper())
    return [known] if known else get_close_matches(text.upper(), _MECHANISMS, 1, 0.9)


def _check_library(path: Path, settings: Mapping[str, Property]) -> None:
    """Raises UsageError for a name that only librdkafka knows, unless the file is for both libraries."""
    of_librdkafka = {name: LIBRDKAFKA_ONLY[name] for name in settings if name in LIBRDKAFKA_ONLY}
    both = any(java.partition(" ")[0] in settings for java in of_librdkafka.values())
    for name, java in of_librdkafka.items():
        if java.partition(" ")[0] not in settings and (java or not both):
            kafkas = f"Kafka's is {java}" if java else "Kafka's Java clients have no such setting"
            raise UsageError(f"{path}:{settings[name].line}: {name} is librdkafka's name; {kafkas}")


def _check_slips(path: Path, settings: Mapping[str, Property], known: Set[str]) -> None:
    for name, setting in settings.items():
        cutoff = _SLIP if "." in name else _SHORT_SLIP
        if (
            name not in known | LIBRDKAFKA_ONLY.keys()
            and (near := nearest(name, known - settings.keys(), 1, cutoff))
            and near[0][0] == name[0]
        ):
            raise UsageError(
                f"{path}:{setting.line}: {name} is no setting of Kafka's clients; did you mean {near[0]}?"
            )


def read_producer_settings(path: Path) -> dict[str, str]:
    """A producer's properties file, in Java's names. Raises UsageError, also for names that are almost ones
    on which its promise depends.
    """
    settings = read_settings(path)
    _check_library(path, settings)
    _check_slips(path, settings, _PRODUCERS)
    for name, setting in settings.items():
        if name in _OF_TOPICS and "application.id" not in settings:  # else of Kafka Streams
            raise UsageError(f"{path}:{setting.line}: {name} is a setting of topics, which producers ignore")
        known = _VALUES.get(name, _NUMBER) if name in _PRODUCERS else None
        if known is not None and not known.fullmatch(setting.value.strip()) and "${" not in setting.value:
            right = "a whole number" if known is _NUMBER else known.pattern.replace("|", " or ")
            raise UsageError(f"{path}:{setting.line}: {name}={setting.value} is not valid; write {right}")
    return {name: setting.value for name, setting in settings.items()}


def _check_login(path: Path, settings: Mapping[str, Property], access: Access) -> None:
    """Raises UsageError for a login that Kafka could not read, or a mechanism without its user."""
    login = settings.get("sasl.jaas.config")
    if login is None:
        return
    try:
        login_options(login.value)
    except ValueError as error:
        raise UsageError(f"{path}:{login.line}: sasl.jaas.config: {error}") from None
    needs_user = access.mechanism == "PLAIN" or str(access.mechanism).startswith("SCRAM-")
    missing = [key for key in ("username", "password") if key not in access._jaas_credentials]
    if needs_user and missing:
        raise UsageError(f"{path}:{login.line}: sasl.jaas.config: has no {missing[0]}=")


def write_secret(path: Path, text: str) -> Path:
    """Creates a file that only its owner can ever read. Raises OSError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    return path
