"""A node's log: its last lines, and the error that explains why the node ended."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

_TAIL_BYTES = 64 * 1024
_ERROR = re.compile(r"\[[^]]*\] (?:ERROR|FATAL) (.*?)(?: \([\w.$]+\))?")
_DATE = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]", re.MULTILINE)
_EXCEPTION = re.compile(r"(?:Caused by: )?[\w.$]+(?:Exception|Error)(?:: (.*))?")
_REASON_LENGTH = 500


def tail(log: Path, lines: int, since: int = 0) -> str:
    """The last lines of a log. `since`: the size of the log when the node was started."""
    try:
        with log.open("rb") as file:
            file.seek(max(since, file.seek(0, 2) - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def last_date_ns(log: Path, since: int) -> int | None:
    """The time of the last line after size `since`, by the node's own clock; None without one."""
    found = _DATE.findall(tail(log, _TAIL_BYTES, since))
    if not found:
        return None
    date = datetime.strptime(found[-1], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
    return round(date.timestamp() * 1000) * 1_000_000


def last_error(log: Path, since: int = 0) -> str:
    """The last error with the exceptions that caused it, in one line; empty if there is none."""
    found: list[str] = []
    for line in tail(log, _TAIL_BYTES, since).splitlines():
        if error := _ERROR.fullmatch(line):
            found = [error[1]]
        elif found and (exception := _EXCEPTION.fullmatch(line)):
            found += [exception[1]] if exception[1] and exception[1] not in found[-1] else []
    return ": ".join(text.rstrip(".") for text in found)[:_REASON_LENGTH]
