"""Settings of clients in Java's names, as operators have them in files, for what kaput itself asks with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kaput.errors import UsageError

# Java's name, and what kafka-python calls it.
_SAME = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "ssl.truststore.location": "ssl_cafile",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.key.password": "ssl_password",
    "client.id": "client_id",
}
_IN_JAAS = re.compile(r'(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


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


def for_asking(properties: Mapping[str, str], path: Path) -> dict[str, Any]:
    """How kafka-python is told the same. Raises UsageError for a store that is not in PEM.

    Settings that only a producer or a consumer has are left out.
    """
    for store in ("ssl.truststore.type", "ssl.keystore.type"):
        if (kind := properties.get(store)) not in (None, "PEM"):
            raise UsageError(f"{path}: {store}={kind}: kaput reads PEM alone: {store}=PEM")
    given = {name: properties[key] for key, name in _SAME.items() if key in properties}
    for key, value in _IN_JAAS.findall(properties.get("sasl.jaas.config", "")):
        given[f"sasl_plain_{key}"] = value.replace('\\"', '"')
    if properties.get("ssl.endpoint.identification.algorithm") == "":
        return {**given, "ssl_check_hostname": False}
    return given
