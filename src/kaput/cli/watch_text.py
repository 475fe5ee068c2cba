"""Displays of a watch: lines at intervals, or a live screen."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Self

import typer

from kaput.cli.verbs import print_json
from kaput.core import SECOND, first_few, plural

_LINE_S = 10.0  # between lines, without a terminal
_RATE_S = 5.0  # rates are averages over this time
_DRAW_S = 0.5
_MOST_PLACES = 5
_ODD = ("missing", "late", "duplicated", "reordered")


Look = Callable[[], dict[str, Any]]  # returns the current status; called only when it is shown


class Lines:
    """Displays a watch within its block: a line of text or JSON at intervals."""

    def __init__(self, json: bool) -> None:
        self._json = json
        self._shown_s = time.monotonic()
        self._waiting = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Does nothing."""

    def show(self, look: Look) -> None:
        if time.monotonic() - self._shown_s >= _LINE_S:
            self._shown_s, status = time.monotonic(), look()
            waited, self._waiting = self._waiting, not _counting(status)
            if self._json or not (waited and self._waiting):  # that Spark starts is news only once
                write_line(status, self._json, final=False)


class Screen:
    """The same as a live screen in a terminal; other output appears above it."""

    def __init__(self) -> None:
        from rich.live import Live

        from kaput.console import Console

        self._live = Live(console=Console(), auto_refresh=False, transient=True)
        self._rates = PartitionRates()
        self._drawn_s = 0.0

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def show(self, look: Look) -> None:
        if time.monotonic() - self._drawn_s >= _DRAW_S:
            self._drawn_s, status = time.monotonic(), look()
            self._rates.add(status, self._drawn_s)
            self._live.update(screen_of(status, self._rates), refresh=True)


class PartitionRates:
    """Messages per second of each partition, from counters."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, dict[int, tuple[int, int]]]] = deque()

    def add(self, status: Mapping[str, Any], at_s: float) -> None:
        now = {each["partition"]: (each["attempted"], each["acked"]) for each in status.get("partitions", ())}
        self._counts.append((at_s, now))
        while len(self._counts) > 2 and self._counts[1][0] <= at_s - _RATE_S:
            self._counts.popleft()

    def of(self, partition: int) -> tuple[float, float] | None:
        """(attempted, acknowledged) per second; None before two counts are known."""
        (begin_s, before), (end_s, now) = self._counts[0], self._counts[-1]
        if end_s <= begin_s or partition not in before or partition not in now:
            return None
        sent, acked = (
            (b - a) / (end_s - begin_s) for a, b in zip(before[partition], now[partition], strict=True)
        )
        return sent, acked


def write_line(status: Mapping[str, Any], json: bool, final: bool) -> None:
    """Prints a line on stdout; after the last one also what could not be read."""
    if json:
        shown = {name: value for name, value in status.items() if name != "durations"}
        print_json({**shown, "final": final})
    else:
        typer.echo(line_of(status))
        if final and status.get("read_to") and not status.get("troubles"):
            typer.echo(f"  judged up to {_places(status['read_to'])}")
        for place, offsets in status.get("held_back", {}).items() if final else ():
            typer.echo(f"  {place}: {plural(offsets, 'offset')} behind an open transaction, not read")
        for trouble in status.get("troubles", ()):
            typer.echo(f"  {trouble}")
        if final:
            typer.echo(_result(status))
    sys.stdout.flush()


def _result(status: Mapping[str, Any]) -> str:
    """The sentence at the end of a watch."""
    if missing := status.get("missing"):
        found = f"{plural(missing, 'message')} missing"
    elif status.get("complete") and not status.get("troubles"):
        found = "nothing is missing"
    else:
        found = "not everything could be read, so messages may be missing"
    # Only of kaput's own messages there is evidence.
    return (
        f"{found}; kaput analyze {status['folder']} judges each message" if "attempted" in status else found
    )


def _counting(status: Mapping[str, Any]) -> bool:
    return "audited" in status or "sent" in status


def _places(ends: Mapping[str, int]) -> str:
    """`orders/0 offset 17, ...`; of many partitions only the first ones."""
    return first_few([f"{place} offset {end:,}" for place, end in ends.items()], _MOST_PLACES, "partitions")


def line_of(status: Mapping[str, Any]) -> str:
    at = time.strftime("%H:%M:%S", time.gmtime(status.get("at_ns", time.time_ns()) / SECOND))
    if "audited" in status:
        return f"{at}  {_counts(status)}"
    if not _counting(status):
        return f"{at}  starting Spark; counting begins when it runs"
    words = ", ".join(f"{status[name]:,} {name}" for name in _ODD)
    latency = status["latency_ms"]["end_to_end"]
    took = f"; end to end p50 {latency['p50']:.0f} ms, p99 {latency['p99']:.0f} ms" if latency else ""
    if "attempted" in status:
        return f"{at}  {status['attempted']:,} attempted, {status['acked']:,} acknowledged: {words}{took}"
    foreign = f"; {plural(status['foreign'], 'record')} without a number" if status.get("foreign") else ""
    return f"{at}  {plural(status['sent'], 'message')}: {words}{foreign}"


def _counts(status: Mapping[str, Any]) -> str:
    """The counts of an audit: messages of each topic in each stage."""
    topics = [
        f"{topic}: "
        + ", ".join(f"{of['count']:,} {stage}{_short(of['missing'])}" for stage, of in stages.items())
        for topic, stages in status["audited"].items()
    ]
    return (
        f"{'; '.join(topics) or 'no full 10 s yet'}; {status['missing']:,} missing, {status['late']:,} late"
    )


def _short(missing: int) -> str:
    return f" ({missing:,} missing)" if missing else ""


def screen_of(status: Mapping[str, Any], rates: PartitionRates) -> Any:
    """The status line, a row for each partition, and the firing alerts."""
    from rich.text import Text

    from kaput.report.document import NOTHING, Table
    from kaput.report.render.terminal import table_text

    read = {(place["topic"], place["partition"]): place for place in status.get("places", ())}
    rows = []
    for each in status.get("partitions", ()):
        place = read.get((each["topic"], each["partition"]), {})
        rate = rates.of(each["partition"])
        rows.append(
            [
                f"{each['topic']}/{each['partition']}",
                NOTHING if each["leader"] is None else str(each["leader"]),
                *((NOTHING, NOTHING) if rate is None else (f"{one:,.1f}" for one in rate)),
                f"{each['attempted'] - each['ended']:,}",
                *(f"{place.get(word, 0):,}" for word in ("stored", *_ODD)),
            ]
        )
    titles = ["partition", "leader", "sent/s", "acknowledged/s", "waiting", "read", *_ODD]
    table = table_text(Table(titles, rows, "llrrrrrrrr")) if rows else Text()
    alerts = Text("".join(f"FIRING {alert}\n" for alert in status.get("firing", ())), style="bold red")
    trouble = Text(f"{status['trouble']}\n" if status.get("trouble") else "")
    return Text.assemble(Text(f"{line_of(status)}\n", style="bold"), table, alerts, trouble)
