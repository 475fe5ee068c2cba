"""Notifiers against real HTTP servers: what arrives, what is tried again, what never holds anybody up."""

from __future__ import annotations

import io
import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.alerting import lag_rule, rules_of, sample, stepped
from fakes.receiver import receiving
from kaput.errors import UsageError
from kaput.monitor.alerts.channels import (
    Alertmanager,
    LineChannel,
    NotAccepted,
    PostTarget,
    TryAgain,
    Webhook,
    channel_of,
    json_line,
    post,
    text_line,
)
from kaput.monitor.alerts.engine import Engine, Transition
from kaput.monitor.alerts.notifiers import ChannelSender, Notifiers, PendingQueue
from waiting import wait_for

BOUND_S = 30  # far more than anything here takes, on a busy machine as well


def transitions(*mirrors: str, resolved: bool = False) -> list[Transition]:
    """An alert of each of these mirrors fires; and is resolved."""
    rules = rules_of(lag_rule(summary="{mirror} is {value:duration} behind", unless=[]))
    steps = [
        [sample(11, 1.5, mirror=name) for name in mirrors],
        [sample(1, 2, mirror=name) for name in mirrors],
    ]
    found = stepped(rules, [[], [], *steps])
    return [each for each in found if resolved or each.change == "firing"]


def firing_and_resolved(mirror: str = "m") -> tuple[Transition, Transition]:
    first, second = transitions(mirror, resolved=True)
    return first, second


@pytest.fixture
def reports() -> list[str]:
    return []


@pytest.fixture
def start(reports: list[str]) -> Iterator:
    """Starts senders; they end with the test."""
    started: list[ChannelSender] = []

    def start(channel: object, **keys: object) -> ChannelSender:
        started.append(ChannelSender(channel, reports.append, first_pause_s=0.01, **keys))
        return started[-1]

    yield start
    for sender in started:
        sender.close(0)


class TestWebhook:
    def test_firing_and_resolved_alerts_are_posted(self, start) -> None:
        with receiving() as receiver:
            sender = start(Webhook(f"{receiver.url}/hook?token=x"))
            for each in firing_and_resolved():
                sender.notify(each)
            assert sender.close(BOUND_S) == 0
        assert {each.path for each in receiver.posts} == {"/hook?token=x"}
        alerts = [alert for document in receiver.documents() for alert in document["alerts"]]
        assert [(alert["state"], alert["summary"]) for alert in alerts] == [
            ("firing", "m is 11 s behind"), ("resolved", "m is 1 s behind"),
        ]  # fmt: skip
        assert alerts[0] == alerts[0] | {
            "alert": "lag", "severity": "page", "labels": {"mirror": "m"}, "why": "Because.", "value": 11,
            "fired_at": "1970-01-01T00:00:02.000Z", "resolved_at": None,
        }  # fmt: skip
        assert alerts[0]["id"] == alerts[1]["id"]

    @pytest.mark.parametrize("status", [500, 503, 429, 408])
    def test_retriable_status_is_retried(self, start, reports: list[str], status: int) -> None:
        with receiving([status] * 3) as receiver:
            start(Webhook(receiver.url)).notify(transitions("m")[0])
            assert len(receiver.wait_for_posts(4)) == 4
            wait_for(lambda: len(reports) == 2, "a report")
        assert reports == [
            f"{receiver.url}/: answered {status}; trying again",
            f"{receiver.url}/: works again",
        ]

    @pytest.mark.parametrize("status", [400, 404, 301])
    def test_rejected_post_is_not_retried(self, start, reports: list[str], status: int) -> None:
        """And what comes after it is sent."""
        with receiving([status]) as receiver:
            sender = start(Webhook(receiver.url))
            first, second = firing_and_resolved()
            sender.notify(first)
            receiver.wait_for_posts(1)
            wait_for(lambda: len(reports) == 1, "a report")
            sender.notify(second)
            assert sender.close(BOUND_S) == 0
        assert len(receiver.posts) == 2
        assert reports[0] == f"{receiver.url}/: answered {status} (no such label); not sent"

    def test_queued_alerts_are_posted_in_order_after_recovery(self, start) -> None:
        """What piled up meanwhile is one post, in order."""
        with receiving([503] * 5) as receiver:
            sender = start(Webhook(receiver.url))
            for each in transitions("a", "b", resolved=True):
                sender.notify(each)
            assert sender.close(BOUND_S) == 0
        last = receiver.documents()[-1]["alerts"]
        assert [(alert["labels"]["mirror"], alert["state"]) for alert in last] == [
            ("a", "firing"), ("b", "firing"), ("a", "resolved"), ("b", "resolved"),
        ]  # fmt: skip

    def test_retry_after_header_is_honored(self, start) -> None:
        with receiving([503], headers={"Retry-After": "1"}) as receiver:
            start(Webhook(receiver.url)).notify(transitions("m")[0])
            receiver.wait_for_posts(1)
            began = time.monotonic()
            receiver.wait_for_posts(2)
            assert time.monotonic() - began > 0.8

    def test_url_credentials_are_sent_as_header_and_not_logged(self, start, reports: list[str]) -> None:
        with receiving([400]) as receiver:
            start(Webhook(receiver.url.replace("//", "//me:s%40cret@"))).notify(transitions("m")[0])
            wait_for(lambda: reports, "a report")
        assert receiver.posts[0].headers["Authorization"] == "Basic bWU6c0BjcmV0"
        assert "cret" not in reports[0]


