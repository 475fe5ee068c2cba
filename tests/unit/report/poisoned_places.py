"""Prints poisoned data by every way that kaput has to a terminal; run as a program by test_printable.py."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import typer

from kaput.cli.doctor import text_of as doctor
from kaput.cli.exit_status import status_of
from kaput.cli.fault import _show as show_faults
from kaput.cli.main import Streams, program
from kaput.cli.peek import _line
from kaput.cli.progress import CountProgress, RunProgress
from kaput.cli.status_text import render as status_text
from kaput.cluster.record_batches import LogRecord
from kaput.console import Console
from kaput.errors import LabError

app = program()  # this program does not find tests/fakes

# Clears the screen, sets the title, goes back, deletes, turns letters around, hides; C0, C1, bidi, no width.
POISON = "x\x1b[2J\x1b]0;title\x07\r\b\x7f\x9b2J\u202e\u2066\u200b\U000e0041y"
RAW = POISON.encode()


def peek() -> None:
    """A record, its headers among it."""
    typer.echo(_line(LogRecord(3, 1, 1000, RAW, RAW + b"\nforged", [(POISON, RAW)])))


def faults() -> None:
    """`kaput fault list`: what the keeper answers has a command's output in it."""
    fault = {"id": "1-kill", "state": "active", "fault": "command", "target": POISON, "brokers": [1]}
    show_faults([{**fault, "proof": POISON + "\nforged"}], False, "")


def status() -> None:
    """`kaput status` of a cluster with such a topic, group and trouble."""
    place = {"topic": POISON, "partition": 0, "leader": 1, "leader_epoch": 0, "replicas": [1], "isr": [1]}
    offsets = {"topic": POISON, "partition": 0, "committed": 1, "end": 1, "lag": 0}
    document = {
        "cluster": "lab", "kafka": "4.3.1", "mode": "kraft", "bootstrap_servers": "h:1", "controller": 1,
        "brokers": [{"id": 1, "role": "broker", "state": "running", "pid": 7}], "others": [],
        "partitions": [{**place, "under_replicated": False}],
        "groups": [{"group": POISON, "lag": 0, "partitions": [offsets]}],
        "faults": [{"id": "1-kill", "brokers": [1], "proof": POISON}],
        "troubles": [POISON], "unknown": [POISON + "\nforged"],
    }  # fmt: skip
    Console(soft_wrap=True).print(status_text(document))


def findings_of_the_doctor() -> None:
    """A topic of an existing cluster."""
    found = SimpleNamespace(
        id="KP001",
        severity="warning",
        resource=POISON,
        title="t",
        evidence=POISON + "\nforged",
        remedy=POISON,
    )
    Console(soft_wrap=True).print(doctor([found], [POISON]), end="")


def progress() -> None:
    """A run's lines, and a replay's."""
    with RunProgress("run [/nobody]") as bar:
        bar.phase("load")
        bar.fault("1", POISON, "injected")
        bar.note(POISON + "\nforged")
    with CountProgress(POISON) as records:
        records.tell(1, 2)


def report() -> None:
    """A run folder of another program."""
    status_of(lambda: app(["report", f"{sys.argv[1]}/one"], standalone_mode=False, color=True))


def comparison() -> None:
    """Two of them side by side."""
    both = [f"{sys.argv[1]}/{name}" for name in ("one", "two")]
    status_of(lambda: app(["report", *both], standalone_mode=False, color=True))


def document() -> None:
    """JSON, which must stay JSON."""
    typer.echo(json.dumps({"data": POISON}, ensure_ascii=False))


def errors() -> None:
    """A client's error, a fault of kaput's own, and a wrong argument."""

    def fails(error: BaseException) -> int:
        raise error

    status_of(lambda: fails(LabError(f"the broker says:\n{POISON}")))
    status_of(lambda: fails(ValueError(POISON)))
    status_of(lambda: app(["report", "--" + POISON], standalone_mode=False, color=True))


PLACES = (
    peek, faults, status, findings_of_the_doctor, progress, report, comparison, document, errors,
)  # fmt: skip


def main() -> None:
    """Each place after its name on a line of its own, all on stdout."""
    streams = Streams()
    sys.stderr = sys.stdout
    for place in PLACES:
        sys.stdout.write(f"=== {place.__name__}\n")
        place()
        sys.stdout.flush()
    assert streams.finish() is None


if __name__ == "__main__":
    main()
