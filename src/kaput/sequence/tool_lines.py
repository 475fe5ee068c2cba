"""What one line means that is not just plain numbers: the output of Kafka's own tools and of kcat.

- text: `NUMBER`, `NUMBER TIME` or `NUMBER TIME PRODUCER`, separated by single spaces
- kafka-console-consumer with `print.*` properties: fields separated by tabs, the value last
- kafka-verifiable-producer and kafka-verifiable-consumer --verbose: one JSON object per event
- `kcat -C -J`: one JSON object per message

The value of a message is read as text again, so it may have a time and a producer of its own.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Any, NamedTuple


class Role(Enum):
    """What the lines of an input are."""

    RECEIVED = "received"
    SENT = "sent"
    ACKED = "acked"


class Fields(NamedTuple):
    """The parts of a numbered line, as they are written."""

    number: bytes
    time: bytes | None
    producer: bytes | None


class Skipped:
    """A line that a tool prints about something else than a message."""


SKIPPED = Skipped()
_NAME = re.compile(rb"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
_CREATED = re.compile(rb"(?:CreateTime|LogAppendTime):([0-9]+)")
_SENT = {"producer_send_success": (Role.SENT, Role.ACKED, Role.RECEIVED), "producer_send_error": (Role.SENT,)}


def fields_of(line: bytes, role: Role) -> Fields | Skipped | None:
    """The parts of a line; None if it has no number where one belongs."""
    line = line.rstrip(b"\r")
    if line.startswith(b"{"):
        return _of_json(line, role)
    if b"\t" in line:
        first, *_, value = line.split(b"\t")
        created = _CREATED.fullmatch(first)
        return _of_text(value, created[1] if created else None)
    return _of_text(line, None)


def _of_text(text: bytes, time: bytes | None) -> Fields | None:
    """`time`: that of the message, which counts if the text has none."""
    number, *rest = text.split(b" ")
    if not number.isdigit() or len(rest) > 2 or b"" in rest:
        return None
    producer = rest[1] if len(rest) == 2 else None
    if producer is not None and not _NAME.fullmatch(producer):
        return None
    return Fields(number, rest[0] if rest else time, producer)


def _of_json(line: bytes, role: Role) -> Fields | Skipped | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict):
        return None
    if "payload" in event:
        return _of_text(_bytes(event["payload"]), _time(event.get("ts")))
    name = event.get("name")
    if name == "record_data":
        return _of_value(event)
    if name in _SENT:
        return _of_value(event) if role in _SENT[name] else SKIPPED
    return SKIPPED if isinstance(name, str) else None


def _of_value(event: dict[str, Any]) -> Fields | None:
    """The message of a verifiable client: `17`, or `PREFIX.17` with --value-prefix."""
    producer, _, value = _bytes(event.get("value")).rpartition(b".")
    fields = _of_text(value, _time(event.get("timestamp")))
    return fields if fields is None or not producer else fields._replace(producer=producer)


def _time(value: object) -> bytes | None:
    """A message's time in JSON; -1 is Kafka's word for none."""
    return b"%d" % value if isinstance(value, int) and value >= 0 else None


def _bytes(value: object) -> bytes:
    return str(value).encode() if isinstance(value, str | int) and not isinstance(value, bool) else b""