class TestNobodyWaits:
    @pytest.mark.parametrize("trouble", [{"hangs": True}, {"drips": True}], ids=lambda keys: next(iter(keys)))
    def test_hanging_receiver_delays_neither_evaluation_nor_close(self, trouble, reports) -> None:
        with receiving(**trouble) as slow, receiving() as quick:
            notifiers = Notifiers([Webhook(slow.url), Webhook(quick.url)], reports.append)
            slow_down = transitions(*(f"m{number}" for number in range(2000)))
            began = time.monotonic()
            notifiers.notify(slow_down)
            assert time.monotonic() - began < BOUND_S / 2
            quick.wait_for_posts(1)
            assert slow.wait_for_posts(1)
            began = time.monotonic()
            assert notifiers.close(0.5) > 0
            assert time.monotonic() - began < BOUND_S / 2
        assert reports[-1].endswith("changes of alerts could not be sent")

    def test_slow_response_is_bounded_by_timeout(self) -> None:
        with receiving(drips=True) as receiver:
            began = time.monotonic()
            with pytest.raises(TryAgain, match="no answer within"):
                post(PostTarget.of(receiver.url), {}, 0.5)
            assert time.monotonic() - began < BOUND_S / 2

    def test_connection_refused_is_reported_and_retried(self, start, reports: list[str]) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            sender = start(Webhook(f"http://127.0.0.1:{closed.getsockname()[1]}"))
            sender.notify(transitions("m")[0])
            wait_for(lambda: reports, "a report")
            assert sender.close(0.3) == 1
        assert reports[0].endswith("Connection refused; trying again")

    def test_blocked_pipe_does_not_delay_notifiers(self, reports: list[str]) -> None:
        read, write = os.pipe()
        with os.fdopen(write, "w") as stream, os.fdopen(read) as reader:
            notifiers = Notifiers([LineChannel("stdout", stream, text_line, True)], reports.append)
            found = transitions(*(f"m{number}" for number in range(3000)))
            for _ in range(3):
                notifiers.notify(found)
            assert notifiers.close(0.2) > 0
            # Whoever reads at last gets whole lines; the thread that waited for that ends.
            thread = threading.Thread(target=reader.read, daemon=True)
            thread.start()
            notifiers.close(BOUND_S)
            stream.close()
            thread.join(BOUND_S)


