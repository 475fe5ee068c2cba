"""The state of a running cluster as text: brokers, partitions, groups, faults; and `kaput status --watch`,
which shows it every second until Ctrl-C, with data from the cluster's daemon.
"""

from __future__ import annotations

import json as library
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import typer
from rich.text import Text

from kaput.core import SECOND, plural
from kaput.errors import Interrupted
from kaput.printable import printable, printable_document
from kaput.report.document import NOTHING, Table, number
from kaput.report.render.terminal import table_text


def render(status: Mapping[str, Any]) -> Text:
    """The text. `status`: the document of `kaput status --json`."""
    # Without the log lines that follow some of them.
    troubles = [each.partition("\n")[0].removesuffix("; its log ends:") for each in status["troubles"]]
    status = printable_document({**status, "troubles": troubles})
    return Text.assemble(
        _head(status),
        _nodes(status),
        _partitions(status["partitions"], _states(status)),
        _groups(status["groups"]),
        _foot(status),
    )


def watched(status: Mapping[str, Any]) -> Text:
    """The text with rates, alerts and changes. `status`: a document of `kaput status --watch --json`."""

    events = printable_document(status["events"])[-MOST_EVENTS:]
    written, read = (number(status[name]) for name in ("written_per_s", "read_per_s"))
    return Text.assemble(
        render(status),
        Text(f"  {written} records/s written, {read} records/s committed by groups\n"),
        *(_alert(alert) for alert in printable_document(status["alerts"])),
        Text("".join(f"  {event_line(event)}\n" for event in events), style="dim"),
    )


def _alert(alert: Mapping[str, Any]) -> Text:
    why = f" (explained by {', '.join(alert['inhibited_by'])})" if alert["inhibited_by"] else ""
    disturbs = alert["state"] == "firing" and not why
    text = f"  {alert['state'].upper()} {alert['severity']} {alert['rule']}: {alert['summary']}{why}\n"
    return Text(text, style="bold red" if disturbs else "")


def _head(status: Mapping[str, Any]) -> Text:
    controller = NOTHING if status["controller"] is None else status["controller"]
    return Text(
        f"{status['cluster']}: Kafka {status['kafka']}, {status['mode']}, {status['bootstrap_servers']}; "
        f"controller {controller}\n",
        style="bold",
    )


def _nodes(status: Mapping[str, Any]) -> Text:
    rows = [
        [f"{node['role']} {node['id']}", node["state"], NOTHING if node["pid"] is None else str(node["pid"])]
        for node in [*status["brokers"], *status["others"]]
    ]
    return table_text(Table(["node", "state", "pid"], rows, "ll"))


def _states(status: Mapping[str, Any]) -> dict[int, str]:
    """The state of each broker that is not running."""
    return {each["id"]: each["state"] for each in status["brokers"] if each["state"] != "running"}


def _partitions(partitions: Sequence[Mapping[str, Any]] | None, states: Mapping[int, str]) -> Text:
    """The partitions. `states`: of brokers that are not running, which the cluster notices seconds later."""
    if partitions is None:
        return Text("  partitions: currently unknown\n")
    if not partitions:
        return Text("  no topics\n")
    under = sum(each["under_replicated"] for each in partitions)
    offline = sum(each["leader"] is None for each in partitions)
    rows = [
        [
            f"{each['topic']}/{each['partition']}",
            NOTHING if each["leader"] is None else str(each["leader"]),
            str(each["leader_epoch"]),
            _list(each["replicas"]),
            _list(each["isr"]),
            *([number(each["written_per_s"])] if "written_per_s" in each else []),
            _remark(each, states),
        ]
        for each in partitions
    ]
    rate = ["written/s"] if "written_per_s" in partitions[0] else []
    header = ["partition", "leader", "epoch", "replicas", "ISR", *rate, ""]
    table = table_text(Table(header, rows, "lllll" + "r" * len(rate) + "l"))
    summary = (
        f"  {plural(len(partitions), 'partition')}, {under} under-replicated, {offline} without a leader\n"
    )
    late = sum(each["leader"] in states for each in partitions)
    hint = (
        f"  {plural(late, 'leader')} above cannot answer: the controller replaces a broker that sends no "
        "heartbeat for broker.session.timeout.ms (9 s by default)\n"
    )
    return Text.assemble(table, summary, hint if late else "")


def _remark(partition: Mapping[str, Any], states: Mapping[int, str]) -> str:
    leader = partition["leader"]
    if leader is None:
        return "no leader"
    if leader in states:
        return f"its leader is {states[leader]}"
    return "under-replicated" if partition["under_replicated"] else ""


def _groups(groups: Sequence[Mapping[str, Any]] | None) -> Text:
    if groups is None:
        return Text("  groups: currently unknown\n")
    rows = [
        [group["group"], f"{each['topic']}/{each['partition']}", *map(number, _offsets(each)), *_age(each)]
        for group in groups
        for each in group["partitions"]
    ]
    aged = ["oldest"] if any("lag_s" in each for group in groups for each in group["partitions"]) else []
    header = ["group", "partition", "committed", "end", "lag", *aged]
    return table_text(Table(header, rows, "ll")) if rows else Text()


def _foot(status: Mapping[str, Any]) -> Text:
    lines = [
        f"  active: {each['id']} on {_list(each['brokers'])}: {each['proof']}" for each in status["faults"]
    ]
    lines += [f"  trouble: {each}" for each in status["troubles"]]
    lines += [f"  currently unknown: {each}" for each in status["unknown"]]
    return Text("".join(f"{line}\n" for line in lines))


def _offsets(each: Mapping[str, Any]) -> list[int]:
    return [each["committed"], each["end"], each["lag"]]


def _age(each: Mapping[str, Any]) -> list[str]:
    """The age of the oldest uncommitted record, if known."""
    if "lag_s" not in each:
        return []
    return [NOTHING if each["lag_s"] is None else f"{number(each['lag_s'])} s"]


def _list(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids)) or NOTHING


_EVERY_S = 1.0
MOST_EVENTS = 12  # on a screen
Look = Callable[[], dict[str, Any]]


def watch_status(look: Look, json: bool) -> None:
    """A screen in a terminal, lines in a pipe. `look`: returns the document (operate/observer.py)."""
    from kaput.processes.signals import interrupts

    show = _json_lines if json else _screen if sys.stdout.isatty() else _events
    try:
        with interrupts():
            show(look)
    except Interrupted:
        return  # Ctrl-C is the normal way to end it


def _screen(look: Look) -> None:
    from rich.live import Live

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
    return f"{time.strftime('%H:%M:%S', time.gmtime(event['at_ns'] / SECOND))}  {printable(event['text'])}"


def _write(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)
    sys.stdout.flush()
