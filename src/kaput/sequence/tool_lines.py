"""What one line means that is not just plain numbers: the output of Kafka's own tools and of kcat.

- text: `NUMBER`, `NUMBER TIME` or `NUMBER TIME PRODUCER`, separated by single spaces
- kafka-console-consumer with `print.*` properties: fields separated by tabs (after a time, by whatever
  follows it), the value last
- kafka-verifiable-producer and kafka-verifiable-consumer --verbose: one JSON object per event
- `kcat -C -J`: one JSON object per message
- k6: points of its JSON or CSV output that have the tag `number`, or of a metric that is called sent, acked,
  received or number, whose value is one
- CSV (commas, semicolons or tabs) with a header that names a column `number` or `seq`, or both `offset` and
  `value`, as of a record of Kafka; JMeter's too, also in XML, whose labels may end in the number
- a record as Java prints it: `ConsumerRecord(topic = t, ..., CreateTime = TIME, ..., value = VALUE)`
- the same as Python prints it (kafka-python, aiokafka): `ConsumerRecord(topic='t', ..., value=b'VALUE', ...)`
- JSON objects with `number` or `seq`, also in the `data` of a CloudEvent, or records of Kafka with `topic`,
  `offset` and `value`; Docker's, whose `log` is a line
- kafka-dump-log with `--print-data-log`: a record per line, its payload last

The value of a message is read as text or JSON again, so it may name a time and a producer itself.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from enum import Enum
from html import unescape
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from kaput.evidence.time_units import NS, decimal_of


class Role(Enum):
    """What the lines of an input are."""

    RECEIVED = "received"
    SENT = "sent"
    ACKED = "acked"


class Fields(NamedTuple):
    """The parts of a numbered line, as they are written. `unit`: what the name of the time's column says."""

    number: bytes
    time: bytes | None
    producer: bytes | None
    unit: str | None = None


class DoubleColumn(Exception):
    """A CSV that names a column twice."""


class Skipped:
    """A line that a tool prints about something else than a message."""


