"""`kaput status --watch`: shows a running cluster every second until Ctrl-C, with data from its daemon."""

from __future__ import annotations

import json as library
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import typer

from kaput.core import SECOND

_EVERY_S = 1.0
MOST_EVENTS = 12  # on a screen
Look = Callable[[], dict[str, Any]]


def watch_status(look: Look, json: bool) -> None:
    """Shows a screen in a terminal, lines in a pipe. `look`: returns the current document
    (operate/observer.py).
    """
    from kaput.errors import Interrupted
    from kaput.processes.signals import interrupts

    show = _json_lines if json else _screen if sys.stdout.isatty() else _events
    try:
        with interrupts():
            show(look)
    except Interrupted:
        return  # Ctrl-C is the normal way to end it


def _screen(look: Look) -> None:
    from rich.live import Live

    from kaput.cli.status_text import watched
    from kaput.console import Console

    with Live(watched(look()), console=Console(), screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(_EVERY_S)
            live.update(watched(look()), refresh=True)


def _json_lines(look: Look) -> None:
    while True:
        _write([library.dumps(look())])
        time.sleep(_EVERY_S)


def _events(look: Look) -> None:
    """Past events, then each new one."""
    seen: set[tuple[int, str]] = set()
    while True:
        events = {(event["at_ns"], event["text"]): event for event in look()["events"]}
        _write(event_line(event) for key, event in events.items() if key not in seen)
        seen = set(events)
        time.sleep(_EVERY_S)


def event_line(event: Mapping[str, Any]) -> str:
    """An event with its time in UTC: `12:03:21  leader of orders/0: 1 → 2 (epoch 5)`."""
    from kaput.printable import printable

    return f"{time.strftime('%H:%M:%S', time.gmtime(event['at_ns'] / SECOND))}  {printable(event['text'])}"


def _write(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)
    sys.stdout.flush()
