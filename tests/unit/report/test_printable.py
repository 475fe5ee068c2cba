"""Data never moves the cursor, hides or forges a line: every way that kaput has to a terminal, walked."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest
from handmade_findings import document
from poisoned_places import PLACES, POISON

from kaput.evidence.folder import Manifest, RunFolder
from kaput.printable import (
    EscapingBytes,
    EscapingStream,
    printable,
    printable_document,
    printable_lines,
    unescaped,
)
from waiting import PATIENCE_S

# What rich draws with, and a terminal's end of a line. None of it is in POISON.
_OURS = re.compile(r"\x1b\[[\d;]*m|\x1b\[\?25[lh]|\r?\x1b\[\d*A|\r?\x1b\[2K|\r(?=\n)")
_SHOWN = r"\x1b[2J\x1b]0;title\x07"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two run folders with poison wherever its findings have words of their own."""
    found = document()
    found["run"] |= dict.fromkeys(("scenario", "title", "kafka", "mode", "id"), POISON)
    found["reasons"], found["notes"] = [POISON, "broker down\nHELD: forged"], [POISON]
    found["groups"][0]["group"] = POISON
    found["faults"][0] |= dict.fromkeys(("id", "fault", "target", "proof"), POISON)
    found["unavailability"][0]["topic"] = POISON
    for anomaly in found["anomalies"]:
        if anomaly.get("group"):
            anomaly["group"] = POISON
        for example in anomaly.get("examples", ()):
            example["story"] = POISON
    top = tmp_path_factory.mktemp("runs")
    for name in ("one", "two"):
        made = RunFolder(top / name)
        made.path.mkdir()
        made.write_manifest(
            Manifest.model_validate({"run_id": str(uuid.uuid4()), "scenario": "s", "state": "analysed"})
        )
        made.findings_path.write_text(json.dumps(found))
        found["run"]["id"] += "again"
    return top


@pytest.fixture(scope="module", params=["terminal", "pipe"])
def printed(request: pytest.FixtureRequest, folders: Path) -> Mapping[str, str]:
    """What each place prints, by its name."""
    words = [sys.executable, str(Path(__file__).with_name("poisoned_places.py")), str(folders)]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200", "XDG_STATE_HOME": str(folders)}
    read_end, write_end = pty.openpty() if request.param == "terminal" else os.pipe()
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=write_end, stderr=subprocess.PIPE, env=environment
    ) as process:
        os.close(write_end)
        text = _all_of(read_end).decode()
        assert process.stderr is not None
        assert process.stderr.read() == b"" and process.wait(PATIENCE_S) == 0
    sections = re.split(r"^=== (\w+)\n", _OURS.sub("", text), flags=re.MULTILINE)
    return dict(zip(sections[1::2], sections[2::2], strict=True))


def _all_of(descriptor: int) -> bytes:
    found = bytearray()
    try:
        while data := os.read(descriptor, 1 << 16):
            found += data
    except OSError:
        pass  # how a terminal ends whose other side is closed
    os.close(descriptor)
    return bytes(found)


@pytest.mark.parametrize("place", [place.__name__ for place in PLACES if place.__name__ != "document"])
def test_data_is_shown_escaped(printed: Mapping[str, str], place: str) -> None:
    """Nothing of it reaches a terminal, or a pipe, as it is; and it is not just left out."""
    text = printed[place]
    assert printable_lines(text) == text
    assert _SHOWN in text and r"\u202e" in text and r"\u200b" in text


@pytest.mark.parametrize(
    "place", ["peek", "faults", "status", "findings_of_the_doctor", "progress", "report"]
)
def test_newline_in_data_is_escaped(printed: Mapping[str, str], place: str) -> None:
    """A newline in a value stays on its line."""
    assert "forged" in printed[place] or place == "report"
    lines = printed[place].splitlines()
    assert not [line for line in lines if line.startswith(("forged", "HELD: forged"))]


def test_json_output_stays_valid_json(printed: Mapping[str, str]) -> None:
    """Also where it has characters that JSON itself leaves as they are: DEL, C1, bidirectional controls."""
    text = printed["document"]
    assert printable_lines(text) == text
    assert json.loads(text) == {"data": POISON}


@pytest.mark.parametrize("text", ["", "plain", "Zürich, 東京, ключ", "a\\b", "100 % ✓ 🎉", "├──"])
def test_printable_text_is_unchanged(text: str) -> None:
    """Letters of any language are no control characters."""
    assert printable(text) == printable_lines(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x00\x1b\x1f", r"\x00\x1b\x1f"),
        ("\x7f\x80\x9f", r"\u007f\u0080\u009f"),
        ("a\r\nb\tc", r"a\r\nb\tc"),
        (
            "\u2028\u2029\u202e\u2069\u200b\u200d\ufeff\xad",
            r"\u2028\u2029\u202e\u2069\u200b\u200d\ufeff\u00ad",
        ),
        ("\U000e0041", r"\udb40\udc41"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    """As Python writes it below the space, as JSON does above."""
    assert printable(text) == shown


def test_multi_line_text_keeps_newlines_and_tabs() -> None:
    """The last lines of a log, for example."""
    assert printable_lines("one\n\ttwo\r\x1b[2J\n") == "one\n\ttwo\\r\\x1b[2J\n"


def test_nested_document_is_escaped_including_keys() -> None:
    """Keys as well; what is no text stays what it is."""
    found = printable_document({"a\n": [1, None, True, ("b\x1b", 2.5)], "c": {"d": "e\t"}})
    assert found == {r"a\n": [1, None, True, [r"b\x1b", 2.5]], "c": {"d": r"e\t"}}


def test_bytes_are_escaped_without_splitting_characters() -> None:
    """A table on a terminal, however its writer cuts it."""
    written = io.BytesIO()
    stream = EscapingStream(written, encoding="utf-8")
    escaping = EscapingBytes(stream)
    for byte in "é\x1b\u202e\n".encode() + b"\xff!":
        assert escaping.write(bytes([byte])) == 1
    stream.flush()
    assert written.getvalue().decode() == "é\\x1b\\u202e\n\\xff!"


def test_own_colours_and_redraws_are_not_escaped() -> None:
    """Colours, and lines that are written anew."""
    written = io.BytesIO()
    stream = EscapingStream(written, encoding="utf-8")
    unescaped(stream).write("\r\x1b[K1 line")
    stream.write("\r\x1b[K")
    stream.flush()
    assert written.getvalue() == rb"\r\x1b[K1 line".decode("unicode_escape").encode() + rb"\r\x1b[K"
