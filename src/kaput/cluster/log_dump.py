"""Kafka's own dump tool on files of the metadata log, and whether it printed all that they hold.

The tool ends with 0 where a file is cut within a batch, and with 1 where the controller is just writing one:
its word is not taken. Every record that a batch's header announces must be there, batches must follow each
other, and the last must reach to where the file ended before the tool began.
Not here: what the records mean (metadata_log.py).
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
from kaput.cluster.jvm import java_command
from kaput.java import Java

# Before Kafka 4 it was in another package.
_TOOL, _OLDER_TOOL = "org.apache.kafka.tools.DumpLogSegments", "kafka.tools.DumpLogSegments"
_TIMEOUT_S = 60
_AGAIN_AFTER_S = 0.5  # what the controller was just writing is whole by then
_FILE = re.compile(r"Dumping (.+)$")
_BATCH = re.compile(
    r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* position: (\d+) .* size: (\d+) .* isvalid: (\w+)$"
)
# Of control records Kafka 3.7 names the kind alone, later ones print what is in them.
_RECORD = re.compile(r"\| offset: \d+ (?:.*\}|.* controlType: \w+\(\d+\))$")


class Dump(NamedTuple):
    """What the tool printed, and what is wrong with it: None where it is whole."""

    lines: list[str]
    wrong: str | None


def dump(distribution: Distribution, java: Java, files: Sequence[Path]) -> Dump:
    """What the tool prints of `files`, asked a second time where the first answer was not whole."""
    first = _ask(distribution, java, files)
    if first.wrong is None:
        return first
    time.sleep(_AGAIN_AFTER_S)
    again = _ask(distribution, java, files)
    return again if again.wrong is None or len(again.lines) >= len(first.lines) else first


def _ask(distribution: Distribution, java: Java, files: Sequence[Path]) -> Dump:
    command = java_command(
        java,
        distribution,
        _TOOL if distribution.major >= 4 else _OLDER_TOOL,
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
        return Dump(lines, f"it ended with status {done.returncode}: {why.strip()[:300]}")
    return Dump(lines, whole(lines, sizes))


def whole(lines: Sequence[str], sizes: dict[str, int]) -> str | None:
    """What is missing from the print of files that follow each other, None for nothing. `sizes`: in bytes."""
    reached: dict[str, int] = {}
    file, due, following = "", 0, None
    for line in lines:
        if begun := _FILE.match(line):
            file = begun[1]
            reached[file] = 0
        elif batch := _BATCH.match(line):
            base, last, count, position, size = map(int, batch.groups()[:5])
            if due or batch[6] != "true" or following not in (None, base):
                break
            due, following = count, last + 1
            reached[file] = position + size
        elif _RECORD.match(line) and _decodes(line):
            due -= 1
    if due > 0:
        return f"a batch of {file} is not whole"
    for name, size in sizes.items():
        if reached.get(name, 0) < size:
            return f"it printed {reached.get(name, 0)} of the {size} bytes of {name}"
    return None


def _decodes(line: str) -> bool:
    """Whether a record's line is whole; control records have no payload in JSON alone."""
    _, found, payload = line.partition(" payload: ")
    try:
        return not found or bool(json.loads(payload))
    except ValueError:
        return False