SKIPPED = Skipped()
_NAME = re.compile(rb"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
_OF_TIME = rb"(?:CreateTime|LogAppendTime|NoTimestampType)"
_CREATED = re.compile(_OF_TIME + rb":(-?[0-9]+)")
# What the console consumer prints at its beginning and its end; what Kafka's tools and their JVM log, with
# stack traces; and what kcat and librdkafka print on stderr.
_REMARK = re.compile(
    rb"Processed a total of [0-9]+ messages"
    rb"|Option --[a-z-]+ is deprecated and will be removed "
    rb"|\[[0-9]{4}-[0-9-]{5} [0-9:]{8},[0-9]{3}\] [A-Z]+ .*\((?:org\.apache\.)?kafka\.[\w.$]+\)\s*$"
    rb"|(?:Caused by: )?(?:org\.apache\.kafka|java)\.[\w.$]+(?:Exception|Error)(?::|\s*$)"
    rb"|\tat [\w.$/@]+\(|\t\.\.\. [0-9]+ more|SLF4J(?:\([A-Z]\))?: |OpenJDK 64-Bit Server VM warning: "
    rb"|% (?:Reached end of topic|Auto-selecting|Reading configuration|Waiting for group|Group|ERROR:) "
    rb"|%[0-7]\|[0-9.]+\|[A-Z]+\|"
    rb"|Dumping /|(?:Log s|S)tarting offset: [0-9]+\s*$|baseOffset: [0-9]+ lastOffset: [0-9]+ "
    rb"|\| offset: [0-9]+ .*(?:endTxnMarker: |valueSize: -1 )"
)
_SENT = {"producer_send_success": (Role.SENT, Role.ACKED, Role.RECEIVED), "producer_send_error": (Role.SENT,)}


_NUMBERS, _BARE = ("number", "seq"), ("time", "timestamp", "ts", "@timestamp")
# The unit that the name of a column of times says.
_TIMES = dict.fromkeys(_BARE) | {f"{name}_{unit}": unit for unit in NS for name in _BARE}
COLUMNS = (*_NUMBERS, *_TIMES, "producer")
# k6's metrics of which each point is about one message: that of requests, or the user's own.
_REQUESTS, _OWN = "http_reqs", ("sent", "acked", "received", "number")
_ATTRIBUTE = re.compile(r'([a-z]+)="([^"]*)"')
_RECORD = re.compile(rb"ConsumerRecord\(topic = .*?" + _OF_TIME + rb" = (-?[0-9]+).*value = (.*)\)\s*$")
_OF_PYTHON = re.compile(
    rb"ConsumerRecord\(topic='.*?\btimestamp=(-?[0-9]+), .*?\bvalue=b?"
    rb"(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\")"
)
_DUMPED = re.compile(rb"\| offset: [0-9]+ (?:.* )?" + _OF_TIME + rb": (-?[0-9]+) .*? payload: (.*)$")
_RECORDS = {"offset", "value"}
_NOTHING = ("", "null", "NULL", "NaN", "nan", "NaT", "None", "NA", "<NA>", "\\N")
_WHOLE = re.compile(r"^([0-9]+)\.0$")  # a float, in a column with nulls
_LABEL = re.compile(r"(?:.*[^0-9])?([0-9]+)")


class LineMeaning:
    """What the lines of one input mean. The first (`at_start`) may be the header of a CSV, which may come
    again: it may be several files. `in_xml`: only JMeter's samples count, whatever other lines look like.
    """

    def __init__(self, role: Role) -> None:
        self._role = role
        self._columns: list[str] | None = None
        self._header, self._separator = b"", ","
        self.at_start, self.in_xml = True, False

    def of(self, line: bytes) -> Fields | Skipped | None:
        """The parts of a line; None if it has no number where one belongs."""
        at_start, self.at_start = self.at_start, False
        if line.startswith((b"<?xml", b"<testResults")):
            self.in_xml = True
        if self.in_xml:
            self.in_xml = not line.startswith(b"</testResults")
            return _of_xml(line, self._role)
        if b"ConsumerRecord(" in line and (record := _RECORD.search(line)) is not None:
            return _of_message(record[2], _time(record[1]))
        if b"ConsumerRecord(" in line and (record := _OF_PYTHON.search(line)) is not None:
            return _of_message(record[2] or record[3] or b"", _time(record[1]))
        if (record := _DUMPED.match(line)) is not None:
            return _of_message(record[2].rstrip(), _time(record[1]))
        if at_start and line.startswith(b"sep="):
            self.at_start = True  # Excel's: the header is next
            return SKIPPED
        if at_start and (not line.strip() or _REMARK.match(line)):
            self.at_start = True
            return fields_of(line, self._role)
        if (at_start and self._is_header(line)) or (self._header and line == self._header):
            return SKIPPED
        if self._columns is not None and not line.strip():
            return SKIPPED  # as every reader of a CSV does
        is_row = self._columns is not None and self._separator.encode() in line
        if is_row and self._columns is not None and not (line.startswith(b"{") or _REMARK.match(line)):
            row = _row(line, self._separator)
            fits = len(row) >= len(self._columns)
            return _of_row(dict(zip(self._columns, row, strict=False)), self._role) if fits else None
        return fields_of(line, self._role)

    def _is_header(self, line: bytes) -> bool:
        """Whether the first line is a CSV's header with numbered rows; then its columns are noted."""
        separator = max(",;\t", key=line.decode(errors="replace").count)
        columns = _header(_row(line, separator))
        if columns is None:
            return False  # the next part of a file that was split has none
        if twice := next((name for name in columns if name in COLUMNS and columns.count(name) > 1), None):
            raise DoubleColumn(f"column {twice!r} is there twice")
        self._columns, self._header, self._separator = columns, line, separator
        return True


def _of_xml(line: bytes, role: Role) -> Fields | Skipped | None:
    """A line of JMeter's XML: each sample begins on one of its own, with its attributes."""
    if not line.lstrip().startswith((b"<httpSample ", b"<sample ")):
        return SKIPPED
    has = {name: unescape(value) for name, value in _ATTRIBUTE.findall(line.decode(errors="replace"))}
    return _of_row({**has, "label": has.get("lb", ""), "success": has.get("s", "true")}, role)


def _row(line: bytes, separator: str) -> list[str]:
    try:
        text = line.decode(errors="replace").rstrip("\r")
        return next(csv.reader([text], delimiter=separator, skipinitialspace=True), [])
    except csv.Error:
        return []


def _header(row: list[str]) -> list[str] | None:
    """The names of a CSV's columns in small letters; None if this is no header with numbered rows."""
    names = [name.strip().strip("\ufeff").lower() for name in row]
    of_jmeter, of_k6 = {"timestamp", "elapsed", "label"}, {"metric_name", "metric_value", "extra_tags"}
    numbered = any(name in names for name in _NUMBERS) or set(names) >= _RECORDS
    known = numbered or of_jmeter <= set(names) or of_k6 <= set(names)
    return names if known else None


def _of_row(row: dict[str, str], role: Role) -> Fields | Skipped | None:
    if "metric_name" in row:
        tags = {key: values[0] for key, values in parse_qs(row.get("extra_tags", "")).items()}
        failed = row.get("expected_response") == "false"
        return _of_k6(row["metric_name"], row["metric_value"], row.get("timestamp"), tags, failed, role)
    failed = row.get("success", "true").lower() == "false" and role is not Role.SENT
    if failed or (role is Role.ACKED and row.get("outcome", "acked").lower() != "acked"):
        return SKIPPED
    number = next((row[name] for name in _NUMBERS if name in row), None)
    time = next((name for name in _TIMES if row.get(name)), "")
    if number is None and row.keys() >= _RECORDS:
        fields = _of_message(_utf8(row["value"]), None)
        if fields is None or fields.time:
            return fields
        return fields._replace(time=_time(row.get(time)), unit=_TIMES.get(time))
    if number is None:
        match = _LABEL.fullmatch(row.get("label", ""))
        number = match[1] if match else ""
    return _fields(number, row.get(time), row.get("producer"), _TIMES.get(time))


def _of_k6(
    metric: str, value: object, time: object, tags: Mapping[str, object], failed: bool, role: Role
) -> Fields | Skipped | None:
    number = tags.get("number")
    if metric in _OWN and number is None:
        number = value
    elif metric not in (_REQUESTS, *_OWN) or number is None:
        return SKIPPED
    if (metric in ("sent", "acked", "received") and metric != role.value) or (
        failed and role is not Role.SENT
    ):
        return SKIPPED
    return _fields(number, time, tags.get("producer"))


def _fields(number: object, time: object, producer: object, unit: str | None = None) -> Fields | None:
    """The parts as other programs have them: numbers may be floats (`17.000000`, `1.700000e+01`)."""
    time, producer = (each.strip() if isinstance(each, str) else each for each in (time, producer))
    value = decimal_of(str(number).strip())
    if value is None or value < 0 or value != int(value):
        return None
    name = None if str(producer) in _NOTHING else _utf8(_WHOLE.sub(r"\1", str(producer)))
    if name is not None and not _NAME.fullmatch(name):
        return None
    when = None if str(time) in _NOTHING else _utf8(time)
    return Fields(b"%d" % int(value), when, name, unit)


def fields_of(line: bytes, role: Role) -> Fields | Skipped | None:
    """The parts of a line that needs no header; None if it has no number where one belongs."""
    line = line.rstrip()
    if line.startswith(b"{"):
        return _of_json(line, role)
    if _REMARK.match(line):
        return SKIPPED
    created = _CREATED.match(line)
    separator = line[created.end() : created.end() + 1] if created else b"\t"
    if separator and separator in line:
        return _of_message(line.rpartition(separator)[2], _time(created[1]) if created else None)
    return _of_text(line, None)


def _of_message(value: bytes, time: bytes | None) -> Fields | None:
    """A message's value: text, or JSON with the number. `time`: its own, if the value has none."""
    if not value.startswith(b"{"):
        return _of_text(value, time)
    event = _object(value)
    fields = None if event is None else _of_keys(event)
    return fields if fields is None or fields.time else fields._replace(time=time)


def _of_text(text: bytes, time: bytes | None) -> Fields | None:
    """`time`: that of the message, which counts if the text has none. A lone number may be padded or quoted:
    before several, blanks may mean that `uniq -c` counted them.
    """
    if b" " not in (alone := text.strip()):
        text = alone.strip(b'"')
    number, *rest = text.split(b" ")
    if not number.isdigit() or len(rest) > 2 or b"" in rest:
        return None
    producer = rest[1] if len(rest) == 2 else None
    if producer is not None and not _NAME.fullmatch(producer):
        return None
    return Fields(number, rest[0] if rest else time, producer)


def _of_json(line: bytes, role: Role) -> Fields | Skipped | None:
    event = _object(line)
    if event is None:
        return None
    if "payload" in event:
        payload = event["payload"]  # an object, if kcat has unpacked Avro
        value = json.dumps(payload).encode() if isinstance(payload, dict) else _bytes(payload)
        return _of_message(value, _time(event.get("ts")))
    if isinstance(log := event.get("log"), str) and "stream" in event:
        return fields_of(_utf8(log), role)
    name = event.get("name")
    if name == "record_data":
        return _of_value(event)
    if name in _SENT:
        return _of_value(event) if role in _SENT[name] else SKIPPED
    data = event.get("data")
    if "specversion" in event and isinstance(data, dict):  # a CloudEvent
        return _of_keys({"time": event.get("time"), **data})
    if "metric" in event and isinstance(data, dict):
        return _of_k6_event(event, data, role)
    if role is Role.ACKED and str(event.get("outcome", "acked")).lower() != "acked":
        return SKIPPED
    if (fields := _of_keys(event)) is not None:
        return fields
    if event.keys() >= {"topic", *_RECORDS}:  # as clients of Node.js, Go and others print a record
        value = event["value"]
        text = json.dumps(value).encode() if isinstance(value, dict) else _bytes(value)
        return _of_message(text, _time(event.get("timestamp")))
    return SKIPPED if isinstance(name, str) else None


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def _of_keys(event: dict[str, Any]) -> Fields | None:
    event = {name.lower(): _alone(value) for name, value in event.items()}
    number = next((event[key] for key in _NUMBERS if key in event), None)
    if number is None or isinstance(number, bool | dict | list):
        return None
    time = next((name for name in _TIMES if event.get(name) is not None), "")
    return _fields(number, event.get(time), event.get("producer"), _TIMES.get(time))


def _alone(value: Any) -> Any:
    """The value of Avro's unions in JSON: `{"long": 17}`."""
    return next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value


def _of_k6_event(event: dict[str, Any], data: dict[str, Any], role: Role) -> Fields | Skipped | None:
    if event.get("type") != "Point":
        return SKIPPED
    tags = data.get("tags")
    tags = tags if isinstance(tags, dict) else {}
    failed = tags.get("expected_response") == "false"
    return _of_k6(str(event["metric"]), data.get("value"), data.get("time"), tags, failed, role)


def _of_value(event: dict[str, Any]) -> Fields | None:
    """The message of a verifiable client: `17`, or `PREFIX.17` with --value-prefix."""
    producer, _, value = _bytes(event.get("value")).rpartition(b".")
    fields = _of_text(value, _time(event.get("timestamp")))
    return fields if fields is None or not producer else fields._replace(producer=producer)


def _time(value: object) -> bytes | None:
    """A message's time; -1 is Kafka's word for none."""
    text = value if isinstance(value, bytes) else _utf8(value)
    return None if value is None or text == b"-1" else text


def _bytes(value: object) -> bytes:
    return _utf8(value) if isinstance(value, str | int) and not isinstance(value, bool) else b""


def _utf8(value: object) -> bytes:
    return str(value).encode(errors="replace")  # JSON may have half of a pair of surrogates
