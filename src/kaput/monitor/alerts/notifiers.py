"""Notifies all channels of alerts, each in its own thread.

Evaluating rules only ever appends to a queue: a slow, dead or hanging receiver delays nothing else. While a
receiver is down, everything new joins the next attempt, so that it learns the newest state first.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from kaput.monitor.alerts.channels import Channel, NotAccepted, TryAgain
from kaput.monitor.alerts.engine import Transition


class PendingQueue:
    """What a channel still has to send, in order. When there are more than `limit`, those superseded by a
    later one of the same alert are dropped, so it never has more than that, or than there are alerts.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending: dict[int, Transition] = {}
        self._number = 0
        self._changed = threading.Condition()
        self._closed = False

    def put(self, transition: Transition) -> None:
        """Adds a transition; never waits. Does nothing after `close`."""
        with self._changed:
            if self._closed:
                return
            self._number += 1
            self._pending[self._number] = transition
            if len(self._pending) > self._limit:
                newest = {each.alert.key: number for number, each in self._pending.items()}
                self._pending = {number: self._pending[number] for number in sorted(newest.values())}
            self._changed.notify_all()

    def take(self, wait_s: float | None) -> dict[int, Transition]:
        """What is pending, by number; waits until something is, the queue is closed, or the time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._closed, wait_s)
            return dict(self._pending)

    def done(self, numbers: Iterable[int]) -> None:
        with self._changed:
            for number in numbers:
                self._pending.pop(number, None)

    def pause(self, wait_s: float) -> None:
        """Waits, unless it is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed, wait_s)

    def close(self) -> None:
        """Ends all waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        return self._closed

    def __len__(self) -> int:
        return len(self._pending)


TIMEOUT_S = 10.0  # of one attempt
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0
_PAUSE_AT_END_S = 0.2
LIMIT = 1000


class ChannelSender:
    """A channel's thread: sends what is pending, retries with growing pauses, and ends within a time limit.

    `report` gets a sentence when sending starts to fail, and when it works again."""

    def __init__(
        self,
        channel: Channel,
        report: Callable[[str], None],
        limit: int = LIMIT,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        self.channel = channel
        self._report, self._first_pause_s = report, first_pause_s
        self._queue = PendingQueue(limit)
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
        except NotAccepted as error:
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


CLOSE_S = 5.0


class Notifiers:
    """Sends each transition to all channels. `report` gets sentences about failing channels."""

    def __init__(self, channels: Iterable[Channel], report: Callable[[str], None]) -> None:
        self._report = report
        self._senders = [ChannelSender(channel, report) for channel in channels]

    def notify(self, transitions: Sequence[Transition]) -> None:
        """Queues the transitions; never waits."""
        for transition in transitions:
            for sender in self._senders:
                sender.notify(transition)

    def close(self, bound_s: float = CLOSE_S) -> int:
        """Sends what is pending on all channels, in that time; returns how much was not sent."""
        ends = time.monotonic() + bound_s
        for sender in self._senders:
            sender.begin_to_close(bound_s)
        lost = 0
        for sender in self._senders:
            if left := sender.close(max(0, ends - time.monotonic())):
                self._report(f"{sender.channel.name}: {left} changes of alerts could not be sent")
                lost += left
        return lost
