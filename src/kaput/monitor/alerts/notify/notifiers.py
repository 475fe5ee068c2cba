"""All channels together, and how a command line names them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from kaput.errors import UsageError
from kaput.monitor.alerts.alert import Transition
from kaput.monitor.alerts.notify.alertmanager import Alertmanager
from kaput.monitor.alerts.notify.channel import Channel
from kaput.monitor.alerts.notify.lines import Lines, json_line, text_line
from kaput.monitor.alerts.notify.sender import Sender
from kaput.monitor.alerts.notify.webhook import Webhook

CLOSE_S = 5.0
CHANNELS = ("lines", "json:FILE", "webhook:URL", "alertmanager:URL")


class Notifiers:
    """Sends each transition to all channels. `report` gets sentences about failing channels."""

    def __init__(self, channels: Iterable[Channel], report: Callable[[str], None]) -> None:
        self._report = report
        self._senders = [Sender(channel, report) for channel in channels]

    def notify(self, transitions: Sequence[Transition]) -> None:
        """Queues the transitions; never waits."""
        for transition in transitions:
            for sender in self._senders:
                sender.notify(transition)

    def close(self, bound_s: float = CLOSE_S) -> int:
        """Sends what is pending, on all channels in parallel, within that time; returns how much was not
        sent.
        """
        ends = time.monotonic() + bound_s
        for sender in self._senders:
            sender.begin_to_close(bound_s)
        lost = 0
        for sender in self._senders:
            if left := sender.close(max(0, ends - time.monotonic())):
                self._report(f"{sender.channel.name}: {left} changes of alerts could not be sent")
                lost += left
        return lost


def channel_of(text: str, labels: Mapping[str, str] | None = None) -> Channel:
    """The channel named on a command line. Raises UsageError."""
    kind, _, rest = text.partition(":")
    match kind:
        case "lines" if not rest:
            return Lines("stdout", sys.stdout, text_line, announced_only=True)
        case "json" if rest:
            return _json_file(Path(rest))
        case "webhook" if rest:
            return Webhook(rest)
        case "alertmanager" if rest:
            return Alertmanager(rest, labels)
    raise UsageError(f"{text!r} is not a channel; write {', '.join(CHANNELS[:-1])} or {CHANNELS[-1]}")


def _json_file(path: Path) -> Lines:
    try:
        stream = path.open("a", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written to ({error.strerror})") from None
    return Lines(str(path), stream, json_line, announced_only=False)
