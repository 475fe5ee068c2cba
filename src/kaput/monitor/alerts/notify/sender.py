"""A channel's thread: sends what is pending, retries with growing pauses, and ends within a time limit.

Evaluating rules only ever appends to a queue: a slow, dead or hanging receiver delays nobody else. While a
receiver is down, everything new joins the next attempt, so that it learns the newest state first.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from kaput.monitor.alerts.alert import Transition
from kaput.monitor.alerts.notify.channel import Channel, Refused, TryAgain
from kaput.monitor.alerts.notify.queue import Queue

TIMEOUT_S = 10.0  # of one attempt
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0
_PAUSE_AT_END_S = 0.2
LIMIT = 1000


class Sender:
    """`report` gets a sentence when sending starts to fail, and when it works again."""

    def __init__(
        self,
        channel: Channel,
        report: Callable[[str], None],
        limit: int = LIMIT,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        self.channel = channel
        self._report, self._first_pause_s = report, first_pause_s
        self._queue = Queue(limit)
        self._failures = 0
        self._deadline: float | None = None
        # A daemon: a hanging DNS lookup cannot be interrupted, and must not delay the exit.
        self._thread = threading.Thread(target=self._run, name=f"alerts to {channel.name}", daemon=True)
        self._thread.start()

    def notify(self, transition: Transition) -> None:
        """Queues the transition; never waits or fails."""
        if self.channel.wants(transition):
            self._queue.put(transition)

    def begin_to_close(self, bound_s: float) -> None:
        """Keeps trying to send what is pending for that many seconds."""
        self._deadline = time.monotonic() + bound_s
        self._queue.close()

    def close(self, bound_s: float) -> int:
        """Ends within that time; returns how many transitions were not sent."""
        if self._deadline is None:
            self.begin_to_close(bound_s)
        self._thread.join(bound_s)
        return len(self._queue)

    @property
    def dropped(self) -> int:
        """How many were superseded by a newer state of the same alert before they could be sent."""
        return self._queue.dropped

    def _run(self) -> None:
        while True:
            batch = self._queue.take(self.channel.repeat_s)
            if self._queue.closed and (not batch or self._left_s() <= 0):
                return
            if batch or self.channel.repeat_s is not None:
                self._attempt(batch)

    def _attempt(self, batch: dict[int, Transition]) -> None:
        """One attempt, and the pause after it if it failed."""
        try:
            self.channel.send(list(batch.values()), min(TIMEOUT_S, self._left_s()))
        except TryAgain as error:
            self._failed(f"{self.channel.name}: {error}; trying again")
            self._queue.pause(self._pause_s(error.after_s))
        except Refused as error:
            self._queue.done(batch)
            self._failed(f"{self.channel.name}: {error}; not sent")
        else:
            self._queue.done(batch)
            if self._failures:
                self._report(f"{self.channel.name}: works again")
            self._failures = 0

    def _failed(self, sentence: str) -> None:
        self._failures += 1
        if self._failures == 1 and self._left_s() > 0:
            self._report(sentence)

    def _pause_s(self, asked_s: float) -> float:
        """Twice as long each time, with jitter from half of it to all, so that retries do not coincide."""
        if self._queue.closed:
            time.sleep(min(_PAUSE_AT_END_S, max(0, self._left_s())))
            return 0
        longest = min(LONGEST_PAUSE_S, self._first_pause_s * 2.0 ** min(self._failures - 1, 20))
        return max(min(asked_s, LONGEST_PAUSE_S), longest * random.uniform(0.5, 1))

    def _left_s(self) -> float:
        return TIMEOUT_S if self._deadline is None else self._deadline - time.monotonic()
