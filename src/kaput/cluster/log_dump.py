"""Runs Kafka's own dump tool on files of the metadata log, and checks that it printed all of them.

The tool exits with 0 if a file is cut within a batch, and with 1 if the controller is writing one, so its
exit status is useless. Every record that a batch's header announces must be there, batches must follow each
other, and the last must reach to where the file ended before the tool began. Not here: what the records mean
(metadata_log.py).
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kaput.cluster.cds import find_archive
from kaput.cluster.distribution import Distribution
from kaput.cluster.jvm import NO_MAIN_CLASS, java_command
from kaput.errors import UnknownFormat
from kaput.java import Java

# Up to Kafka 4.1 it is in another package.
_TOOL, _OLDER_TOOL = "org.apache.kafka.tools.DumpLogSegments", "kafka.tools.DumpLogSegments"
_TIMEOUT_S = 60
_SHOWN = 200  # characters of a line
_RETRY_AFTER_S = 0.5  # enough for the controller to finish its current write
_FILE = re.compile(r"Dumping (.+)$")
_BATCH = re.compile(
    r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* isControl: (\w+) .*"
    r"position: (\d+) .* size: (\d+) .* isvalid: (\w+)$"
)
# Kafka 3.7 only prints the type of control records, later versions their contents.
_CONTROL = re.compile(r"\| offset: \d+ (?:.*\}|.* controlType: \w+\(\d+\))$")
RECORD = re.compile(r"\| offset: (\d+) CreateTime: (\d+) .*? payload: (\{.*\})$")


class Dump(NamedTuple):
    """The tool's output; `problem`: why it is incomplete (None: it is complete)."""

    lines: list[str]
    problem: str | None


def dump(distribution: Distribution, java: Java, files: Sequence[Path]) -> Dump:
    """The tool's output for `files`; runs it again if the first output was incomplete."""
    first = _run(distribution, java, files)
    if first.problem is None:
        return first
    time.sleep(_RETRY_AFTER_S)
    again = _run(distribution, java, files)
    return again if again.problem is None or len(again.lines) >= len(first.lines) else first


def dump_tool_class(distribution: Distribution) -> str:
    """The tool's main class."""
    return _TOOL if distribution.has_class(_TOOL) else _OLDER_TOOL


def _run(distribution: Distribution, java: Java, files: Sequence[Path]) -> Dump:
    command = java_command(
        java,
        distribution,
        dump_tool_class(distribution),
        ["--cluster-metadata-decoder", "--files", ",".join(map(str, files))],
        archive=find_archive(distribution, java),
        heap=("-Xms64m", "-Xmx512m"),
    )
    try:
        sizes = {str(file): file.stat().st_size for file in files}
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Dump([], f"it took longer than {_TIMEOUT_S} s")
    except OSError as error:
        return Dump([], str(error))
    lines = done.stdout.splitlines()
    if done.returncode != 0:
        output = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["no output"]
        why = next((line for line in output if "Exception" in line or "Error" in line), output[-1])
        if NO_MAIN_CLASS in why:
            why = str(UnknownFormat(f"Kafka {distribution.version} has it in another place"))
        return Dump(lines, f"it ended with status {done.returncode}: {why.strip()[:300]}")
    return Dump(lines, missing_part(lines, sizes))


def missing_part(lines: Sequence[str], sizes: dict[str, int]) -> str | None:
    """What the output for consecutive files lacks; None if nothing. `sizes`: of the files, in bytes."""
    printed_bytes: dict[str, int] = {}
    file, records_due, next_offset, control = "", 0, None, False
    for line in lines:
        if file_line := _FILE.match(line):
            file = file_line[1]
            printed_bytes[file] = 0
        elif batch := _BATCH.match(line):
            base, last, count = map(int, batch.groups()[:3])
            if records_due or batch[7] != "true" or next_offset not in (None, base):
                break
            records_due, next_offset, control = count, last + 1, batch[4] == "true"
            printed_bytes[file] = int(batch[5]) + int(batch[6])
        elif (_CONTROL if control else RECORD).match(line) and _is_complete(line):
            records_due -= 1
        elif line.startswith("|") and line is not lines[-1]:  # the last one may be cut
            return str(UnknownFormat(f"it printed {line[:_SHOWN]!r}"))
    if records_due > 0:
        return f"a batch of {file} is not whole"
    if next_offset is None and any(sizes.values()) and len(lines) > 1:
        return str(UnknownFormat(f"it printed {lines[-1][:_SHOWN]!r}"))
    for name, size in sizes.items():
        if printed_bytes.get(name, 0) < size:
            return f"it printed {printed_bytes.get(name, 0)} of the {size} bytes of {name}"
    return None


def _is_complete(line: str) -> bool:
    """Whether a record's line is complete; only control records have no JSON payload."""
    _, found, payload = line.partition(" payload: ")
    try:
        return not found or bool(json.loads(payload))
    except ValueError:
        return False
