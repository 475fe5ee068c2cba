"""How a client is let into a cluster: over TLS or not, as whom, by which proof; in each client's own words.

Whoever talks to brokers is given one `Access`: kaput's own questions (wire.py), librdkafka's clients
(workload), kafka-python (the doctor), Java's tools (by the file). Its source are settings in Java's names, as
operators have them in files (--command-config). What is secret in it stands in that file alone: it is in no
repr, no message, no order of a client and no command line.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from kaput.errors import UsageError

# Java's name, and what librdkafka calls it.
_LIBRDKAFKAS = {
    "security.protocol": "security.protocol",
    "sasl.mechanism": "sasl.mechanism",
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.location": "ssl.certificate.location",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.key.password": "ssl.key.password",
}
# The same for kafka-python.
_KAFKA_PYTHONS = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "ssl.truststore.location": "ssl_cafile",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.key.password": "ssl_password",
    "client.id": "client_id",
}
_IN_JAAS = re.compile(r'(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')
_CHECKS_NAMES = "ssl.endpoint.identification.algorithm"


@dataclass(frozen=True, eq=False)
class Access:
    """`properties`: client settings in Java's names. `path`: the file that they stand in, if any."""

    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    path: Path | None = None

    @classmethod
    def read(cls, path: Path) -> Access:
        """From a Java properties file. Raises UsageError naming the file, and the line where there is one."""
        return cls(read_properties(path), path)

    @property
    def user(self) -> str | None:
        """Who signs in; None for nobody, or where a certificate says it."""
        return self._in_jaas.get("username")

    @property
    def principal(self) -> str:
        """How brokers call it in ACLs, as far as it can be told from here."""
        if self.user is not None:
            return f"User:{self.user}"
        return "who the certificate says" if "ssl.keystore.location" in self.properties else "User:ANONYMOUS"

    @property
    def protocol(self) -> str:
        """Kafka's name of what is spoken on the connection."""
        return self.properties.get("security.protocol", "PLAINTEXT").upper()

    @property
    def mechanism(self) -> str | None:
        """The mechanism of SASL by which it signs in; None where it does not."""
        if not self.protocol.startswith("SASL"):
            return None
        return self.properties.get("sasl.mechanism", "GSSAPI")  # Kafka's default

    def librdkafka(self) -> dict[str, str]:
        """In librdkafka's names. Raises UsageError for a store that is not in PEM."""
        self._check_stores()
        found = {name: self.properties[key] for key, name in _LIBRDKAFKAS.items() if key in self.properties}
        if "ssl.certificate.location" in found:
            found["ssl.key.location"] = found["ssl.certificate.location"]  # in PEM one file has both
        found |= {f"sasl.{key}": value for key, value in self._in_jaas.items()}
        if self.properties.get(_CHECKS_NAMES) == "":
            found[_CHECKS_NAMES] = "none"
        return found

    def kafka_python(self) -> dict[str, Any]:
        """In kafka-python's names. Raises UsageError for a store that is not in PEM.

        Settings that only a producer or a consumer has are left out.
        """
        self._check_stores()
        given = {name: self.properties[key] for key, name in _KAFKA_PYTHONS.items() if key in self.properties}
        given |= {f"sasl_plain_{key}": value for key, value in self._in_jaas.items()}
        if "ssl.truststore.certificates" in self.properties:
            return {**given, "ssl_context": self.tls}
        if self.properties.get(_CHECKS_NAMES) == "":
            return {**given, "ssl_check_hostname": False}
        return given

    @cached_property
    def tls(self) -> ssl.SSLContext | None:
        """For a socket of one's own; None where nothing is encrypted. Raises UsageError."""
        if not self.protocol.endswith("SSL"):
            return None
        self._check_stores()
        if "ssl.keystore.key" in self.properties:
            raise UsageError(
                f"{self._where}ssl.keystore.key: kaput reads keys from files: ssl.keystore.location"
            )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.properties.get(_CHECKS_NAMES) != ""
        given = self.properties.get
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
            raise UsageError(f"{self._where}certificates cannot be read: {error}") from None
        return context

    @cached_property
    def _in_jaas(self) -> dict[str, str]:
        """username and password."""
        found = _IN_JAAS.findall(self.properties.get("sasl.jaas.config", ""))
        return {key: re.sub(r"\\(.)", r"\1", value) for key, value in found}

    @property
    def _where(self) -> str:
        return "" if self.path is None else f"{self.path}: "

    def _check_stores(self) -> None:
        for store in ("ssl.truststore.type", "ssl.keystore.type"):
            if (kind := self.properties.get(store)) not in (None, "PEM"):
                raise UsageError(f"{self._where}{store}={kind}: kaput reads PEM alone: {store}=PEM")


OPEN = Access()  # a cluster that lets everybody in


def read_properties(path: Path) -> dict[str, str]:
    """A Java properties file of lines KEY=VALUE. Raises UsageError naming the file and the line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    found: dict[str, str] = {}
    # A line that ends in a backslash goes on in the next one.
    for number, line in enumerate(re.sub(r"\\\n\s*", "", text).splitlines(), 1):
        word = line.strip()
        if not word or word[0] in "#!":
            continue
        key, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"{path}:{number}: {word.split()[0]!r} has no value; write KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


def write_secret(path: Path, text: str) -> Path:
    """A new file that nobody but its owner can read, not even for a moment. Raises OSError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    return path
