"""Writes alerts to a stream as lines of text or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TextIO

from kaput.core import clock
from kaput.monitor.alerts.alert import Transition
from kaput.monitor.alerts.notify.channel import Refused
from kaput.monitor.alerts.notify.documents import document
from kaput.printable import printable


def text_line(transition: Transition) -> str:
    """`10:00:06.840 FIRING page offline-partitions: 3 partitions have no leader`."""
    alert = transition.alert
    reason = f" ({alert.reason})" if alert.reason else ""
    change = "FIRING" if transition.change in ("firing", "released") else transition.change
    return printable(
        f"{clock(transition.at_ns)} {change} {alert.rule.severity} {alert.rule.name}: {alert.summary}{reason}"
    )


def json_line(transition: Transition) -> str:
    """The transition's document on one line."""
    return json.dumps(document(transition))


class Lines:
    """`announced_only`: otherwise each change has a line, including those of pending and inhibited alerts."""

    repeat_s: float | None = None

    def __init__(
        self, name: str, stream: TextIO, line: Callable[[Transition], str], announced_only: bool
    ) -> None:
        self.name = name
        self._stream, self._line, self._announced_only = stream, line, announced_only

    def wants(self, transition: Transition) -> bool:
        """Announced changes, or all."""
        return transition.announce or not self._announced_only

    def send(self, transitions: Sequence[Transition], timeout_s: float) -> None:
        """Writes them. Raises Refused if the stream is gone."""
        try:
            self._stream.writelines(f"{self._line(each)}\n" for each in transitions)
            self._stream.flush()
        except (OSError, ValueError) as error:
            raise Refused(f"cannot be written to ({error})") from None