class _Counting:
    """A channel that fails as a test says, and keeps what it sent."""

    name, repeat_s = "counting", None

    def __init__(self, *failures: Exception) -> None:
        self.failures, self.sent, self.at = list(failures), [], []

    def wants(self, transition: Transition) -> bool:
        return True

    def send(self, found: Sequence[Transition], timeout_s: float) -> None:
        self.at.append(time.monotonic())
        if self.failures:
            raise self.failures.pop(0)
        self.sent += found


class TestQueue:
    def test_overflow_keeps_newest_state_of_each_alert(self) -> None:
        queue = PendingQueue(limit=4)
        first, second = firing_and_resolved("a")
        other = transitions("b")[0]
        for each in (first, second, other, first, second, first, second):
            queue.put(each)
        kept = list(queue.take(0).values())
        assert [(each.alert.labels["mirror"], each.change) for each in kept] == [
            ("b", "firing"), ("a", "resolved"), ("a", "firing"), ("a", "resolved"),
        ]  # fmt: skip

    def test_queue_limit_never_drops_distinct_alerts(self) -> None:
        """None of them is dropped for another."""
        queue = PendingQueue(limit=2)
        for _ in range(3):
            for each in transitions("a", "b", "c"):
                queue.put(each)
        assert len(queue) == 3

    def test_sent_transitions_are_not_pending_again(self) -> None:
        queue = PendingQueue(limit=2)
        first, second = firing_and_resolved("a")
        queue.put(first)
        queue.put(second)
        queue.done(queue.take(0))
        for each in (first, second, first):
            queue.put(each)
        assert [each.change for each in queue.take(0).values()] == ["firing"]

    def test_closed_queue_accepts_and_returns_nothing(self) -> None:
        queue = PendingQueue(limit=2)
        queue.close()
        queue.put(transitions("a")[0])
        assert len(queue) == 0 and queue.take(None) == {}


class TestSender:
    def test_retry_backoff_grows(self, reports: list[str]) -> None:
        channel = _Counting(*[TryAgain("no")] * 6)
        sender = ChannelSender(channel, reports.append, first_pause_s=0.02)
        sender.notify(transitions("m")[0])
        wait_for(lambda: channel.sent, "sending")
        pauses = [after - before for before, after in zip(channel.at, channel.at[1:], strict=False)]
        assert all(pause >= 0.01 * 2**number for number, pause in enumerate(pauses))
        assert sender.close(BOUND_S) == 0

    def test_close_ends_backoff_and_retries_once(self, reports: list[str]) -> None:
        channel = _Counting(TryAgain("no"))
        sender = ChannelSender(channel, reports.append, first_pause_s=60)
        sender.notify(transitions("m")[0])
        wait_for(lambda: reports, "a report")
        began = time.monotonic()
        assert sender.close(BOUND_S) == 0
        assert time.monotonic() - began < BOUND_S / 2
        assert len(channel.sent) == 1

    def test_unannounced_alert_is_not_posted(self, start) -> None:
        with receiving() as receiver:
            sender = start(Webhook(receiver.url))
            sender.notify(replace(transitions("m")[0], announce=False))
            assert sender.close(BOUND_S) == 0
        assert receiver.posts == []


class TestAlertmanager:
    def test_firing_alert_is_reposted_until_resolved(self, start) -> None:
        first, second = firing_and_resolved()
        with receiving() as receiver:
            sender = start(Alertmanager(receiver.url, {"cluster": "c"}, repeat_s=0.02, now_ns=lambda: 10**10))
            sender.notify(first)
            receiver.wait_for_posts(3)
            sender.notify(second)
            assert sender.close(BOUND_S) == 0
        *repeated, last = receiver.documents()
        assert {each.path for each in receiver.posts} == {"/api/v2/alerts"}
        assert all(document == repeated[0] for document in repeated)
        assert repeated[0] == [
            {
                "labels": {"alertname": "Lag", "severity": "page", "mirror": "m", "cluster": "c"},
                "annotations": {"summary": "m is 11 s behind", "description": "Because."},
                "startsAt": "1970-01-01T00:00:02.000Z",
                "endsAt": "1970-01-01T00:00:10.080Z",
            }
        ]
        assert last[0]["endsAt"] == "1970-01-01T00:00:03.000Z"

    def test_no_post_without_firing_alerts(self) -> None:
        with receiving() as receiver:
            channel = Alertmanager(receiver.url)
            channel.send([], 5)
            assert receiver.posts == []
            channel.send(firing_and_resolved(), 5)
            channel.send([], 5)
        assert len(receiver.posts) == 1

    def test_new_alert_is_posted_with_other_firing_alerts(self) -> None:
        with receiving() as receiver:
            channel = Alertmanager(receiver.url)
            channel.send(transitions("a"), 5)
            channel.send(transitions("b"), 5)
        assert [len(document) for document in receiver.documents()] == [1, 2]

    def test_custom_alertmanager_path_is_kept(self) -> None:
        assert Alertmanager("http://h/alerts/api/v2/alerts").name == "http://h:80/alerts/api/v2/alerts"


