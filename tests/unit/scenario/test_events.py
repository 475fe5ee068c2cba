"""Steps that wait for events: what a file may say, the mistakes in it, and the triggers that come of it."""

from __future__ import annotations

from typing import Any

import pytest

from kaput.errors import UsageError
from kaput.scenario.checks.scenario import check
from kaput.scenario.events import EVENTS, EventName
from kaput.scenario.loader import resolve
from kaput.scenario.model import Scenario
from kaput.scenario.source import dotted, parse
from kaput.scenario.timeline import AfterStart, AtAttempt, AtEvent, timeline


def scenario(*moments: Any, transactions: bool = True) -> Scenario:
    """A step of 5 s for each moment."""
    producer: dict[str, Any] = {"topic": "orders", "messages": 100}
    if transactions:
        producer["transactions"] = {"size": 5}
    raw = {
        "version": 1,
        "title": "x",
        "topics": [{"name": "orders", "partitions": 2}],
        "workload": {
            "producers": [producer],
            "groups": [
                {"id": "billing", "topics": ["orders"]},
                {"id": "queue", "topics": ["orders"], "type": "share"},
            ],
        },
        "faults": [{"at": at, "fault": "kill", "target": "broker 1", "for": "5s"} for at in moments],
    }
    return Scenario.model_validate(raw)


def found(*moments: Any, existing: bool = False, transactions: bool = True) -> dict[str, str]:
    """The mistakes in these moments, by their path below `faults`."""
    made = scenario(*moments, transactions=transactions)
    mistakes = check(made, existing=existing)
    return {
        dotted(m.path).removeprefix("faults."): m.text
        for m in mistakes
        if m.path[:1] == ("faults",) and m.path[2] == "at"
    }


def test_every_event_is_documented() -> None:
    """The page about faults lists them from here."""
    assert set(EVENTS) == set(EventName.__args__)  # type: ignore[attr-defined]


def test_event_becomes_a_trigger_with_offset() -> None:
    """A share of the load is an attempt, as it is for steps without an event."""
    made = scenario(
        {"event": "election"},
        {"event": "isr-shrink", "of": "orders/1", "nth": 2, "after": "30%"},
        {"event": "heal", "of": "1-kill", "after": "2s"},
        {"message": 7},
    )
    first, second, third, fourth = (step.trigger for step in timeline(made, 1))
    assert first == AtEvent("election", None, 1, AfterStart(0)) and first.title == "election"
    assert second == AtEvent("isr-shrink", "orders/1", 2, AtAttempt(30))
    assert isinstance(second, AtEvent) and second.title == "isr-shrink of orders/1 number 2"
    assert third == AtEvent("heal", "1-kill", 1, AfterStart(2000)) and fourth == AtAttempt(7)


def test_valid_event_triggers_are_accepted() -> None:
    """With and without what they are about."""
    moments = [{"event": event} for event in EVENTS if event not in ("effect", "heal", "request")]
    named = [
        {"event": "election", "of": "orders"},
        {"event": "isr-expand", "of": "orders/1"},
        {"event": "partitions-lost", "of": "billing"},
        {"event": "markers-pending", "of": "producer 0"},
        {"event": "request", "api": "EndTxn", "nth": 100},
        {"event": "effect", "of": "1-kill"},
        {"event": "heal", "of": "12-kill"},
    ]
    assert found(*moments, *named) == {}


@pytest.mark.parametrize(
    ("moment", "place", "text"),
    [
        ({"event": "election", "of": "orders/2"}, "0.at.of", "no such partition: orders has 2"),
        ({"event": "election", "of": "order"}, "0.at.of", "no such topic: order; did you mean orders?"),
        ({"event": "partitions-lost", "of": "bill"}, "0.at.of", "no such group: bill; did you mean billing"),
        ({"event": "partitions-lost", "of": "queue"}, "0.at.event", "a group whose members own partitions"),
        (
            {"event": "markers-pending", "of": "producer 1"},
            "0.at.of",
            "producers are 0 to 0",
        ),
        ({"event": "effect"}, "0.at", "needs a step"),
        ({"event": "effect", "of": "2-kill"}, "0.at.of", "no such step: 2-kill; did you mean 1-kill?"),
        ({"event": "heal", "of": "1-kill"}, "0.at.of", "a step cannot wait for itself"),
        ({"message": 3, "nth": 2}, "0.at.nth", "a message number takes no nth"),
        ({"message": 3, "event": "election"}, "0.at", "write either {message: 30000} or {event: election}"),
        ({"of": "orders"}, "0.at", "write either"),
        ({"event": "request"}, "0.at", "request needs its name; write for example api: EndTxn"),
        ({"event": "request", "api": "EndTxm"}, "0.at.api", "did you mean EndTxn?"),
        ({"event": "request", "api": "EndTxn", "of": "orders"}, "0.at.of", "request takes no of"),
        ({"event": "request", "api": "EndTxn", "nth": 101}, "0.at.nth", "report 100 requests"),
        ({"event": "election", "api": "EndTxn"}, "0.at.api", "election takes no api; request does"),
        ({"message": 101}, "0.at.message", "101 is more than the 100 messages"),
    ],
)
def test_invalid_event_trigger_is_reported_at_its_path(moment: dict[str, Any], place: str, text: str) -> None:
    """And the sentence says what would be right."""
    mistakes = found(moment)
    assert text in mistakes[place], mistakes


def test_request_event_enables_client_proxies() -> None:
    """No other step needs any; the trigger has the request's name."""
    made = scenario({"event": "request", "api": "EndTxn"})
    assert made.cluster.proxies == "clients" and scenario("1s").cluster.proxies == "none"
    (step,) = timeline(made, 1)
    assert step.trigger == AtEvent("request", "EndTxn")


def test_circular_waits_between_steps_are_rejected() -> None:
    """Over any number of steps."""
    mistakes = found(*({"event": "effect", "of": f"{number}-kill"} for number in (2, 3, 1)))
    assert set(mistakes.values()) == {"these steps wait for each other"} and len(mistakes) == 3


def test_events_that_cannot_occur_are_rejected() -> None:
    """Markers without transactions, or in files that are out of reach; a heal after the load."""
    pending = {"event": "markers-pending"}
    assert "takes a producer with transactions" in found(pending, transactions=False)["0.at.event"]
    assert "kaput cannot read" in found(pending, existing=True)["0.at.event"]
    made = scenario("1s", {"event": "heal", "of": "1-kill"})
    lasting = [made.faults[0].model_copy(update={"for_": None}), made.faults[1]]
    mistakes = check(made.model_copy(update={"faults": lasting}))
    assert [m.text for m in mistakes if m.path[:3] == ("faults", 1, "at")] == [
        "1-kill has no for, so it is healed after the load at the earliest"
    ]


def test_unknown_event_name_suggests_the_closest() -> None:
    """With its line, as all mistakes of a file."""
    text = (
        "version: 1\ntitle: x\ntopics: [{name: orders}]\n"
        "workload: {producers: [{topic: orders, messages: 10}]}\n"
        "faults:\n  - {at: {event: elections, offf: orders}, fault: kill, target: broker 1}\n"
    )
    with pytest.raises(UsageError) as error:
        resolve(parse("x.yaml", text))
    assert "x.yaml:6" in str(error.value) and "did you mean election?" in str(error.value)
    assert "no such key; did you mean of?" in str(error.value)