class TestLines:
    def test_text_line_format(self) -> None:
        first, second = firing_and_resolved("a\nb")
        assert text_line(first) == "00:00:02.000 FIRING page lag: a\\nb is 11 s behind"
        assert text_line(second) == "00:00:03.000 resolved page lag: a\\nb is 1 s behind"

    def test_json_lines_record_every_state_change(self, tmp_path: Path, reports: list[str]) -> None:
        path = tmp_path / "alerts.jsonl"
        notifiers = Notifiers([channel_of(f"json:{path}")], reports.append)
        notifiers.notify(
            stepped(rules_of(lag_rule(for_="1s")), [[sample(11, at, mirror="m")] for at in range(3)])
        )
        assert notifiers.close(BOUND_S) == 0
        documents = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert [(each["change"], each["announce"]) for each in documents] == [
            ("pending", False),
            ("firing", True),
        ]

    def test_closed_stream_is_reported_once(self, start, reports: list[str]) -> None:
        stream = io.StringIO()
        stream.close()
        sender = start(LineChannel("stdout", stream, json_line, False))
        for each in firing_and_resolved():
            sender.notify(each)
        assert sender.close(BOUND_S) == 0
        assert len(reports) == 1

    def test_closed_stream_raises_refused(self) -> None:
        stream = io.StringIO()
        stream.close()
        with pytest.raises(NotAccepted):
            LineChannel("x", stream, json_line, False).send(transitions("m"), 1)


def test_what_fires_at_the_end_is_posted_and_not_resolved(reports: list[str]) -> None:
    """Samples in, a post out; what fires when it ends is not resolved."""
    engine = Engine(rules_of(lag_rule()))
    with receiving() as receiver:
        notifiers = Notifiers([Webhook(receiver.url)], reports.append)
        fired = engine.step([sample(11, 0, mirror="m")], 0)
        notifiers.notify(fired)
        assert [each.change for each in fired] == ["firing"]
        assert engine.step([], 10**9) == []
        assert [alert.state for alert in engine.active] == ["firing"]
        assert notifiers.close() == 0
    assert [alert["state"] for post in receiver.posts for alert in post.document["alerts"]] == ["firing"]
    assert reports == []


@pytest.mark.parametrize(
    "text",
    ["", "mail:me", "webhook:", "webhook:ftp://h", "webhook:http://", "webhook:http://h:x", "lines:x",
     "webhook:http://h/a b", "webhook:http://h/\n", "alertmanager:h:9093", "json:/nowhere/at/all"],
)  # fmt: skip
def test_invalid_channel_is_rejected(text: str) -> None:
    with pytest.raises(UsageError):
        channel_of(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("lines", "stdout"),
        ("webhook:https://h/x?token=1", "https://h:443/x"),
        ("webhook:http://[::1]:99", "http://[::1]:99/"),
        ("alertmanager:http://h:9093", "http://h:9093/api/v2/alerts"),
        ("alertmanager:http://h:9093/", "http://h:9093/api/v2/alerts"),
    ],
)
def test_channel_is_parsed_from_command_line(text: str, name: str) -> None:
    assert channel_of(text).name == name
